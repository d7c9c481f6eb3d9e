use std::collections::{BTreeMap, BTreeSet};

use bulk_reshuffle::engine::CallId;

use crate::client::Client;
use crate::cluster::{Document, Execution};
use crate::fate::Ended;
use crate::lanes::{CallerNumber, Class, Destination, Lanes};
use crate::operation::{Marker, Operation};
use crate::scenario::Scenario;
use crate::violation::{Promise, Violation};

/// What was seen of each request, operation and call, from outside the engine; checks each new event against it.
#[derive(Debug)]
pub struct Ledger {
    /// By their number.
    pub requests: Vec<Request>,
    /// By their marker.
    pub operations: Vec<Sent>,
    /// Calls with batches.
    pub calls: BTreeMap<CallKey, Batch>,
    /// One for each engine.
    pub lanes: Vec<Lanes>,
    /// Upstreams that each engine was told not to exist.
    pub missing: BTreeSet<(usize, String)>,
    /// Whether wake-ups and ticks come in time.
    pub punctual: bool,
    /// Whether engines may be switched, or told that nodes have gone.
    pub disturbed: bool,
    /// Whether some upstream may be none of the cluster's any more, so that what waited for it goes elsewhere.
    pub redirects: bool,
    /// The ids that the filter made, each with the operation that got it.
    pub made_ids: BTreeMap<String, Marker>,
    callers: Vec<Vec<(String, String)>>,
}

/// A call of one of the engines.
pub type CallKey = (usize, CallId);

/// A request.
#[derive(Debug)]
pub struct Request {
    /// As its client sends it.
    pub client: Client,
    /// The engine that has it.
    pub engine: usize,
    /// Whose it is.
    pub caller: CallerNumber,
    /// How far it is.
    pub stage: Stage,
    /// How much of its body was handed in.
    pub fed: usize,
    /// Whether its headers went on at once, without its body.
    pub headers_gone: bool,
    /// When its headers were let go, so that its body has to follow them.
    pub let_go: Option<u64>,
    /// When its body had ended.
    pub complete: Option<u64>,
    /// Where shares of it were sent; without a shard where nobody here knows for which it was.
    pub shares: BTreeSet<Destination>,
}

/// How far a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Its client has not come yet.
    Future,
    /// Being read, held or on its way.
    Here,
    /// Passed through.
    Passed,
    /// Answered.
    Answered,
    /// Its client left first.
    Gone,
}

/// An operation.
#[derive(Debug)]
pub struct Sent {
    /// As its client sends it.
    pub operation: Operation,
    /// Whose it is.
    pub request: usize,
    /// Whether the filter added something to it.
    pub extended: bool,
    /// The calls that it travelled in.
    pub calls: Vec<CallKey>,
    /// What nodes did with it.
    pub executions: Vec<Execution>,
}

/// A call with a batch.
#[derive(Debug)]
pub struct Batch {
    /// Where to.
    pub upstream: String,
    /// The same with the shard, if it is sent for the first time and nobody can be wrong about that.
    pub destination: Option<Destination>,
    /// On whose behalf.
    pub caller: CallerNumber,
    /// Whose slots it took.
    pub class: Class,
    /// What was sent.
    pub markers: Vec<Marker>,
    /// Whether some of it was sent before.
    pub again: bool,
    /// What became of it.
    pub ended: Option<Ended>,
}

impl Ledger {
    /// Nothing has happened yet.
    pub fn new(clients: Vec<Client>, operations: Vec<Operation>, scenario: &Scenario) -> Self {
        let mut ledger = Self {
            requests: Vec::new(),
            operations: operations.into_iter().map(Sent::new).collect(),
            calls: BTreeMap::new(),
            lanes: scenario.settings.iter().cloned().map(Lanes::new).collect(),
            missing: BTreeSet::new(),
            punctual: scenario.punctual,
            disturbed: scenario.disturbances > 0,
            redirects: scenario.disturbances > 0,
            made_ids: BTreeMap::new(),
            callers: Vec::new(),
        };
        for client in clients {
            ledger.add(client);
        }
        ledger
    }

    fn add(&mut self, client: Client) {
        let request = self.requests.len();
        for sent in self.operations.get_mut(client.operations.clone()).into_iter().flatten() {
            sent.request = request;
        }
        let caller = self.callers.iter().position(|key| *key == client.key).unwrap_or_else(|| {
            self.callers.push(client.key.clone());
            self.callers.len().saturating_sub(1)
        });
        self.requests.push(Request {
            client,
            engine: 0,
            caller,
            stage: Stage::Future,
            fed: 0,
            headers_gone: false,
            let_go: None,
            complete: None,
            shares: BTreeSet::new(),
        });
    }

    /// A request that is known.
    pub fn request(&mut self, number: usize) -> Result<&mut Request, Violation> {
        self.requests
            .get_mut(number)
            .ok_or_else(|| Violation::of(Promise::AnsweredOnce, format!("there is no request {number}")))
    }

