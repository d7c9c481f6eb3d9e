use std::collections::VecDeque;

use bulk_reshuffle::Time;
use bulk_reshuffle::bulk::ActionLine;
use bulk_reshuffle::config::{Config, ConfigError};
use bulk_reshuffle::engine::metrics::MetricEvents;
use bulk_reshuffle::engine::{Audited, Call, CallId, Command, Engine, Headers, Input, Origin, Response, Step};
use bulk_reshuffle::routing::{RoutingTable, SharedData, Upstreams};
use serde_json::value::RawValue;

use crate::dice::Dice;
use crate::disturbance::Disturbance;
use crate::fate::{PRODUCT, WARNING};
use crate::layout::COORDINATOR;
use crate::memory::Sabotaged;
use crate::operation::MADE_ID;
use crate::sabotage::Sabotage;
use crate::scenario::Settings;

/// The real engine, and what is done to it on purpose. Without a sabotage, the engine and nothing else.
#[derive(Debug)]
pub struct Saboteur {
    engine: Audited,
    sabotage: Option<Sabotage>,
    /// What to hand out next.
    more: VecDeque<Command>,
    withheld: Vec<Command>,
    /// The reply before.
    before: Option<Response>,
    seen: u32,
    /// The first id that the filter made.
    first_id: Option<Vec<u8>>,
    questions: u32,
}

/// Calls that the engine knows nothing of have numbers from here on.
const FORGED: u32 = 1 << 30;

/// What asks the cluster to wait, and what looks to the engine as if it did not.
const WAITS: [(&str, &str); 2] =
    [("refresh=wait_for", "refresh=later"), ("wait_for_active_shards=", "timeout=shards_")];

impl Saboteur {
    /// The n-th engine, with these settings, or those of the sabotage.
    pub fn new(
        number: u8,
        settings: &Settings,
        sabotage: Option<Sabotage>,
        shared: Box<dyn SharedData>,
    ) -> Result<Self, ConfigError> {
        let settings = sabotage.map_or(settings.clone(), |sabotage| sabotage.settings(settings.clone()));
        let origin = Origin { since_epoch: Time::from_secs(1_700_000_000), vm: [number; 6] };
        let shared = match sabotage {
            Some(sabotage) => Box::new(Sabotaged { shared, sabotage }),
            None => shared,
        };
        let engine = Engine::new(Config::read(settings.json().to_string().as_bytes())?, origin, shared);
        Ok(Self {
            engine: Audited::new(engine),
            sabotage,
            more: VecDeque::new(),
            withheld: Vec::new(),
            before: None,
            seen: 0,
            first_id: None,
            questions: 0,
        })
    }

    /// [`Engine::handle`]
    pub fn handle(&mut self, input: Input, now: Time) {
        let input = match (self.sabotage, input) {
            (Some(Sabotage::ForgetLeavers), Input::RequestGone { .. })
            | (Some(Sabotage::DropResends), Input::CallNotSent { .. }) => return,
            (Some(Sabotage::ResendLost), Input::CallFailed { call }) => Input::CallNotSent { call },
            (Some(Sabotage::MergeCallers), Input::RequestHead { request, mut headers, route, end }) => {
                headers.retain(|(name, _)| name != "authorization");
                Input::RequestHead { request, headers, route, end }
            }
            (Some(Sabotage::MissOddity), Input::RequestHead { request, mut headers, route, end }) => {
                headers.retain(|(name, _)| name != "content-encoding");
                Input::RequestHead { request, headers, route, end }
            }
            (Some(Sabotage::IgnoreRoutes), Input::RequestHead { request, headers, end, .. }) => {
                let route = Some(COORDINATOR.as_bytes().to_vec());
                Input::RequestHead { request, headers, route, end }
            }
            (Some(Sabotage::ForgetFilter), Input::RequestHead { request, mut headers, route, end }) => {
                headers.iter_mut().filter(|(name, _)| name == ":path").for_each(|(_, path)| *path = unfiltered(path));
                Input::RequestHead { request, headers, route, end }
            }
            (Some(Sabotage::MixWaiters), Input::RequestHead { request, mut headers, route, end }) => {
                let paths = headers.iter_mut().filter(|(name, _)| name == ":path");
                paths.for_each(|(_, path)| *path = prompt(&String::from_utf8_lossy(path)).into());
                Input::RequestHead { request, headers, route, end }
            }
            (Some(Sabotage::LetGoNeedlessly), Input::RequestHead { request, headers, route, end }) => {
                self.withheld.push(Command::Resume { request });
                Input::RequestHead { request, headers, route, end }
            }
            (Some(Sabotage::TakeDamaged), Input::RequestData { request, mut chunk, end }) => {
                chunk.pop_if(|last| *last == b'x');
                Input::RequestData { request, chunk, end }
            }
            (_, input) => input,
        };
        self.engine.handle(input, now);
    }

