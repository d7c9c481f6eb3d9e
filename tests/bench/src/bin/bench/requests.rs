//! The prepared requests of a workload.

use std::ops::Range;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::documents::Documents;
use crate::workload::Workload;

/// The documents per second that a measurement is prepared for: more than such machines write.
const DOCUMENTS_PER_SECOND: f64 = 150_000.0;
/// The requests per second that it is prepared for, of all clients and of one.
const REQUESTS_PER_SECOND: f64 = 60_000.0;
const REQUESTS_PER_CLIENT_SECOND: f64 = 10_000.0;

/// Requests with headers and bodies, generated before the clock starts. Every target gets the same bytes, except the
/// index's number.
#[derive(Debug)]
pub struct Requests {
    pub documents: usize,
    bytes: Vec<u8>,
    /// The range of each request in the bytes.
    places: Vec<Range<usize>>,
    /// The offset of the index's name in the bytes, once for each document.
    names: Vec<usize>,
}

impl Requests {
    /// Generates as many requests as one measurement may need.
    pub fn make(workload: Workload, source: Documents, duration: Duration) -> Result<Self> {
        let most = (DOCUMENTS_PER_SECOND / workload.documents as f64)
            .min(REQUESTS_PER_CLIENT_SECOND * workload.clients as f64)
            .min(REQUESTS_PER_SECOND);
        let per_second = workload.rate.map_or(most, f64::from);
        let count = (per_second * duration.as_secs_f64()).ceil() as usize;
        Self::with_count(workload.documents, source, count.max(workload.clients))
    }

    fn with_count(documents: usize, mut source: Documents, count: usize) -> Result<Self> {
        let mut made = Self { documents, bytes: Vec::new(), places: Vec::with_capacity(count), names: Vec::new() };
        let name = index_name(0);
        let mut body = String::new();
        for _ in 0..count {
            body.clear();
            (0..documents).try_for_each(|_| source.write_next(&name, &mut body))?;
            let start = made.bytes.len();
            made.bytes.extend_from_slice(head(body.len()).as_bytes());
            let offset = made.bytes.len();
            made.names.extend(memchr::memmem::find_iter(body.as_bytes(), &name).map(|place| offset + place));
            made.bytes.extend_from_slice(body.as_bytes());
            made.places.push(start..made.bytes.len());
        }
        Ok(made)
    }

    /// Sends all documents to the index of this number from now on.
    pub fn set_index(&mut self, number: usize) -> Result<()> {
        let name = index_name(number);
        ensure!(name.len() == index_name(0).len(), "the index's number {number} is too large");
        for place in &self.names {
            let known = self.bytes.get_mut(*place..place + name.len()).context("no index's name there")?;
            known.copy_from_slice(name.as_bytes());
        }
        Ok(())
    }

    /// Returns a request, head and body, or `None` after the last.
    pub fn get(&self, number: usize) -> Option<&[u8]> {
        self.bytes.get(self.places.get(number)?.clone())
    }
}

/// Returns the name of the index for a measurement. All names have the same length.
pub fn index_name(number: usize) -> String {
    format!("bulk-{number:05}")
}

fn head(content_length: usize) -> String {
    format!(
        "POST /_bulk HTTP/1.1\r\n\
         host: elasticsearch\r\n\
         user-agent: bulk-reshuffle-bench\r\n\
         accept: application/json\r\n\
         content-type: application/x-ndjson\r\n\
         content-length: {content_length}\r\n\r\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::{Ids, Kind};

    fn requests(documents: usize, count: usize) -> Requests {
        Requests::with_count(documents, Documents::new(Kind::Gateway, Ids::Given), count).unwrap()
    }

    #[test]
    fn every_document_goes_to_the_index_that_was_set_last() {
        let mut requests = requests(3, 2);
        requests.set_index(7).unwrap();
        requests.set_index(12_345).unwrap();
        for number in 0..2 {
            let text = std::str::from_utf8(requests.get(number).unwrap()).unwrap();
            assert_eq!(text.matches(r#""_index":"bulk-12345""#).count(), 3);
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            assert!(head.ends_with(&format!("content-length: {}", body.len())));
        }
        assert!(requests.get(2).is_none());
    }

    #[test]
    fn requests_never_share_a_document() {
        let requests = requests(1, 2);
        assert_ne!(requests.get(0), requests.get(1));
    }
}
