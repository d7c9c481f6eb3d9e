//! The size of requests, and how many are in flight or due in a second.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Error, Result, ensure};
use bulk_reshuffle_bench::tables::thousands;
use serde::{Serialize, Serializer};

/// The title of a column of workloads.
pub const TITLE: &str = "documents × clients, or × requests/s";

/// The maximum number of requests in flight at a fixed rate.
const CLIENTS_AT_RATE: usize = 256;

/// Clients that each have one request in flight at most.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Workload {
    /// The number of documents in a request.
    pub documents: usize,
    /// The number of clients, and so the maximum number of requests in flight.
    pub clients: usize,
    /// The number of requests that are due in each second; `None` if each client sends its next one after an answer.
    pub rate: Option<u32>,
}

impl Workload {
    /// Clients that send the next request after an answer.
    pub const fn of_clients(documents: usize, clients: usize) -> Self {
        Self { documents, clients, rate: None }
    }

    /// Requests at a fixed rate for each second.
    pub const fn at_rate(documents: usize, rate: u32) -> Self {
        Self { documents, clients: CLIENTS_AT_RATE, rate: Some(rate) }
    }
}

impl FromStr for Workload {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (documents, senders) = text.split_once(['x', '×']).context("not like 100x32 or 100x300/s")?;
        let documents = documents.trim().parse()?;
        let workload = match senders.trim().strip_suffix("/s") {
            Some(rate) => Self::at_rate(documents, rate.parse()?),
            None => Self::of_clients(documents, senders.trim().parse()?),
        };
        ensure!(documents > 0 && workload.clients > 0 && workload.rate != Some(0), "neither can be 0");
        Ok(workload)
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} × ", thousands(self.documents as f64))?;
        match self.rate {
            Some(rate) => write!(formatter, "{}/s", thousands(f64::from(rate))),
            None => write!(formatter, "{}", self.clients),
        }
    }
}

impl Serialize for Workload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.rate {
            Some(rate) => serializer.collect_str(&format_args!("{}x{rate}/s", self.documents)),
            None => serializer.collect_str(&format_args!("{}x{}", self.documents, self.clients)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_is_documents_by_clients_or_requests_per_second() {
        for (texts, expected, shown, written) in [
            (["100x32", "100 × 32"], Workload::of_clients(100, 32), "100 × 32", r#""100x32""#),
            (["10000x1", "10000 × 1"], Workload::of_clients(10_000, 1), "10,000 × 1", r#""10000x1""#),
            (["10x3000/s", "10 × 3000/s"], Workload::at_rate(10, 3_000), "10 × 3,000/s", r#""10x3000/s""#),
        ] {
            assert_eq!(texts.map(|text| text.parse::<Workload>().unwrap()), [expected; 2]);
            assert_eq!(expected.to_string(), shown);
            assert_eq!(serde_json::to_string(&expected).unwrap(), written);
        }
    }

    #[test]
    fn rejects_other_texts_as_workloads() {
        for text in ["", "100", "x", "100x", "0x1", "1x0", "1x-1", "1x2x3", "1x0/s", "1x/s", "1x2/m"] {
            assert!(text.parse::<Workload>().is_err(), "{text}");
        }
    }
}
