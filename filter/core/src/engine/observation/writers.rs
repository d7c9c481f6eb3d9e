//! Who writes how: what each writer has sent to each index, in requests that were observed.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::config::IdentityHeaders;
use crate::engine::pass_through::PassThrough;
use crate::engine::requests::Request;

/// Who sends a request.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Writer {
    /// The user, without secrets; `None` if no header tells.
    user: Option<String>,
    /// The client's `user-agent`; `None` if it names none, or if the request is observed because of an index.
    agent: Option<String>,
}

/// What a request writes.
#[derive(Debug, Default)]
pub struct Written {
    /// Operations and bytes, by the name in the request: an index, an alias or a data stream. `None` if the filter has
    /// not read the names, and for names beyond [`MAX_NAMES`].
    by_index: BTreeMap<Option<String>, (u64, u64)>,
    /// Why the filter would let the request pass through, if it would.
    passed: Option<PassThrough>,
}

/// What a writer has sent to an index.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Figures {
    /// The requests. One that writes to several indices counts for each of them.
    pub requests: u64,
    pub operations: u64,
    /// The bytes of the operations, before compression.
    pub bytes: u64,
    /// The requests that the cluster refused as a whole, or did not answer.
    pub refused: u64,
    /// The requests that would pass through, by reason.
    pub passed_through_by_reason: BTreeMap<&'static str, u64>,
}

/// The figures of the writers that have sent most.
#[derive(Debug, Default)]
pub struct Writers {
    figures: BTreeMap<(Writer, Option<String>), Figures>,
    /// The sum of the figures that were displaced.
    others: Figures,
}

/// What the status says of a writer and an index.
#[derive(Debug, Serialize)]
pub struct Reported<'a> {
    #[serde(flatten)]
    writer: &'a Writer,
    index: Option<&'a str>,
    #[serde(flatten)]
    figures: &'a Figures,
}

/// The maximum number of pairs of a writer and an index. The one with the fewest bytes is displaced first.
const MAX_PAIRS: usize = 200;

/// The maximum number of names of a request that are told apart.
const MAX_NAMES: usize = 16;

/// The maximum length of what is kept of a text that a client chooses, in characters. Names of indices are never longer
/// than 255 bytes.
const MAX_TEXT: usize = 128;
const MAX_NAME: usize = 255;

/// The maximum length of credentials whose user is named, in bytes.
const MAX_CREDENTIALS: usize = 512;

/// Identity headers whose values are not secret.
const PUBLIC: &[&str] = &["x-forwarded-client-cert", "x-forwarded-for"];

impl Writer {
    /// Returns who sends a request with these headers.
    pub fn of<'a>(headers: impl Iterator<Item = (&'a str, &'a [u8])> + Clone, identity: &'a IdentityHeaders) -> Self {
        let value = |name: &str| headers.clone().find(|(other, _)| *other == name).map(|(_, value)| value);
        Self {
            user: identity.names().find_map(|name| Some(user(name, value(name)?))),
            agent: value("user-agent").map(text),
        }
    }
}

/// Returns a name for the user whom this header identifies. It contains no secret: of what may be one, it has a digest.
fn user(name: &str, value: &[u8]) -> String {
    let digest = || Sha256::digest(value).iter().take(4).map(|byte| format!("{byte:02x}")).collect::<String>();
    if name != "authorization" {
        return if PUBLIC.contains(&name) { text(value) } else { format!("{name} {}", digest()) };
    }
    let (scheme, credentials) = std::str::from_utf8(value).ok().and_then(|text| text.split_once(' ')).unzip();
    let scheme = scheme.unwrap_or_default();
    let is_named = ["basic", "apikey"].iter().any(|known| scheme.eq_ignore_ascii_case(known));
    let mut decoded = [0; MAX_CREDENTIALS];
    let length =
        credentials.filter(|_| is_named).and_then(|text| STANDARD.decode_slice(text.trim(), &mut decoded).ok());
    let decoded = length.and_then(|length| decoded.get(..length)).unwrap_or_default();
    // The name of the user, or the id of the key, comes before the secret.
    match decoded.iter().position(|byte| *byte == b':').and_then(|end| decoded.get(..end)).map(text) {
        Some(name) => format!("{scheme} {name}"),
        None => format!("{} {}", if is_named { scheme } else { name }, digest()),
    }
}

fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value).chars().take(MAX_TEXT).collect()
}

impl Written {
    /// Describes a request of which not all was read: the index is that of its path, or one that the filter does not know.
    pub fn unread(index: Option<String>, why: PassThrough) -> Self {
        let index = index.filter(|name| name.len() <= MAX_NAME);
        Self { by_index: BTreeMap::from([(index, (0, 0))]), passed: Some(why) }
    }

    /// Describes a request that the filter would split.
    pub fn read(request: &Request) -> Self {
        let mut by_index = BTreeMap::new();
        for operation in &request.operations {
            request.read_line(operation, |line| {
                add(&mut by_index, line.index.as_deref(), u64::from(operation.len));
            });
        }
        Self { by_index, passed: None }
    }

    /// Returns whether the filter would split the request.
    pub fn would_be_split(&self) -> bool {
        self.passed.is_none()
    }

    /// Returns about how many bytes it uses.
    pub fn memory(&self) -> u64 {
        (self.by_index.len() as u64).saturating_mul(MAX_NAME as u64 * 2)
    }
}

fn add(by_index: &mut BTreeMap<Option<String>, (u64, u64)>, name: Option<&str>, bytes: u64) {
    let key = name.filter(|name| name.len() <= MAX_NAME).map(ToOwned::to_owned);
    let key = if by_index.len() < MAX_NAMES || by_index.contains_key(&key) { key } else { None };
    let (operations, sum) = by_index.entry(key).or_default();
    *operations = operations.saturating_add(1);
    *sum = sum.saturating_add(bytes);
}

impl Figures {
    fn add(&mut self, other: &Self) {
        let Self { requests, operations, bytes, refused, passed_through_by_reason } = self;
        *requests = requests.saturating_add(other.requests);
        *operations = operations.saturating_add(other.operations);
        *bytes = bytes.saturating_add(other.bytes);
        *refused = refused.saturating_add(other.refused);
        for (reason, count) in &other.passed_through_by_reason {
            let sum = passed_through_by_reason.entry(reason).or_default();
            *sum = sum.saturating_add(*count);
        }
    }
}

impl Writers {
    /// Adds a request that was answered with this status; 0 if it was not answered.
    pub fn add(&mut self, writer: &Writer, written: Written, status: u16) {
        let Written { by_index, passed } = written;
        let is_refused = !(200..300).contains(&status);
        for (index, (operations, bytes)) in by_index {
            let passed_through_by_reason = passed.iter().map(|why| (why.name(), 1)).collect();
            let refused = u64::from(is_refused);
            let more = Figures { requests: 1, operations, bytes, refused, passed_through_by_reason };
            self.entry((writer.clone(), index)).add(&more);
        }
    }

    /// Returns the figures of a pair. If there are too many, the one that has sent the fewest bytes is displaced.
    fn entry(&mut self, pair: (Writer, Option<String>)) -> &mut Figures {
        if self.figures.len() >= MAX_PAIRS && !self.figures.contains_key(&pair) {
            let least = self.figures.iter().min_by_key(|(_, figures)| (figures.bytes, figures.requests));
            let least = least.map(|(pair, _)| pair.clone());
            if let Some(displaced) = least.and_then(|pair| self.figures.remove(&pair)) {
                self.others.add(&displaced);
            }
        }
        self.figures.entry(pair).or_default()
    }

