use std::sync::LazyLock;

use fastrand::Rng;
use serde::Deserialize;

/// The words of `words.yaml`.
pub static WORDS: LazyLock<Words> =
    LazyLock::new(|| serde_saphyr::from_str(include_str!("words.yaml")).expect("words.yaml has these fields"));

#[derive(Debug, Deserialize)]
pub struct Words {
    pub parameters: Vec<String>,
    pub update_fields: Vec<String>,
    pub spaces: Vec<String>,
    pub odd_spaces: Vec<String>,
    values: Vec<Values>,
}

/// Values of one kind.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Values {
    /// The kind, for reports.
    kind: String,
    share: usize,
    of: Vec<String>,
    /// Whether they are the texts of strings.
    #[serde(default)]
    is_quoted: bool,
}

/// A function that makes values of one kind.
type Make = fn(&mut Rng) -> Vec<u8>;

/// The values that are not in `words.yaml`, with as many entries as their share.
const MADE: [(&str, Make); 7] = [
    ("LeadingZeros", |rng| zeros(rng).into()),
    ("LeadingZeros", |rng| quoted(&zeros(rng))),
    ("LongNumber", |rng| long_number(rng).into()),
    ("Long", |rng| quoted(&long(rng))),
    ("Long", |rng| quoted(&long(rng))),
    ("NotUtf8", not_utf8),
    ("Nested", |rng| nested(rng).into()),
];

/// Returns the kind and the text of any JSON value, or of something that is not one.
pub fn any(rng: &mut Rng) -> (&'static str, Vec<u8>) {
    let mut listed = WORDS.values.iter().flat_map(|values| std::iter::repeat_n(values, values.share));
    let mut place = rng.usize(0..listed.clone().count() + MADE.len());
    if let Some((kind, make)) = MADE.get(place) {
        return (kind, make(rng));
    }
    place -= MADE.len();
    let values = listed.nth(place).expect("the place is among them");
    let text = &values.of[rng.usize(0..values.of.len())];
    (&values.kind, if values.is_quoted { quoted(text) } else { text.clone().into() })
}

fn quoted(text: &str) -> Vec<u8> {
    format!("\"{text}\"").into()
}

/// A number after zeros, with about as many digits as a release reads.
fn zeros(rng: &mut Rng) -> String {
    let zeros = [1, 5, 18, 19, 20, 99, 998, 999, 1000, 1001][rng.usize(0..10)];
    format!("{}{}", "0".repeat(zeros), rng.u8(0..2))
}

/// A number with about as many digits as a release reads.
fn long_number(rng: &mut Rng) -> String {
    let digits = [30, 98, 99, 100, 101, 997, 998, 999, 1000, 1001, 1100][rng.usize(0..11)];
    match rng.u8(0..4) {
        0 => "9".repeat(digits),
        1 => format!("0.{}", "1".repeat(digits)),
        2 => format!("-{}", "9".repeat(digits)),
        _ => format!("1e{}", "9".repeat(rng.usize(1..12))),
    }
}

/// A string around the longest id, or the longest line that the reader accepts.
fn long(rng: &mut Rng) -> String {
    match rng.u8(0..6) {
        0 => "x".repeat(512),
        1 => "x".repeat(513),
        2 => "é".repeat(256),
        3 => format!("{}x", "é".repeat(256)),
        4 => "\\u0061".repeat(512),
        _ => "x".repeat(8_000),
    }
}

fn not_utf8(rng: &mut Rng) -> Vec<u8> {
    let bytes: [&[u8]; 6] =
        [b"\xff", b"\xc3", b"\xed\xa0\xbd", b"\xc0\xaf", b"\xf4\x90\x80\x80", b"\xed\xa0\xbd\xed\xb9\x82"];
    [b"\"", bytes[rng.usize(0..6)], b"\""].concat()
}

/// Objects or arrays within each other, around the depths that some release or JSON reader accepts.
fn nested(rng: &mut Rng) -> String {
    let depth = [50, 120, 125, 126, 127, 128, 129, 300, 900, 996, 997, 998, 999, 1000, 1001, 1100][rng.usize(0..16)];
    let (open, close) = [("[", "]"), ("{\"a\":", "}")][rng.usize(0..2)];
    format!("{}1{}", open.repeat(depth), close.repeat(depth))
}
