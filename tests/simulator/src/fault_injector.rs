use std::collections::VecDeque;
use std::ops::Deref;

use bulk_reshuffle::Time;
use bulk_reshuffle::bulk::ActionLine;
use bulk_reshuffle::config::{Config, ConfigError};
use bulk_reshuffle::engine::metrics::MetricEvents;
use bulk_reshuffle::engine::{Audited, Call, CallId, Command, Engine, Headers, Input, Origin, Response};
use bulk_reshuffle::routing::SharedData;
use serde_json::value::RawValue;

use crate::call_outcome::{LOCATION, PRODUCT, WARNING};
use crate::calls::is_query;
use crate::disturbance::Disturbance;
use crate::fault::Fault;
use crate::layout::COORDINATOR;
use crate::memory::FaultySharedData;
use crate::operation::MADE_ID;
use crate::rng::Rng;
use crate::scenario::Settings;
use crate::single_document::is_original;

/// The real engine with an injected fault. Without a fault it is the engine alone.
#[derive(Debug)]
pub struct FaultInjector {
    engine: Audited,
    fault: Option<Fault>,
    /// The commands to return next.
    more: VecDeque<Command>,
    withheld: Vec<Command>,
    /// The previous reply.
    before: Option<Response>,
    seen: u32,
    /// The first id that the filter generated.
    first_id: Option<Vec<u8>>,
    queries: u32,
}

/// The first number for calls that the engine does not know.
const FORGED: u32 = 1 << 30;

/// The parameters that ask the cluster to wait, and harmless replacements.
const WAITS: [(&str, &str); 2] =
    [("refresh=wait_for", "refresh=later"), ("wait_for_active_shards=", "timeout=shards_")];

/// Gives access to what no fault changes.
impl Deref for FaultInjector {
    type Target = Audited;

    fn deref(&self) -> &Audited {
        &self.engine
    }
}

impl FaultInjector {
    /// Creates the engine with this number and these settings, which a fault may change.
    pub fn new(
        number: u8,
        settings: &Settings,
        fault: Option<Fault>,
        shared: Box<dyn SharedData>,
    ) -> Result<Self, ConfigError> {
        let settings = fault.map_or(settings.clone(), |fault| fault.settings(settings.clone()));
        let origin = Origin { since_epoch: Time::from_secs(1_700_000_000), vm: [number; 6] };
        let shared = match fault {
            Some(fault) => Box::new(FaultySharedData { shared, fault }),
            None => shared,
        };
        let engine = Engine::new(Config::read(settings.json().to_string().as_bytes())?, origin, shared);
        Ok(Self {
            engine: Audited::new(engine),
            fault,
            more: VecDeque::new(),
            withheld: Vec::new(),
            before: None,
            seen: 0,
            first_id: None,
            queries: 0,
        })
    }

    pub fn handle(&mut self, input: Input, now: Time) {
        let input = match (self.fault, input) {
            (Some(Fault::ForgetLeavers), Input::RequestGone { .. })
            | (Some(Fault::DropResends), Input::CallNotSent { .. }) => return,
            (Some(Fault::ResendLost), Input::CallFailed { call }) => Input::CallNotSent { call, has_upstream: true },
            (Some(Fault::RefuseLost), Input::CallFailed { call }) => {
                Input::CallAnswered { call, response: Response { status: 401, ..Response::default() } }
            }
            (Some(fault), Input::RequestHead { request, mut headers, mut route, end }) => {
                let paths = headers.iter_mut().filter(|(name, _)| name == ":path").map(|(_, path)| path);
                match fault {
                    Fault::MergeCallers => headers.retain(|(name, _)| name != "authorization"),
                    Fault::MissOddity => headers.retain(|(name, _)| name != "content-encoding"),
                    Fault::IgnoreRoutes => route = Some(COORDINATOR.as_bytes().to_vec()),
                    Fault::ForgetFilter => paths.for_each(|path| *path = unfiltered(path)),
                    Fault::MixWaiters => {
                        paths.for_each(|path| *path = prompt(&String::from_utf8_lossy(path)).into());
                    }
                    Fault::LetGoNeedlessly => self.withheld.push(Command::Resume { request }),
                    _ => {}
                }
                Input::RequestHead { request, headers, route, end }
            }
            (Some(Fault::TakeDamaged), Input::RequestData { request, mut chunk, end }) => {
                chunk.pop_if(|last| *last == b'x');
                Input::RequestData { request, chunk, end }
            }
            (_, input) => input,
        };
        self.engine.handle(input, now);
    }

    pub fn poll_stream(&mut self) -> Option<Command> {
        let mut command = self.more.pop_front().or_else(|| self.engine.poll_stream())?;
        if let Command::PassThrough { body, .. } = &mut command {
            match self.fault {
                Some(Fault::TouchPassedBody) => body.iter_mut().take(1).for_each(|chunk| chunk.push(b'!')),
                Some(Fault::PassTwice) => self.more.push_back(command.clone()),
                _ => {}
            }
        }
        Some(command)
    }

