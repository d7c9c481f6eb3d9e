use std::rc::Rc;

use bulk_reshuffle::Time;
use bulk_reshuffle::config::Config;
use bulk_reshuffle::routing::{
    Ingest, PollAction, Route, RoutingTable, Snapshot, StateCache, StateQuery, Unrouted, Unshared, Upstreams, hash,
};
use serde_json::Value;

use crate::pieces::line;

/// Checks a cluster's state in the first line, its aliases in the next, then operations to route, one in a line: index,
/// id and routing value, separated by spaces, or `-` where there is none. A line that begins with an exclamation mark
/// instead answers one kind of query: `!overview`, `!details`, `!settings`, `!nodes`, `!pipelines` or `!version`, then a space and
/// the answer. A second poll of the cluster then follows.
///
/// Tables of the same state must route the same way, and so must a table that was exported and read again. Each routed
/// operation must go to the node that holds the started primary of its shard, according to an independent JSON reader.
pub fn state(input: &[u8]) {
    let (state, rest) = line(input);
    let (aliases, operations) = line(rest);
    let others = Others::read(operations);
    let Some(cluster) = Cluster::read(state, aliases, &others) else { return };
    let again = Cluster::read(state, aliases, &others).expect("it was read before");
    let operations: Vec<_> = operations.split(|byte| *byte == b'\n').filter_map(Operation::read).collect();
    for operation in &operations {
        assert_eq!(cluster.route(operation), again.route(operation), "{operation:?}");
    }
    let exported = serde_json::to_vec(&cluster.table.export("*", usize::MAX, None, None)).expect("it is JSON");
    let returned = Cluster::returned(&exported, template(&others));
    for operation in &operations {
        assert_eq!(cluster.route(operation), returned.route(operation), "{operation:?}");
        assert_eq!(cluster.ingest(operation), returned.ingest(operation), "{operation:?}");
    }
    if !others.is_empty() {
        return;
    }
    let (Ok(state), Ok(aliases)) = (serde_json::from_slice::<Value>(state), serde_json::from_slice::<Value>(aliases))
    else {
        return;
    };
    // These texts have no duplicate keys, for which any value could apply.
    let texts = [&state, &aliases].map(Value::to_string);
    let Some(cluster) = Cluster::read(texts[0].as_bytes(), texts[1].as_bytes(), &others) else { return };
    check_pipelines(&cluster, &state);
    for operation in &operations {
        if let Some((shard, upstream)) = cluster.route(operation) {
            let mut indices = targets(&state, operation.index);
            let holds = |index: &str| primary(&state, index, &shard).as_ref() == Some(&upstream);
            assert!(indices.any(holds), "{operation:?}: shard {shard} is not on {upstream}");
        }
    }
}

/// The answers to queries other than the state.
#[derive(Default)]
struct Others<'a>(Vec<(&'a [u8], &'a [u8])>);

impl<'a> Others<'a> {
    fn read(lines: &'a [u8]) -> Self {
        let others = lines.split(|byte| *byte == b'\n').filter_map(|line| line.strip_prefix(b"!"));
        let parts = |line: &'a [u8]| {
            let space = line.iter().position(|byte| *byte == b' ')?;
            Some((&line[..space], &line[space + 1..]))
        };
        Self(others.filter_map(parts).collect())
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn answer(&self, query: &StateQuery) -> Option<&'a [u8]> {
        let kind = query.to_string();
        self.0.iter().find(|(name, _)| !name.is_empty() && kind.as_bytes().starts_with(name)).map(|(_, answer)| *answer)
    }
}

#[derive(Debug)]
struct Operation<'a> {
    index: &'a str,
    id: Option<&'a str>,
    routing: Option<&'a str>,
}

impl<'a> Operation<'a> {
    fn read(line: &'a [u8]) -> Option<Self> {
        let mut words = std::str::from_utf8(line).ok()?.split(' ');
        let index = words.next()?;
        let mut word = || words.next().filter(|word| *word != "-");
        Some(Self { index, id: word(), routing: word() })
    }
}

struct Cluster {
    table: Rc<RoutingTable>,
    upstreams: Upstreams,
}

impl Cluster {
    /// Returns what is known after the cluster has answered each query with these.
    fn read(state: &[u8], aliases: &[u8], others: &Others<'_>) -> Option<Self> {
        let mut cache = cache(template(others));
        for now in [Time::ZERO, Time::from_secs(60)].into_iter().take(if others.is_empty() { 1 } else { 2 }) {
            while let Some(action) = cache.next(now) {
                let PollAction::Ask(query) = action else { continue };
                let answer = others.answer(&query).unwrap_or(match query {
                    StateQuery::Aliases => aliases,
                    StateQuery::Settings => b"{}",
                    _ => state,
                });
                cache.answered(200, answer.to_vec(), now);
            }
        }
        let mut upstreams = Upstreams::new("es");
        let table = cache.new_table(&mut upstreams)?;
        Some(Self { table, upstreams })
    }

