use fastrand::Rng;

/// The id and the routing value of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    pub id: Option<String>,
    pub routing: Option<String>,
}

/// The longest id that a cluster accepts, in bytes.
const LONGEST: usize = 512;

/// Kinds of texts that hashing, escaping or parsing could get wrong.
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
    /// Returns keys with distinct ids and the routing values that `routing` returns.
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

/// Returns a text of a random kind.
pub fn text(rng: &mut Rng) -> String {
    rng.choice(TEXTS).expect("there are kinds")(rng)
}

/// Returns a text as JSON, with each character unescaped or in a random valid escape.
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
        let may_be_unescaped = character >= ' ' && !matches!(character, '"' | '\\');
        match (rng.u8(..4), short) {
            (1.., _) if may_be_unescaped => json.push(character),
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

/// Returns a text of the length of the longest id, in characters of all lengths.
fn longest(rng: &mut Rng) -> String {
    let mut text = repeat(rng, 60..90, |rng| pick(rng, "aé漢🙂"));
    while text.len() < LONGEST {
        text.push(rng.alphanumeric());
    }
    text
}
