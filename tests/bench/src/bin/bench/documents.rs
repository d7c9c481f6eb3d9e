//! Documents like those of the k6 scripts `gateway` and `trips`. A seed generates them, so that every run writes the
//! same documents.

use std::fmt::Write as _;

use anyhow::Result;
use clap::ValueEnum;
use fastrand::Rng;
use serde::Serialize;
use serde_json::{Value, json};

/// The kind of documents.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A time, three hashes, a number, a letter and a fraction.
    #[default]
    Gateway,
    /// Taxi trips: two times and places, words, amounts of money and a remark.
    Trips,
}

impl Kind {
    /// Describes the size of documents.
    pub fn title(self) -> &'static str {
        match self {
            Self::Gateway => "about 290 bytes with their action lines (`gateway`)",
            Self::Trips => "about 650 bytes with their action lines (`trips`)",
        }
    }

    /// Returns the mapping, so that requests do not pay for detecting the fields' types.
    pub fn mapping(self) -> Value {
        let fields = match self {
            Self::Gateway => json!({
                "timestamp": {"type": "date", "format": "strict_date_optional_time"},
                "field1": {"type": "keyword"},
                "field2": {"type": "keyword"},
                "field3": {"type": "keyword"},
                "field4": {"type": "integer"},
                "field5": {"type": "keyword"},
                "field6": {"type": "float"},
            }),
            Self::Trips => json!({
                "pickup_time": {"type": "date"},
                "dropoff_time": {"type": "date"},
                "pickup_location": {"type": "geo_point"},
                "dropoff_location": {"type": "geo_point"},
                "passengers": {"type": "integer"},
                "vendor": {"type": "keyword"},
                "payment": {"type": "keyword"},
                "medallion": {"type": "keyword"},
                "driver": {"type": "keyword"},
                "pickup_zone": {"type": "keyword"},
                "dropoff_zone": {"type": "keyword"},
                "fare": {"type": "float"},
                "tip": {"type": "float"},
                "total": {"type": "float"},
                "distance": {"type": "float"},
                "remark": {"type": "keyword", "index": false, "doc_values": false},
            }),
        };
        json!({"properties": fields})
    }
}

/// The source of the documents' ids.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Ids {
    /// The client gives each document an id.
    #[default]
    Given,
    /// The filter or the cluster generates the ids.
    Missing,
    /// The client gives each document an id and an external version, as Kafka Connect does.
    Versioned,
}

/// The way in which documents are sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Api {
    /// By bulk requests.
    #[default]
    Bulk,
    /// Each in a request of its own, for a single document.
    Document,
}

/// A generator of documents with their action lines.
#[derive(Debug, Clone)]
pub struct Documents {
    kind: Kind,
    ids: Ids,
    random: Rng,
    made: u32,
}

impl Documents {
    /// Starts with the first document.
    pub fn new(kind: Kind, ids: Ids) -> Self {
        Self { kind, ids, random: Rng::with_seed(1), made: 0 }
    }

