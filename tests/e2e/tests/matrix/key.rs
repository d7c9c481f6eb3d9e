use fastrand::Rng;

/// What identifies a document: its id and its routing value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    pub id: Option<String>,
    pub routing: Option<String>,
}

/// The longest id that a cluster takes, in bytes.
const LONGEST: usize = 512;

/// Kinds of texts that a hash, an escape or a parser could get wrong.
const TEXTS: &[fn(&mut Rng) -> String] = &[
    |rng| repeat(rng, 1..40, |rng| rng.alphanumeric()),
    |rng| rng.u64(..).to_string(),
    |rng| repeat(rng, 1..30, |rng| pick(rng, "aeé è üßøłžñçÅẞﬃ\u{301}\u{327}")),
    |rng| repeat(rng, 1..20, |rng| pick(rng, "Γειά 漢字かな ไทย עִברית\u{2028}\u{feff}")),
    |rng| repeat(rng, 1..20, |rng| pick(rng, "🙂👩\u{200d}🚀🏳️🌈𝔘𐐷\u{10ffff}x")),
    |rng| repeat(rng, 1..30, |rng| pick(rng, "\"\\/'{}[]:<>&%+#?=;.*_- ~^|`$!@")),
    |rng| repeat(rng, 1..20, |rng| char::from(rng.u8(1..0x20))) + "\u{7f}",
    |rng| repeat(rng, 1..20, |rng| pick(rng, "a, ,b")),
    longest,
];

impl Key {
    /// Keys with ids that differ from each other, and with routing values where `routing` says so.
    pub fn random(rng: &mut Rng, count: usize, mut routing: impl FnMut(&mut Rng) -> Option<String>) -> Vec<Self> {
        let mut ids = std::collections::HashSet::new();
        while ids.len() < count {
            ids.insert(text(rng));
        }
        let mut ids: Vec<String> = ids.into_iter().collect();
        ids.sort();
        rng.shuffle(&mut ids);
        ids.into_iter().map(|id| Self { id: Some(id), routing: routing(rng) }).collect()
    }
}

/// A text of any kind.
pub fn text(rng: &mut Rng) -> String {
    rng.choice(TEXTS).expect("there are kinds")(rng)
}

/// A text as JSON, each character as it is or escaped in one of the ways in which it can be.
pub fn quoted(rng: &mut Rng, text: &str) -> String {
    let mut json = String::from("\"");
    for character in text.chars() {
        let short = match character {
            '"' | '\\' | '/' => Some(character),
            '\n' => Some('n'),
            '\r' => Some('r'),
            '\t' => Some('t'),
            '\u{8}' => Some('b'),
            '\u{c}' => Some('f'),
            _ => None,
        };
        let may_stand = character >= ' ' && !matches!(character, '"' | '\\');
        match (rng.u8(..4), short) {
            (1.., _) if may_stand => json.push(character),
            (2.., Some(short)) => json.extend(['\\', short]),
            _ => character.encode_utf16(&mut [0; 2]).iter().for_each(|unit| json.push_str(&escape(rng, *unit))),
        }
    }
    json + "\""
}

fn escape(rng: &mut Rng, unit: u16) -> String {
    match rng.bool() {
        true => format!("\\u{unit:04x}"),
        false => format!("\\u{unit:04X}"),
    }
}

fn repeat(rng: &mut Rng, length: std::ops::Range<usize>, mut next: impl FnMut(&mut Rng) -> char) -> String {
    (0..rng.usize(length)).map(|_| next(rng)).collect()
}

fn pick(rng: &mut Rng, from: &str) -> char {
    rng.choice(from.chars().collect::<Vec<_>>()).expect("there are characters")
}

/// As many bytes as an id may have, in characters of all lengths.
fn longest(rng: &mut Rng) -> String {
    let mut text = repeat(rng, 60..90, |rng| pick(rng, "aé漢🙂"));
    while text.len() < LONGEST {
        text.push(rng.alphanumeric());
    }
    text
}