    /// Returns all pairs.
    pub fn list<'a>(&'a self) -> Vec<Reported<'a>> {
        let reported = |((writer, index), figures): (&'a (Writer, Option<String>), &'a Figures)| Reported {
            writer,
            index: index.as_deref(),
            figures,
        };
        self.figures.iter().map(reported).collect()
    }

    /// Returns the sum of the figures of all pairs that were displaced.
    pub fn others(&self) -> &Figures {
        &self.others
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn writer(headers: &[(&str, &str)]) -> (Option<String>, Option<String>) {
        let identity = Config::read(
            br#"{"coordinator":"es","dispatch":{"identity":
            ["authorization","x-forwarded-client-cert","x-tenant"]}}"#,
        )
        .unwrap()
        .dispatch
        .identity;
        let Writer { user, agent } =
            Writer::of(headers.iter().map(|(name, value)| (*name, value.as_bytes())), &identity);
        (user, agent)
    }

    #[test]
    fn a_user_is_named_without_its_secret() {
        let user = |name, value: &str| writer(&[(name, value)]).0.unwrap();
        assert_eq!(user("authorization", "Basic YWxpY2U6c2VjcmV0OjE="), "Basic alice");
        assert_eq!(user("authorization", "ApiKey aWQtNzpzZWNyZXQ="), "ApiKey id-7");
        assert_eq!(user("x-forwarded-client-cert", "Hash=1;Subject=\"CN=a\""), "Hash=1;Subject=\"CN=a\"");
        for (value, expected) in [
            ("Bearer secret", "authorization "),
            ("secret", "authorization "),
            ("Basic secret", "Basic "),
            ("Basic c2VjcmV0", "Basic "),
        ] {
            let found = user("authorization", value);
            assert!(found.starts_with(expected) && found.len() == expected.len() + 8, "{found}");
        }
        assert_ne!(user("x-tenant", "secret"), user("x-tenant", "other"));
        assert!(!user("x-tenant", "secret").contains("secret"));
        assert_eq!(writer(&[("user-agent", "a/1")]), (None, Some("a/1".to_owned())));
        assert_eq!(writer(&[("user-agent", &"é".repeat(1000))]).1.unwrap().chars().count(), MAX_TEXT);
    }

    fn add_to(writers: &mut Writers, agent: &str, index: &str, (operations, bytes): (u64, u64), status: u16) {
        let writer = Writer { user: None, agent: Some(agent.to_owned()) };
        let by_index = BTreeMap::from([(Some(index.to_owned()), (operations, bytes))]);
        writers.add(&writer, Written { by_index, passed: None }, status);
    }

    #[test]
    fn requests_add_up_for_each_writer_and_index() {
        let mut writers = Writers::default();
        add_to(&mut writers, "a", "i", (3, 30), 200);
        add_to(&mut writers, "a", "i", (1, 10), 429);
        add_to(&mut writers, "a", "j", (1, 10), 0);
        writers.add(&Writer::default(), Written::unread(Some("i".to_owned()), PassThrough::Parameter), 200);
        let list = serde_json::to_value(writers.list()).unwrap();
        let row = |user_agent: Option<&str>, index, figures: [u64; 4], reasons: &[&str]| {
            let [requests, operations, bytes, refused] = figures;
            let reasons: BTreeMap<_, _> = reasons.iter().map(|reason| (*reason, 1)).collect();
            serde_json::json!({
                "user": null, "agent": user_agent, "index": index, "requests": requests, "operations": operations,
                "bytes": bytes, "refused": refused, "passed_through_by_reason": reasons,
            })
        };
        let expected = [
            row(None, "i", [1, 0, 0, 0], &["parameter"]),
            row(Some("a"), "i", [2, 4, 40, 1], &[]),
            row(Some("a"), "j", [1, 1, 10, 1], &[]),
        ];
        assert_eq!(list, serde_json::json!(expected));
    }

    /// A client could otherwise use memory with names that it makes up, or hide the others.
    #[test]
    fn many_writers_cannot_displace_those_that_send_much() {
        let mut writers = Writers::default();
        for number in 0..10_000_u64 {
            add_to(&mut writers, "steady", "i", (1, 100), 200);
            add_to(&mut writers, &format!("guess-{number}"), "i", (1, 100), 200);
        }
        assert_eq!(writers.list().len(), MAX_PAIRS);
        let steady = writers.list().iter().map(|row| row.figures.requests).max();
        let kept: u64 = writers.list().iter().map(|row| row.figures.requests).sum();
        assert_eq!((steady, kept + writers.others().requests), (Some(10_000), 20_000));
    }

    #[test]
    fn a_request_has_a_bounded_number_of_names() {
        let mut by_index = BTreeMap::new();
        for number in 0..100 {
            add(&mut by_index, Some(&format!("i{number}")), 1);
            add(&mut by_index, Some("i0"), 1);
        }
        add(&mut by_index, Some(&"n".repeat(MAX_NAME + 1)), 1);
        assert_eq!((by_index.len(), by_index[&Some("i0".to_owned())]), (MAX_NAMES + 1, (101, 101)));
        assert_eq!(by_index[&None], (100 - 16 + 1, 100 - 16 + 1));
    }
}
