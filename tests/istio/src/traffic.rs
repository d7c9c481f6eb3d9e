use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use bulk_reshuffle_e2e::{Item, lines};
use bulk_reshuffle_stack::{Client, Response, wait};
use bytes::Bytes;
use hyper::Request;
use hyper::header::{CONTENT_TYPE, HOST};
use tokio::task::JoinSet;

use crate::LIMIT;
use crate::nodes::Nodes;
use crate::proxy::Proxy;

/// The header by which the filter names a node.
const NODE_HEADER: &str = "x-bulk-reshuffle-node";

/// Istio's name of the Envoy cluster with all nodes.
pub const COORDINATOR: &str = "outbound|9200||any.es.internal";

const CLIENTS: usize = 16;
const REQUESTS: usize = 20;
const DOCUMENTS: usize = 12;

/// A proxy with the filter in front of nodes: sends requests through it, and checks its counters and the nodes'
/// documents.
#[expect(async_fn_in_trait, reason = "callers await it on the same thread")]
pub trait Traffic {
    /// The host name that clients use for the cluster.
    const SERVICE: &str = "es-http.search.svc.cluster.local:9200";

    /// Enough connections that they rarely all belong to the same worker.
    const CONNECTIONS: u64 = 16;

    fn nodes(&self) -> &Nodes;

    fn proxy(&self) -> &Proxy;

    /// Returns the filter's name of a node's upstream; the default is that of a node in one Envoy cluster.
    fn upstream(&self, node: &str) -> String {
        node.to_owned()
    }

    fn url(&self, path: &str) -> String {
        self.proxy().url(path)
    }

    /// Returns the sum of all counters whose names contain a match of a regular expression.
    async fn sum(&self, regex: &str) -> Result<u64> {
        Ok(self.proxy().stats(regex).await?.values().sum())
    }

    /// Returns a counter of the filter, summed over all labels that are not part of the name.
    async fn counted(&self, name: &str) -> Result<u64> {
        self.sum(&format!("bulk_reshuffle_{name}")).await
    }

    /// Returns a counter of the filter by its upstream or reason.
    async fn counted_by(&self, name: &str, label: &str) -> Result<BTreeMap<String, u64>> {
        let prefix = format!("wasmcustom.bulk_reshuffle_{name}_total.{label}.");
        let stats = self.proxy().stats(&format!("bulk_reshuffle_{name}_total")).await?;
        let labelled = |(name, count): (String, u64)| Some((name.strip_prefix(&prefix)?.to_owned(), count));
        Ok(stats.into_iter().filter_map(labelled).collect())
    }

    /// Returns the number of requests that were split.
    async fn merged(&self) -> Result<u64> {
        self.counted("requests_total.outcome.merged").await
    }

    /// Returns how many configurations of the filter the proxy has accepted, and how many it has rejected.
    async fn deliveries(&self) -> Result<(u64, u64)> {
        let taken = self.sum("extension_config_discovery.*update_success").await?;
        Ok((taken, self.sum("extension_config_discovery.*update_rejected").await?))
    }

    /// Waits until the proxy has accepted a configuration since these counts.
    async fn wait_taken(&self, since: (u64, u64)) -> Result<()> {
        let taken = async || Ok((self.deliveries().await?.0 > since.0).then_some(()));
        self.wait_until("the proxy accepts the configuration", taken).await
    }

    /// Waits until the proxy has rejected this number of configurations.
    async fn wait_refused(&self, count: u64) -> Result<()> {
        let refused = async || Ok((self.deliveries().await?.1 >= count).then_some(()));
        self.wait_until("the proxy rejects the configuration", refused).await
    }

    /// Waits until the proxy's log has a line with this text, and returns the line.
    async fn wait_logged(&self, text: &str) -> Result<String> {
        let line = async || Ok(self.proxy().process.log().lines().find(|line| line.contains(text)).map(str::to_owned));
        self.wait_until(&format!("the log has `{text}`"), line).await
    }

    /// Waits until a probe returns a value. An error has an extract of the proxy's log.
    async fn wait_until<T, F>(&self, what: &str, probe: impl FnMut() -> F) -> Result<T>
    where
        F: Future<Output = Result<Option<T>>>,
    {
        wait::until(LIMIT, what, probe).await.with_context(|| self.proxy().process.log_extract())
    }

    /// Waits until every worker splits requests for all shards of an index.
    async fn wait_splitting(&self, index: &str) -> Result<()> {
        self.wait_until("every worker splits requests", async || {
            // Until the proxy has the filter, one request for each probe costs the nodes less.
            Ok((self.splits(index, 1).await? && self.splits(index, Self::CONNECTIONS).await?).then_some(()))
        })
        .await
    }

