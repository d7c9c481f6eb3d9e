use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bulk_reshuffle::config::Config;
use bulk_reshuffle::engine::{Build, Call, CallId, Command, Engine, Input, Origin, RequestId, Response};
use hashbrown::HashMap;
use proxy_wasm::hostcalls;
use proxy_wasm::types::{BufferType, MapType, Status};

use crate::metrics::Metrics;
use crate::shared_data::EnvoysSharedData;
use crate::wake_up::WakeUp;

/// How a stream continues after a callback.
pub enum Flow {
    /// Headers and body stay held.
    Hold,
    /// The headers continue, the body does not.
    Headers,
    /// The request continues as it arrives, and the engine gets copies of its body.
    Observed,
    /// The whole request continues, after these chunks are put back into the body.
    All(Vec<Vec<u8>>),
}

/// Where the zone of this Envoy may stand: in its own configuration, or in the labels of its pod, which Istio's agent passes
/// on. Kubernetes copies a node's zone to the labels of its pods.
const ZONES: [&[&str]; 2] =
    [&["xds", "node", "locality", "zone"], &["xds", "node", "metadata", "LABELS", "topology.kubernetes.io/zone"]];

/// The state that a root and its streams share: the engine, and everything needed to carry out its commands.
///
/// No borrow is held during a call to Envoy, because Envoy may call back.
pub struct Shell {
    root: u32,
    origin: Instant,
    last_now: Cell<Duration>,
    wake_up: WakeUp,
    engine: RefCell<Engine>,
    metrics: RefCell<Metrics>,
    /// The time that this callback has spent on the cluster state.
    state_time: Cell<Duration>,
    /// Whether Envoy's effective context is a stream.
    in_stream: Cell<bool>,
    /// Calls in flight, by Envoy's token.
    calls: RefCell<HashMap<u32, CallId>>,
}

impl Shell {
    /// Creates the shell of the root with this context id.
    pub fn new(root: u32, config: Config, build: Build, wake_up: WakeUp) -> Self {
        let mut engine = Engine::new(config, origin(), Box::new(EnvoysSharedData));
        engine.set_build(build);
        if let Some(zone) = ZONES.into_iter().find_map(text_property) {
            engine.set_zone(zone);
        }
        Self {
            root,
            origin: Instant::now(),
            last_now: Cell::default(),
            wake_up,
            engine: RefCell::new(engine),
            metrics: RefCell::default(),
            state_time: Cell::default(),
            in_stream: Cell::default(),
            calls: RefCell::default(),
        }
    }

    /// Lets the polls of the cluster state begin as soon as this worker runs. Envoy makes no calls while it configures a
    /// plug-in.
    pub fn start(&self) {
        let _ = hostcalls::set_tick_period(Duration::from_millis(1));
    }

    /// Returns whether the queue is this shell's.
    pub fn is_woken_by(&self, queue: u32) -> bool {
        self.wake_up.is(queue)
    }

    /// Returns whether no request is held and no call is in flight.
    pub fn is_idle(&self) -> bool {
        self.engine.borrow().is_idle()
    }

    /// Returns whether a request with this path is for the engine.
    pub fn takes(&self, path: &[u8]) -> bool {
        self.engine.borrow().takes(path)
    }

    /// Takes the header off the current request that names a node, in these headers and in Envoy.
    pub fn take_node_header(&self, headers: &mut Vec<(String, Vec<u8>)>) {
        if let Some(name) = self.engine.borrow().take_node_header(headers)
            && let Err(status) = hostcalls::remove_map_value(MapType::HttpRequestHeaders, name)
        {
            log::error!("Envoy does not take the header {name} off a request: {status:?}");
        }
    }

    /// Reports where the current stream's request has gone, and its answer's status, if the engine observes it.
    pub fn report_passed(&self, request: RequestId) {
        if self.engine.borrow().observes(request) {
            let address = text_property(&["upstream", "address"]).unwrap_or_default();
            let status = number_property(&["response", "code"]).and_then(|code| u16::try_from(code).ok());
            let input = Input::Passed { request, address, status: status.unwrap_or_default() };
            self.handle_in_stream_at(self.last_now.get(), input);
        }
    }

    /// Returns whether chunks of the answer to a request are to be passed to the engine.
    pub fn reads_answer(&self, request: RequestId) -> bool {
        self.engine.borrow().reads_answer(request)
    }

    /// Passes a copy of a chunk of the answer to an observed request to the engine. The time does not matter.
    pub fn answer_data(&self, request: RequestId, chunk: Vec<u8>) {
        self.handle_in_stream_at(self.last_now.get(), Input::AnswerData { request, chunk });
    }

