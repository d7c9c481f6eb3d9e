//! Requests through a proxy, and where their documents went.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use bulk_reshuffle_e2e::{Item, lines};
use bulk_reshuffle_stack::{Client, Response};
use bytes::Bytes;
use hyper::Request;
use hyper::header::{CONTENT_TYPE, HOST};
use tokio::task::JoinSet;

use crate::mesh::Mesh;

const CLIENTS: usize = 16;
const REQUESTS: usize = 20;
const DOCUMENTS: usize = 12;

/// What clients call the cluster.
pub const SERVICE: &str = "es-http.search.svc.cluster.local:9200";

impl Mesh<'_> {
    /// Sends many requests at once. Each document's own item must come back, and each pod must have got what belongs
    /// to its node, in fewer batches than there were shares.
    pub async fn check_split(&self, index: &str) -> Result<String> {
        const COUNTERS: [&str; 3] = ["batches", "batch_requests", "batch_operations"];
        let before = self.by_upstream(COUNTERS).await?;
        self.send(index).await?;
        let [batches, shares, operations] = growth(&before, &self.by_upstream(COUNTERS).await?);
        let found = self.site.documents_by_node(index).await?;
        ensure!(found.values().sum::<u64>() == (CLIENTS * REQUESTS * DOCUMENTS) as u64, "found {found:?}");
        let expected: Counts = found.iter().map(|(node, count)| (Self::upstream(node), *count)).collect();
        ensure!(operations == expected, "sent {operations:?}, found {found:?}");
        let (batches, shares) = (batches.values().sum::<u64>(), shares.values().sum::<u64>());
        ensure!(batches < shares, "{batches} batches for {shares} shares");
        let pods = found.values().map(u64::to_string).collect::<Vec<_>>().join(" + ");
        let requests = CLIENTS * REQUESTS;
        Ok(format!(
            "{requests} requests split by pod ({pods} documents), {shares} shares merged into {batches} batches"
        ))
    }

    /// Sends as many; all documents must be there, wherever.
    pub async fn check_sent(&self, index: &str) -> Result<()> {
        self.send(index).await?;
        let found = self.site.documents_by_node(index).await?;
        ensure!(found.values().sum::<u64>() == (CLIENTS * REQUESTS * DOCUMENTS) as u64, "found {found:?}");
        Ok(())
    }

    /// Sends as many, which must pass on whole.
    pub async fn check_pass(&self, index: &str) -> Result<()> {
        let before = self.counted("batches_total").await?;
        self.send(index).await?;
        let found = self.site.documents_by_node(index).await?;
        ensure!(found.values().sum::<u64>() == (CLIENTS * REQUESTS * DOCUMENTS) as u64, "found {found:?}");
        ensure!(self.counted("batches_total").await? == before, "they were split");
        Ok(())
    }

    /// Sends as many; all that belongs to this node must go by way of any of them. Returns how much that was.
    pub async fn check_diverted(&self, index: &str, node: &str) -> Result<u64> {
        let before = self.by_upstream(["batch_operations"]).await?;
        self.send(index).await?;
        let found = self.site.documents_by_node(index).await?;
        ensure!(found.values().sum::<u64>() == (CLIENTS * REQUESTS * DOCUMENTS) as u64, "found {found:?}");
        let [operations] = growth(&before, &self.by_upstream(["batch_operations"]).await?);
        ensure!(operations.get(&Self::upstream("any")) == found.get(node), "sent {operations:?}, found {found:?}");
        Ok(found[node])
    }

    /// Sends a bulk request, as a client does that calls the cluster by its name.
    pub async fn bulk(&self, client: &Client, body: impl Into<Bytes>) -> Result<Response> {
        client.send(bulk(&self.proxy.url("/_bulk"), body.into())?).await
    }

    /// Each client sends one request after the other, all clients at once; every document's own item must come back.
    async fn send(&self, index: &str) -> Result<()> {
        let mut clients = JoinSet::new();
        for client in 0..CLIENTS {
            let (connection, url, index) = (self.site.client.clone(), self.proxy.url("/_bulk"), index.to_owned());
            clients.spawn(async move {
                for request in 0..REQUESTS {
                    let ids: Vec<String> =
                        (0..DOCUMENTS).map(|number| format!("{client}-{request}-{number}")).collect();
                    let body: String = ids.iter().map(|id| lines::index(&index, id, request as u64)).collect();
                    let items = Item::read_all(&connection.send(bulk(&url, body.into())?).await?)?;
                    let answered: Vec<(&str, u64)> = items.iter().map(|item| (item.id.as_str(), item.status)).collect();
                    let expected: Vec<(&str, u64)> = ids.iter().map(|id| (id.as_str(), 201)).collect();
                    ensure!(answered == expected, "{answered:?} for {expected:?}");
                }
                anyhow::Ok(())
            });
        }
        while let Some(client) = clients.join_next().await {
            client.context("a client gave up")??;
        }
        Ok(())
    }

    async fn by_upstream<const N: usize>(&self, names: [&str; N]) -> Result<[Counts; N]> {
        let mut counts = [const { Counts::new() }; N];
        for (name, counts) in names.iter().zip(&mut counts) {
            *counts = self.counted_by(name, "upstream").await?;
        }
        Ok(counts)
    }
}

type Counts = BTreeMap<String, u64>;

fn bulk(url: &str, body: Bytes) -> Result<Request<Bytes>> {
    Ok(Request::post(url).header(HOST, SERVICE).header(CONTENT_TYPE, "application/x-ndjson").body(body)?)
}

fn growth<const N: usize>(before: &[Counts; N], after: &[Counts; N]) -> [Counts; N] {
    std::array::from_fn(|counter| {
        let (before, after) = (&before[counter], &after[counter]);
        let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
        let count = |counts: &Counts, name| counts.get(name).copied().unwrap_or_default();
        let grown = names.into_iter().map(|name| (name.clone(), count(after, name) - count(before, name)));
        grown.filter(|(_, count)| *count > 0).collect()
    })
}
