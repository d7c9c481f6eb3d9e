//! Checks of what is sent, and of what is executed.

use std::collections::{BTreeMap, BTreeSet};

use bulk_reshuffle::bulk::ERROR_ROOM;
use bulk_reshuffle::engine::{Call, Shards};
use bulk_reshuffle::routing::hash;

use crate::call_outcome::Ended;
use crate::client::ALONE;
use crate::cluster::{Cluster, Execution};
use crate::engine_traffic::{Class, Destination, Leaving};
use crate::layout::{COORDINATOR, is_unrouted};
use crate::ledger::{Batch, CallKey, Ledger, Request, Sent, Stage};
use crate::operation::{Marker, Operation};
use crate::single_document::{is_original, path_of};
use crate::violation::{Promise, Violation};

/// The latest delay, in milliseconds, if wake-ups and ticks are on time: a wake-up takes up to 1 ms, and so does the
/// shortest tick.
const PUNCTUAL: u64 = 2;

/// The size of an answer, in bytes, that has room for any answer to a request.
const WHOLE_ANSWER: u64 = 1 << 20;

/// The maximum number of times that an operation may be sent.
const MOST_SENDS: usize = 12;

impl Ledger {
    /// Checks and records that a batch leaves.
    pub fn sent(&mut self, key: CallKey, call: &Call, cluster: &Cluster, now: u64) -> Result<(), Violation> {
        let is_original = is_original(call);
        let markers = if is_original { vec![self.original(call)?] } else { self.markers(key.0, &call.body)? };
        let caller = self.one_caller(&markers)?;
        // Shares that waited for several nodes may meet at the coordinator. The documents are checked when the batch
        // arrives there.
        if !is_original && !self.is_redirected(call) {
            self.check_order(&markers)?;
        }
        let mut again = false;
        for marker in &markers {
            again |= match is_original {
                true => self.check_original(*marker, call)?,
                false => self.check_operation(key.0, *marker, call, cluster)?,
            };
        }
        self.check_headers(call, caller, &markers)?;
        let shards = self.check_shards(key.0, &markers, call, cluster)?;
        self.check_answer(key.0, &markers)?;
        // Settings may change the rules. Once the cluster has changed, names may lead elsewhere, for some requests and
        // not yet for others.
        let is_known =
            !self.disturbed && !self.is_redirected(call) && (!self.is_by_shard(key.0) || cluster.history.len() == 1);
        let destination = shards.first().filter(|_| is_known).map(|shard| (call.upstream.to_string(), *shard));
        let class = self.class(key.0, caller);
        let since = self.held_since(key.0, &markers, caller);
        let (to, is_slow) = (destination.as_ref(), self.may_touch_slow(&markers, cluster));
        let is_alone = markers.iter().all(|marker| self.is_surely_slow(*marker, cluster));
        let mut leaving =
            Leaving { key, upstream: &call.upstream, to, caller, class: &class, since, is_slow, is_alone };
        self.traffic[key.0].note_late(now);
        self.check_shares(&markers, &leaving, cluster, now)?;
        leaving.to = leaving.to.filter(|_| !again);
        let is_mixed = self.is_mixed(&markers, cluster);
        let traffic = &mut self.traffic[key.0];
        traffic.sent(&leaving, now)?;
        if call.upstream.as_ref() != COORDINATOR && self.punctual {
            traffic.check_mixture(&leaving, is_mixed)?;
        }
        let destination = leaving.to.cloned();
        let is_first = |marker: &Marker| self.operations[*marker].calls.iter().all(|key| !self.calls[key].is_original);
        self.originals = self.originals.saturating_add(u64::from(is_original && markers.iter().all(is_first)));
        markers.iter().for_each(|marker| self.operations[*marker].calls.push(key));
        let upstream = call.upstream.to_string();
        let batch = Batch { upstream, destination, caller, class, markers, is_original, again, ended: None };
        let known = self.calls.insert(key, batch).is_some();
        Violation::unless(!known, Promise::SentOnce, || format!("there are two calls {key:?}"))
    }