    /// Passes an input from a stream's callback to the engine.
    pub fn handle_in_stream(&self, input: Input) -> Flow {
        self.handle_in_stream_at(self.now(), input)
    }

    /// Reports that a client has disconnected or was answered. The exact time does not matter, so the clock is not
    /// read.
    pub fn request_gone(&self, request: RequestId) {
        self.handle_in_stream_at(self.last_now.get(), Input::RequestGone { request });
    }

    /// Reports the end of a request. The last input was usually just before, so the clock is not read again.
    pub fn request_complete(&self, request: RequestId) -> Flow {
        self.handle_in_stream_at(self.last_now.get(), Input::RequestEnd { request })
    }

    fn handle_in_stream_at(&self, now: Duration, input: Input) -> Flow {
        self.engine.borrow_mut().handle(input, now);
        let mut flow = Flow::Hold;
        while let Some(command) = self.poll(Engine::poll_stream) {
            match command {
                Command::PassThrough { body, .. } => flow = Flow::All(body),
                Command::PassHeaders { .. } => flow = Flow::Headers,
                Command::Observe { .. } => flow = Flow::Observed,
                // This stream is already Envoy's effective context.
                Command::LogField { field, value, .. } => log_field(field, &value),
                other => self.carry_out(other),
            }
        }
        // Otherwise the requested wake-up callback publishes them.
        if !self.engine.borrow().is_wake_asked() {
            self.publish_metrics();
        }
        flow
    }

    /// Passes an input from one of the root's callbacks to the engine.
    pub fn handle_in_root(&self, input: Input) {
        self.handle_in_root_since(self.now(), input);
    }

    /// Passes an input whose preparation began at `begin`.
    fn handle_in_root_since(&self, begin: Duration, input: Input) {
        let now = self.now();
        let mut noted = begin;
        self.engine.borrow_mut().handle(input, now);
        self.record_state_work(&mut noted);
        while let Some(command) = self.poll(Engine::poll_root) {
            self.record_state_work(&mut noted);
            self.carry_out(command);
        }
        self.record_state_work(&mut noted);
        self.leave_stream();
        let state_time = self.state_time.take();
        if !state_time.is_zero() {
            self.engine.borrow_mut().record_state_step(state_time);
        }
        self.publish_metrics();
    }

    /// Adds the time of the engine's last work to `state_time`, if that work was on the cluster state. Reading the
    /// clock is a call to Envoy, so the clock is read only in that case; `noted` is the time of the last reading. A
    /// callback handles the state before everything else.
    fn record_state_work(&self, noted: &mut Duration) {
        if self.engine.borrow_mut().take_state_work() {
            let now = self.now();
            let time = now.saturating_sub(std::mem::replace(noted, now));
            self.state_time.set(self.state_time.get().saturating_add(time));
        }
    }

    /// Handles `on_queue_ready`.
    pub fn woken(&self) {
        self.wake_up.clear();
        self.handle_in_root(Input::Woken);
    }

    /// Handles `on_http_call_response`. Without headers there is no answer, and reading one would kill the VM. An
    /// answer for which there is no room stays in Envoy.
    pub fn call_ended(&self, token: u32, headers: usize, body_size: usize) {
        let Some(call) = self.calls.borrow_mut().remove(&token) else { return };
        let begin = self.now();
        let has_room = self.engine.borrow().has_room(call, body_size);
        let response = if headers == 0 || !has_room { None } else { call_response(body_size) };
        let input = match response {
            Some(response) => Input::CallAnswered { call, response },
            None => Input::CallFailed { call },
        };
        self.handle_in_root_since(begin, input);
    }

    /// Returns the time since the start. This is a call to Envoy.
    fn now(&self) -> Duration {
        let now = self.origin.elapsed();
        self.last_now.set(now);
        now
    }

    fn poll(&self, from: fn(&mut Engine) -> Option<Command>) -> Option<Command> {
        from(&mut self.engine.borrow_mut())
    }

