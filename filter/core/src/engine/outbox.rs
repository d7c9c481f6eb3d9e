use std::collections::VecDeque;

use hashbrown::HashMap;

use crate::Time;
use crate::engine::command::{Command, RequestId, Response};
use crate::engine::memory::{Charge, Memory};
use crate::engine::requests::Request;
use crate::engine::warnings::Warnings;

/// The maximum number of replies in one callback. Envoy nests the replies of one callback; about 300 overflow the VM's
/// stack.
const REPLIES_PER_CALLBACK: usize = 64;

/// The commands that wait for the shell, in the order of delivery.
#[derive(Debug)]
pub struct Outbox {
    warnings: Warnings,
    /// Fields of the access log. They leave first, because Envoy writes the log when the request ends.
    access_log: VecDeque<Command>,
    /// The pending decision for the current stream.
    decision: Option<Command>,
    /// Requests whose headers continue to the next filter.
    resumes: VecDeque<RequestId>,
    replies: ReplyQueue,
    /// How many more replies may leave in this callback.
    replies_left: usize,
    /// Whether a [`Command::Wake`] is pending.
    is_wake_asked: bool,
    /// When the current timer expires.
    timer: Option<Time>,
    /// The bytes of the last command's body, until the next poll.
    handed_out: Charge,
}

impl Outbox {
    /// Creates an empty outbox, which counts the bodies that it hands out.
    pub fn new(memory: &Memory) -> Self {
        Self {
            warnings: Warnings::default(),
            access_log: VecDeque::new(),
            decision: None,
            resumes: VecDeque::new(),
            replies: ReplyQueue::default(),
            replies_left: REPLIES_PER_CALLBACK,
            is_wake_asked: false,
            timer: None,
            handed_out: memory.charge(0),
        }
    }

    /// Begins a callback. The body handed out in the last one now belongs to the shell, and the reply budget starts
    /// over.
    pub fn begin_callback(&mut self) {
        self.replies_left = REPLIES_PER_CALLBACK;
        self.handed_out.clear();
    }

    /// Notes that the requested callback of the root context has run.
    pub fn woken(&mut self) {
        self.is_wake_asked = false;
    }

    /// Notes that the timer has expired.
    pub fn timer_ran_out(&mut self) {
        self.timer = None;
    }

    /// Adds a warning to the log, unless the same warning or many others were added recently.
    pub fn warn(&mut self, warning: &str, now: Time) {
        self.warnings.push(warning, now);
    }

    /// Adds a field of a request's access log.
    pub fn log(&mut self, request: RequestId, field: &'static str, value: String) {
        self.access_log.push_back(Command::LogField { request, field, value });
    }

    /// Sets the decision for the current stream.
    pub fn decide(&mut self, decision: Command) {
        debug_assert!(self.decision.is_none(), "{:?} was not polled", self.decision);
        self.decision = Some(decision);
    }

    /// Lets a request's headers continue.
    pub fn resume(&mut self, request: RequestId) {
        self.resumes.push_back(request);
    }

    /// Appends a reply.
    pub fn reply(&mut self, request: RequestId, reply: Reply) {
        self.replies.push(request, reply);
    }

    /// Drops the reply to a client that has disconnected.
    pub fn forget(&mut self, request: RequestId) {
        self.replies.forget(request);
    }

    /// Counts the bytes of the current command's body until the next poll.
    pub fn hand_out(&mut self, bytes: u64) {
        self.handed_out.set(bytes);
    }

    /// Returns whether replies are queued.
    pub fn has_replies(&self) -> bool {
        !self.replies.is_empty()
    }

    /// Returns whether warnings are queued.
    pub fn has_warnings(&self) -> bool {
        !self.warnings.is_empty()
    }

    /// Returns whether a [`Command::Wake`] is pending.
    pub fn is_wake_asked(&self) -> bool {
        self.is_wake_asked
    }

    /// Returns the next command for a stream's callback.
    pub fn pop_for_stream(&mut self) -> Option<Command> {
        let command = self.access_log.pop_front().or_else(|| self.decision.take());
        if command.is_none() {
            self.handed_out.clear();
        }
        command
    }

    /// Returns the next command for a root callback that precedes calls and replies.
    pub fn pop_for_root(&mut self) -> Option<Command> {
        self.handed_out.clear();
        if let Some(warning) = self.warnings.pop() {
            return Some(Command::Warn(warning));
        }
        self.access_log.pop_front().or_else(|| Some(Command::Resume { request: self.resumes.pop_front()? }))
    }

    /// Returns the next reply, unless this callback has reached its maximum.
    pub fn pop_reply(&mut self, memory: &Memory) -> Option<Command> {
        let left = self.replies_left.checked_sub(1)?;
        let (request, response, charge) = self.replies.pop(memory)?;
        (self.replies_left, self.handed_out) = (left, charge);
        Some(Command::Reply { request, response })
    }

    /// Requests a wake-up, unless one is pending.
    pub fn wake(&mut self) -> Option<Command> {
        (!std::mem::replace(&mut self.is_wake_asked, true)).then_some(Command::Wake)
    }

    /// Returns whether the timer must be set to meet this deadline.
    pub fn needs_timer(&self, due: Option<Time>) -> bool {
        due.is_some_and(|due| self.timer.is_none_or(|timer| due < timer))
    }

