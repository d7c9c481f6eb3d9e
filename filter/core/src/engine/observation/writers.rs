//! Who writes how: what each writer has sent to each index, in requests that were observed.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::config::IdentityHeaders;
use crate::engine::pass_through::PassThrough;
use crate::engine::requests::Request;
use crate::invariant::Count;

use super::answer::{PassingAnswer, Told};

/// Who sends a request.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Writer {
    /// The user, without secrets; `None` if no header tells.
    user: Option<String>,
    /// The client's `user-agent`; `None` if it names none, or if the request is observed because of an index.
    agent: Option<String>,
}

/// What a request writes, and the failures in its answer.
#[derive(Debug, Default)]
pub struct Written {
    /// What it writes under each name. There is always one.
    by_index: Vec<ToIndex>,
    /// The place of each operation's name in the list, if they are known.
    operations: Option<Vec<u8>>,
    /// Why the filter would let the request pass through, if it would.
    passed: Option<PassThrough>,
    /// Whether the answer was not read, so that failures in it are not known.
    is_unread: bool,
}

/// What a request writes under a name.
#[derive(Debug, Default)]
struct ToIndex {
    /// The name in the request: an index, an alias or a data stream. `None` if the filter has not read it, and for names
    /// beyond [`MAX_NAMES`].
    name: Option<String>,
    operations: u64,
    bytes: u64,
    failed: Failures,
}

/// The number of operations that have failed, by the type of their errors. Types beyond [`MAX_TYPES`] are `other`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Failures(BTreeMap<String, u64>);

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
    /// The operations that failed, by the type of their errors.
    pub failed_by_type: Failures,
    /// The answers that were too large to read, or unreadable. Failures in them are not known.
    pub unread_answers: u64,
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

/// The maximum number of types of errors that are told apart, of a request or a pair.
const MAX_TYPES: usize = 8;

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
        let name = index.filter(|name| name.len() <= MAX_NAME);
        Self { by_index: vec![ToIndex { name, ..ToIndex::default() }], passed: Some(why), ..Self::default() }
    }

    /// Describes a request that the filter would split.
    pub fn read(request: &Request) -> Self {
        let mut written = Self::default();
        let mut places = Vec::with_capacity(request.operations.len());
        for operation in &request.operations {
            let mut place = 0;
            request.read_line(operation, |line| {
                place = written.add(line.index.as_deref(), u64::from(operation.len));
            });
            places.push(place);
        }
        Self { operations: Some(places), ..written }
    }

    /// Adds an operation, and returns the place of its name in the list.
    fn add(&mut self, name: Option<&str>, bytes: u64) -> u8 {
        let name = name.filter(|name| name.len() <= MAX_NAME);
        let place_of = |name: Option<&str>| self.by_index.iter().position(|one| one.name.as_deref() == name);
        let (name, place) = match place_of(name) {
            None if self.by_index.len() >= MAX_NAMES => (None, place_of(None)),
            place => (name, place),
        };
        let place = place.unwrap_or_else(|| {
            self.by_index.push(ToIndex { name: name.map(ToOwned::to_owned), ..ToIndex::default() });
            self.by_index.len().minus(1, "a name was added")
        });
        if let Some(index) = self.by_index.get_mut(place) {
            index.operations = index.operations.saturating_add(1);
            index.bytes = index.bytes.saturating_add(bytes);
        }
        place as u8
    }

    /// Notes the answer to the request.
    pub fn answered(&mut self, answer: PassingAnswer, status: u16) {
        match answer.tell(status, self.operations.as_ref().map(Vec::len)) {
            Told::Success => {}
            Told::Nothing => self.is_unread = status != 0,
            Told::Refusal(name) => {
                for index in &mut self.by_index {
                    // Of a request that was not read, at least one operation is certain.
                    index.failed.add(&name, index.operations.max(1));
                }
            }
            Told::Items(answer) => {
                for (number, item) in answer.items.iter().enumerate().filter(|(_, item)| item.failed) {
                    let place = self.operations.as_ref().and_then(|places| places.get(number)).copied();
                    if let Some(index) = self.by_index.get_mut(usize::from(place.unwrap_or_default())) {
                        let name = answer.error_type(item).unwrap_or_else(|| item.status.to_string());
                        index.failed.add(&name, 1);
                    }
                }
            }
        }
    }

    /// Returns whether the filter would split the request.
    pub fn would_be_split(&self) -> bool {
        self.passed.is_none()
    }

    /// Returns about how many bytes it uses.
    pub fn memory(&self) -> u64 {
        let places = self.operations.as_ref().map_or(0, Vec::capacity) as u64;
        (self.by_index.len() as u64).saturating_mul(MAX_NAME as u64 * 2).saturating_add(places)
    }
}