    fn carry_out(&self, command: Command) {
        match command {
            Command::Call(call) => self.call(&call),
            Command::Reply { request, response } => self.reply(request.0, &response),
            Command::Wake => {
                if let Err(status) = self.wake_up.ask() {
                    let problem = format!("cannot enqueue a wake-up, a timer replaces it: {status:?}");
                    self.engine.borrow_mut().warn(problem);
                    // The tick replaces the wake-up.
                    let _ = hostcalls::set_tick_period(Duration::from_millis(10));
                }
            }
            Command::SetTimer(after) => {
                // Envoy accepts whole milliseconds; 0 switches the timer off.
                let _ = hostcalls::set_tick_period(after.max(Duration::from_millis(1)));
            }
            Command::Warn(text) => log::warn!("{text}"),
            Command::LogField { request, field, value } => self.in_stream(request.0, || log_field(field, &value)),
            Command::Measure { request, counters, gauges } => {
                let input = self.metrics.borrow_mut().measure(&self.engine.borrow(), request, &counters, &gauges);
                self.engine.borrow_mut().handle(input, self.last_now.get());
            }
            Command::Resume { request } => self.in_stream(request.0, || {
                let _ = hostcalls::resume_http_request();
            }),
            // These occur only in a stream's own callback.
            Command::PassThrough { .. } | Command::PassHeaders { .. } | Command::Observe { .. } => {}
        }
    }

    fn call(&self, call: &Call) {
        self.leave_stream();
        let headers = call.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let node = call.node.iter().map(|(name, value)| (name.as_ref(), value.as_ref()));
        let headers = headers.chain(node).collect();
        let body = (!call.body.is_empty()).then_some(call.body.as_slice());
        match hostcalls::dispatch_http_call(&call.upstream, headers, body, Vec::new(), call.timeout) {
            Ok(token) => {
                self.calls.borrow_mut().insert(token, call.id);
            }
            Err(status) => {
                // Envoy returns this status if it does not have the cluster.
                let has_upstream = status != Status::BadArgument;
                self.engine.borrow_mut().handle(Input::CallNotSent { call: call.id, has_upstream }, self.now());
            }
        }
    }

    fn reply(&self, stream: u32, response: &Response) {
        self.in_stream(stream, || {
            let headers = response.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            // A stream that has ended needs no answer.
            let _ = hostcalls::send_http_response(u32::from(response.status), headers, Some(&response.body));
        });
    }

    /// Runs `act` in the context of a stream, unless the stream has ended.
    fn in_stream(&self, stream: u32, act: impl FnOnce()) {
        if hostcalls::set_effective_context(stream).is_ok() {
            self.in_stream.set(true);
            act();
        }
    }

    /// Makes the root the effective context again, if it was a stream.
    fn leave_stream(&self) {
        if self.in_stream.take() {
            let _ = hostcalls::set_effective_context(self.root);
        }
    }

    fn publish_metrics(&self) {
        self.metrics.borrow_mut().publish(&mut self.engine.borrow_mut());
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        self.metrics.get_mut().withdraw(self.engine.get_mut().upstreams());
    }
}

/// Returns a property that Envoy has, if it is a text that is not empty.
fn text_property(path: &[&str]) -> Option<String> {
    let value = hostcalls::get_property(path.to_vec()).ok()??;
    String::from_utf8(value).ok().filter(|text| !text.is_empty())
}

/// Returns a property that Envoy has, if it is a number.
fn number_property(path: &[&str]) -> Option<i64> {
    let value = hostcalls::get_property(path.to_vec()).ok()??;
    Some(i64::from_le_bytes(value.try_into().ok()?))
}

/// Keeps a field for the access log: `%FILTER_STATE(wasm.bulk_reshuffle.FIELD:PLAIN)%`.
fn log_field(field: &str, value: &str) {
    let _ = hostcalls::set_property(vec![&format!("bulk_reshuffle.{field}")], Some(value.as_bytes()));
}

/// Returns the wall-clock time, and random bytes that identify this VM.
fn origin() -> Origin {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut vm = [0; 6];
    if let Err(error) = getrandom::fill(&mut vm) {
        // Nanoseconds differ enough between machines, and workers of one machine do not start in the same nanosecond.
        log::warn!("cannot get random numbers, the time replaces them: {error}");
        vm.iter_mut().zip(since_epoch.as_nanos().to_le_bytes()).for_each(|(to, byte)| *to = byte);
    }
    Origin { since_epoch, vm }
}

/// Returns the answer to the call whose callback is running.
fn call_response(body_size: usize) -> Option<Response> {
    let headers = hostcalls::get_map_bytes(MapType::HttpCallResponseHeaders).ok()?;
    let status = headers.iter().find(|(name, _)| name == ":status");
    let status = status.and_then(|(_, value)| std::str::from_utf8(value).ok()?.parse().ok())?;
    let body = match body_size {
        0 => Vec::new(),
        size => hostcalls::get_buffer(BufferType::HttpCallResponseBody, 0, size).ok()??,
    };
    let headers = headers
        .into_iter()
        .filter(|(name, _)| !name.starts_with(':'))
        // A value that is not text cannot be forwarded.
        .filter_map(|(name, value)| Some((name, String::from_utf8(value).ok()?)))
        .collect();
    Some(Response { status, headers, body })
}