    pub fn poll_root(&mut self, now: Time) -> Option<Command> {
        loop {
            let command = match self.more.pop_front() {
                Some(forged) => return Some(forged),
                None => match self.engine.poll_root() {
                    Some(command) => command,
                    None => return self.late(),
                },
            };
            let altered = match (self.fault, command) {
                (Some(fault), Command::Call(call)) if !is_query(&call) => self.call(fault, call, now),
                (Some(fault), Command::Reply { request, response }) => {
                    let response = self.reply(fault, response);
                    self.let_go(fault, Command::Reply { request, response })
                }
                (Some(Fault::HoldForEver), Command::Resume { .. }) => None,
                (Some(Fault::LoseQueries), Command::Call(call)) if is_query(&call) => {
                    self.queries = self.queries.saturating_add(1);
                    (self.queries <= 6).then_some(Command::Call(call))
                }
                (_, command) => Some(command),
            };
            if altered.is_some() {
                return altered;
            }
        }
    }

    pub fn disturb(&mut self, rng: &mut Rng) -> Disturbance {
        let disturbance = Disturbance::draw(rng, &self.engine);
        disturbance.clone().happen(&mut self.engine);
        disturbance
    }

    /// Returns the counted memory: see [`Engine::memory`].
    pub fn memory(&self) -> u64 {
        match self.fault {
            Some(Fault::Leak) => self.engine.memory().saturating_add(1),
            Some(Fault::ForgetMemory) => self.engine.memory() / 100,
            _ => self.engine.memory(),
        }
    }

    /// Returns a command that was withheld for a while.
    fn late(&mut self) -> Option<Command> {
        let is_time = match self.fault {
            Some(Fault::LetGoNeedlessly) => self.every(3),
            Some(Fault::StarveCaller) => self.every(12),
            // This lets the run end, however few replies there are.
            Some(Fault::FloodReplies) => self.engine.is_idle(),
            _ => false,
        };
        if is_time { self.withheld.pop() } else { None }
    }

    /// Returns whether the engine is idle: see [`Engine::is_idle`].
    pub fn is_idle(&self) -> bool {
        self.engine.is_idle() && self.more.is_empty()
    }

    /// Returns the counts by the metrics' names.
    pub fn take_events(&mut self) -> MetricEvents {
        let mut events = MetricEvents::default();
        self.engine.take_events(&mut events);
        events
    }

    fn every(&mut self, times: u32) -> bool {
        self.seen = self.seen.wrapping_add(1);
        self.seen.checked_rem(times) == Some(0)
    }

    fn call(&mut self, fault: Fault, mut call: Call, now: Time) -> Option<Command> {
        let mut operations = cut(&call.body);
        match fault {
            Fault::AnswerUnsent => {
                self.engine.handle(Input::CallAnswered { call: call.id, response: made_up(&operations) }, now);
                return None;
            }
            Fault::KeepOriginals if is_original(&call) => {
                let response = Response { status: 409, ..Response::default() };
                self.engine.handle(Input::CallAnswered { call: call.id, response }, now);
                return None;
            }
            Fault::TouchOriginals if is_original(&call) => call.body.push(b' '),
            Fault::SendOriginalsTwice if !is_original(&call) => {}
            Fault::SendTwice | Fault::SendOriginalsTwice => {
                self.more.push_back(Command::Call(Call { id: CallId(call.id.0 | FORGED), ..call.clone() }));
            }
            Fault::SplitBatch if operations.len() > 1 => {
                let rest = operations.split_off(1).concat();
                call.body = operations.concat();
                let id = CallId(call.id.0 | FORGED);
                self.more.push_back(Command::Call(Call { id, body: rest, ..call.clone() }));
            }
            Fault::ReverseOperations => {
                operations.reverse();
                call.body = operations.concat();
            }
            Fault::LoseOperation if operations.len() > 1 => {
                operations.pop();
                call.body = operations.concat();
            }
            Fault::ForgeHeader => {
                let forged = ("x-opaque-id".to_owned(), "forged".to_owned());
                call.headers = call.headers.iter().cloned().chain([forged]).collect();
            }
            Fault::MixWaiters => {
                let true_value = |(name, value): &(String, String)| (name.clone(), not_prompt(value));
                call.headers = call.headers.iter().map(true_value).collect();
            }
            Fault::TouchBytes => call.body.iter_mut().rev().skip(2).take(1).for_each(|byte| *byte = b'?'),
            Fault::StarveCaller if call.headers.iter().any(|(_, value)| value == "Basic caller1") => {
                self.withheld.push(Command::Call(call));
                return None;
            }
            Fault::RepeatIds => {
                operations.iter_mut().for_each(|operation| self.repeat_id(operation));
                call.body = operations.concat();
            }
            Fault::WrongNode => call.upstream = "es-of-another".into(),
            _ => {}
        }
        Some(Command::Call(call))
    }