    /// Returns whether the filter splits requests for all shards of an index on this number of new connections, each of
    /// which belongs to one worker.
    async fn splits(&self, index: &str, connections: u64) -> Result<bool> {
        let before = self.merged().await?;
        for _ in 0..connections {
            self.bulk(&Client::new(), wide(index)).await?;
        }
        Ok(self.merged().await? == before + connections)
    }

    /// Sends many concurrent requests. Every document's own item must come back, and each pod must get exactly its
    /// node's documents, in fewer batches than shares.
    async fn check_split(&self, index: &str) -> Result<String> {
        let Sent { batches, shares, operations, passed } = self.send_counted(index).await?;
        let found = self.found(index).await?;
        let expected: Counts = found.iter().map(|(node, count)| (self.upstream(node), *count)).collect();
        ensure!(operations == expected, "sent {operations:?}, found {found:?}, passed through {passed:?}");
        let (batches, shares) = (batches.values().sum::<u64>(), shares.values().sum::<u64>());
        ensure!(batches < shares, "{batches} batches for {shares} shares");
        let pods = found.values().map(u64::to_string).collect::<Vec<_>>().join(" + ");
        let requests = CLIENTS * REQUESTS;
        Ok(format!(
            "{requests} requests split by pod ({pods} documents), {shares} shares merged into {batches} batches"
        ))
    }

    /// Sends the same requests; all documents must be indexed, on any node.
    async fn check_sent(&self, index: &str) -> Result<()> {
        self.send(index).await?;
        self.found(index).await.map(|_| ())
    }

    /// Sends the same requests, which must all pass through unsplit, to all pods.
    async fn check_pass(&self, index: &str) -> Result<()> {
        let before = self.counted("batches_total").await?;
        self.check_sent(index).await?;
        ensure!(self.counted("batches_total").await? == before, "the requests were split, but must pass through");
        let clusters = self.proxy().admin_text("/clusters").await?;
        let hosts = clusters.lines().filter_map(|line| line.strip_prefix(COORDINATOR)?.split_once("::rq_total::"));
        let idle: Vec<&str> = hosts.filter(|(_, requests)| *requests == "0").map(|(host, _)| host).collect();
        ensure!(idle.is_empty(), "clients choose the pod: {idle:?} got no requests");
        Ok(())
    }

    /// Sends the same requests; all operations for this node must go to the coordinator, except those of requests that
    /// pass through, which go there too, and of batches that still named the node. Returns their number, and the requests
    /// that passed through, by reason.
    async fn check_diverted(&self, index: &str, node: &str) -> Result<(u64, Counts)> {
        let Sent { operations, passed, .. } = self.send_counted(index).await?;
        let found = self.found(index).await?;
        let expected = found.get(node).copied().context("the node has no documents")?;
        let diverted = operations.get(COORDINATOR).copied().unwrap_or_default();
        let named = operations.get(&self.upstream(node)).copied().unwrap_or_default();
        let most = named + passed.values().sum::<u64>() * DOCUMENTS as u64;
        ensure!(
            diverted > 0 && (expected.saturating_sub(most)..=expected).contains(&diverted),
            "sent {operations:?}, found {found:?}, passed through {passed:?}"
        );
        Ok((diverted, passed))
    }

    /// Waits until a policy denies bulk requests to the path of an index. Then the policy must deny them whether they
    /// would be split or pass through, none of their documents may reach the nodes, and requests to `/_bulk` are still
    /// split.
    async fn check_denied(&self, index: &str) -> Result<String> {
        let denied = format!("/{index}/_bulk");
        // Each worker, and each node behind it, may get the policy at a different time.
        let deletes: String = (0..DOCUMENTS).map(|number| lines::delete(index, &format!("denied-{number}"))).collect();
        let denies = async || Ok(self.find_allowed(&denied, &deletes).await?.is_none().then_some(()));
        self.wait_until("every proxy denies the path", denies).await?;
        let documents: String = (0..DOCUMENTS).map(|n| lines::index(index, &format!("denied-{n}"), 1)).collect();
        for path in [denied.clone(), format!("{denied}?pipeline=none")] {
            if let Some(allowed) = self.find_allowed(&path, &documents).await? {
                bail!("{path} is not always denied: {} {}", allowed.status, allowed.text());
            }
        }
        let found = self.nodes().documents(index).await?;
        ensure!(
            !found.iter().any(|(id, _)| id.starts_with("denied-")),
            "documents of denied requests were indexed: {found:?}"
        );
        self.wait_splitting(index).await?;
        Ok(format!("403 for {denied}, whether split or passed through; requests to /_bulk are split"))
    }

