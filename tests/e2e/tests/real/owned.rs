use std::collections::BTreeSet;
use std::ops::Range;

use bulk_reshuffle_e2e::{Item, Recorded, lines};
use bulk_reshuffle_stack::Response;
use tokio::task::JoinSet;

/// New documents of one owner. Their ids are the owner and a number: `alice-7`.
#[derive(Debug, Clone)]
pub struct Owned {
    pub ids: Vec<String>,
    numbers: Range<usize>,
}

impl Owned {
    /// Creates documents with these numbers.
    pub fn new(owner: &str, numbers: Range<usize>) -> Self {
        Self { ids: numbers.clone().map(|n| format!("{owner}-{n}")).collect(), numbers }
    }

    /// Returns the body of a request for these documents in an index.
    pub fn body(&self, index: &str) -> String {
        let numbered = self.ids.iter().zip(self.numbers.clone());
        numbered.map(|(id, n)| lines::index(index, id, n as u64)).collect()
    }

    /// Checks that an answer says that each document is created.
    pub fn check_created(&self, answer: &Response) {
        let items = Item::read_all(answer).unwrap();
        let found: Vec<_> = items.iter().map(|item| (item.id.as_str(), item.status)).collect();
        assert_eq!(found, self.ids.iter().map(|id| (id.as_str(), 201)).collect::<Vec<_>>(), "{}", answer.text());
    }
}

/// Sends one request for each of these documents, all at the same time, and checks the answers.
pub async fn create_at_once<F>(requests: impl IntoIterator<Item = (Owned, F)>)
where
    F: Future<Output = Response> + Send + 'static,
{
    let exchanges = requests.into_iter().map(|(owned, answer)| async move { owned.check_created(&answer.await) });
    exchanges.collect::<JoinSet<()>>().join_all().await;
}

/// Returns the value of a header of a batch, and the owners of its documents.
pub fn owners(batch: &Recorded, header: &str) -> (String, BTreeSet<String>) {
    let operations = batch.operations().unwrap();
    let owner = |id: &str| id.split('-').next().unwrap().to_owned();
    let owners = operations.iter().map(|operation| owner(operation.id.as_deref().unwrap())).collect();
    (batch.header(header).unwrap_or_default().to_owned(), owners)
}
