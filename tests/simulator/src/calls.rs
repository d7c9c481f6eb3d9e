//! The connection between the engines and the cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use bulk_reshuffle::engine::{Call, Headers, Input, Response};
use bulk_reshuffle::routing::UpstreamCheck;

use crate::call_outcome::{CALL, CallOutcome, Ending, WARNING, envoys};
use crate::client::Client;
use crate::event_queue::Event;
use crate::harness::Harness;
use crate::layout;
use crate::ledger::{Batch, CallKey, Ledger};
use crate::rng::Rng;
use crate::single_document::path_of;
use crate::violation::{Promise, Violation};

#[derive(Debug, Default)]
pub struct Calls {
    batches: BTreeMap<CallKey, InFlight>,
    /// The queries in flight, with their upstreams.
    queries: BTreeMap<CallKey, (String, Rc<str>)>,
}

#[derive(Debug)]
struct InFlight {
    outcome: CallOutcome,
    /// The node's answer, once it exists.
    response: Option<Rc<Response>>,
}

/// Returns the headers that a node adds to an answer.
fn more_headers(rng: &mut Rng, key: CallKey) -> Vec<(String, String)> {
    let mut headers = vec![(CALL, format!("{key:?}"))];
    for text in ["299 a", "299 b", "299 c"] {
        if rng.percent(20) {
            headers.push((WARNING, text.to_owned()));
        }
    }
    headers.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Returns whether a call asks for the cluster's state.
pub fn is_query(call: &Call) -> bool {
    call.headers.iter().any(|(name, value)| name == ":method" && value == "GET")
}

impl Harness {
    pub fn call(&mut self, engine: usize, call: Call) -> Result<(), Violation> {
        let key = (engine, call.id);
        if is_query(&call) {
            return self.ask(key, &call);
        }
        self.ledger.sent(key, &call, &self.cluster, self.now)?;
        let batch = &self.ledger.calls[&key];
        if self.ledger.traffic[engine].is_beyond_slots(&batch.upstream, &batch.class) {
            self.coverage.count("batch: beyond the slots of its node");
        }
        let outcome = self.draw_outcome(key);
        let batch = &self.ledger.calls[&key];
        self.trace.add(self.now, || format!("  {key:?} to {} with {:?}: {outcome:?}", batch.upstream, batch.markers));
        self.coverage.count(&format!("call: {}", outcome.ending.name()));
        if outcome.ending == Ending::NotSent {
            return self.not_sent_at_once(key);
        }
        self.calls.batches.insert(key, InFlight { outcome, response: None });
        let there = self.rng.up_to(self.scenario.latency);
        // If the answer does not count, the node may be later than Envoy's response in its name.
        self.plan(there, Event::Arrive(key));
        if outcome.ending.is_lost() {
            let back = self.rng.up_to(self.scenario.latency);
            self.plan(back, Event::Return(key));
        }
        Ok(())
    }

    fn draw_outcome(&mut self, key: CallKey) -> CallOutcome {
        let Ledger { operations, requests, calls, .. } = &self.ledger;
        let Batch { again, markers, is_original, .. } = &calls[&key];
        let sent: Vec<_> = markers.iter().map(|marker| &operations[*marker]).collect();
        let senders: BTreeSet<_> = sent.iter().map(|sent| sent.request).collect();
        let clients: Vec<_> = senders.iter().map(|number| &requests[*number].client).collect();
        let differ = |by: fn(&Client, &Client) -> bool| clients.windows(2).any(|pair| by(pair[0], pair[1]));
        if differ(|one, other| one.filter_path != other.filter_path) {
            self.coverage.count("batch: of several filter paths");
        }
        if differ(|one, other| one.zipped != other.zipped) {
            self.coverage.count("batch: of zipped and plain requests");
        }
        if differ(|one, other| one.document.is_some() != other.document.is_some()) {
            self.coverage.count("batch: of documents and bulk requests");
        }
        if *is_original {
            self.coverage.count("document: refused, sent itself");
        }
        if sent.iter().any(|sent| sent.operation.is_conditional) {
            self.coverage.count("batch: with conditional operations");
        }
        let poisoned = clients.iter().any(|client| client.poisoned);
        self.coverage.count(match (again, senders.len()) {
            (true, _) => "batch: sent again",
            (false, 1) => "batch: of one request",
            (false, _) => "batch: of several requests",
        });
        CallOutcome::draw(&mut self.rng, &self.scenario, poisoned)
    }

    fn not_sent_at_once(&mut self, key: CallKey) -> Result<(), Violation> {
        self.ledger.ended(key, Ending::NotSent.ended(&Rc::default()), self.now);
        self.ledger.lacks_upstream_of(key);
        let time = self.time();
        self.machine(key.0)?.engine.handle(Input::CallNotSent { call: key.1, has_upstream: false }, time);
        Ok(())
    }

    /// Delivers a batch to its node.
    pub fn arrive(&mut self, key: CallKey) -> Result<(), Violation> {
        let Some(outcome) = self.calls.batches.get(&key).map(|batch| batch.outcome) else { return Ok(()) };
        let Batch { markers, is_original, .. } = &self.ledger.calls[&key];
        let (markers, is_original) = (markers.clone(), *is_original);
        let first = markers.first().copied().unwrap_or_default();
        let slow = self.scenario.slow;
        let is_slow = outcome.carried_out
            && slow.delay > 0
            && slow.from <= self.now
            && markers
                .iter()
                .map(|marker| &self.ledger.operations[*marker].operation)
                .any(|operation| self.cluster.shards(operation).contains(&Some(slow.shard)));
        let mut items = Vec::new();
        for marker in markers.into_iter().filter(|_| outcome.carried_out) {
            let sent = &self.ledger.operations[marker];
            let refused = self.scenario.refused_items;
            let execution = self.cluster.carry_out(marker, &sent.operation, refused, &mut self.rng);
            self.coverage.count("operation: carried out");
            if sent.operation.piped {
                self.coverage.count("operation: under a pipeline");
            }
            if sent.operation.unproven {
                self.coverage.count("operation: under an unproven pipeline");
            }
            if sent.extended {
                self.coverage.count(match sent.operation.id {
                    Some(_) => "operation: given an id",
                    None => "operation: given a routing value",
                });
            }
            items.push(execution.item.clone());
            self.ledger.carried_out(marker, execution)?;
        }
        if let Some(batch) = self.calls.batches.get_mut(&key) {
            let headers = more_headers(&mut self.rng, key);
            let response = match is_original {
                true => {
                    let operation = &self.ledger.operations[first].operation;
                    outcome.ending.original_response(items.first().map(String::as_str), operation)
                }
                false => outcome.ending.response(&items),
            };
            batch.response = response.map(|mut response| {
                response.headers = response.headers.iter().cloned().chain(headers).collect();
                Rc::new(response)
            });
        }
        if !outcome.ending.is_lost() {
            let back = self.rng.up_to(self.scenario.latency);
            let delay = if is_slow { slow.delay } else { 0 };
            self.coverage.count(if is_slow { "batch: with a slow shard" } else { "batch: without a slow shard" });
            self.plan(back.saturating_add(delay), Event::Return(key));
        }
        Ok(())
    }

    /// Returns a call with a batch.
    pub fn come_back(&mut self, key: CallKey) -> Result<(), Violation> {
        let Some(batch) = self.calls.batches.get(&key) else { return Ok(()) };
        let ending = batch.outcome.ending;
        let response = batch.response.clone().or_else(|| ending.response(&[]).map(Rc::new));
        self.ledger.ended(key, ending.ended(&response.clone().unwrap_or_default()), self.now);
        if ending == Ending::NotSentText {
            // A connection took too long.
            self.ledger.lacks_upstream_of(key);
        }
        self.root(
            key.0,
            match response {
                Some(response) => Input::CallAnswered { call: key.1, response: Response::clone(&response) },
                None => Input::CallFailed { call: key.1 },
            },
        )
    }

    /// Sends an engine's query for the cluster's state.
    fn ask(&mut self, key: CallKey, call: &Call) -> Result<(), Violation> {
        let path = path_of(call).to_owned();
        if layout::is_overview(&path) {
            self.asked = self.asked.saturating_add(1);
        }
        self.machine(key.0)?.learns = true;
        let is_check = path == UpstreamCheck::PATH;
        let most = if is_check { 8 } else { 1 };
        self.calls.queries.insert(key, (path, Rc::clone(&call.upstream)));
        let is_like =
            |(of, (path, _)): &(&CallKey, &(String, _))| of.0 == key.0 && (path == UpstreamCheck::PATH) == is_check;
        let asked = self.calls.queries.iter().filter(is_like).count();
        Violation::unless(asked <= most, Promise::Bounds, || format!("an engine has {asked} queries in flight"))?;
        // Some answers are very late: this is as long as an engine waits.
        let after = match self.rng.percent(self.scenario.bad_queries / 2) {
            true => 5_000,
            false => self.rng.up_to(self.scenario.latency),
        };
        self.plan(after, Event::Answer(key));
        Ok(())
    }

    /// Returns the answer to a query.
    pub fn answer_query(&mut self, key: CallKey) -> Result<(), Violation> {
        let Some((path, upstream)) = self.calls.queries.remove(&key) else { return Ok(()) };
        // Most engines learn a state first.
        let is_first = key.1.0 < 2 && self.rng.percent(80);
        let is_bad = !is_first && self.rng.percent(self.scenario.bad_queries);
        let kind = if is_bad { self.rng.between(1, 6) } else { 0 };
        let layout = match kind {
            // The answer is that of an earlier state.
            1 | 2 => self.rng.pick(&self.cluster.history).cloned(),
            _ => None,
        };
        let layout = layout.unwrap_or_else(|| self.cluster.layout());
        let truth = layout
            .answer(&path, &upstream)
            .ok_or_else(|| Violation::of(Promise::Bounds, format!("{path} is not a known query")))?;
        let json = |status, body: String| Response { status, headers: Headers::default(), body: body.into_bytes() };
        let (name, response) = match kind {
            0 => ("true", Some(json(200, truth.to_string()))),
            1 | 2 => ("outdated", Some(json(200, truth.to_string()))),
            3 => ("refused", Some(json(403, r#"{"error":"no"}"#.to_owned()))),
            4 => ("not an answer", Some(json(200, "[]".to_owned()))),
            5 => ("without a node", Some(envoys(503, "no healthy upstream"))),
            _ => ("without an answer", None),
        };
        self.coverage.count(&format!("state: answered, {name}"));
        self.trace.add(self.now, || format!("  {path:.40} is answered, {name}"));
        self.root(
            key.0,
            match response {
                Some(response) => Input::CallAnswered { call: key.1, response },
                None => Input::CallFailed { call: key.1 },
            },
        )
    }
}