    /// Sends a bulk request on many connections and returns the first answer that does not deny it.
    async fn find_allowed(&self, path: &str, body: &str) -> Result<Option<Response>> {
        for _ in 0..Self::CONNECTIONS {
            // A connection belongs to one worker.
            let response = self.bulk_to(&Client::new(), path, body.to_owned()).await?;
            if response.status != 403 {
                return Ok(Some(response));
            }
        }
        Ok(None)
    }

    /// Returns the client with this number.
    fn client(&self, _: usize) -> Client {
        self.nodes().client.clone()
    }

    /// Sends a bulk request with the cluster's host name.
    async fn bulk(&self, client: &Client, body: impl Into<Bytes>) -> Result<Response> {
        self.bulk_to(client, "/_bulk", body).await
    }

    async fn bulk_to(&self, client: &Client, path: &str, body: impl Into<Bytes>) -> Result<Response> {
        client.send(request(&self.url(path), Self::SERVICE, &self.forged()?, body.into())?).await
    }

    /// Returns the address of a node. All requests name it in the header by which the filter names nodes, so they would
    /// all go there if a client could choose.
    fn forged(&self) -> Result<String> {
        Ok(self.nodes().cluster.http_addr(0)?.to_string())
    }

    /// Sends requests from concurrent clients, each one request after the other. Every document's own item must come
    /// back.
    async fn send(&self, index: &str) -> Result<()> {
        let (mut clients, host) = (JoinSet::new(), Self::SERVICE);
        for client in 0..CLIENTS {
            let (connection, url, index) = (self.client(client), self.url("/_bulk"), index.to_owned());
            let forged = self.forged()?;
            clients.spawn(async move {
                for round in 0..REQUESTS {
                    let ids: Vec<String> = (0..DOCUMENTS).map(|number| format!("{client}-{round}-{number}")).collect();
                    let body: String = ids.iter().map(|id| lines::index(&index, id, round as u64)).collect();
                    let items = Item::read_all(&connection.send(request(&url, host, &forged, body.into())?).await?)?;
                    let answered: Vec<(&str, u64)> = items.iter().map(|item| (item.id.as_str(), item.status)).collect();
                    let expected: Vec<(&str, u64)> = ids.iter().map(|id| (id.as_str(), 201)).collect();
                    ensure!(answered == expected, "{answered:?} for {expected:?}");
                }
                anyhow::Ok(())
            });
        }
        while let Some(client) = clients.join_next().await {
            client.context("a client panicked")??;
        }
        Ok(())
    }

    /// Returns the number of an index's documents on each node. Together they must be all documents that
    /// [`send`](Self::send) sends.
    async fn found(&self, index: &str) -> Result<Counts> {
        let found = self.nodes().documents_by_node(index).await?;
        ensure!(found.values().sum::<u64>() == (CLIENTS * REQUESTS * DOCUMENTS) as u64, "found {found:?}");
        Ok(found)
    }

    /// [Sends](Self::send) requests, and returns what the filter counted meanwhile.
    async fn send_counted(&self, index: &str) -> Result<Sent> {
        let before = self.sent().await?;
        self.send(index).await?;
        let after = self.sent().await?;
        Ok(Sent {
            batches: growth(&before.batches, &after.batches),
            shares: growth(&before.shares, &after.shares),
            operations: growth(&before.operations, &after.operations),
            passed: growth(&before.passed, &after.passed),
        })
    }

    /// Returns what the filter has counted so far.
    async fn sent(&self) -> Result<Sent> {
        Ok(Sent {
            batches: self.counted_by("batches", "upstream").await?,
            shares: self.counted_by("batch_requests", "upstream").await?,
            operations: self.counted_by("batch_operations", "upstream").await?,
            passed: self.counted_by("requests", "outcome.passed_through.reason").await?,
        })
    }
}

/// What the filter sends to each upstream, and the requests that pass through, by reason.
#[derive(Debug)]
pub struct Sent {
    batches: Counts,
    shares: Counts,
    operations: Counts,
    passed: Counts,
}

/// Numbers by name, upstream or node.
pub type Counts = BTreeMap<String, u64>;

/// Returns a request with operations for each of an index's few shards, all deletes of documents that do not exist.
pub fn wide(index: &str) -> String {
    (0..60).map(|number| lines::delete(index, &number.to_string())).collect()
}

fn request(url: &str, host: &str, forged: &str, body: Bytes) -> Result<Request<Bytes>> {
    let request = Request::post(url).header(HOST, host).header(CONTENT_TYPE, "application/x-ndjson");
    Ok(request.header(NODE_HEADER, forged).body(body)?)
}

fn growth(before: &Counts, after: &Counts) -> Counts {
    let grown = after.iter().map(|(name, count)| (name.clone(), count - before.get(name).copied().unwrap_or_default()));
    grown.filter(|(_, count)| *count > 0).collect()
}
