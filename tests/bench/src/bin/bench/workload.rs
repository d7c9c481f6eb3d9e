//! The size of requests, and how many are in flight.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Error, Result, ensure};
use bulk_reshuffle_bench::tables::thousands;
use serde::{Serialize, Serializer};

/// Clients that each have one request in flight.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Workload {
    pub documents: usize,
    /// The number of clients, and so of requests in flight.
    pub clients: usize,
}

impl FromStr for Workload {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (documents, clients) = text.split_once(['x', '×']).context("not like 100x32")?;
        let workload = Self { documents: documents.trim().parse()?, clients: clients.trim().parse()? };
        ensure!(workload.documents > 0 && workload.clients > 0, "neither can be 0");
        Ok(workload)
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} × {}", thousands(self.documents as f64), self.clients)
    }
}

impl Serialize for Workload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{}x{}", self.documents, self.clients))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_is_documents_by_clients() {
        let expected = Workload { documents: 100, clients: 32 };
        assert_eq!("100x32".parse::<Workload>().unwrap(), expected);
        assert_eq!("100 × 32".parse::<Workload>().unwrap(), expected);
        assert_eq!(expected.to_string(), "100 × 32");
        assert_eq!(Workload { documents: 10_000, clients: 1 }.to_string(), "10,000 × 1");
    }

    #[test]
    fn rejects_other_texts_as_workloads() {
        for text in ["", "100", "x", "100x", "0x1", "1x0", "1x-1", "1x2x3"] {
            assert!(text.parse::<Workload>().is_err(), "{text}");
        }
    }
}
