//! Documents as others measure with.

use crate::Load;

/// The index that all documents are for.
pub const INDEX: &str = "logs-app";

const WORDS: &[&str] = &[
    "accepted",
    "account",
    "after",
    "backend",
    "cache",
    "checkout",
    "closed",
    "connection",
    "delivery",
    "expired",
    "from",
    "gateway",
    "invoice",
    "latency",
    "order",
    "payment",
    "queue",
    "refused",
    "retry",
    "session",
    "shipped",
    "stock",
    "timeout",
    "token",
    "upstream",
    "user",
    "warehouse",
    "with",
    "within",
    "zone",
];

/// The id of a document: 20 characters, as those that clusters make.
pub fn id(number: usize) -> String {
    format!("qX{:018x}", scattered(number as u64))
}

/// The bodies of a load's requests.
pub fn bodies(load: Load) -> Vec<Vec<u8>> {
    let numbers = |request: usize| request * load.documents..(request + 1) * load.documents;
    let body = |request| numbers(request).flat_map(|number| operation(number, load.bytes).into_bytes()).collect();
    (0..load.requests).map(body).collect()
}

/// A body in the chunks in which it arrives.
pub fn chunks(body: &[u8], size: usize) -> Vec<Vec<u8>> {
    body.chunks(size).map(<[u8]>::to_vec).collect()
}

/// The lines of an operation of this length.
fn operation(number: usize, bytes: usize) -> String {
    let mut lines = format!(
        "{{\"index\":{{\"_index\":\"{INDEX}\",\"_id\":\"{}\"}}}}\n\
         {{\"@timestamp\":\"2026-11-21T12:{:02}:{:02}.{:03}Z\",\"level\":\"info\",\"duration\":{},\"message\":\"",
        id(number),
        number / 60_000 % 60,
        number / 1_000 % 60,
        number % 1_000,
        scattered(number as u64) % 100_000,
    );
    const END: &str = "\"}\n";
    let mut chance = number as u64;
    while lines.len() + END.len() < bytes {
        chance = scattered(chance);
        lines.push_str(WORDS[chance as usize % WORDS.len()]);
        lines.push(' ');
    }
    lines.truncate(bytes - END.len());
    lines.push_str(END);
    lines
}

/// Another number for each, without order.
fn scattered(number: u64) -> u64 {
    let mixed = (number ^ (number >> 30)).wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) ^ (mixed >> 31)
}