    /// Records the end of a call with a batch.
    pub fn ended(&mut self, key: CallKey, ended: Ended, now: u64) {
        let markers = self.calls.get(&key).map(|batch| batch.markers.clone()).unwrap_or_default();
        let lost = markers.iter().any(|marker| self.times_lost(*marker) > 0);
        let Some(batch) = self.calls.get_mut(&key) else { return };
        if ended.is_overload() {
            self.traffic[key.0].note_overload(&batch.upstream, &batch.class);
        }
        batch.ended = Some(match ended {
            // This attempt was refused, but an earlier one may have been executed.
            Ended::Refused(_) | Ended::NotSent if lost && !batch.is_original => Ended::Unknown(503),
            ended => ended,
        });
        let Batch { upstream, destination, caller, class, .. } = batch;
        self.traffic[key.0].back(key, upstream, destination.as_ref(), *caller, class, now);
    }

    /// Checks and records that a node has executed an operation.
    pub fn carried_out(&mut self, marker: Marker, execution: Execution) -> Result<(), Violation> {
        let sent = &mut self.operations[marker];
        sent.executions.push(execution);
        let is_document = sent.operation.is_document;
        let has_failed = |execution: &Execution| execution.refused.is_some() || is_document && execution.has_failed();
        let times = sent.executions.iter().filter(|execution| !has_failed(execution)).count();
        let lost = self.times_lost(marker);
        Violation::unless(times <= lost.saturating_add(1), Promise::SentOnce, || {
            format!("operation {marker} was carried out {times} times, lost {lost} times")
        })?;
        // A lost batch is executed again as a whole, in its order.
        if lost > 0 { Ok(()) } else { self.check_document_order(marker) }
    }

    /// Returns whether a node had no room for it at its last attempt. A lost batch may be executed after its retry.
    fn was_busy(&self, marker: Marker) -> bool {
        let executions = &self.operations[marker].executions;
        let possible = if self.times_lost(marker) > 0 { executions.len() } else { 1 };
        executions.iter().rev().take(possible).any(|execution| execution.refused == Some(429))
    }

    /// Returns how many of its attempts had an unknown outcome.
    pub fn times_lost(&self, marker: Marker) -> usize {
        let ended = self.operations[marker].calls.iter().filter_map(|call| self.calls.get(call)?.ended.as_ref());
        ended.filter(|ended| matches!(ended, Ended::Unknown(_))).count()
    }

    /// Returns whether a node has certainly refused an operation with 4xx in its last batch, so that nothing of it was
    /// carried out.
    pub fn was_refused(&self, sent: &Sent) -> bool {
        let mut batches = sent.calls.iter().filter_map(|key| self.calls.get(key)).filter(|batch| !batch.is_original);
        let has_lost = batches.clone().any(|batch| matches!(batch.ended, Some(Ended::Unknown(_))));
        match batches.next_back().and_then(|batch| batch.ended.as_ref()) {
            Some(Ended::Refused(response)) => (400..500).contains(&response.status),
            // After a lost attempt, only a failure that the document itself caused is certain.
            Some(Ended::Items(_) | Ended::Lie(_)) if has_lost => {
                sent.executions.iter().any(|execution| execution.failure() == Some(400))
            }
            Some(Ended::Items(_) | Ended::Lie(_)) => {
                let last = sent.executions.last().and_then(Execution::failure);
                last.is_some_and(|status| (400..500).contains(&status))
            }
            _ => false,
        }
    }

    /// Returns the operation of a request for a single document that is sent itself. It must have the client's own body.
    fn original(&self, call: &Call) -> Result<Marker, Violation> {
        let lines = [path_of(call).as_bytes(), b"\n", &call.body].concat();
        let marker = Operation::marker(&lines);
        let sent =
            marker.and_then(|marker| self.operations.get(marker)).filter(|sent| sent.operation.source() == call.body);
        marker.filter(|_| sent.is_some()).ok_or_else(|| {
            let text = String::from_utf8_lossy(&lines).into_owned();
            Violation::of(Promise::SameBytes, format!("no client sent {text:?}"))
        })
    }

