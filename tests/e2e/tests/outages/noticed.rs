use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::time::{Duration, Instant};

/// A request that takes longer is slow.
const SLOW: Duration = Duration::from_secs(1);

/// A writer's request.
#[derive(Debug)]
pub struct Request {
    pub took: Duration,
    pub ended: Instant,
    pub failed: Option<Failure>,
}

/// The operations of a request that failed.
#[derive(Debug)]
pub struct Failure {
    /// What the writer was told first: `item 503`, `status 503` or `connection lost`.
    pub kind: String,
    pub operations: usize,
}

/// What some writers have noticed.
#[derive(Debug, Default)]
pub struct Noticed {
    requests: usize,
    slow: usize,
    pub longest: Duration,
    /// The failed requests and operations by kind.
    failed: BTreeMap<String, (usize, usize)>,
}

impl Noticed {
    pub fn of(requests: impl Iterator<Item = Request>) -> Self {
        let mut noticed = Self::default();
        for request in requests {
            noticed.requests += 1;
            noticed.slow += usize::from(request.took > SLOW);
            noticed.longest = noticed.longest.max(request.took);
            if let Some(Failure { kind, operations }) = request.failed {
                let failed = noticed.failed.entry(kind).or_default();
                *failed = (failed.0 + 1, failed.1 + operations);
            }
        }
        noticed
    }

    /// Returns the number of requests that failed in another way than these.
    pub fn failed_except(&self, kinds: &[&str]) -> usize {
        let others = self.failed.iter().filter(|(kind, _)| !kinds.contains(&kind.as_str()));
        others.map(|(_, (requests, _))| requests).sum()
    }

    /// Returns the number of failed requests.
    pub fn failed(&self) -> usize {
        self.failed_except(&[])
    }
}

impl Display for Noticed {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { requests, slow, longest, .. } = self;
        write!(to, "{requests} requests, {slow} took over {SLOW:?}, longest {longest:.1?}, failed {}", self.failed())?;
        for (kind, (requests, operations)) in &self.failed {
            write!(to, "; {requests} by {kind}, with {operations} operations")?;
        }
        Ok(())
    }
}
