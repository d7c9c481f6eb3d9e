use fastrand::Rng;

/// The kind of a JSON value, for reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Null,
    Boolean,
    Number,
    NumberAsText,
    LeadingZeros,
    LongNumber,
    Text,
    Empty,
    Long,
    Escaped,
    UnpairedSurrogate,
    ControlCharacter,
    NotUtf8,
    Array,
    Object,
    DuplicateKeys,
    Nested,
    NotJson,
}

/// Whole numbers around the ends of all ranges, and other numbers.
const NUMBERS: [&str; 30] = [
    "0",
    "1",
    "-1",
    "-2",
    "-3",
    "-4",
    "2147483647",
    "2147483648",
    "-2147483648",
    "-2147483649",
    "4294967295",
    "4294967296",
    "3000000000",
    "9223372036854775806",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "-9223372036854775809",
    "18446744073709551615",
    "18446744073709551616",
    "999999999999999999999999999999",
    "-0",
    "0.0",
    "1.0",
    "3.7",
    "1e3",
    "1E3",
    "1e400",
    "-1e-400",
    "1.7976931348623157e309",
];

/// Text that a lenient parser may take for a number.
const NUMBERS_AS_TEXT: [&str; 16] =
    ["+1", " 1", "1 ", "1_000", "0x10", "1f", "1d", "1L", "१", "１", "NaN", "Infinity", "1.", ".5", "1,5", "--1"];

const TEXTS: [&str; 26] = [
    "a",
    " ",
    "true",
    "false",
    "null",
    "_none",
    "_doc",
    "_all",
    "*",
    "other",
    "internal",
    "external",
    "external_gt",
    "external_gte",
    "EXTERNAL",
    "force",
    "create",
    "index",
    "books",
    "Books",
    ".books",
    "-books",
    "<books-{now/d}>",
    "a,b",
    "é🙂",
    "\u{feff}",
];

const ESCAPED: [&str; 8] =
    ["\\u0061", "\\ud83d\\ude42", "\\u0000", "\\/", "\\\"", "\\n", "\\u001f", "\\u005f\\u006e\\u006f\\u006e\\u0065"];

/// Returns the text of any JSON value, or of something that is not one.
pub fn any(rng: &mut Rng) -> (Kind, Vec<u8>) {
    let one_of = |rng: &mut Rng, from: &[&str]| from[rng.usize(0..from.len())].to_owned();
    let quoted = |text: String| format!("\"{text}\"");
    let (kind, text) = match rng.u8(0..34) {
        0 | 1 => (Kind::Null, "null".to_owned()),
        2 | 3 => (Kind::Boolean, rng.bool().to_string()),
        4..9 => (Kind::Number, one_of(rng, &NUMBERS)),
        9..12 => (Kind::NumberAsText, quoted(one_of(rng, &NUMBERS))),
        12 => (Kind::NumberAsText, quoted(one_of(rng, &NUMBERS_AS_TEXT))),
        13 => (Kind::LeadingZeros, zeros(rng)),
        14 => (Kind::LeadingZeros, quoted(zeros(rng))),
        15 => (Kind::LongNumber, long_number(rng)),
        16..20 => (Kind::Text, quoted(one_of(rng, &TEXTS))),
        20 => (Kind::Empty, "\"\"".to_owned()),
        21 | 22 => (Kind::Long, quoted(long(rng))),
        23 => (Kind::Escaped, quoted(one_of(rng, &ESCAPED))),
        24 => (Kind::UnpairedSurrogate, quoted(one_of(rng, &["\\ud83d", "a\\ude42", "\\ude42\\ud83d"]))),
        25 => (Kind::ControlCharacter, quoted(one_of(rng, &["\u{1}", "\0", "\t", "\u{7f}", "\u{2028}", "\r"]))),
        26 => return (Kind::NotUtf8, not_utf8(rng)),
        27 => (Kind::Array, one_of(rng, &["[]", "[1]", "[\"a\",\"b\"]", "[null]", "[[]]", "[{}]"])),
        28 | 29 => (Kind::Object, one_of(rng, &["{}", "{\"a\":1}", "{\"a\":\"b\"}", "{\"\":\"b\"}", "{\"a\":null}"])),
        30 => (
            Kind::DuplicateKeys,
            one_of(rng, &["{\"a\":\"b\",\"a\":\"c\"}", "{\"a\":1,\"\\u0061\":2}", "{\"b\":{\"a\":1,\"a\":1}}"]),
        ),
        31 => (Kind::Nested, nested(rng)),
        _ => (
            Kind::NotJson,
            one_of(rng, &["", "a", "'a'", "nul", "True", "NaN", "-", "01", "+1", "1.", ".5", "{", "\"", "0x1"]),
        ),
    };
    (kind, text.into_bytes())
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