    fn repeat_id(&mut self, operation: &mut [u8]) {
        const HEAD: &[u8] = br#"{"index":{"_id":""#;
        let made = operation.get_mut(HEAD.len()..HEAD.len().saturating_add(MADE_ID)).filter(|id| !id.contains(&b'"'));
        if let Some(made) = made {
            made.copy_from_slice(self.first_id.get_or_insert_with(|| made.to_vec()));
        }
    }

    fn reply(&mut self, fault: Fault, mut response: Response) -> Response {
        let body = String::from_utf8_lossy(&response.body).into_owned();
        match fault {
            Fault::ReverseItems => response.body = reversed(&body).into_bytes(),
            Fault::HideErrors => response.body = body.replace(r#""status":50"#, r#""status":20"#).into_bytes(),
            Fault::LoseHeaders => response.headers = without(&response.headers, PRODUCT.0),
            Fault::LoseLocation => response.headers = without(&response.headers, LOCATION),
            Fault::LoseWarnings => response.headers = without(&response.headers, WARNING),
            Fault::RepeatWarnings => {
                let warning = response.headers.iter().find(|(name, _)| *name == WARNING).cloned();
                response.headers = response.headers.iter().cloned().chain(warning).collect();
            }
            Fault::MixReplies => return self.before.replace(response.clone()).unwrap_or(response),
            _ => {}
        }
        response
    }

    /// Releases a reply, withholds it, or releases it with others.
    fn let_go(&mut self, fault: Fault, reply: Command) -> Option<Command> {
        match fault {
            Fault::DropReplies if self.every(5) => None,
            Fault::ReplyTwice => {
                self.more.push_back(reply.clone());
                Some(reply)
            }
            Fault::FloodReplies => {
                self.withheld.push(reply);
                if self.withheld.len() > 64 {
                    self.more.extend(self.withheld.drain(..));
                }
                None
            }
            _ => Some(reply),
        }
    }
}

/// Returns a path that does not seem to ask the cluster to wait.
fn prompt(path: &str) -> String {
    WAITS.iter().fold(path.to_owned(), |path, (waits, looks_prompt)| path.replace(waits, looks_prompt))
}

/// Returns the original path.
fn not_prompt(path: &str) -> String {
    WAITS.iter().fold(path.to_owned(), |path, (waits, looks_prompt)| path.replace(looks_prompt, waits))
}

/// Returns a path without the parameter `filter_path`.
fn unfiltered(path: &[u8]) -> Vec<u8> {
    let path = String::from_utf8_lossy(path).into_owned();
    let Some((path, query)) = path.split_once('?') else { return path.into_bytes() };
    let others: Vec<_> = query.split('&').filter(|parameter| !parameter.starts_with("filter_path=")).collect();
    if others.is_empty() { path.to_owned() } else { format!("{path}?{}", others.join("&")) }.into_bytes()
}

/// Splits a batch into its operations.
fn cut(body: &[u8]) -> Vec<Vec<u8>> {
    let mut lines = body.split_inclusive(|byte| *byte == b'\n');
    let mut operations = Vec::new();
    while let Some(line) = lines.next() {
        let has_source = ActionLine::read(line).is_ok_and(|line| line.action.has_source());
        let source = if has_source { lines.next().unwrap_or_default() } else { &[] };
        operations.push([line, source].concat());
    }
    operations
}

fn without(headers: &Headers, left_out: &str) -> Headers {
    headers.iter().filter(|(name, _)| name != left_out).cloned().collect()
}

/// Returns success for all of them.
fn made_up(operations: &[Vec<u8>]) -> Response {
    let item = |operation: &Vec<u8>| {
        let line = operation.split(|byte| *byte == b'\n').next()?;
        let line = ActionLine::read(line).ok()?;
        let id = line.id.as_deref().unwrap_or("made");
        Some(format!(r#"{{"{}":{{"_index":"i","_id":"{id}","status":201}}}}"#, line.action.name()))
    };
    let items: Vec<_> = operations.iter().filter_map(item).collect();
    let body = format!(r#"{{"took":1,"errors":false,"items":[{}]}}"#, items.join(","));
    Response { status: 200, headers: Headers::default(), body: body.into_bytes() }
}

#[derive(serde::Deserialize)]
struct Items<'a> {
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
}

fn reversed(body: &str) -> String {
    let Ok(Items { items }) = serde_json::from_str(body) else { return body.to_owned() };
    let items: Vec<_> = items.iter().rev().map(|item| item.get()).collect();
    let head = body.split('[').next().unwrap_or_default();
    format!("{head}[{}]}}", items.join(","))
}
