use std::collections::{BTreeMap, VecDeque};
use std::hash::BuildHasher;
use std::rc::Rc;

use hashbrown::{DefaultHashBuilder, HashMap};

use crate::config::Config;

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
pub struct CallerId(u32);

/// How many callers keep their numbers without a request: who was answered comes back, and what is held for others
/// waits for that. Each may take as much as Envoy lets headers take, 60 KiB.
const IDLE: usize = 16;

/// A caller behind its hash. Callers differ in little, so that it would take long to find one among thousands by comparing
/// headers. In order all the same, for clients choose the headers: hashes that are made to be equal cost no more than
/// comparing does.
type Key = (u64, Caller);

/// The callers of the requests that are here, and of a few that were; each has a number.
#[derive(Debug, Default)]
pub struct Callers {
    numbers: BTreeMap<Key, CallerId>,
    callers: HashMap<CallerId, (Key, usize)>,
    hasher: DefaultHashBuilder,
    /// Those without a request; who has had none for the longest time comes first.
    idle: VecDeque<CallerId>,
    next: u32,
}

impl Callers {
    /// The number of a caller, for one more request.
    pub fn enter(&mut self, caller: Caller) -> CallerId {
        let key = (self.hasher.hash_one(&caller), caller);
        let id = match self.numbers.get(&key) {
            Some(id) => {
                self.idle.retain(|idle| idle != id);
                *id
            }
            None => {
                let id = CallerId(self.next);
                self.next = self.next.wrapping_add(1);
                self.numbers.insert((key.0, Rc::clone(&key.1)), id);
                id
            }
        };
        self.callers.entry(id).or_insert((key, 0)).1 += 1;
        id
    }

    /// One request of this caller is over.
    pub fn leave(&mut self, id: CallerId) {
        let Some((_, requests)) = self.callers.get_mut(&id) else { return };
        *requests = requests.saturating_sub(1);
        if *requests > 0 {
            return;
        }
        self.idle.push_back(id);
        if self.idle.len() > IDLE
            && let Some((key, _)) = self.idle.pop_front().and_then(|id| self.callers.remove(&id))
        {
            self.numbers.remove(&key);
        }
    }

    /// The caller of a number.
    pub fn get(&self, id: CallerId) -> Option<&Caller> {
        self.callers.get(&id).map(|((_, caller), _)| caller)
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

    #[test]
    fn a_caller_keeps_its_number_while_a_request_has_it_and_for_a_few_others_more() {
        let mut callers = Callers::default();
        let path = |n: usize| [(":path".to_owned(), format!("/{n}"))].into_iter().collect::<Caller>();
        let [first, busy] = [0, 1].map(|n| callers.enter(path(n)));
        assert_eq!(callers.enter(path(0)), first);
        callers.leave(first);
        callers.leave(first);
        for n in 2..=IDLE {
            let other = callers.enter(path(n));
            callers.leave(other);
            assert_ne!(other, first);
        }
        assert_eq!(callers.get(first), Some(&path(0)));
        assert_eq!(callers.enter(path(0)), first);
        callers.leave(first);
        for n in IDLE + 1..=2 * IDLE {
            let other = callers.enter(path(n));
            callers.leave(other);
        }
        assert_eq!((callers.get(first), callers.get(busy)), (None, Some(&path(1))));
        assert_eq!((callers.callers.len(), callers.numbers.len()), (IDLE + 1, IDLE + 1));
        assert_ne!(callers.enter(path(0)), first);
    }
}