    /// Returns what is known of an exported table.
    fn returned(exported: &[u8], template: &str) -> Self {
        let (mut cache, mut upstreams) = (cache(template), Upstreams::new("es"));
        let snapshot = Snapshot::read(exported).expect("the export can be read");
        while let Some(action) = cache.next(Time::ZERO) {
            let PollAction::Ask(query) = action else { continue };
            cache.answered(200, snapshot.answer(&query.path()), Time::ZERO);
        }
        let table = cache.new_table(&mut upstreams).expect("the export makes a table");
        Self { table, upstreams }
    }

    /// Returns the pipelines of an operation.
    fn ingest(&self, operation: &Operation<'_>) -> Option<Result<Ingest, Unrouted>> {
        self.table.write_target(operation.index).ok().map(|target| target.ingest(None))
    }

    /// Returns the shard and the upstream, if there is one.
    fn route(&self, operation: &Operation<'_>) -> Option<(String, String)> {
        let Operation { index, id, routing } = operation;
        match self.table.route(index, id.map(hash), *routing) {
            Ok(Route::Primary { shard, upstream, .. }) => {
                assert!(self.table.upstreams().contains(&upstream), "{upstream:?} is not one of the table's");
                Some((shard.to_string(), self.upstreams.name(upstream).to_string()))
            }
            Ok(Route::AnyNode) | Err(_) => None,
        }
    }
}

/// Checks that no pipeline is called harmless that has a processor for any change, or a target that is metadata.
fn check_pipelines(cluster: &Cluster, state: &Value) {
    let definitions = state["metadata"]["ingest"]["pipeline"].as_array().into_iter().flatten();
    let is_last = |id: &Value| definitions.clone().rfind(|other| other["id"] == *id);
    for definition in definitions.clone().filter_map(|definition| is_last(&definition["id"])) {
        let name = definition["id"].as_str().unwrap_or_default();
        let verdict = cluster.table.pipelines().and_then(|pipelines| pipelines.verdict(name));
        let is_harmless = verdict.is_some_and(Result::is_ok);
        assert!(!is_harmless || !may_write_metadata(&definition["config"]), "{definition}");
    }
}

/// Returns whether a part of a pipeline's definition names metadata as a target, or contains such a processor.
fn may_write_metadata(part: &Value) -> bool {
    let is_metadata = |field: &Value| {
        let names = ["_index", "_id", "_routing", "_version", "_source"];
        field.as_str().is_some_and(|field| names.iter().any(|name| field.split('.').next() == Some(name)))
    };
    match part {
        Value::Array(parts) => parts.iter().any(may_write_metadata),
        Value::Object(fields) => fields.iter().any(|(key, value)| {
            let is_target = ["field", "target_field"].contains(&key.as_str());
            let is_any_change = ["script", "reroute", "date_index_name"].contains(&key.as_str()) && value.is_object();
            is_target && is_metadata(value)
                || is_any_change
                || ["set", "rename", "remove", "foreach", "processor", "processors", "on_failure", "script", "reroute"]
                    .contains(&key.as_str())
                    && may_write_metadata(value)
        }),
        _ => false,
    }
}

fn template(others: &Others<'_>) -> &'static str {
    if others.answer(&StateQuery::Nodes).is_some() { "up-{name}-{http_port}" } else { "up-{name}" }
}

fn cache(template: &str) -> StateCache {
    let config = format!(r#"{{"coordinator":"es","nodes":{{"upstream":"{template}"}}}}"#);
    let config = Config::read(config.as_bytes()).expect("a configuration");
    let mut cache = StateCache::new(&config, 1, Box::new(Unshared));
    cache.wake(Time::ZERO);
    cache
}

/// Returns the index of this name, and those behind an alias or a data stream of this name.
fn targets<'a>(state: &'a Value, name: &'a str) -> impl Iterator<Item = &'a str> {
    let metadata = &state["metadata"];
    let index = metadata["indices"].get(name).map(|_| name);
    let indices = metadata["indices"].as_object().into_iter().flatten();
    let has_alias =
        move |index: &Value| index["aliases"].as_array().is_some_and(|aliases| aliases.contains(&name.into()));
    let members = indices.filter(move |(_, index)| has_alias(index)).map(|(index, _)| index.as_str());
    let streams = &metadata["data_stream"];
    let stream = streams["data_stream_aliases"][name]["write_data_stream"].as_str().unwrap_or(name);
    let backing = streams["data_stream"][stream]["indices"].as_array().and_then(|indices| indices.last());
    let backing = backing.and_then(|index| index["index_name"].as_str());
    index.into_iter().chain(members).chain(backing)
}

/// Returns the upstream of the node that holds a primary.
fn primary(state: &Value, index: &str, shard: &str) -> Option<String> {
    let copies = state["routing_table"]["indices"][index]["shards"][shard].as_array()?;
    let serves =
        |copy: &&Value| copy["primary"] == true && (copy["state"] == "STARTED" || copy["state"] == "RELOCATING");
    let node = copies.iter().find(serves)?["node"].as_str()?;
    Some(format!("up-{}", state["nodes"][node]["name"].as_str()?))
}
