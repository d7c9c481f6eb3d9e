use std::collections::VecDeque;
use std::hash::{BuildHasher, Hash};
use std::rc::Rc;

use hashbrown::DefaultHashBuilder;

use super::bulk_head::Head;
use super::caller::TRANSPORT_HEADERS;
use crate::config::Config;
use crate::engine::pass_through::PassThrough;

/// A cache of the parsed headers of the last few bulk requests. Most requests differ from an earlier one only in
/// headers that are not read. Comparing takes a tenth of the instructions of parsing.
#[derive(Debug, Default)]
pub struct HeadCache {
    known: VecDeque<Known>,
    unknown: u32,
    hasher: DefaultHashBuilder,
}

/// The maximum number of cached heads.
const MAX_HEADS: usize = 8;

/// The maximum bytes of a cached head. Envoy accepts headers of 60 KiB by default.
const MAX_HEAD_BYTES: u64 = 8 << 10;

/// One in this many misses is cached, so that the cache costs little if headers never repeat.
const MISSES_PER_ENTRY: u32 = 8;

#[derive(Debug)]
struct Known {
    headers: Vec<KnownHeader>,
    head: Rc<Head>,
}

#[derive(Debug)]
struct KnownHeader {
    name: String,
    /// The value; `None` if nothing depends on it.
    value: Option<Vec<u8>>,
}

impl HeadCache {
    /// Returns a hash that differs from VM to VM.
    pub fn hash(&self, value: impl Hash) -> u64 {
        self.hasher.hash_one(value)
    }

    /// Reads the headers of a request. Returns `None` if it is not a bulk request.
    pub fn read(&mut self, headers: Vec<(String, Vec<u8>)>, config: &Config) -> Option<Result<Rc<Head>, PassThrough>> {
        if let Some(position) = self.known.iter().position(|known| known.matches(&headers)) {
            // Frequent heads move to the front and are found sooner.
            self.known.swap(position, position.saturating_sub(1));
            return self.known.get(position.saturating_sub(1)).map(|known| Ok(Rc::clone(&known.head)));
        }
        let becomes_known = self.unknown.is_multiple_of(MISSES_PER_ENTRY);
        let known = becomes_known.then(|| headers.iter().map(|header| KnownHeader::new(header, config)).collect());
        let head = match Head::read(headers, config)? {
            Ok(mut head) => {
                head.caller_hash = self.hasher.hash_one(&head.caller);
                Rc::new(head)
            }
            Err(why) => return Some(Err(why)),
        };
        self.unknown = self.unknown.wrapping_add(1);
        if let Some(headers) = known.filter(|_| head.memory <= MAX_HEAD_BYTES) {
            self.known.truncate(MAX_HEADS - 1);
            self.known.push_back(Known { headers, head: Rc::clone(&head) });
        }
        Some(Ok(head))
    }
}

impl Known {
    fn matches(&self, headers: &[(String, Vec<u8>)]) -> bool {
        self.headers.len() == headers.len()
            && self.headers.iter().zip(headers).all(|(known, header)| known.matches(header))
    }
}

impl KnownHeader {
    fn new((name, value): &(String, Vec<u8>), config: &Config) -> Self {
        // Transport headers are left out of batches, and each request has its own body length. But it matters whether
        // the body is compressed.
        let is_left_out = TRANSPORT_HEADERS.contains(&name.as_str()) || config.harmless_headers.contains(name);
        let value = (!is_left_out || name == "content-encoding").then(|| value.clone());
        Self { name: name.clone(), value }
    }

    fn matches(&self, (name, value): &(String, Vec<u8>)) -> bool {
        self.name == *name && self.value.as_ref().is_none_or(|known| known == value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &[(&str, &str)] = &[
        (":method", "POST"),
        (":path", "/books/_bulk?routing=a"),
        ("authorization", "Basic a"),
        ("content-encoding", "identity"),
        ("content-type", "application/json"),
        ("content-length", "17"),
        ("x-request-id", "1"),
    ];

    struct Heads {
        heads: HeadCache,
        config: Config,
    }

    impl Heads {
        fn new() -> Self {
            Self { heads: HeadCache::default(), config: Config::read(br#"{"coordinator":"es"}"#).unwrap() }
        }

        fn read(&mut self, headers: &[(&str, &str)]) -> Option<Result<Rc<Head>, PassThrough>> {
            let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec())).collect();
            self.heads.read(headers, &self.config)
        }

        /// Returns the head of a request with another value for this header.
        fn with(&mut self, name: &str, value: &str) -> Rc<Head> {
            let other =
                |header: &(&'static str, &'static str)| if header.0 == name { (header.0, value) } else { *header };
            let headers: Vec<_> = PLAIN.iter().map(other).collect();
            self.read(&headers).unwrap().unwrap()
        }
    }

    #[test]
    fn values_that_are_not_read_still_hit_the_cache() {
        let mut heads = Heads::new();
        let plain = heads.with("", "");
        for (name, value) in [("content-length", "18"), ("x-request-id", "2")] {
            assert!(Rc::ptr_eq(&plain, &heads.with(name, value)), "{name}");
        }
    }

    #[test]
    fn any_other_value_misses_the_cache() {
        let mut heads = Heads::new();
        let plain = heads.with("", "");
        assert_eq!(plain.default_routing.as_deref(), Some("a"));
        assert_eq!(heads.with(":path", "/books/_bulk?routing=b").default_routing.as_deref(), Some("b"));
        assert_eq!(
            heads.with("authorization", "Basic b").caller.iter().find(|(name, _)| name == "authorization").unwrap().1,
            "Basic b"
        );
        assert!(heads.with("content-encoding", "gzip").gzip);
        assert!(!heads.with("content-encoding", "identity").gzip);
        let fewer = heads.read(&PLAIN[..6]).unwrap().unwrap();
        assert!(!Rc::ptr_eq(&plain, &fewer));
        assert!(heads.read(&[(":method", "GET"), (":path", "/_bulk")]).is_none());
        assert!(matches!(heads.read(&PLAIN[..4]), Some(Err(PassThrough::ContentType))));
    }

    #[test]
    fn frequent_heads_stay_cached() {
        let mut heads = Heads::new();
        let plain = heads.with("", "");
        for n in 0..100 * MAX_HEADS {
            heads.with("authorization", &format!("Basic {n}"));
            assert!(Rc::ptr_eq(&plain, &heads.with("", "")));
        }
        assert_eq!(heads.heads.known.len(), MAX_HEADS);
    }

    #[test]
    fn repeated_heads_are_cached() {
        let mut heads = Heads::new();
        heads.with("authorization", "Basic once");
        let heads: Vec<_> = (0..10).map(|_| heads.with("", "")).collect();
        assert!(Rc::ptr_eq(&heads[8], &heads[9]));
    }
}