    /// [`Engine::poll_stream`]
    pub fn poll_stream(&mut self) -> Option<Command> {
        let mut command = self.more.pop_front().or_else(|| self.engine.poll_stream())?;
        if let Command::PassThrough { body, .. } = &mut command {
            match self.sabotage {
                Some(Sabotage::TouchPassedBody) => body.iter_mut().take(1).for_each(|chunk| chunk.push(b'!')),
                Some(Sabotage::PassTwice) => self.more.push_back(command.clone()),
                _ => {}
            }
        }
        Some(command)
    }

    /// [`Engine::poll_root`]
    pub fn poll_root(&mut self, now: Time) -> Option<Command> {
        loop {
            let command = match self.more.pop_front() {
                Some(forged) => return Some(forged),
                None => match self.engine.poll_root() {
                    Some(command) => command,
                    None => return self.late(),
                },
            };
            let sabotaged = match (self.sabotage, command) {
                (Some(sabotage), Command::Call(call)) if !call.body.is_empty() => self.call(sabotage, call, now),
                (Some(sabotage), Command::Reply { request, response }) => {
                    let response = self.reply(sabotage, response);
                    self.let_go(sabotage, Command::Reply { request, response })
                }
                (Some(Sabotage::HoldForEver), Command::Resume { .. }) => None,
                (Some(Sabotage::LoseQuestions), Command::Call(call)) if call.body.is_empty() => {
                    self.questions = self.questions.saturating_add(1);
                    (self.questions <= 6).then_some(Command::Call(call))
                }
                (_, command) => Some(command),
            };
            if sabotaged.is_some() {
                return sabotaged;
            }
        }
    }

    /// Lets something change for the engine, and says what.
    pub fn disturb(&mut self, dice: &mut Dice) -> Disturbance {
        let disturbance = Disturbance::draw(dice, &self.engine);
        disturbance.clone().happen(&mut self.engine);
        disturbance
    }

    /// [`Engine::memory`]
    pub fn memory(&self) -> u64 {
        match self.sabotage {
            Some(Sabotage::Leak) => self.engine.memory().saturating_add(1),
            Some(Sabotage::ForgetMemory) => self.engine.memory() / 100,
            _ => self.engine.memory(),
        }
    }

    /// [`Engine::memory_left`]
    pub fn memory_left(&self) -> u64 {
        self.engine.memory_left()
    }

    /// [`Audited::largest_ratio`]
    pub fn largest_ratio(&self) -> Step {
        self.engine.largest_ratio()
    }

    /// [`Audited::uncounted`]
    pub fn uncounted(&self) -> Option<Step> {
        self.engine.uncounted()
    }

    /// [`Engine::table`]
    pub fn table(&self) -> Option<&RoutingTable> {
        self.engine.table()
    }

    /// [`Engine::upstreams`]
    pub fn upstreams(&self) -> &Upstreams {
        self.engine.upstreams()
    }

    /// What was withheld for a while.
    fn late(&mut self) -> Option<Command> {
        let is_time = match self.sabotage {
            Some(Sabotage::LetGoNeedlessly) => self.every(3),
            Some(Sabotage::StarveCaller) => self.every(12),
            // So that the day comes to its end, however few there are.
            Some(Sabotage::FloodReplies) => self.engine.is_idle(),
            _ => false,
        };
        if is_time { self.withheld.pop() } else { None }
    }

    /// [`Engine::is_idle`]
    pub fn is_idle(&self) -> bool {
        self.engine.is_idle() && self.more.is_empty()
    }

    /// What was counted, by the metrics' names.
    pub fn take_events(&mut self) -> MetricEvents {
        let mut happened = MetricEvents::default();
        self.engine.take_events(&mut happened);
        happened
    }

    fn every(&mut self, times: u32) -> bool {
        self.seen = self.seen.wrapping_add(1);
        self.seen.checked_rem(times) == Some(0)
    }

