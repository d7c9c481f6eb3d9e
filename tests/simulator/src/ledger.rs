use std::collections::{BTreeMap, BTreeSet};

use bulk_reshuffle::engine::CallId;

use crate::call_outcome::Ended;
use crate::client::{Client, GZIP, Key};
use crate::cluster::{Document, Execution};
use crate::engine_traffic::{CallerNumber, Class, Destination, EngineTraffic};
use crate::operation::{Marker, Operation};
use crate::scenario::{Scenario, Slow};
use crate::violation::{Promise, Violation};

/// The observed history of each request, operation and call, from outside the engine. Each new event is checked against
/// it.
#[derive(Debug, Default)]
pub struct Ledger {
    /// The requests by number.
    pub requests: Vec<Request>,
    /// The operations by marker.
    pub operations: Vec<Sent>,
    pub calls: BTreeMap<CallKey, Batch>,
    /// The traffic, one for each engine.
    pub traffic: Vec<EngineTraffic>,
    /// The upstreams that each engine was told not to exist, or not to be reached in time.
    pub missing: BTreeSet<(usize, String)>,
    /// Whether wake-ups and ticks are on time.
    pub punctual: bool,
    /// Whether engines may get new settings, or be told that nodes have gone.
    pub disturbed: bool,
    /// Whether an upstream may have left the cluster, so that what waited for it goes elsewhere.
    pub redirects: bool,
    /// The ids that the filter generated, each with its operation.
    pub made_ids: BTreeMap<String, Marker>,
    /// The headers of each caller.
    pub callers: Vec<Key>,
    pub slow: Slow,
    /// The number of requests for single documents that were sent themselves and are not counted yet.
    pub originals: u64,
}

pub type CallKey = (usize, CallId);

#[derive(Debug, Default)]
pub struct Request {
    pub client: Client,
    pub engine: usize,
    pub caller: CallerNumber,
    pub stage: Stage,
    /// The number of body bytes that the engine has received.
    pub fed: usize,
    /// Whether its headers continued at once, without its body.
    pub headers_gone: bool,
    /// Whether it was suspected already that Envoy holds back bodies with their headers, when its headers came.
    pub was_suspected: bool,
    /// The time when its headers were let go, so that its body must follow.
    pub let_go: Option<u64>,
    /// The time when its body ended.
    pub complete: Option<u64>,
    /// The destinations of its shares, without a shard where that is unknown here.
    pub shares: BTreeSet<Destination>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stage {
    /// Its client has not sent it yet.
    #[default]
    Future,
    /// It is being read, held or in flight.
    Here,
    Passed,
    Answered,
    /// Its client left first.
    Gone,
}

#[derive(Debug)]
pub struct Sent {
    pub operation: Operation,
    pub request: usize,
    /// Whether the filter added a parameter to it.
    pub extended: bool,
    pub calls: Vec<CallKey>,
    pub executions: Vec<Execution>,
}

#[derive(Debug)]
pub struct Batch {
    pub upstream: String,
    /// The upstream and the shard, if this is the first attempt and the shard is certain.
    pub destination: Option<Destination>,
    pub caller: CallerNumber,
    /// The class of slots that it took.
    pub class: Class,
    /// The operations that were sent.
    pub markers: Vec<Marker>,
    /// Whether it is a request for a single document itself.
    pub is_original: bool,
    /// Whether some of it was sent before.
    pub again: bool,
    /// The outcome, once it is over.
    pub ended: Option<Ended>,
}

impl Ledger {
    pub fn new(clients: Vec<Client>, operations: Vec<Operation>, scenario: &Scenario) -> Self {
        let traffic =
            scenario.settings.iter().map(|settings| EngineTraffic::new(settings.clone(), scenario.disturbances == 0));
        let mut ledger = Self {
            operations: operations.into_iter().map(Sent::new).collect(),
            traffic: traffic.collect(),
            punctual: scenario.punctual,
            disturbed: scenario.disturbances > 0,
            redirects: scenario.disturbances > 0,
            slow: scenario.slow,
            ..Self::default()
        };
        clients.into_iter().for_each(|client| ledger.add(client));
        ledger
    }

    /// Records that an engine learns with the end of this call that it cannot use the call's upstream.
    pub fn lacks_upstream_of(&mut self, key: CallKey) {
        self.redirects = true;
        self.missing.insert((key.0, self.calls[&key].upstream.clone()));
    }

    fn add(&mut self, client: Client) {
        let request = self.requests.len();
        self.operations[client.operations.clone()].iter_mut().for_each(|sent| sent.request = request);
        let caller = self.callers.iter().position(|key| *key == client.key).unwrap_or(self.callers.len());
        if caller == self.callers.len() {
            self.callers.push(client.key.clone());
        }
        self.requests.push(Request { client, caller, ..Request::default() });
    }

    /// Returns a known request.
    pub fn request(&mut self, number: usize) -> Result<&mut Request, Violation> {
        self.requests
            .get_mut(number)
            .ok_or_else(|| Violation::of(Promise::AnsweredOnce, format!("there is no request {number}")))
    }