    /// Checks a request for a single document that is sent itself.
    fn check_original(&self, marker: Marker, call: &Call) -> Result<bool, Violation> {
        let sent = &self.operations[marker];
        let request = &self.requests[sent.request];
        let check = |holds, promise, what: &str| {
            Violation::unless(holds, promise, || format!("request {} is sent itself {what}", sent.request))
        };
        let last = sent.calls.last().and_then(|key| self.calls.get(key));
        let ended = last.and_then(|batch| batch.ended.as_ref());
        let is_again = last.is_some_and(|batch| batch.is_original);
        let promise = if request.stage == Stage::Gone { Promise::GoneIsGone } else { Promise::AnsweredOnce };
        let is_here = request.stage == Stage::Here || request.stage == Stage::Gone && is_again;
        check(is_here, promise, &format!("although it is {:?}", request.stage))?;
        check(call.upstream.as_ref() == COORDINATOR, Promise::Owner, "to a node")?;
        let may_be_sent = match is_again {
            true => matches!(ended, Some(Ended::NotSent)),
            false => self.was_refused(sent),
        };
        check(may_be_sent, Promise::SentOnce, &format!("after {ended:?} and {:?}", sent.executions))?;
        let times = sent.calls.iter().filter(|key| self.calls[key].is_original).count();
        check(times < MOST_SENDS, Promise::SentOnce, "too many times")?;
        Ok(true)
    }

    /// Returns the operations in a body, which must be whole and unchanged except for parameters added to those without
    /// an id.
    fn markers(&mut self, engine: usize, body: &[u8]) -> Result<Vec<Marker>, Violation> {
        let missing_id = self.traffic[engine].settings.missing_id;
        let (mut rest, mut markers) = (body, Vec::new());
        while !rest.is_empty() {
            let operation = Operation::marker(rest).and_then(|marker| Some((marker, self.operations.get_mut(marker)?)));
            let cut = operation.and_then(|(marker, sent)| Some((marker, sent.cut_from(rest, missing_id)?)));
            let Some((marker, after)) = cut else {
                let text = String::from_utf8_lossy(rest.get(..100).unwrap_or(rest)).into_owned();
                return Err(Violation::of(Promise::SameBytes, format!("no client sent {text:?}")));
            };
            self.check_made_id(marker)?;
            markers.push(marker);
            rest = after;
        }
        Violation::unless(!markers.is_empty(), Promise::SameBytes, || "a batch is empty".to_owned())?;
        Ok(markers)
    }

    /// Checks that no id is generated twice.
    fn check_made_id(&mut self, marker: Marker) -> Result<(), Violation> {
        let sent = &self.operations[marker];
        let Some(id) = sent.operation.id.clone().filter(|_| sent.extended) else { return Ok(()) };
        let other = *self.made_ids.entry(id).or_insert(marker);
        Violation::unless(other == marker, Promise::SameBytes, || {
            format!("operations {other} and {marker} were given the same id")
        })
    }

    fn one_caller(&self, markers: &[Marker]) -> Result<usize, Violation> {
        let mut callers = markers.iter().map(|marker| self.requests[self.operations[*marker].request].caller);
        let first = callers.next().unwrap_or_default();
        Violation::unless(callers.all(|caller| caller == first), Promise::CallersApart, || {
            format!("operations {markers:?} of several callers share a batch")
        })?;
        Ok(first)
    }

    fn check_headers(&self, call: &Call, caller: usize, markers: &[Marker]) -> Result<(), Violation> {
        let own = || self.requests[self.operations[*markers.first()?].request].client.document.as_ref();
        let key = if is_original(call) { own() } else { None }.unwrap_or(&self.callers[caller]);
        let key: Vec<_> = key.iter().filter(|(name, _)| name != ALONE).cloned().collect();
        let mut headers = call.headers.to_vec();
        headers.sort_by(|(left, _), (right, _)| left.cmp(right));
        Violation::unless(key == headers, Promise::CallersApart, || {
            format!("a batch of {key:?} is sent as {headers:?}")
        })
    }

