use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use hashbrown::HashMap;

use super::identity::{Identities, SlotClass};
use crate::config::{Config, IdentityHeaders};
use crate::invariant::{Count, found};

/// The caller of a request: method, path, query and every header on which a server could act. Operations of two
/// requests may share a batch only if their callers are equal. The batch is sent with the caller's headers.
pub type Caller = Rc<[(String, String)]>;

/// Headers that describe the transport of the message (hop-by-hop, framing, encodings of body and answer) or its size,
/// as sent by Logstash and Beats. They do not separate requests, and they are left out of the batch, which is a new
/// message.
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

/// Returns the caller with these headers, whatever their order. Returns `None` if a header is not UTF-8, because it
/// could not be forwarded.
pub fn caller(headers: Vec<(String, Vec<u8>)>, Config { harmless_headers, .. }: &Config) -> Option<Caller> {
    let mut kept = headers
        .into_iter()
        .filter(|(name, _)| !TRANSPORT_HEADERS.contains(&name.as_str()) && !harmless_headers.contains(name))
        .map(|(name, value)| Some((name, String::from_utf8(value).ok()?)))
        .collect::<Option<Vec<_>>>()?;
    // The sort is stable, so that the values of a repeated header keep their order. Pseudo-headers come first.
    kept.sort_by(|(left, _), (right, _)| left.cmp(right));
    Some(kept.into())
}

/// The number of a caller in [`Callers`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallerId(u64);

/// The maximum number of callers that keep their numbers without a request. A client that was answered usually sends
/// its next request soon, and a hold may wait for it.
const MAX_IDLE: usize = 16;

/// The maximum bytes of the headers of such a caller. Envoy accepts headers of 60 KiB by default.
const MAX_IDLE_BYTES: usize = 8 << 10;

/// Returns the bytes of a caller's headers.
fn size(caller: &[(String, String)]) -> usize {
    caller.iter().map(|(name, value)| name.len().saturating_add(value.len())).sum()
}

/// A caller with its hash. Callers are similar, so a search among thousands by comparing headers would take long. The
/// keys are still ordered by their headers, because clients choose the headers: provoked hash collisions cost no more
/// than comparisons.
#[derive(Debug, Clone, PartialEq, Eq)]
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

/// A caller with a number.
#[derive(Debug)]
struct Known {
    key: Key,
    requests: usize,
    /// Whether its headers are too long to be kept without a request.
    is_long: bool,
}

/// The callers of the current requests and of a few recent ones, each with a number.
#[derive(Debug, Default)]
pub struct Callers {
    numbers: BTreeMap<Key, (CallerId, SlotClass)>,
    callers: HashMap<CallerId, Known>,
    /// The callers without a request, the longest idle first.
    idle: VecDeque<CallerId>,
    /// The next number. With 64 bits it never wraps, so that no two callers get the same number.
    next: u64,
    identities: Identities,
}

impl Callers {
    /// Registers one more request of a caller. Returns the number of the caller and the slots that its batches take.
    /// The hash is the caller's, always from the same hasher.
    pub fn enter(&mut self, hash: u64, caller: &Caller, identity: &IdentityHeaders) -> (CallerId, SlotClass) {
        let key = Key { hash, caller: Rc::clone(caller) };
        if let Some((id, class)) = self.numbers.get(&key) {
            self.idle.retain(|idle| idle != id);
            if let Some(known) = found(self.callers.get_mut(id), "each number has its caller") {
                known.requests = known.requests.plus(1, "memory bounds the requests");
            }
            return (*id, *class);
        }
        let id = CallerId(self.next);
        self.next = self.next.plus(1, "64 bits do not wrap");
        let class = self.identities.enter(caller, identity);
        self.numbers.insert(key.clone(), (id, class));
        self.callers.insert(id, Known { is_long: size(caller) > MAX_IDLE_BYTES, key, requests: 1 });
        (id, class)
    }

    /// Unregisters a request of this caller.
    pub fn leave(&mut self, id: CallerId) {
        let Some(known) = found(self.callers.get_mut(&id), "a caller stays while it has a request") else { return };
        known.requests = known.requests.minus(1, "a request leaves once");
        if known.requests > 0 {
            return;
        }
        if known.is_long {
            self.forget(id);
            return;
        }
        self.idle.push_back(id);
        if self.idle.len() > MAX_IDLE
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

    /// Returns whether no caller has a request.
    #[cfg(test)]
    pub fn are_idle(&self) -> bool {
        self.idle.len() == self.callers.len()
    }

    /// Returns the caller with this number.
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
    fn harmless_headers_and_order_do_not_separate_callers() {
        let same = [("x-request-id", "7"), PLAIN[2], ("user-agent", "x"), PLAIN[1], ("content-length", "9"), PLAIN[0]];
        assert_eq!(of(PLAIN), of(&same));
        assert_eq!(of(&same).len(), 3);
    }

    /// Otherwise no two requests of Logstash or Beats would share a batch, and a batch would carry a wrong size.
    #[test]
    fn size_headers_do_not_separate_callers() {
        let sized = |events: &'static str, bytes: &'static str| {
            [PLAIN, &[("x-elastic-event-count", events), ("x-elastic-uncompressed-request-length", bytes)]].concat()
        };
        assert_eq!(of(&sized("125", "40960")), of(&sized("7", "981")));
        assert_eq!(of(&sized("125", "40960")), of(PLAIN));
    }

    #[test]
    fn any_other_header_separates_callers() {
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
    fn a_header_that_is_not_utf8_cannot_be_forwarded() {
        let not_text = |name: &str| caller(vec![(name.to_owned(), vec![0xff])], &config());
        assert_eq!(not_text("x"), None);
        assert!(not_text("user-agent").is_some());
    }

    /// With 32 bits, the counter wrapped, and another caller got the number of one that was still in use.
    #[test]
    fn caller_numbers_do_not_wrap() {
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
        let long = [(":path".to_owned(), "x".repeat(MAX_IDLE_BYTES))].into_iter().collect::<Caller>();
        let (id, _) = callers.enter(0, &long, &config().dispatch.identity);
        callers.leave(id);
        assert_eq!((callers.callers.len(), callers.numbers.len()), (0, 0));
    }

    #[test]
    fn a_caller_keeps_its_number_while_it_has_requests_and_for_a_few_more_callers() {
        let mut callers = Callers::default();
        let path = |n: usize| [(":path".to_owned(), format!("/{n}"))].into_iter().collect::<Caller>();
        let identity = config().dispatch.identity;
        let [first, busy] = [0, 1].map(|n| callers.enter(0, &path(n), &identity).0);
        assert_eq!(callers.enter(0, &path(0), &identity).0, first);
        callers.leave(first);
        callers.leave(first);
        for n in 2..=MAX_IDLE {
            let (other, _) = callers.enter(0, &path(n), &identity);
            callers.leave(other);
            assert_ne!(other, first);
        }
        assert_eq!(callers.get(first), Some(&path(0)));
        assert_eq!(callers.enter(0, &path(0), &identity).0, first);
        callers.leave(first);
        for n in MAX_IDLE + 1..=2 * MAX_IDLE {
            let (other, _) = callers.enter(0, &path(n), &identity);
            callers.leave(other);
        }
        assert_eq!((callers.get(first), callers.get(busy)), (None, Some(&path(1))));
        assert_eq!((callers.callers.len(), callers.numbers.len()), (MAX_IDLE + 1, MAX_IDLE + 1));
        assert_ne!(callers.enter(0, &path(0), &identity).0, first);
    }
}