impl Failures {
    fn add(&mut self, name: &str, count: u64) {
        let is_known = self.0.len() < MAX_TYPES || self.0.contains_key(name);
        let name: String = if is_known { name.chars().take(MAX_TEXT).collect() } else { "other".to_owned() };
        let sum = self.0.entry(name).or_default();
        *sum = sum.saturating_add(count);
    }
}

impl Figures {
    fn add(&mut self, other: &Self) {
        let Self { requests, operations, bytes, refused, failed_by_type, unread_answers, passed_through_by_reason } =
            self;
        *requests = requests.saturating_add(other.requests);
        *operations = operations.saturating_add(other.operations);
        *bytes = bytes.saturating_add(other.bytes);
        *refused = refused.saturating_add(other.refused);
        *unread_answers = unread_answers.saturating_add(other.unread_answers);
        for (name, count) in &other.failed_by_type.0 {
            failed_by_type.add(name, *count);
        }
        for (reason, count) in &other.passed_through_by_reason {
            let sum = passed_through_by_reason.entry(reason).or_default();
            *sum = sum.saturating_add(*count);
        }
    }
}

impl Writers {
    /// Adds a request that was answered with this status; 0 if it was not answered.
    pub fn add(&mut self, writer: &Writer, written: Written, status: u16) {
        let Written { by_index, passed, is_unread, .. } = written;
        let is_refused = !(200..300).contains(&status);
        for ToIndex { name, operations, bytes, failed } in by_index {
            let more = Figures {
                requests: 1,
                operations,
                bytes,
                refused: u64::from(is_refused),
                failed_by_type: failed,
                unread_answers: u64::from(is_unread),
                passed_through_by_reason: passed.iter().map(|why| (why.name(), 1)).collect(),
            };
            self.entry((writer.clone(), name)).add(&more);
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
        let to_index = ToIndex { name: Some(index.to_owned()), operations, bytes, failed: Failures::default() };
        writers.add(&writer, Written { by_index: vec![to_index], ..Written::default() }, status);
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
                "bytes": bytes, "refused": refused, "failed_by_type": {}, "unread_answers": 0,
                "passed_through_by_reason": reasons,
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
        let mut written = Written::default();
        for number in 0..100_u8 {
            assert_eq!(written.add(Some(&format!("i{number}")), 1), number.min(MAX_NAMES as u8));
            assert_eq!(written.add(Some("i0"), 1), 0);
        }
        written.add(Some(&"n".repeat(MAX_NAME + 1)), 1);
        let found = |name: Option<&str>| {
            let index = written.by_index.iter().find(|index| index.name.as_deref() == name).unwrap();
            (index.operations, index.bytes)
        };
        assert_eq!((written.by_index.len(), found(Some("i0"))), (MAX_NAMES + 1, (101, 101)));
        assert_eq!(found(None), (100 - 16 + 1, 100 - 16 + 1));
    }

    #[test]
    fn a_pair_has_a_bounded_number_of_types_of_errors() {
        let mut failures = Failures::default();
        for number in 0..100 {
            failures.add(&format!("type-{number}"), 1);
            failures.add("type-0", 1);
        }
        failures.add(&"t".repeat(1000), 1);
        assert_eq!((failures.0.len(), failures.0["type-0"], failures.0["other"]), (MAX_TYPES + 1, 101, 93));
        let mut long = Failures::default();
        long.add(&"t".repeat(1000), 1);
        assert_eq!(long.0.keys().next().unwrap().len(), MAX_TEXT);
    }
}