    /// Checks that a request's operations keep their order.
    fn check_order(&self, markers: &[Marker]) -> Result<(), Violation> {
        let mut last = BTreeMap::new();
        for marker in markers {
            let before = last.insert(self.operations[*marker].request, *marker);
            Violation::unless(before.is_none_or(|before| before < *marker), Promise::Order, || {
                format!("operation {marker} follows {before:?}, which is a later operation of the same request")
            })?;
        }
        Ok(())
    }

    /// Checks an operation. Returns whether it was sent before.
    fn check_operation(
        &self,
        engine: usize,
        marker: Marker,
        call: &Call,
        cluster: &Cluster,
    ) -> Result<bool, Violation> {
        let sent = &self.operations[marker];
        let request = &self.requests[sent.request];
        let check = |holds, promise, what: &str| {
            Violation::unless(holds, promise, || format!("operation {marker} of request {} {what}", sent.request))
        };
        let promise = match request.stage {
            Stage::Gone if request.shares.is_empty() => Promise::GoneIsGone,
            Stage::Passed => Promise::PassedWhole,
            _ => Promise::AnsweredOnce,
        };
        let is_here = request.stage == Stage::Here || (request.stage == Stage::Gone && !request.shares.is_empty());
        check(is_here, promise, &format!("is sent although it is {:?}", request.stage))?;
        check(request.complete.is_some(), Promise::PassedWhole, "is sent before all of its request has arrived")?;
        check(request.client.oddity.is_none(), Promise::PassedWhole, "is sent although it is odd")?;
        let is_whole = !self.is_partly_named(request);
        check(is_whole, Promise::PassedWhole, "is sent although only some lines of its request name an index")?;
        let Some(last) = sent.calls.last() else {
            let makes_ids = self.traffic[engine].settings.missing_id == "generate";
            let is_left_alone = sent.operation.is_document && sent.operation.piped;
            let may_lack_id = !makes_ids || is_left_alone || call.upstream.as_ref() == COORDINATOR;
            check(sent.operation.id.is_some() || may_lack_id, Promise::Owner, "is sent to a node without an id")?;
            let redirected = self.is_redirected(call);
            let apart = self.redirects || !self.has_same_id_elsewhere(sent, &call.upstream);
            check(apart, Promise::Order, "has its id both in routed and in unrouted operations")?;
            let under = |matches: fn(&Operation) -> bool| self.is_any_of_request(sent, matches);
            let to_coordinator = call.upstream.as_ref() == COORDINATOR;
            // The pipeline may lead several operations of the request to one document.
            let is_together = to_coordinator || !under(|operation| operation.unproven);
            check(is_together, Promise::Order, "is sent to a node, and its request is under an unproven pipeline")?;
            let mut instead =
                self.missing.iter().filter(|(of, _)| *of == engine && call.upstream.as_ref() == COORDINATOR);
            // The verdicts on the pipelines may not be known yet.
            let owned = redirected
                || to_coordinator && under(|operation| operation.piped)
                || cluster.has_owned(&call.upstream, &sent.operation)
                || instead.any(|(_, missing)| cluster.has_owned(missing, &sent.operation));
            check(owned, Promise::Owner, &format!("is sent to {}, which never owned it", call.upstream))?;
            return Ok(false);
        };
        let ended = self.calls.get(last).and_then(|batch| batch.ended.as_ref());
        let idempotent = sent.operation.is_idempotent();
        check(
            may_be_sent_again(ended, self.was_busy(marker), idempotent),
            Promise::SentOnce,
            &format!("is sent again after {ended:?}"),
        )?;
        let was_original = self.calls.get(last).is_some_and(|batch| batch.is_original);
        check(!was_original, Promise::SentOnce, "is sent again after its request was sent itself")?;
        check(sent.calls.len() < MOST_SENDS, Promise::SentOnce, "is sent too many times")?;
        let before = self.calls.get(last).map(|batch| batch.upstream.as_str());
        let known = [Some(COORDINATOR), before].contains(&Some(&call.upstream));
        check(known, Promise::Owner, &format!("is sent again to {}", call.upstream))?;
        Ok(true)
    }

    /// Returns whether any operation of its request matches.
    fn is_any_of_request(&self, sent: &Sent, matches: fn(&Operation) -> bool) -> bool {
        self.of(&self.requests[sent.request]).iter().any(|sent| matches(&sent.operation))
    }

