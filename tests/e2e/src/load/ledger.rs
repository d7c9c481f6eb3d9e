use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bulk_reshuffle_stack::{Client, wait};
use hyper::StatusCode;
use serde_json::{Value, json};

/// The limit for reading a page of documents.
const LIMIT: Duration = Duration::from_secs(60);

/// The documents that may be in the cluster now, according to the answers that the clients received.
#[derive(Debug, Default)]
pub struct Ledger {
    /// The numbers that the document with each id may have; `None` if the document may be missing. There are several
    /// if the outcome of an operation is unknown.
    documents: HashMap<String, Vec<Option<u64>>>,
    /// The numbers of documents sent without an id for which the outcome is unknown.
    anonymous: HashSet<u64>,
}

impl Ledger {
    /// Records an acknowledged operation on a document.
    pub fn is(&mut self, id: &str, number: Option<u64>) {
        self.documents.insert(id.to_owned(), vec![number]);
    }

    /// Records an operation of unknown outcome, which may still be carried out later.
    pub fn may_be(&mut self, id: Option<&str>, number: Option<u64>) {
        match (id, number) {
            (Some(id), number) => self.documents.entry(id.to_owned()).or_insert_with(|| vec![None]).push(number),
            (None, Some(number)) => drop(self.anonymous.insert(number)),
            (None, None) => {}
        }
    }

    /// Adds the ledger of another client; no two clients share an id.
    pub fn add(&mut self, other: Self) {
        self.documents.extend(other.documents);
        self.anonymous.extend(other.anonymous);
    }

    /// Compares the ledger with all documents of the cluster. Returns the number of documents with a known outcome.
    pub fn verify(&self, found: &[(String, u64)]) -> Result<usize> {
        let by_id: BTreeMap<&str, u64> = found.iter().map(|(id, number)| (id.as_str(), *number)).collect();
        ensure!(by_id.len() == found.len(), "an id occurs twice");
        for (id, may_be) in &self.documents {
            let is = by_id.get(id.as_str()).copied();
            ensure!(may_be.contains(&is), "{id} is {is:?}, but clients were told {may_be:?}");
        }
        let mut anonymous = HashSet::new();
        for (id, number) in found.iter().filter(|(id, _)| !self.documents.contains_key(id)) {
            let is_explained = self.anonymous.contains(number) && anonymous.insert(number);
            ensure!(is_explained, "{id} with {number} was carried out twice, or without any client being told");
        }
        Ok(self.documents.values().filter(|may_be| may_be.len() == 1).count())
    }
}

/// Returns the ids and numbers of all documents of an index, read from the node at this URL.
pub async fn documents(client: &Client, node: &str, index: &str) -> Result<Vec<(String, u64)>> {
    let post = async |path: &str, body: Value| -> Result<Value> {
        // A node whose memory is full refuses to read until it has collected its garbage.
        let answer = wait::until(LIMIT, path, async || {
            let answer = client.post_json(&format!("{node}{path}"), &body).await?;
            Ok((answer.status != StatusCode::TOO_MANY_REQUESTS).then_some(answer))
        });
        answer.await?.ok().with_context(|| path.to_owned())?.json()
    };
    post(&format!("/{index}/_refresh"), json!({})).await?;
    let all = json!({"size": 5000, "sort": ["_doc"], "_source": ["n"]});
    let mut page = post(&format!("/{index}/_search?scroll=1m"), all).await?;
    let mut documents = Vec::new();
    loop {
        let hits = page.pointer("/hits/hits").and_then(Value::as_array).context("no hits")?;
        if hits.is_empty() {
            return Ok(documents);
        }
        for hit in hits {
            let id = hit.get("_id").and_then(Value::as_str).context("no id")?.to_owned();
            documents.push((
                id,
                hit.pointer("/_source/n").and_then(Value::as_u64).with_context(|| format!("no number in {hit}"))?,
            ));
        }
        let next = json!({"scroll": "1m", "scroll_id": page.get("_scroll_id")});
        page = post("/_search/scroll", next).await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ledger_detects_lost_denied_and_duplicated_operations() {
        let mut told = Ledger::default();
        told.is("written", Some(1));
        told.is("removed", None);
        told.is("refused", None);
        told.is("old", Some(2));
        told.may_be(Some("old"), Some(3));
        told.may_be(None, Some(4));
        let verify = |found: &[(&str, u64)]| {
            let found: Vec<_> = found.iter().map(|(id, number)| ((*id).to_owned(), *number)).collect();
            told.verify(&found).ok()
        };
        assert_eq!(verify(&[("written", 1), ("old", 2)]), Some(3));
        assert_eq!(verify(&[("written", 1), ("old", 3), ("generated", 4)]), Some(3));
        assert_eq!(verify(&[("old", 2)]), None, "lost");
        assert_eq!(verify(&[("written", 0), ("old", 2)]), None, "lost an update");
        assert_eq!(verify(&[("written", 1)]), None, "lost, though only the last operation's outcome is unknown");
        assert_eq!(verify(&[("written", 1), ("old", 2), ("removed", 7)]), None, "not removed");
        assert_eq!(verify(&[("written", 1), ("old", 2), ("refused", 8)]), None, "carried out, though refused");
        assert_eq!(verify(&[("written", 1), ("old", 2), ("a", 4), ("b", 4)]), None, "carried out twice");
        assert_eq!(verify(&[("written", 1), ("old", 2), ("a", 9)]), None, "carried out, though no client was told");
    }
}