    /// Appends the next document, for the given index.
    pub fn write_next(&mut self, index: &str, body: &mut String) -> Result<()> {
        let number = self.made;
        self.made += 1;
        let (prefix, suffix) = (number / 9_999 + 1, number % 9_999 + 1);
        let id = format!(r#","_id":"{prefix:02}{suffix:05}""#);
        let parameters = match self.ids {
            Ids::Given => id,
            Ids::Missing => String::new(),
            Ids::Versioned => format!(r#"{id},"version":{number},"version_type":"external""#),
        };
        writeln!(body, r#"{{"index":{{"_index":"{index}"{parameters}}}}}"#)?;
        match self.kind {
            Kind::Gateway => write_record(&mut self.random, number, body),
            Kind::Trips => write_trip(&mut self.random, number, body),
        }
    }
}

fn write_record(random: &mut Rng, number: u32, body: &mut String) -> Result<()> {
    write!(body, r#"{{"timestamp": "{}.{:06}", "#, time(number), random.u32(..1_000_000))?;
    for field in 1..=3 {
        write!(body, r#""field{field}": "{:032x}", "#, random.u128(..))?;
    }
    let letter = random.choice(["A", "B", "C", "D"]).unwrap_or_default();
    let fraction = 0.1 + random.f64() * 99.9;
    writeln!(body, r#""field4": {}, "field5": "{letter}", "field6": {fraction}}}"#, random.u32(1..=1_000))?;
    Ok(())
}

fn write_trip(random: &mut Rng, number: u32, body: &mut String) -> Result<()> {
    let start = body.len();
    write!(body, r#"{{"pickup_time": "{}Z", "dropoff_time": "{}Z", "#, time(number), time(number + 900))?;
    for name in ["pickup", "dropoff"] {
        let (east, north) = (random.f64() * 0.2 - 74.05, random.f64() * 0.2 + 40.65);
        write!(body, r#""{name}_location": [{east:.6}, {north:.6}], "{name}_zone": "zone-{}", "#, random.u32(..265))?;
    }
    let vendor = random.choice(["CMT", "VTS", "DDS"]).unwrap_or_default();
    let payment = random.choice(["cash", "card", "none"]).unwrap_or_default();
    write!(body, r#""vendor": "{vendor}", "payment": "{payment}", "passengers": {}, "#, random.u32(1..=6))?;
    write!(body, r#""medallion": "{:032x}", "driver": "{:032x}", "#, random.u128(..), random.u128(..))?;
    let (fare, tip, distance) = (random.u32(300..6_300), random.u32(..1_500), random.u32(..3_000));
    for (name, hundredths) in [("fare", fare), ("tip", tip), ("total", fare + tip), ("distance", distance)] {
        write!(body, r#""{name}": {}.{:02}, "#, hundredths / 100, hundredths % 100)?;
    }
    body.push_str(r#""remark": ""#);
    while body.len() < start + TRIP_BYTES {
        write!(body, "{:08x}", random.u32(..))?;
    }
    body.push_str("\"}\n");
    Ok(())
}

/// The size of a trip before its end, in bytes.
const TRIP_BYTES: usize = 595;

/// Returns the time of a document of this number, one second after that of the one before.
fn time(number: u32) -> String {
    let (second, minute, hour) = (number % 60, number / 60 % 60, number / 3_600 % 24);
    format!("2026-05-13T{hour:02}:{minute:02}:{second:02}")
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashSet};

    use super::*;

    fn written(kind: Kind, count: usize) -> String {
        let mut documents = Documents::new(kind, Ids::Given);
        let mut body = String::new();
        (0..count).for_each(|_| documents.write_next("bulk-00001", &mut body).unwrap());
        body
    }

    #[test]
    fn documents_have_their_size_and_fit_their_mapping() {
        for (kind, bytes) in [(Kind::Gateway, 287..293), (Kind::Trips, 640..660)] {
            let body = written(kind, 1_000);
            assert!(bytes.contains(&(body.len() / 1_000)), "{kind:?}: {}", body.len());
            let fields = |document: &Value| document.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>();
            for document in body.lines().skip(1).step_by(2) {
                assert_eq!(fields(&serde_json::from_str(document).unwrap()), fields(&kind.mapping()["properties"]));
            }
        }
    }

    #[test]
    fn every_document_has_a_unique_id() {
        let ids: HashSet<String> = written(Kind::Gateway, 25_000)
            .lines()
            .step_by(2)
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["index"]["_id"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(ids.len(), 25_000);
    }

    #[test]
    fn ids_may_be_missing() {
        let mut body = String::new();
        Documents::new(Kind::Gateway, Ids::Missing).write_next("bulk-00001", &mut body).unwrap();
        assert_eq!(body.lines().next(), Some(r#"{"index":{"_index":"bulk-00001"}}"#));
    }

    #[test]
    fn documents_may_have_versions() {
        let mut body = String::new();
        Documents::new(Kind::Gateway, Ids::Versioned).write_next("b", &mut body).unwrap();
        let line = r#"{"index":{"_index":"b","_id":"0100001","version":0,"version_type":"external"}}"#;
        assert_eq!(body.lines().next(), Some(line));
    }

    #[test]
    fn documents_are_the_same_in_every_run() {
        for kind in [Kind::Gateway, Kind::Trips] {
            assert_eq!(written(kind, 10), written(kind, 10));
        }
    }
}
