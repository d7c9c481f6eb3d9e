use std::cell::RefCell;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};
use std::rc::Rc;

use bulk_reshuffle::Time;
use bulk_reshuffle::config::Config;
use bulk_reshuffle::routing::{PollAction, Route, RoutingTable, SharedData, StateCache, StateQuery, Upstreams, hash};

/// Checks changes to one worker's published values, one in a line: the end of a key, the change, and its parameters.
///
/// ```text
/// lease =00ff17            replaces the bytes, in hexadecimal digits
/// cluster ~12 4f           replaces the byte at this offset
/// 17 !00ff17               replaces the bytes, with a valid checksum
/// 17 ~!12 4f               replaces the byte at this offset, with a valid checksum
/// 3 -                      removes the value
/// ```
/// Another worker must still learn the cluster. Changes without a valid checksum must not misroute a document. Changes
/// with one may, but only to another node.
pub fn shared(input: &[u8]) {
    let memory = Memory::default();
    look(&memory, 1, Time::ZERO).expect("the cluster answers");
    let mut is_forged = false;
    for line in input.split(|byte| *byte == b'\n') {
        is_forged |= std::str::from_utf8(line).ok().and_then(|line| change(&memory, line)).unwrap_or_default();
    }
    // This is long enough for a lease to become free.
    let mut table = None;
    let mut reader = Reader::new(&memory, 2);
    for seconds in 0..60 {
        reader.run(Time::from_secs(seconds));
        table = reader.table.clone();
    }
    let Some(table) = table else {
        assert!(is_forged, "it does not learn the cluster");
        return;
    };
    for id in ["1", "2", "3", "4", "5", "6"] {
        for name in ["i", "a"] {
            let route = table.route(name, Some(hash(id)), None);
            if let (Ok(Route::Primary { upstream, .. }), false) = (route, is_forged) {
                assert_eq!(reader.upstreams.name(upstream).as_ref(), owner(id), "{name}/{id}");
            }
            assert!(is_forged || route.is_ok(), "{name}/{id}: {route:?}");
        }
    }
}

/// Returns whether the changed value cannot be told from one that a worker wrote.
fn change(memory: &Memory, line: &str) -> Option<bool> {
    let (end, how) = line.split_once(' ')?;
    let key = memory.key(end)?;
    if how == "-" {
        memory.0.borrow_mut().remove(&key);
        return Some(false);
    }
    let value = memory.get(&key);
    let (value, is_sealed) = match how.split_at_checked(1)? {
        ("=", digits) => (bytes(digits)?, false),
        ("!", digits) => (sealed(&bytes(digits)?), true),
        ("~", place) => {
            let (place, is_sealed) = place.strip_prefix('!').map_or((place, false), |place| (place, true));
            let (at, byte) = place.split_once(' ')?;
            let mut value = value;
            let at = at.parse::<usize>().ok()?.checked_rem(value.len())?;
            value[at] = u8::from_str_radix(byte, 16).ok()?;
            let value = if is_sealed { sealed(value.get(SEAL..).unwrap_or_default()) } else { value };
            (value, is_sealed)
        }
        _ => return None,
    };
    memory.write(&key, &value, None);
    Some(is_sealed)
}

const SEAL: usize = 8;

fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    [&hasher.finish().to_le_bytes(), bytes].concat()
}

fn bytes(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

/// The values with their versions, by key.
type Values = BTreeMap<String, (Vec<u8>, u32)>;

#[derive(Debug, Clone, Default)]
struct Memory(Rc<RefCell<Values>>);

impl Memory {
    fn key(&self, end: &str) -> Option<String> {
        self.0.borrow().keys().find(|key| key.rsplit('.').next() == Some(end)).cloned()
    }

    fn get(&self, key: &str) -> Vec<u8> {
        self.0.borrow().get(key).map(|(value, _)| value.clone()).unwrap_or_default()
    }
}

impl SharedData for Memory {
    fn read(&self, key: &str) -> (Option<Vec<u8>>, Option<u32>) {
        self.0.borrow().get(key).map(|(value, version)| (Some(value.clone()), Some(*version))).unwrap_or_default()
    }

    fn write(&self, key: &str, value: &[u8], version: Option<u32>) -> bool {
        let mut values = self.0.borrow_mut();
        let found = values.get(key).map(|(_, version)| *version);
        let writes = version.is_none() || found.is_none() || version == found;
        if writes {
            values.insert(key.to_owned(), (value.to_vec(), found.unwrap_or_default() + 1));
        }
        writes
    }
}

struct Reader {
    cache: StateCache,
    upstreams: Upstreams,
    table: Option<Rc<RoutingTable>>,
}

impl Reader {
    fn new(memory: &Memory, worker: u64) -> Self {
        let config = Config::read(br#"{"coordinator":"es","nodes":{"upstream":"up-{name}"}}"#);
        let mut cache = StateCache::new(&config.expect("a configuration"), worker, Box::new(memory.clone()));
        cache.wake(Time::ZERO);
        Self { cache, upstreams: Upstreams::new("es"), table: None }
    }

    fn run(&mut self, now: Time) {
        let mut steps = 0;
        while let Some(action) = self.cache.next(now) {
            steps += 1;
            assert!(steps < 1000, "it does not end");
            if let PollAction::Ask(query) = action {
                self.cache.answered(200, answer(&query).as_bytes().to_vec(), now);
            }
            self.table = self.cache.new_table(&mut self.upstreams).or(self.table.take());
        }
    }
}

fn look(memory: &Memory, worker: u64, now: Time) -> Option<Rc<RoutingTable>> {
    let mut reader = Reader::new(memory, worker);
    reader.run(now);
    reader.table
}

/// Returns the upstream of the node that holds a document of "i".
fn owner(id: &str) -> &'static str {
    let shard = bulk_reshuffle::routing::Formula::Factor { shards: 2, routing_shards: 1024 }.shard(hash(id));
    ["up-es-0", "up-es-1"][shard as usize]
}

fn answer(query: &StateQuery) -> &'static str {
    match query {
        StateQuery::Version => r#"{"version":7,"state_uuid":"u","cluster_uuid":"c"}"#,
        StateQuery::Overview => concat!(
            r#"{"version":7,"state_uuid":"u","cluster_uuid":"c","nodes":{"x":{"name":"es-0","version":"9.5.3","roles":["ingest"]},"#,
            r#""y":{"name":"es-1","version":"9.5.3","roles":["ingest"]}},"#,
            r#""metadata":{"indices":{"i":{"version":3,"aliases":["a"],"settings":{"index":{"uuid":"i"}}}}}}"#,
        ),
        StateQuery::Pipelines => concat!(
            r#"{"version":7,"cluster_uuid":"c","#,
            r#""metadata":{"ingest":{"pipeline":[{"id":"p","config":{"processors":[]}}]}}}"#,
        ),
        StateQuery::Settings | StateQuery::Nodes | StateQuery::Aliases => "{}",
        StateQuery::Details(_) => concat!(
            r#"{"version":7,"cluster_uuid":"c","metadata":{"indices":{"i":{"version":3,"state":"open","routing_num_shards":1024,"#,
            r#""settings":{"index":{"uuid":"i","number_of_shards":"2","version":{"created":"136408127"},"#,
            r#""default_pipeline":"p"}}}}},"#,
            r#""routing_table":{"indices":{"i":{"shards":{"0":[{"primary":true,"state":"STARTED","node":"x"}],"#,
            r#""1":[{"primary":true,"state":"STARTED","node":"y"}]}}}}}"#,
        ),
    }
}
