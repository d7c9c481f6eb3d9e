use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use hashbrown::HashMap;

use super::identity::{Identities, SlotClass};
use crate::config::{Config, IdentityHeaders};

/// Who asks, and for what: method, path, query and every header on which a server could act. Operations of two
/// requests may share a batch only if this is equal, and it is what the batch is sent with.
pub type Caller = Rc<[(String, String)]>;

/// Headers that say how the message itself travels (hop-by-hop, framing, encodings of body and answer), or how much is
/// in it, as Logstash and Beats do. They do not keep requests apart, and are left out of the batch, which is a message
/// of its own.
pub const TRANSPORT_HEADERS: &[&str] = &[
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "expect",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-elastic-event-count",
    "x-elastic-uncompressed-request-length",
    ":scheme",
];

/// The caller that these headers stand for, whatever their order. `None` if one of them is not UTF-8: it could not
/// be sent on.
pub fn caller(headers: Vec<(String, Vec<u8>)>, Config { harmless_headers, dispatch, .. }: &Config) -> Option<Caller> {
    let mut kept = headers
        .into_iter()
        .filter(|(name, _)| !TRANSPORT_HEADERS.contains(&name.as_str()) && !harmless_headers.contains(name))
        .map(|(name, value)| Some((name, String::from_utf8(value).ok()?)))
        .collect::<Option<Vec<_>>>()?;
    if dispatch.compress {
        kept.push(("content-encoding".to_owned(), "gzip".to_owned()));
    }
    // Stable, so that the values of a repeated header keep their order. Pseudo-headers come first: ':' sorts low.
    kept.sort_by(|(left, _), (right, _)| left.cmp(right));
    Some(kept.into())
}

/// One of the callers of the requests that are here, by its number in [`Callers`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallerId(u64);

/// How many callers keep their numbers without a request: who was answered comes back, and what is held for others
/// waits for that.
const IDLE: usize = 16;

/// Bytes of the headers of such a caller. Envoy lets headers take 60 KiB, or more if it is told to.
const IDLE_SIZE: usize = 8 << 10;

/// Bytes of a caller's headers.
fn size(caller: &[(String, String)]) -> usize {
    caller.iter().map(|(name, value)| name.len().saturating_add(value.len())).sum()
}

/// A caller behind its hash. Callers differ in little, so that it would take long to find one among thousands by comparing
/// headers. In order all the same, for clients choose the headers: hashes that are made to be equal cost no more than
/// comparing does.
#[derive(Debug, Clone)]
struct Key {
    hash: u64,
    caller: Caller,
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_headers = || match Rc::ptr_eq(&self.caller, &other.caller) {
            true => Ordering::Equal,
            false => self.caller.cmp(&other.caller),
        };
        self.hash.cmp(&other.hash).then_with(by_headers)
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Key {}

/// A caller that has a number.
#[derive(Debug)]
struct Known {
    key: Key,
    requests: usize,
    /// Whether its headers are too long to be kept without a request.
    is_long: bool,
}

/// The callers of the requests that are here, and of a few that were; each has a number.
#[derive(Debug, Default)]
pub struct Callers {
    numbers: BTreeMap<Key, (CallerId, SlotClass)>,
    callers: HashMap<CallerId, Known>,
    /// Those without a request; who has had none for the longest time comes first.
    idle: VecDeque<CallerId>,
    /// 64 bits: it never comes round, so that no number is given to two callers.
    next: u64,
    identities: Identities,
}

impl Callers {
    /// The number of a caller and the slots that its batches take, for one more request. The hash is that of the caller,
    /// always by the same hasher.
    pub fn enter(&mut self, hash: u64, caller: &Caller, identity: &IdentityHeaders) -> (CallerId, SlotClass) {
        let key = Key { hash, caller: Rc::clone(caller) };
        if let Some((id, class)) = self.numbers.get(&key) {
            self.idle.retain(|idle| idle != id);
            self.callers.get_mut(id).into_iter().for_each(|known| known.requests = known.requests.saturating_add(1));
            return (*id, *class);
        }
        let id = CallerId(self.next);
        self.next = self.next.saturating_add(1);
        let class = self.identities.enter(caller, identity);
        self.numbers.insert(key.clone(), (id, class));
        self.callers.insert(id, Known { is_long: size(caller) > IDLE_SIZE, key, requests: 1 });
        (id, class)
    }

    /// One request of this caller is over.
    pub fn leave(&mut self, id: CallerId) {
        let Some(known) = self.callers.get_mut(&id) else { return };
        debug_assert!(known.requests > 0, "{id:?} leaves twice");
        known.requests = known.requests.saturating_sub(1);
        if known.requests > 0 {
            return;
        }
        if known.is_long {
            self.forget(id);
            return;
        }
        self.idle.push_back(id);
        if self.idle.len() > IDLE
            && let Some(oldest) = self.idle.pop_front()
        {
            self.forget(oldest);
        }
    }

