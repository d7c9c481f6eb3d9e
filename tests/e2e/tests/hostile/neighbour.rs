use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bulk_reshuffle_e2e::load::{Latency, Pace, Probe};
use bulk_reshuffle_e2e::{Item, Scene, bulk_request};
use bulk_reshuffle_stack::Client;
use bytes::Bytes;

/// The value of `authorization` that identifies the neighbour's requests.
pub const AUTHORIZATION: &str = "ApiKey neighbour";

/// The timeout of a request, longer than the neighbour may have to wait.
const LIMIT: Duration = Duration::from_secs(10);

/// The pause between an answer and the next request.
const PAUSE: Duration = Duration::from_millis(20);

/// The number of requests that measure the latency without a hostile client.
const ALONE: usize = 10;

/// Another client, which repeatedly writes a document on each node, from its own thread.
pub struct Neighbour {
    /// The highest latency without a hostile client.
    pub alone: Duration,
    probe: Probe,
}

#[derive(Debug, Clone)]
struct Writer {
    client: Client,
    url: String,
    body: Bytes,
    ids: Vec<String>,
}

impl Neighbour {
    pub async fn start(scene: &Scene) -> Result<Self> {
        let ids = (0..3).map(|node| scene.cluster.book(node, 7)).collect::<Result<Vec<_>>>()?;
        let client = Client::new().with_timeout(LIMIT);
        let writer = Writer { client, url: scene.envoy.url("/_bulk"), body: scene.cluster.write_books(7).into(), ids };
        let mut alone = Duration::ZERO;
        for _ in 0..ALONE {
            let begun = Instant::now();
            writer.write().await?;
            alone = alone.max(begun.elapsed());
        }
        // A client is bound to its runtime.
        let writer = Writer { client: Client::new().with_timeout(LIMIT), ..writer };
        let probe = Probe::start(Pace::After(PAUSE), move || {
            let writer = writer.clone();
            async move { writer.write().await }
        });
        Ok(Self { alone, probe })
    }

    /// Returns how many requests were answered or timed out.
    pub fn answers(&self) -> usize {
        self.probe.answers()
    }

    /// Returns the number of operations in these requests and in those of the first measurement.
    pub fn operations(&self) -> usize {
        (ALONE + self.answers()) * 3
    }

    pub async fn end(self) -> Result<Latency> {
        self.probe.end().await
    }
}

impl Writer {
    async fn write(&self) -> Result<()> {
        let request = bulk_request(&self.url, &[("authorization", AUTHORIZATION)], self.body.clone())?;
        let items = Item::read_all(&self.client.send(request).await?)?;
        let found: Vec<_> = items.iter().map(|item| (item.id.as_str(), item.number(), item.status)).collect();
        let expected: Vec<_> = self.ids.iter().map(|id| (id.as_str(), Some(7), 201)).collect();
        ensure!(found == expected, "{found:?}");
        Ok(())
    }
}