    /// A request passes through.
    pub fn passed(&mut self, number: usize, handled: usize, body: &[u8]) -> Result<(), Violation> {
        let request = self.request(number)?;
        let check = |holds, promise, what: &str| {
            Violation::unless(holds, promise, || format!("request {number} passed through {what}"))
        };
        check(number == handled, Promise::PassedWhole, "in another's callback")?;
        check(request.stage == Stage::Here, Promise::AnsweredOnce, &format!("although it is {:?}", request.stage))?;
        check(request.shares.is_empty(), Promise::PassedWhole, "after some of it was sent")?;
        let came = request.client.body.get(..request.fed).unwrap_or_default();
        check(body == came, Promise::PassedWhole, "with another body")?;
        request.stage = Stage::Passed;
        Ok(())
    }

    /// Bytes that an engine surely holds: bodies that are being read, or of which nothing has left yet.
    pub fn held(&self, engine: usize) -> u64 {
        let here = self.requests.iter().filter(|request| request.engine == engine && request.stage == Stage::Here);
        here.filter(|request| request.let_go.is_none())
            .map(|request| match request.complete {
                Some(_) if request.shares.is_empty() => request.client.plain,
                None if !request.client.zipped => request.fed as u64,
                _ => 0,
            })
            .sum()
    }

    /// The headers of a request are let go: nothing of its body has come.
    pub fn let_go(&mut self, number: usize, now: u64) -> Result<(), Violation> {
        let request = self.request(number)?;
        let check = |holds, what: &str| {
            Violation::unless(holds, Promise::AnsweredOnce, || format!("request {number} is let go {what}"))
        };
        check(request.stage == Stage::Here, &format!("although it is {:?}", request.stage))?;
        check(request.fed == 0 && request.complete.is_none(), "after some of its body came")?;
        check(request.let_go.is_none(), "twice")?;
        request.let_go = Some(now);
        Ok(())
    }

    /// A request passed through for this reason, in the words of the metrics, while so many bytes were left. Were it
    /// not for its client's oddity, only what the engine knows or has room for may be the reason.
    pub fn passed_because(&self, number: usize, reason: &str, left: u64) -> Result<(), Violation> {
        const ANYONES: &[&str] = &["no_state", "unknown_index", "alias", "primary", "mismatch"];
        const UNROUTED: &[&str] = &["unknown_index", "alias", "closed", "index_pipeline"];
        let Some(request) = self.requests.get(number) else { return Ok(()) };
        let Some(Lanes { settings, .. }) = self.lanes.get(request.engine) else { return Ok(()) };
        let client = &request.client;
        let oddity = client.oddity;
        // Of a compressed body either form counts, and what has arrived may not have come out yet.
        let length = (client.body.len() as u64).saturating_add(if client.zipped { client.plain } else { 0 });
        let fits = ANYONES.contains(&reason)
            || (reason == "too_large" && length > settings.max_request)
            || (reason == "memory" && left < client.memory())
            || (reason == "same_id" && self.has_an_id_twice(request))
            || (reason == "routing_required" && self.lacks_routing(request))
            || (reason == "switched_off" && self.disturbed)
            || oddity == Some(reason)
            || (oddity == Some("unrouted") && UNROUTED.contains(&reason));
        Violation::unless(fits, Promise::PassedWhole, || {
            format!(
                "request {number} of {length} bytes, odd by {oddity:?}, passed through because of {reason}, with {left} bytes \
                 left of {} needed",
                client.memory()
            )
        })
    }

    /// Whether an operation of a request is for a partitioned index and has no routing value.
    fn lacks_routing(&self, request: &Request) -> bool {
        let operations = self.operations.get(request.client.operations.clone()).unwrap_or_default();
        operations.iter().any(|sent| sent.operation.name == "p" && sent.operation.routing.is_none())
    }

    /// Whether two of a request's operations have the same id.
    fn has_an_id_twice(&self, request: &Request) -> bool {
        let operations = self.operations.get(request.client.operations.clone()).unwrap_or_default();
        let mut ids = BTreeSet::new();
        !operations.iter().filter_map(|sent| sent.operation.id.as_deref()).all(|id| ids.insert(id))
    }

    /// In the end each request was answered or passed through, or its client has gone.
    pub fn drained(&self) -> Result<(), Violation> {
        let left = self.requests.iter().position(|request| matches!(request.stage, Stage::Here | Stage::Future));
        match left {
            Some(number) => Err(Violation::of(Promise::Drained, format!("request {number} is still here"))),
            None => Ok(()),
        }
    }
}

impl Sent {
    fn new(operation: Operation) -> Self {
        Self { operation, request: 0, extended: false, calls: Vec::new(), executions: Vec::new() }
    }

    /// What follows it in these lines, which start with it as it was sent before, or as it may be sent first.
    pub fn cut_from<'a>(&mut self, lines: &'a [u8], missing_id: &str) -> Option<&'a [u8]> {
        if let (true, Some(extended)) = (self.calls.is_empty(), self.operation.extended_in(lines, missing_id)) {
            (self.operation, self.extended) = (extended, true);
        }
        lines.strip_prefix(self.operation.text.as_slice())
    }

    /// The document on which it was carried out.
    pub fn document(&self) -> Option<&Document> {
        let execution = self.executions.iter().find(|execution| execution.refused.is_none())?;
        execution.document.as_ref()
    }
}