    fn forget(&mut self, id: CallerId) {
        if let Some(known) = self.callers.remove(&id)
            && let Some((_, class)) = self.numbers.remove(&known.key)
        {
            self.identities.leave(class.identity);
        }
    }

    /// The caller of a number.
    pub fn get(&self, id: CallerId) -> Option<&Caller> {
        self.callers.get(&id).map(|known| &known.key.caller)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        Config::read(br#"{"coordinator":"es"}"#).unwrap()
    }

    fn of(headers: &[(&str, &str)]) -> Caller {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec()));
        caller(headers.collect(), &config()).unwrap()
    }

    const PLAIN: &[(&str, &str)] = &[(":method", "POST"), (":path", "/_bulk"), ("authorization", "Basic a")];

    #[test]
    fn harmless_headers_and_order_make_no_difference() {
        let same = [("x-request-id", "7"), PLAIN[2], ("user-agent", "x"), PLAIN[1], ("content-length", "9"), PLAIN[0]];
        assert_eq!(of(PLAIN), of(&same));
        assert_eq!(of(&same).len(), 3);
    }

    /// Else no two requests of a Logstash or a Beat would share a batch, and a batch would tell of another one's size.
    #[test]
    fn sizes_of_requests_make_no_difference() {
        let sized = |events: &'static str, bytes: &'static str| {
            [PLAIN, &[("x-elastic-event-count", events), ("x-elastic-uncompressed-request-length", bytes)]].concat()
        };
        assert_eq!(of(&sized("125", "40960")), of(&sized("7", "981")));
        assert_eq!(of(&sized("125", "40960")), of(PLAIN));
    }

    #[test]
    fn any_other_header_does() {
        for other in
            [("authorization", "Basic b"), ("x-opaque-id", "1"), (":path", "/i/_bulk"), ("x-forwarded-for", "::1")]
        {
            let mut headers = PLAIN.to_vec();
            headers.push(other);
            assert_ne!(of(PLAIN), of(&headers), "{other:?}");
        }
        assert_ne!(of(&[("a", "1"), ("a", "2")]), of(&[("a", "2"), ("a", "1")]));
    }

    #[test]
    fn a_header_that_is_not_text_cannot_be_sent_on() {
        let not_text = |name: &str| caller(vec![(name.to_owned(), vec![0xff])], &config());
        assert_eq!(not_text("x"), None);
        assert!(not_text("user-agent").is_some());
    }

    /// With 32 bits the counter came round, and the number of a caller that was still here was given to another.
    #[test]
    fn numbers_do_not_come_round() {
        let mut callers = Callers { next: u64::from(u32::MAX), ..Callers::default() };
        let path = |n: usize| [(":path".to_owned(), format!("/{n}"))].into_iter().collect::<Caller>();
        let identity = config().dispatch.identity;
        let [first, second, third] = [0, 1, 2].map(|n| callers.enter(0, &path(n), &identity).0);
        assert!(first < second && second < third);
        assert_eq!([first, second, third].map(|id| callers.get(id).cloned()), [0, 1, 2].map(|n| Some(path(n))));
        let mut fresh = Callers::default();
        let (zero, _) = fresh.enter(0, &path(3), &identity);
        assert!(zero < first);
    }

    #[test]
    fn long_headers_are_not_kept_for_a_caller_without_requests() {
        let mut callers = Callers::default();
        let long = [(":path".to_owned(), "x".repeat(IDLE_SIZE))].into_iter().collect::<Caller>();
        let (id, _) = callers.enter(0, &long, &config().dispatch.identity);
        callers.leave(id);
        assert_eq!((callers.callers.len(), callers.numbers.len()), (0, 0));
    }

    #[test]
    fn a_caller_keeps_its_number_while_a_request_has_it_and_for_a_few_others_more() {
        let mut callers = Callers::default();
        let path = |n: usize| [(":path".to_owned(), format!("/{n}"))].into_iter().collect::<Caller>();
        let identity = config().dispatch.identity;
        let [first, busy] = [0, 1].map(|n| callers.enter(0, &path(n), &identity).0);
        assert_eq!(callers.enter(0, &path(0), &identity).0, first);
        callers.leave(first);
        callers.leave(first);
        for n in 2..=IDLE {
            let (other, _) = callers.enter(0, &path(n), &identity);
            callers.leave(other);
            assert_ne!(other, first);
        }
        assert_eq!(callers.get(first), Some(&path(0)));
        assert_eq!(callers.enter(0, &path(0), &identity).0, first);
        callers.leave(first);
        for n in IDLE + 1..=2 * IDLE {
            let (other, _) = callers.enter(0, &path(n), &identity);
            callers.leave(other);
        }
        assert_eq!((callers.get(first), callers.get(busy)), (None, Some(&path(1))));
        assert_eq!((callers.callers.len(), callers.numbers.len()), (IDLE + 1, IDLE + 1));
        assert_ne!(callers.enter(0, &path(0), &identity).0, first);
    }
}
