//! Documents like those of other benchmarks.

use super::Load;

/// The default index of documents.
pub const INDEX: &str = "logs-app";

pub fn index(number: usize) -> String {
    if number == 0 { INDEX.to_owned() } else { format!("{INDEX}-{number}") }
}

/// The default size of an operation, in bytes.
pub const BYTES: usize = 290;

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

pub fn index_number(name: &str) -> usize {
    name.rsplit('-').next().and_then(|number| number.parse().ok()).unwrap_or_default()
}

/// Returns the id of a document: 20 characters, like those that clusters generate.
pub fn id(number: usize) -> String {
    format!("qX{:018x}", scattered(number as u64))
}

/// Returns the bodies of a load's requests.
pub fn bodies(load: Load) -> Vec<Vec<u8>> {
    let numbers: Vec<usize> = (0..load.operations()).collect();
    numbers.chunks(load.documents).map(|numbers| body(numbers, 1, load.bytes)).collect()
}

/// Returns a body with the documents of these numbers, of `bytes` bytes each, for `indices` indices round robin.
pub fn body(numbers: &[usize], indices: usize, bytes: usize) -> Vec<u8> {
    numbers.iter().flat_map(|number| operation(&index(number % indices), *number, bytes).into_bytes()).collect()
}

/// Splits a body into the chunks in which it arrives.
pub fn chunks(body: &[u8], size: usize) -> Vec<Vec<u8>> {
    body.chunks(size).map(<[u8]>::to_vec).collect()
}

/// Returns the lines of an operation of this length.
fn operation(index: &str, number: usize, bytes: usize) -> String {
    let mut lines = format!(
        "{{\"index\":{{\"_index\":\"{index}\",\"_id\":\"{}\"}}}}\n\
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

/// Maps numbers to distinct numbers in scattered order.
pub fn scattered(number: u64) -> u64 {
    let mixed = (number ^ (number >> 30)).wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) ^ (mixed >> 31)
}
