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
    /// Whether the engine knows of it, and wants to know when it is over.
    known: bool,
    /// Whether the engine has it. Once it flows on, nothing here touches it again.
    taken: bool,
}

impl Stream {
    /// The stream with this context id.
    pub fn new(context_id: u32, shell: Rc<Shell>) -> Self {
        Self { request: RequestId(context_id), shell, known: false, taken: false }
    }

    /// Hands in an input; lets the stream flow on if that is what comes of it.
    fn handle(&mut self, input: Input) -> Action {
        let flow = self.shell.handle_in_stream(input);
        self.flow(flow)
    }

    /// All of the request has been handed in.
    fn end(&mut self) -> Action {
        let flow = self.shell.request_complete(self.request);
        self.flow(flow)
    }

    fn flow(&mut self, flow: Flow) -> Action {
        match flow {
            Flow::Hold => Action::Pause,
            Flow::Headers => Action::Continue,
            Flow::All(body) => {
                self.taken = false;
                put_back(body);
                Action::Continue
            }
        }
    }
}

impl Context for Stream {
    fn on_done(&mut self) -> bool {
        self.taken = false;
        if std::mem::take(&mut self.known) {
            self.shell.request_gone(self.request);
        }
        true
    }
}

impl HttpContext for Stream {
    fn on_http_request_headers(&mut self, _count: usize, end: bool) -> Action {
        #[cfg(feature = "forced-trap")]
        crate::forced_trap::spring();
        // All at once: asking for the path first would cost Envoy another 10,000 instructions, as does each call that
        // brings something back.
        let Ok(headers) = hostcalls::get_map_bytes(MapType::HttpRequestHeaders) else { return Action::Continue };
        if !headers.iter().any(|(name, path)| name == ":path" && self.shell.takes(path)) {
            return Action::Continue;
        }
        (self.known, self.taken) = (true, true);
        self.handle(Input::RequestHead { request: self.request, headers, route: route(), end })
    }

    fn on_http_request_body(&mut self, size: usize, end: bool) -> Action {
        if !self.taken {
            return Action::Continue;
        }
        if size == 0 {
            return if end { self.end() } else { Action::Pause };
        }
        // What is taken out at once does not count against the stream's buffer limit.
        let chunk = hostcalls::get_buffer(BufferType::HttpRequestBody, 0, size).ok().flatten().unwrap_or_default();
        let _ = hostcalls::set_buffer(BufferType::HttpRequestBody, 0, size, &[]);
        self.handle(Input::RequestData { request: self.request, chunk, end })
    }

    /// With trailers the body's last piece does not say that it is the last.
    fn on_http_request_trailers(&mut self, _count: usize) -> Action {
        if !self.taken {
            return Action::Continue;
        }
        self.end()
    }
}

/// The cluster that Envoy has chosen for the request. After a filter that has cleared the route, it is the former one until
/// another filter looks at the route: nothing that a Wasm filter can ask makes Envoy choose.
fn route() -> Option<Vec<u8>> {
    hostcalls::get_property(vec!["xds", "cluster_name"]).ok().flatten()
}

/// Puts what was taken out of the body back, in front of what follows.
fn put_back(chunks: Vec<Vec<u8>>) {
    let mut size = 0_usize;
    for chunk in chunks {
        // At the buffer's end, hence an append.
        let _ = hostcalls::set_buffer(BufferType::HttpRequestBody, size, 0, &chunk);
        size = size.saturating_add(chunk.len());
    }
}
