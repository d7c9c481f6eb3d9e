//! The prepared requests of a workload.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::documents::{Api, Documents};
use crate::workload::Workload;

/// The documents per second that a measurement is prepared for: more than such machines write.
const DOCUMENTS_PER_SECOND: f64 = 150_000.0;
/// A search for ten documents, and for a mean over all that match.
const SEARCH: &str = r#"{"query": {"term": {"field5": "A"}}, "aggs": {"mean": {"avg": {"field": "field6"}}}}"#;
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
    /// Generates as many requests as one measurement may need, of this many callers in turn.
    pub fn make(workload: Workload, source: Documents, way: (Api, NonZeroUsize), duration: Duration) -> Result<Self> {
        let most = (DOCUMENTS_PER_SECOND / workload.documents as f64)
            .min(REQUESTS_PER_CLIENT_SECOND * workload.clients as f64)
            .min(REQUESTS_PER_SECOND);
        let per_second = workload.rate.map_or(most, f64::from);
        let count = (per_second * duration.as_secs_f64()).ceil() as usize;
        Self::with_count(workload.documents, source, way, count.max(workload.clients))
    }

    fn with_count(
        documents: usize,
        mut source: Documents,
        (api, callers): (Api, NonZeroUsize),
        count: usize,
    ) -> Result<Self> {
        ensure!(documents == 1 || api == Api::Bulk, "a request for a single document has one document");
        let mut made = Self { documents, bytes: Vec::new(), places: Vec::with_capacity(count), names: Vec::new() };
        let name = index_name(0);
        let mut body = String::new();
        for number in 0..count {
            body.clear();
            (0..documents).try_for_each(|_| source.write_next(&name, &mut body))?;
            let caller = (callers > NonZeroUsize::MIN).then_some(number % callers);
            match api {
                Api::Bulk => made.add("/_bulk", caller, &body),
                Api::Document => {
                    let (path, document) = alone(&body)?;
                    made.add(&path, caller, document);
                }
            }
        }
        Ok(made)
    }

    /// Generates searches at this rate for each second.
    pub fn searches(rate: u32, duration: Duration) -> Self {
        let count = (f64::from(rate) * duration.as_secs_f64()).ceil() as usize;
        let mut made = Self { documents: 1, bytes: Vec::new(), places: Vec::with_capacity(count), names: Vec::new() };
        (0..count).for_each(|_| made.add(&format!("/{}/_search", index_name(0)), None, SEARCH));
        made
    }

    fn add(&mut self, path: &str, caller: Option<usize>, body: &str) {
        let start = self.bytes.len();
        let request = format!("{}{body}", head(path, caller, body.len()));
        let name = index_name(0);
        self.names.extend(memchr::memmem::find_iter(request.as_bytes(), &name).map(|place| start + place));
        self.bytes.extend_from_slice(request.as_bytes());
        self.places.push(start..self.bytes.len());
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

/// Returns the path of the request for a single document that stands for an operation, and its body.
fn alone(operation: &str) -> Result<(String, &str)> {
    let (line, document) = operation.trim_end().split_once('\n').context("no document")?;
    let line: Value = serde_json::from_str(line)?;
    let text = |name: &str| line["index"][name].as_str();
    let index = text("_index").context("no index")?;
    let path = match (text("_id"), line["index"]["version"].as_u64()) {
        (Some(id), Some(version)) => format!("/{index}/_doc/{id}?version={version}&version_type=external"),
        (Some(id), None) => format!("/{index}/_doc/{id}"),
        (None, _) => format!("/{index}/_doc"),
    };
    Ok((path, document))
}

/// Returns the name of the index for a measurement. All names have the same length.
pub fn index_name(number: usize) -> String {
    format!("bulk-{number:05}")
}

/// Returns the head of a request. Callers differ in a header that could change the answer.
fn head(path: &str, caller: Option<usize>, content_length: usize) -> String {
    let caller = caller.map_or_else(String::new, |caller| format!("x-opaque-id: {caller}\r\n"));
    let content_type = if path == "/_bulk" { "application/x-ndjson" } else { "application/json" };
    format!(
        "POST {path} HTTP/1.1\r\n\
         host: elasticsearch\r\n\
         user-agent: bulk-reshuffle-bench\r\n\
         accept: application/json\r\n\
         {caller}\
         content-type: {content_type}\r\n\
         content-length: {content_length}\r\n\r\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::{Ids, Kind};

    fn requests(documents: usize, count: usize) -> Requests {
        let callers = NonZeroUsize::new(2).unwrap();
        Requests::with_count(documents, Documents::new(Kind::Gateway, Ids::Given), (Api::Bulk, callers), count).unwrap()
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
    fn searches_are_for_the_index_that_was_set_last() {
        let mut searches = Requests::searches(3, Duration::from_secs(1));
        searches.set_index(7).unwrap();
        for number in 0..3 {
            let text = std::str::from_utf8(searches.get(number).unwrap()).unwrap();
            assert!(text.starts_with("POST /bulk-00007/_search HTTP/1.1\r\n"), "{text}");
            assert!(text.ends_with(&format!("content-length: {}\r\n\r\n{SEARCH}", SEARCH.len())), "{text}");
        }
        assert!(searches.get(3).is_none());
    }

    #[test]
    fn callers_send_in_turn() {
        let requests = requests(1, 3);
        let heads = [0, 1, 2].map(|number| String::from_utf8_lossy(requests.get(number).unwrap()).into_owned());
        let found = heads.map(|head| head.split_once("x-opaque-id: ").unwrap().1.lines().next().unwrap().to_owned());
        assert_eq!(found, ["0", "1", "0"]);
    }

    #[test]
    fn a_document_may_have_a_request_of_its_own() {
        let request = |ids, number| {
            let way = (Api::Document, NonZeroUsize::MIN);
            let mut requests = Requests::with_count(1, Documents::new(Kind::Gateway, ids), way, 2).unwrap();
            requests.set_index(7).unwrap();
            String::from_utf8_lossy(requests.get(number).unwrap()).into_owned()
        };
        for (ids, path) in [
            (Ids::Given, "/bulk-00007/_doc/0100002"),
            (Ids::Missing, "/bulk-00007/_doc"),
            (Ids::Versioned, "/bulk-00007/_doc/0100002?version=1&version_type=external"),
        ] {
            let text = request(ids, 1);
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            assert!(head.starts_with(&format!("POST {path} HTTP/1.1\r\n")), "{head}");
            assert!(head.contains("content-type: application/json\r\n") && body.ends_with('}'), "{text}");
            assert!(serde_json::from_str::<Value>(body).unwrap()["field4"].is_u64());
        }
    }

    #[test]
    fn requests_never_share_a_document() {
        let requests = requests(1, 2);
        assert_ne!(requests.get(0), requests.get(1));
    }
}