    fn call(&mut self, sabotage: Sabotage, mut call: Call, now: Time) -> Option<Command> {
        let mut operations = cut(&call.body);
        match sabotage {
            Sabotage::AnswerUnsent => {
                self.engine.handle(Input::CallAnswered { call: call.id, response: made_up(&operations) }, now);
                return None;
            }
            Sabotage::SendTwice => {
                self.more.push_back(Command::Call(Call { id: CallId(call.id.0 | FORGED), ..call.clone() }));
            }
            Sabotage::SplitBatch if operations.len() > 1 => {
                let rest = operations.split_off(1).concat();
                call.body = operations.concat();
                let id = CallId(call.id.0 | FORGED);
                self.more.push_back(Command::Call(Call { id, body: rest, ..call.clone() }));
            }
            Sabotage::TurnOperationsRound => {
                operations.reverse();
                call.body = operations.concat();
            }
            Sabotage::LoseOperation if operations.len() > 1 => {
                operations.pop();
                call.body = operations.concat();
            }
            Sabotage::ForgeHeader => {
                let forged = ("x-opaque-id".to_owned(), "forged".to_owned());
                call.headers = call.headers.iter().cloned().chain([forged]).collect();
            }
            Sabotage::MixWaiters => {
                let true_value = |(name, value): &(String, String)| (name.clone(), not_prompt(value));
                call.headers = call.headers.iter().map(true_value).collect();
            }
            Sabotage::TouchBytes => call.body.iter_mut().rev().skip(2).take(1).for_each(|byte| *byte = b'?'),
            Sabotage::StarveCaller if call.headers.iter().any(|(_, value)| value == "Basic caller1") => {
                self.withheld.push(Command::Call(call));
                return None;
            }
            Sabotage::RepeatIds => {
                operations.iter_mut().for_each(|operation| self.repeat_id(operation));
                call.body = operations.concat();
            }
            Sabotage::WrongNode => call.upstream = "es-of-another".into(),
            _ => {}
        }
        Some(Command::Call(call))
    }

    /// Gives an operation that was given an id the first such id.
    fn repeat_id(&mut self, operation: &mut [u8]) {
        const HEAD: &[u8] = br#"{"index":{"_id":""#;
        let made = operation.get_mut(HEAD.len()..HEAD.len().saturating_add(MADE_ID)).filter(|id| !id.contains(&b'"'));
        if let Some(made) = made {
            made.copy_from_slice(self.first_id.get_or_insert_with(|| made.to_vec()));
        }
    }

    fn reply(&mut self, sabotage: Sabotage, mut response: Response) -> Response {
        let body = String::from_utf8_lossy(&response.body).into_owned();
        match sabotage {
            Sabotage::TurnItemsRound => response.body = turned_round(&body).into_bytes(),
            Sabotage::HideErrors => response.body = body.replace(r#""status":50"#, r#""status":20"#).into_bytes(),
            Sabotage::LoseHeaders => response.headers = without(&response.headers, PRODUCT.0),
            Sabotage::LoseWarnings => response.headers = without(&response.headers, WARNING),
            Sabotage::RepeatWarnings => {
                let warning = response.headers.iter().find(|(name, _)| *name == WARNING).cloned();
                response.headers = response.headers.iter().cloned().chain(warning).collect();
            }
            Sabotage::MixReplies => return self.before.replace(response.clone()).unwrap_or(response),
            _ => {}
        }
        response
    }

    /// Lets a reply go; or not, or with others.
    fn let_go(&mut self, sabotage: Sabotage, reply: Command) -> Option<Command> {
        match sabotage {
            Sabotage::DropReplies if self.every(5) => None,
            Sabotage::ReplyTwice => {
                self.more.push_back(reply.clone());
                Some(reply)
            }
            Sabotage::FloodReplies => {
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

/// A path that seems not to ask the cluster to wait.
fn prompt(path: &str) -> String {
    WAITS.iter().fold(path.to_owned(), |path, (waits, looks_prompt)| path.replace(waits, looks_prompt))
}

/// The path as it was.
fn not_prompt(path: &str) -> String {
    WAITS.iter().fold(path.to_owned(), |path, (waits, looks_prompt)| path.replace(looks_prompt, waits))
}

/// A path without the parameter `filter_path`.
fn unfiltered(path: &[u8]) -> Vec<u8> {
    let path = String::from_utf8_lossy(path).into_owned();
    let Some((path, query)) = path.split_once('?') else { return path.into_bytes() };
    let others: Vec<_> = query.split('&').filter(|parameter| !parameter.starts_with("filter_path=")).collect();
    if others.is_empty() { path.to_owned() } else { format!("{path}?{}", others.join("&")) }.into_bytes()
}

/// The operations of a batch.
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

/// Success for all of them.
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

fn turned_round(body: &str) -> String {
    let Ok(Items { items }) = serde_json::from_str(body) else { return body.to_owned() };
    let items: Vec<_> = items.iter().rev().map(|item| item.get()).collect();
    let head = body.split('[').next().unwrap_or_default();
    format!("{head}[{}]}}", items.join(","))
}
