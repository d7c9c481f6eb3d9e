//! The two loads of the demo. They are deterministic, so every answer is known in advance.

use anyhow::Result;
use bulk_reshuffle::bulk::Action;
use serde_json::{Value, json};

use crate::bulk::{BulkRequest, Operation};

const LARGE_REQUESTS: usize = 40;
const LARGE_OPERATIONS: usize = 2_500;
const LARGE_CLIENTS: usize = 4;
const SMALL_REQUESTS: usize = 10_000;
const SMALL_CLIENTS: usize = 256;

/// The number of operations after which the pattern of a large request repeats.
const CYCLE: usize = 20;
/// One operation in this number is rejected, to check that its error reaches the client.
const REFUSED_EVERY: usize = 500;

/// Requests, and the number of clients that send them concurrently.
pub struct Workload {
    pub name: &'static str,
    pub clients: usize,
    pub requests: Vec<BulkRequest>,
}

impl Workload {
    /// Returns a load of a few clients with large requests.
    pub fn large() -> Result<Self> {
        let operations = |request| (0..LARGE_OPERATIONS).map(|number| large_operation(request, number)).collect();
        Ok(Self {
            name: "40 requests of 2,500 operations, 4 clients",
            clients: LARGE_CLIENTS,
            requests: (0..LARGE_REQUESTS)
                .map(|request| BulkRequest::new(operations(request)))
                .collect::<Result<_>>()?,
        })
    }

    /// Returns a load of many clients with single-operation requests. It needs the documents of [`Workload::large`].
    pub fn small() -> Result<Self> {
        let request = |number| BulkRequest::new(vec![small_operation(number)]);
        Ok(Self {
            name: "10,000 requests of one operation, 256 clients",
            clients: SMALL_CLIENTS,
            requests: (0..SMALL_REQUESTS).map(request).collect::<Result<_>>()?,
        })
    }

    /// Returns the first fifth of the requests.
    pub fn part(&self) -> Self {
        let requests = self.requests.iter().take(self.requests.len() / 5).cloned().collect();
        Self { requests, ..*self }
    }

    /// Returns the number of operations in all requests.
    pub fn operations(&self) -> usize {
        self.requests.iter().map(BulkRequest::operations).sum()
    }
}

/// Returns the operation at a position of a large request. The later operations of a cycle act on documents of the same
/// cycle, so their statuses are right only if the order within the request is kept.
fn large_operation(request: usize, number: usize) -> Operation {
    let cycle = number - number % CYCLE;
    let id = |number| large_id(request, number);
    match number % CYCLE {
        12 | 13 => write(Action::Create, id(number), None, 201),
        14 | 15 => write(Action::Index, id(number), Some(format!("reader-{}", number % 97)), 201),
        16 => update(id(cycle), None),
        17 => delete(id(cycle + 1), 200),
        18 => write(Action::Index, id(cycle + 2), None, 200),
        19 if number % REFUSED_EVERY == REFUSED_EVERY - 1 => write(Action::Create, id(cycle + 3), None, 409),
        19 => delete(id(cycle + 4), 200),
        _ => write(Action::Index, id(number), None, 201),
    }
}

/// Returns the operation of a small request. One request in ten updates a document of the large load, and one in ten
/// deletes one; each uses a different document.
fn small_operation(number: usize) -> Operation {
    let id = format!("small-{number}");
    let of_large = |place: usize| {
        let cycle = number / 10;
        let per_request = LARGE_OPERATIONS / CYCLE;
        large_id(cycle % LARGE_REQUESTS, cycle / LARGE_REQUESTS % per_request * CYCLE + place)
    };
    match number % 10 {
        6 => write(Action::Index, id, Some(format!("reader-{}", number % 97)), 201),
        7 => write(Action::Create, id, None, 201),
        8 => update(of_large(5), None),
        9 => delete(of_large(6), 200),
        _ => write(Action::Index, id, None, 201),
    }
}

/// Returns an operation that writes a document.
pub fn write(action: Action, id: String, routing: Option<String>, status: u16) -> Operation {
    let source = Some(document(&id));
    Operation { action, id, routing, source, status }
}

fn update(id: String, routing: Option<String>) -> Operation {
    Operation { action: Action::Update, id, routing, source: Some(json!({"read": true})), status: 200 }
}

fn delete(id: String, status: u16) -> Operation {
    Operation { action: Action::Delete, id, routing: None, source: None, status }
}

fn large_id(request: usize, number: usize) -> String {
    format!("large-{request}-{number}")
}

/// Returns a document of about 650 bytes whose text depends on its id.
fn document(id: &str) -> Value {
    const WORDS: [&str; 16] = [
        "shard", "segment", "merge", "refresh", "flush", "translog", "replica", "primary", "routing", "mapping",
        "analyzer", "token", "posting", "field", "query", "bucket",
    ];
    // FNV-1a, then an xorshift: simple, fast and the same on every platform.
    let mut state = id
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let mut text = String::with_capacity(600);
    while text.len() < 570 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let word = usize::try_from(state % 16).ok().and_then(|word| WORDS.get(word)).copied();
        text.push_str(word.unwrap_or_default());
        text.push(' ');
    }
    json!({"number": state >> 32, "title": format!("The book of {id}"), "text": text, "read": false})
}
