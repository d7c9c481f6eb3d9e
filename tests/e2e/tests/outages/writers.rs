use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::time::{Duration, Instant};

use anyhow::Result;
use bulk_reshuffle_e2e::lines;
use bulk_reshuffle_e2e::load::Clients;
use bulk_reshuffle_stack::Client;

/// The number of writers of each Envoy, and how often each of them sends a request.
const WRITERS: usize = 8;
const PERIOD: Duration = Duration::from_millis(100);
const OPERATIONS: usize = 20;

/// A writer gives up later than Envoy.
const PATIENCE: Duration = Duration::from_secs(200);

/// A request that takes longer is slow.
const SLOW: Duration = Duration::from_secs(1);

/// Clients that write documents with ids of their own through several Envoys.
pub struct Writers {
    groups: Vec<(&'static str, Clients<Writer>)>,
    begun: Instant,
}

impl Writers {
    /// Starts the writers of each Envoy, given with its name, the URL and the index.
    pub fn start(envoys: impl Iterator<Item = (&'static str, String, &'static str)>) -> Self {
        let group = |(name, url, index): (_, String, _)| {
            let mut clients = Clients::default();
            for number in 0..WRITERS {
                clients.add(Writer::new(url.clone(), index, number), |writer: Writer, _| writer.write());
            }
            (name, clients)
        };
        Self { groups: envoys.map(group).collect(), begun: Instant::now() }
    }

    /// Counts the requests that are unanswered now, and later ones.
    pub fn begin(&mut self) {
        self.begun = Instant::now();
    }

    /// Stops all writers after their current requests. Returns what those of each Envoy have noticed.
    pub async fn end(self) -> Result<Vec<(&'static str, Noticed)>> {
        let mut all = Vec::new();
        for (name, clients) in self.groups {
            let requests = clients.end().await?.into_iter().flat_map(|writer| writer.requests);
            all.push((name, Noticed::of(requests.filter(|request| request.ended > self.begun))));
        }
        Ok(all)
    }
}

struct Writer {
    client: Client,
    url: String,
    index: &'static str,
    number: usize,
    requests: Vec<Request>,
}

struct Request {
    took: Duration,
    ended: Instant,
    /// What has failed, if anything has.
    failed: Option<String>,
}

impl Writer {
    fn new(url: String, index: &'static str, number: usize) -> Self {
        Self { client: Client::sequential().with_timeout(PATIENCE), url, index, number, requests: Vec::new() }
    }

    async fn write(mut self) -> Result<Self> {
        let (number, sent) = (self.number, self.requests.len());
        let line = |n: usize| lines::index(self.index, &format!("{number}-{sent}-{n}"), n as u64);
        let body: String = (0..OPERATIONS).map(line).collect();
        let begun = Instant::now();
        let failed = match self.client.post_ndjson(&self.url, body).await {
            Ok(answer) if answer.status == 200 => {
                let items = answer.json()?;
                // A batch that is sent again may replace what it has written before: such items have the status 200.
                let statuses = items["items"].as_array().into_iter().flatten().map(|item| &item["index"]["status"]);
                statuses
                    .filter(|status| **status != 201 && **status != 200)
                    .map(|status| format!("item {status}"))
                    .next()
            }
            Ok(answer) => Some(answer.status.as_u16().to_string()),
            Err(error) => Some(format!("{error:#}")),
        };
        let took = begun.elapsed();
        self.requests.push(Request { took, ended: begun + took, failed });
        tokio::time::sleep(PERIOD.saturating_sub(took)).await;
        Ok(self)
    }
}

/// What the writers of an Envoy have noticed of an outage.
#[derive(Debug, Default)]
pub struct Noticed {
    requests: usize,
    slow: usize,
    pub longest: Duration,
    /// The failed requests, each kind with its number.
    pub failed: BTreeMap<String, usize>,
}

impl Noticed {
    fn of(requests: impl Iterator<Item = Request>) -> Self {
        let mut noticed = Self::default();
        for request in requests {
            noticed.requests += 1;
            noticed.slow += usize::from(request.took > SLOW);
            noticed.longest = noticed.longest.max(request.took);
            if let Some(failed) = request.failed {
                *noticed.failed.entry(failed).or_default() += 1;
            }
        }
        noticed
    }
}

impl Display for Noticed {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { requests, slow, longest, failed } = self;
        write!(to, "{requests} requests, {slow} took over {SLOW:?}, longest {longest:.1?}, failed {failed:?}")
    }
}