    /// Returns whether another operation of its request with the same id was routed although this one is not, or vice
    /// versa.
    fn has_same_id_elsewhere(&self, sent: &Sent, upstream: &str) -> bool {
        let id = sent.operation.id.as_ref();
        let operations = self.of(&self.requests[sent.request]).iter();
        let same = operations.filter(|other| id.is_some() && other.operation.id.as_ref() == id);
        let firsts = same.filter_map(|other| self.calls.get(other.calls.first()?));
        firsts.map(|batch| batch.upstream == COORDINATOR).any(|unrouted| unrouted != (upstream == COORDINATOR))
    }

    /// Returns whether a batch may hold shares that waited for a node that has left.
    fn is_redirected(&self, call: &Call) -> bool {
        self.redirects && call.upstream.as_ref() == COORDINATOR
    }

    fn is_by_shard(&self, engine: usize) -> bool {
        self.traffic[engine].settings.level == "shard"
    }

    /// Checks that a batch for a node is for one shard, with `dispatch.level: shard`. Returns the shard, if it is
    /// certain.
    fn check_shards(
        &self,
        engine: usize,
        markers: &[Marker],
        call: &Call,
        cluster: &Cluster,
    ) -> Result<BTreeSet<Option<(&'static str, u32)>>, Violation> {
        if !self.is_by_shard(engine) || call.upstream.as_ref() == COORDINATOR {
            return Ok([None].into());
        }
        let shards = markers.iter().map(|marker| cluster.shards(&self.operations[*marker].operation));
        let shards = shards.reduce(|all, more| &all & &more);
        let shards = shards.unwrap_or_default();
        Violation::unless(!shards.is_empty(), Promise::OneShard, || {
            format!("operations {markers:?} of several shards share a batch for {}", call.upstream)
        })?;
        Ok(shards)
    }

    /// Checks that a batch's answer has room for its operations. Each may be answered with a long error.
    fn check_answer(&self, engine: usize, markers: &[Marker]) -> Result<(), Violation> {
        let most = self.traffic[engine].settings.max_answer;
        let operations = markers.len() as u64;
        Violation::unless(operations == 1 || operations.saturating_mul(ERROR_ROOM) <= most, Promise::Bounds, || {
            format!("{operations} operations share a batch, whose answer may have at most {most} bytes")
        })
    }

    /// Returns whether everything that a request has sent to a destination is over for good.
    fn is_over(&self, request: usize, destination: &Destination) -> bool {
        let operations = self.operations.iter().filter(|sent| sent.request == request);
        let mut last_calls = operations.filter_map(|sent| self.calls.get(sent.calls.last()?));
        last_calls.all(|batch| batch.destination.as_ref() != Some(destination) || batch.ended.is_some())
    }

    /// Checks that a request's share for a destination leaves in one batch, and in time. It may also leave in parts,
    /// each when the previous one is over.
    fn check_shares(
        &mut self,
        markers: &[Marker],
        batch: &Leaving,
        cluster: &Cluster,
        now: u64,
    ) -> Result<(), Violation> {
        let sent = markers.iter().map(|marker| &self.operations[*marker]);
        let mut firsts: Vec<_> = sent.filter(|sent| sent.calls.is_empty()).map(|sent| sent.request).collect();
        firsts.dedup();
        for number in firsts {
            let is_over = batch.to.is_some_and(|destination| self.is_over(number, destination));
            let traffic = &self.traffic[batch.key.0];
            let may_have_two = traffic.may_be_apart();
            let has_parts = traffic.settings.max_answer < WHOLE_ANSWER;
            let is_own = |marker: &Marker| self.operations[*marker].request == number;
            let of_request: Vec<Marker> = markers.iter().copied().filter(is_own).collect();
            let touches_slow = self.may_touch_slow(&of_request, cluster);
            let request = &mut self.requests[number];
            let Some(destination) = batch.to else {
                request.shares.insert((batch.upstream.to_owned(), None));
                continue;
            };
            let is_first = request.shares.insert(destination.clone());
            Violation::unless(is_first || may_have_two || (has_parts && is_over), Promise::Order, || {
                format!("request {number} has two shares for {destination:?}")
            })?;
            if !is_first {
                continue;
            }
            let Some(since) = request.complete else { continue };
            traffic.check_round_robin(batch, since, now)?;
            if self.punctual {
                traffic.check_time(batch, touches_slow, since, now, PUNCTUAL)?;
            }
        }
        Ok(())
    }