    /// Sets the timer for this deadline, unless it already expires earlier.
    pub fn set_timer(&mut self, due: Option<Time>, now: Time) -> Option<Command> {
        let timer = due.filter(|_| self.needs_timer(due))?;
        self.timer = Some(timer);
        Some(Command::SetTimer(timer.saturating_sub(now)))
    }
}

/// A queued reply.
#[derive(Debug)]
pub enum Reply {
    /// All shares of this request have an outcome.
    Merged(Box<Request>),
    /// A response from the filter itself, with the charge for its bytes.
    Ready(Response, Charge),
}

/// The queued replies, in order. Each is assembled when it leaves, so that only one exists at any time.
#[derive(Debug, Default)]
struct ReplyQueue {
    waiting: HashMap<RequestId, Reply>,
    /// The order of the requests. The client of a request that is not in `waiting` has disconnected.
    order: VecDeque<RequestId>,
}

impl ReplyQueue {
    fn push(&mut self, request: RequestId, reply: Reply) {
        self.waiting.insert(request, reply);
        self.order.push_back(request);
    }

    fn forget(&mut self, request: RequestId) {
        self.waiting.remove(&request);
    }

    fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Returns the next reply. Its bytes are counted before it is assembled.
    fn pop(&mut self, memory: &Memory) -> Option<(RequestId, Response, Charge)> {
        loop {
            let request = self.order.pop_front()?;
            let Some(waiting) = self.waiting.remove(&request) else { continue };
            let (response, charge) = match waiting {
                Reply::Ready(response, charge) => (response, charge),
                Reply::Merged(request) => {
                    let mut charge = memory.charge(request.reply_bytes());
                    let response = request.response();
                    charge.set(response.body.capacity() as u64);
                    (response, charge)
                }
            };
            return Some((request, response, charge));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Time = Time::from_secs(1);

    fn outbox() -> (Outbox, Memory) {
        let memory = Memory::default();
        (Outbox::new(&memory), memory)
    }

    fn reply(outbox: &mut Outbox, memory: &Memory, request: u32, bytes: usize) {
        let response = Response { status: 200, body: vec![b'x'; bytes], ..Response::default() };
        outbox.reply(RequestId(request), Reply::Ready(response, memory.charge(bytes as u64)));
    }

    fn replied(command: Option<Command>) -> Option<u32> {
        match command {
            Some(Command::Reply { request, .. }) => Some(request.0),
            _ => None,
        }
    }

    #[test]
    fn access_log_fields_precede_the_command_that_ends_their_request() {
        let (mut outbox, _) = outbox();
        outbox.decide(Command::PassHeaders { request: RequestId(1) });
        outbox.log(RequestId(1), "reason", "path".to_owned());
        assert!(matches!(outbox.pop_for_stream(), Some(Command::LogField { field: "reason", .. })));
        assert!(matches!(outbox.pop_for_stream(), Some(Command::PassHeaders { .. })));
        assert!(outbox.pop_for_stream().is_none());
    }

    #[test]
    fn the_number_of_replies_in_a_callback_is_bounded() {
        let (mut outbox, memory) = outbox();
        (0..100).for_each(|request| reply(&mut outbox, &memory, request, 1));
        let all = |outbox: &mut Outbox| std::iter::from_fn(|| replied(outbox.pop_reply(&memory))).collect::<Vec<_>>();
        assert_eq!(all(&mut outbox), (0..64).collect::<Vec<_>>());
        outbox.begin_callback();
        assert_eq!(all(&mut outbox), (64..100).collect::<Vec<_>>());
        assert!(!outbox.has_replies());
    }

    #[test]
    fn a_client_that_has_disconnected_gets_no_reply() {
        let (mut outbox, memory) = outbox();
        (0..3).for_each(|request| reply(&mut outbox, &memory, request, 10));
        outbox.forget(RequestId(1));
        assert_eq!(memory.used(), 20);
        assert_eq!(replied(outbox.pop_reply(&memory)), Some(0));
        assert_eq!(replied(outbox.pop_reply(&memory)), Some(2));
        assert_eq!(replied(outbox.pop_reply(&memory)), None);
    }

    #[test]
    fn a_body_is_counted_until_the_next_poll() {
        let (mut outbox, memory) = outbox();
        reply(&mut outbox, &memory, 1, 1000);
        assert_eq!(replied(outbox.pop_reply(&memory)), Some(1));
        assert_eq!(memory.used(), 1000);
        assert!(outbox.pop_for_root().is_none());
        assert_eq!(memory.used(), 0);
        outbox.hand_out(500);
        outbox.begin_callback();
        assert_eq!(memory.used(), 0);
    }

    #[test]
    fn only_one_wake_up_is_pending() {
        let (mut outbox, _) = outbox();
        assert!(outbox.wake().is_some() && outbox.is_wake_asked());
        assert!(outbox.wake().is_none());
        outbox.woken();
        assert!(outbox.wake().is_some());
    }

    #[test]
    fn the_timer_is_reset_only_to_expire_sooner() {
        let (mut outbox, _) = outbox();
        assert!(outbox.set_timer(None, SECOND).is_none());
        assert!(
            matches!(outbox.set_timer(Some(5 * SECOND), SECOND), Some(Command::SetTimer(after)) if after == 4 * SECOND)
        );
        assert!(outbox.set_timer(Some(6 * SECOND), SECOND).is_none());
        assert!(outbox.set_timer(Some(2 * SECOND), SECOND).is_some());
        outbox.timer_ran_out();
        assert!(outbox.set_timer(Some(6 * SECOND), 2 * SECOND).is_some());
    }
}