    /// Returns the operations of a request.
    pub fn of(&self, request: &Request) -> &[Sent] {
        &self.operations[request.client.operations.clone()]
    }

    /// Checks and records that a request passes through.
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

    /// Returns how many bytes an engine certainly holds: bodies that are being read, or of which nothing has left yet.
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

    /// Checks and records that the headers of a request are let go, before any of its body has arrived.
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

    /// Checks that a request passed through for a valid reason, in the words of the metrics, while `left` bytes were
    /// left. Without an oddity of the client, the only valid reasons are the engine's knowledge or its lack of room.
    pub fn passed_because(&self, number: usize, reason: &str, left: u64) -> Result<(), Violation> {
        const ANYONES: &[&str] = &["no_state", "unknown_index", "alias", "primary", "mismatch"];
        /// Fewer refusals are not often.
        const OFTEN: usize = 16;
        const UNROUTED: &[&str] = &["unknown_index", "alias", "closed", "index_pipeline"];
        let request = &self.requests[number];
        let settings = &self.traffic[request.engine].settings;
        let client = &request.client;
        let oddity = client.oddity;
        // Both forms of a compressed body count, and arrived data may not be inflated yet.
        let length = (client.body.len() as u64).saturating_add(if client.zipped { client.plain } else { 0 });
        let fits = ANYONES.contains(&reason)
            || (reason == "too_large" && length > settings.max_request)
            || (reason == "memory" && left < client.memory())
            || (reason == "same_id" && self.has_an_id_twice(request))
            || (reason == "mixed_index" && self.is_partly_named(request))
            || (reason == "routing_required" && self.lacks_routing(request))
            || (reason == "switched_off" && self.disturbed)
            || (reason == "index_pipeline" && self.has_pipeline(request))
            || (reason == "unproven_pipeline" && client.document.is_some() && self.has_pipeline(request))
            || (reason == "often_refused" && self.refused_documents(request) >= OFTEN)
            // A damaged body may be empty.
            || (reason == "document_body" && client.document.is_some() && oddity == Some(GZIP))
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

    /// Returns whether an operation of a request is for a partitioned index and has no routing value.
    fn lacks_routing(&self, request: &Request) -> bool {
        self.of(request).iter().any(|sent| sent.operation.name == "p" && sent.operation.routing.is_none())
    }

    /// Returns how many documents were refused that were like that of a request.
    fn refused_documents(&self, request: &Request) -> usize {
        let kind = |request: &Request| {
            let operation = self.of(request).first().map(|sent| (sent.operation.action, sent.operation.name.clone()));
            (request.engine, request.caller, request.client.document.is_some(), operation)
        };
        let like = self.requests.iter().filter(|other| kind(other) == kind(request));
        let is_original = |sent: &Sent| sent.calls.iter().any(|key| self.calls[key].is_original);
        like.filter(|other| self.of(other).iter().any(|sent| is_original(sent) || self.was_refused(sent))).count()
    }

    fn has_pipeline(&self, request: &Request) -> bool {
        self.of(request).iter().any(|sent| sent.operation.piped)
    }

    /// Returns whether some lines of a request name an index, and others do not.
    pub fn is_partly_named(&self, request: &Request) -> bool {
        let operations = self.of(request);
        let named = operations.iter().filter(|sent| sent.operation.is_named).count();
        0 < named && named < operations.len()
    }

    fn has_an_id_twice(&self, request: &Request) -> bool {
        let mut ids = BTreeSet::new();
        !self.of(request).iter().filter_map(|sent| sent.operation.id.as_deref()).all(|id| ids.insert(id))
    }

    /// Checks that the requests for single documents that were sent themselves are counted once.
    pub fn check_originals(&mut self, counted: u64) -> Result<(), Violation> {
        let sent = std::mem::take(&mut self.originals);
        Violation::unless(sent == counted, Promise::SentOnce, || {
            format!("{sent} documents were sent themselves, and {counted} are counted as refused")
        })
    }

    /// Checks that at the end each request was answered, or passed through, or its client has left.
    pub fn drained(&self) -> Result<(), Violation> {
        let left = self.requests.iter().position(|request| matches!(request.stage, Stage::Here | Stage::Future));
        match left {
            Some(number) => Err(Violation::of(Promise::Drained, format!("request {number} is not over"))),
            None => Ok(()),
        }
    }
}

impl Sent {
    fn new(operation: Operation) -> Self {
        Self { operation, request: 0, extended: false, calls: Vec::new(), executions: Vec::new() }
    }

    /// Returns what follows it in these lines, which must start with it, as it was sent before or as it may be sent
    /// first.
    pub fn cut_from<'a>(&mut self, lines: &'a [u8], missing_id: &str) -> Option<&'a [u8]> {
        if let (true, Some(extended)) = (self.calls.is_empty(), self.operation.extended_in(lines, missing_id)) {
            (self.operation, self.extended) = (extended, true);
        }
        lines.strip_prefix(self.operation.text.as_slice())
    }

    /// Returns the document on which it was executed.
    pub fn document(&self) -> Option<&Document> {
        let execution = self.executions.iter().find(|execution| execution.refused.is_none())?;
        execution.document.as_ref()
    }
}