    /// Returns whether any of these operations may be for the slow shard. The engine does not know the shard of an
    /// unrouted one.
    fn may_touch_slow(&self, markers: &[Marker], cluster: &Cluster) -> bool {
        markers.iter().map(|marker| &self.operations[*marker].operation).any(|operation| {
            let shards = cluster.shards(operation);
            is_unrouted(operation) || shards.contains(&Some(self.slow.shard)) || shards.contains(&None)
        })
    }

    fn is_surely_slow(&self, marker: Marker, cluster: &Cluster) -> bool {
        cluster.shards(&self.operations[marker].operation) == [Some(self.slow.shard)].into()
    }

    /// Returns whether these operations may be for a shard that the engine cannot tell from the slow one.
    fn may_seem_slow(&self, markers: &[Marker], cluster: &Cluster) -> bool {
        let of = |(name, number): (&str, u32)| Shards::of(hash(name), Some(number));
        let seems_slow =
            |shard: &Option<(&'static str, u32)>| shard.is_none_or(|shard| of(shard).meets(of(self.slow.shard)));
        markers.iter().any(|marker| cluster.shards(&self.operations[*marker].operation).iter().any(seems_slow))
    }

    /// Returns whether one of these operations is certainly for the slow shard, and all operations of another request
    /// are certainly not, and the engine can tell.
    fn is_mixed(&self, markers: &[Marker], cluster: &Cluster) -> bool {
        let mut by_request = BTreeMap::<usize, Vec<Marker>>::new();
        for marker in markers {
            by_request.entry(self.operations[*marker].request).or_default().push(*marker);
        }
        self.slow.delay > 0
            && markers.iter().any(|marker| self.is_surely_slow(*marker, cluster))
            && by_request.values().any(|markers| !self.may_seem_slow(markers, cluster))
    }

    fn class(&self, engine: usize, caller: usize) -> Class {
        self.traffic[engine].class(&self.callers[caller])
    }

    /// Returns the time since when the oldest part of a batch may be held. A share whose client has left may count.
    fn held_since(&self, engine: usize, markers: &[Marker], caller: usize) -> u64 {
        let sent = markers.iter().map(|marker| &self.requests[self.operations[*marker].request]);
        let is_gone =
            |request: &&Request| (request.engine, request.caller, request.stage) == (engine, caller, Stage::Gone);
        let gone = self.requests.iter().filter(is_gone);
        sent.chain(gone).filter_map(|request| request.complete).min().unwrap_or_default()
    }

    /// Checks that a request's operations on one document are executed in order.
    fn check_document_order(&self, marker: Marker) -> Result<(), Violation> {
        let sent = &self.operations[marker];
        let Some(own) = sent.document() else { return Ok(()) };
        let later = &self.operations[marker + 1..self.requests[sent.request].client.operations.end];
        let overtaking = later.iter().find(|other| other.document() == Some(own));
        Violation::unless(overtaking.is_none(), Promise::Order, || {
            format!("operation {marker} is carried out after a later one on the same document: {overtaking:?}")
        })
    }
}

/// Returns whether an operation may be retried after a call with this outcome; `None` is still in flight. `busy` tells
/// whether a node had no room for it, and `idempotent` whether it may be executed twice.
fn may_be_sent_again(ended: Option<&Ended>, busy: bool, idempotent: bool) -> bool {
    match ended {
        // It never reached a node, or was refused with all others: nothing was executed.
        Some(Ended::NotSent | Ended::Refused(_)) => true,
        // A node had no room for it.
        Some(Ended::Items(_)) => busy,
        // It may have been executed, and executing it again has the same effect.
        Some(Ended::Unknown(_)) => idempotent,
        Some(Ended::Lie(_)) | None => false,
    }
}
