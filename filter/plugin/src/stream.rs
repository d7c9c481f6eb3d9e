use std::rc::Rc;

use bulk_reshuffle::engine::{Input, RequestId};
use proxy_wasm::hostcalls;
use proxy_wasm::traits::{Context, HttpContext};
use proxy_wasm::types::{Action, BufferType, MapType};

use crate::shell::{Flow, Shell};

/// One request of a client.
pub struct Stream {
    request: RequestId,
    shell: Rc<Shell>,
    /// Whether the engine knows the request, and must be told when it ends.
    known: bool,
    /// Whether the request continues while the engine gets copies of its body.
    observed: bool,
    /// Whether the engine has the request. Once the request continues to the next filter, the stream does not touch it.
    taken: bool,
}

impl Stream {
    /// Creates the stream with this context id.
    pub fn new(context_id: u32, shell: Rc<Shell>) -> Self {
        Self { request: RequestId(context_id), shell, known: false, observed: false, taken: false }
    }

    /// Passes an input to the engine, and lets the stream continue if the engine decides so.
    fn handle(&mut self, input: Input) -> Action {
        let flow = self.shell.handle_in_stream(input);
        self.flow(flow)
    }

    /// Tells the engine that the request is complete.
    fn end(&mut self) -> Action {
        let flow = self.shell.request_complete(self.request);
        self.flow(flow)
    }

    /// Passes a copy of a chunk of the body to the engine, or its end.
    fn observe(&mut self, size: usize, end: bool) {
        let chunk = hostcalls::get_buffer(BufferType::HttpRequestBody, 0, size).ok().flatten();
        match chunk.filter(|chunk| !chunk.is_empty()) {
            Some(chunk) => {
                self.shell.handle_in_stream(Input::RequestData { request: self.request, chunk, end });
            }
            None if size > 0 => {
                // The rest alone would be another request.
                self.observed = false;
            }
            None if end => {
                self.shell.request_complete(self.request);
            }
            None => {}
        }
    }

    /// Refuses a request whose body Envoy does not let the filter take out or put back. No Envoy is known to do that, but
    /// the rest would be another request.
    fn fail(&mut self) -> Action {
        const BODY: &[u8] = br#"{"error":{"type":"body_exception","reason":"the proxy cannot change the body of this request"},"status":500}"#;
        log::error!("Envoy refuses to change the body of a bulk request, so the request is refused");
        self.on_done();
        let headers = vec![("content-type", "application/json")];
        // A stream that has ended needs no answer.
        let _ = hostcalls::send_http_response(500, headers, Some(BODY));
        Action::Pause
    }

    fn flow(&mut self, flow: Flow) -> Action {
        match flow {
            Flow::Hold => Action::Pause,
            Flow::Headers => Action::Continue,
            Flow::Observed => {
                (self.observed, self.taken) = (true, false);
                Action::Continue
            }
            Flow::All(body) => {
                self.taken = false;
                if put_back(body) { Action::Continue } else { self.fail() }
            }
        }
    }
}

impl Context for Stream {
    fn on_done(&mut self) -> bool {
        self.taken = false;
        if std::mem::take(&mut self.known) {
            self.shell.report_passed(self.request);
            self.shell.request_gone(self.request);
        }
        true
    }
}

impl HttpContext for Stream {
    fn on_http_request_headers(&mut self, _count: usize, end: bool) -> Action {
        #[cfg(feature = "forced-trap")]
        crate::forced_trap::trigger();
        // Reads all headers at once: reading the path first would cost Envoy another 10,000 instructions, as does each
        // call that returns data.
        let Ok(mut headers) = hostcalls::get_map_bytes(MapType::HttpRequestHeaders) else { return Action::Continue };
        self.shell.take_node_header(&mut headers);
        if !headers.iter().any(|(name, path)| name == ":path" && self.shell.takes(path)) {
            return Action::Continue;
        }
        (self.known, self.taken) = (true, true);
        self.handle(Input::RequestHead { request: self.request, headers, route: route(), end })
    }

    fn on_http_request_body(&mut self, size: usize, end: bool) -> Action {
        if self.observed {
            self.observe(size, end);
        }
        if !self.taken {
            return Action::Continue;
        }
        if size == 0 {
            return if end { self.end() } else { Action::Pause };
        }
        match take_out(size) {
            Some(chunk) => self.handle(Input::RequestData { request: self.request, chunk, end }),
            None => self.fail(),
        }
    }

    /// Ends the request: with trailers, the body's last chunk is not marked as the last.
    fn on_http_request_trailers(&mut self, _count: usize) -> Action {
        if self.observed {
            self.observe(0, true);
        }
        if !self.taken {
            return Action::Continue;
        }
        self.end()
    }

    /// Passes a copy of a chunk of the answer to the engine, if the request is observed.
    fn on_http_response_body(&mut self, size: usize, _end: bool) -> Action {
        if self.known && size > 0 && self.shell.reads_answer(self.request) {
            // Without this chunk, the answer is not readable, which the engine finds itself.
            let chunk = hostcalls::get_buffer(BufferType::HttpResponseBody, 0, size).ok().flatten();
            self.shell.answer_data(self.request, chunk.unwrap_or_default());
        }
        Action::Continue
    }
}

/// Returns the cluster that Envoy has chosen for the request. After a filter has cleared the route, this is the
/// previous cluster until another filter looks at the route: no call of a Wasm filter makes Envoy choose again.
fn route() -> Option<Vec<u8>> {
    hostcalls::get_property(vec!["xds", "cluster_name"]).ok().flatten()
}

/// Takes the first bytes out of the body. Data that is taken out at once does not count against the stream's buffer
/// limit.
fn take_out(size: usize) -> Option<Vec<u8>> {
    let chunk = hostcalls::get_buffer(BufferType::HttpRequestBody, 0, size).ok().flatten()?;
    hostcalls::set_buffer(BufferType::HttpRequestBody, 0, size, &[]).ok()?;
    Some(chunk)
}

/// Puts the chunks that were taken out of the body back, before the rest of the body. Returns whether Envoy has them.
fn put_back(chunks: Vec<Vec<u8>>) -> bool {
    let mut size = 0_usize;
    chunks.into_iter().all(|chunk| {
        // The position is the end of the buffer, so this appends.
        let is_put = hostcalls::set_buffer(BufferType::HttpRequestBody, size, 0, &chunk).is_ok();
        size = size.saturating_add(chunk.len());
        is_put
    })
}
