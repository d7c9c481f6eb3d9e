//! The documents of the `gateway` workload: a time, three hashes, a number, a letter and a fraction. A seed generates
//! them, so that every run writes the same documents.

use std::fmt::Write as _;

use anyhow::Result;
use clap::ValueEnum;
use fastrand::Rng;
use serde::Serialize;
use serde_json::{Value, json};

/// Returns the mapping published with the workload, so that requests do not pay for detecting the fields' types.
pub fn mapping() -> Value {
    json!({"properties": {
        "timestamp": {"type": "date", "format": "strict_date_optional_time"},
        "field1": {"type": "keyword"},
        "field2": {"type": "keyword"},
        "field3": {"type": "keyword"},
        "field4": {"type": "integer"},
        "field5": {"type": "keyword"},
        "field6": {"type": "float"},
    }})
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

/// A generator of documents with their action lines, about 290 bytes each.
#[derive(Debug)]
pub struct Documents {
    ids: Ids,
    random: Rng,
    made: u32,
}

impl Documents {
    pub fn new(ids: Ids) -> Self {
        Self { ids, random: Rng::with_seed(1), made: 0 }
    }

    /// Appends the next document, for the given index.
    pub fn write_next(&mut self, index: &str, body: &mut String) -> Result<()> {
        let number = self.made;
        self.made += 1;
        let random = &mut self.random;
        let (prefix, suffix) = (number / 9_999 + 1, number % 9_999 + 1);
        let id = format!(r#","_id":"{prefix:02}{suffix:05}""#);
        let parameters = match self.ids {
            Ids::Given => id,
            Ids::Missing => String::new(),
            Ids::Versioned => format!(r#"{id},"version":{number},"version_type":"external""#),
        };
        writeln!(body, r#"{{"index":{{"_index":"{index}"{parameters}}}}}"#)?;
        let (second, microsecond) = (number % 60, random.u32(..1_000_000));
        let (minute, hour) = (number / 60 % 60, number / 3_600 % 24);
        write!(body, r#"{{"timestamp": "2026-05-13T{hour:02}:{minute:02}:{second:02}.{microsecond:06}", "#)?;
        for field in 1..=3 {
            write!(body, r#""field{field}": "{:032x}", "#, random.u128(..))?;
        }
        let letter = random.choice(["A", "B", "C", "D"]).unwrap_or_default();
        let fraction = 0.1 + random.f64() * 99.9;
        writeln!(body, r#""field4": {}, "field5": "{letter}", "field6": {fraction}}}"#, random.u32(1..=1_000))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn written(count: usize) -> String {
        let mut documents = Documents::new(Ids::Given);
        let mut body = String::new();
        (0..count).for_each(|_| documents.write_next("bulk-00001", &mut body).unwrap());
        body
    }

    #[test]
    fn documents_have_about_290_bytes_and_fit_the_mapping() {
        let body = written(1_000);
        assert!((287_000..293_000).contains(&body.len()), "{}", body.len());
        let fields: Vec<String> =
            mapping()["properties"].as_object().unwrap().keys().map(|name| (*name).clone()).collect();
        for document in body.lines().skip(1).step_by(2) {
            let document: Value = serde_json::from_str(document).unwrap();
            let mut found: Vec<String> = document.as_object().unwrap().keys().cloned().collect();
            found.sort();
            let mut fields = fields.clone();
            fields.sort();
            assert_eq!(found, fields);
        }
    }

    #[test]
    fn every_document_has_a_unique_id() {
        let ids: HashSet<String> = written(25_000)
            .lines()
            .step_by(2)
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["index"]["_id"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(ids.len(), 25_000);
    }

    #[test]
    fn ids_may_be_missing() {
        let mut body = String::new();
        Documents::new(Ids::Missing).write_next("bulk-00001", &mut body).unwrap();
        assert_eq!(body.lines().next(), Some(r#"{"index":{"_index":"bulk-00001"}}"#));
    }

    #[test]
    fn documents_may_have_versions() {
        let mut body = String::new();
        Documents::new(Ids::Versioned).write_next("b", &mut body).unwrap();
        let line = r#"{"index":{"_index":"b","_id":"0100001","version":0,"version_type":"external"}}"#;
        assert_eq!(body.lines().next(), Some(line));
    }

    #[test]
    fn documents_are_the_same_in_every_run() {
        assert_eq!(written(10), written(10));
    }
}
