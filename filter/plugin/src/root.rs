use std::rc::Rc;

use bulk_reshuffle::config::Config;
use bulk_reshuffle::engine::{Build, Input};
use bulk_reshuffle::routing::SharedData;
use proxy_wasm::traits::{Context, HttpContext, RootContext};
use proxy_wasm::types::{ContextType, LogLevel};

use crate::shared_data::EnvoysSharedData;
use crate::shell::Shell;
use crate::stream::Stream;
use crate::wake_up::WakeUp;

/// Lets a new VM create a root for each configuration.
pub fn register() {
    proxy_wasm::set_log_level(LogLevel::Info);
    proxy_wasm::set_root_context(|context_id| Box::new(Root::new(context_id)));
}

/// One configuration of the filter in one VM. Roots share no state: after a change of the configuration, the old root
/// serves its streams to their end while the new one serves new streams.
pub struct Root {
    context_id: u32,
    shell: Option<Rc<Shell>>,
    /// Whether Envoy has asked the root to end, and requests or calls remain.
    leaving: bool,
}

impl Root {
    /// Creates a root that is not configured yet.
    fn new(context_id: u32) -> Self {
        Self { context_id, shell: None, leaving: false }
    }

    fn configure(&self) -> Result<Shell, String> {
        let json = self.get_plugin_configuration().unwrap_or_default();
        let config = Config::read(&json).map_err(|error| error.to_string())?;
        let wake_up = WakeUp::register().map_err(|status| format!("cannot register the wake-up queue: {status:?}"))?;
        let build = build();
        announce(&config.coordinator, &build.announcement(&config));
        let shell = Shell::new(self.context_id, config, build, wake_up);
        shell.start();
        Ok(shell)
    }

    /// Runs `act` on the shell, then ends the root if it is leaving and idle.
    fn with_shell(&mut self, act: impl FnOnce(&Shell)) {
        let Some(shell) = &self.shell else { return };
        act(shell);
        if self.leaving && shell.is_idle() {
            self.leaving = false;
            self.done();
        }
    }
}

/// Describes the build of this module. `make build` sets the commit.
fn build() -> Build {
    let features = [("simd128", cfg!(target_feature = "simd128")), ("forced-trap", cfg!(feature = "forced-trap"))];
    Build {
        version: env!("CARGO_PKG_VERSION"),
        commit: option_env!("BULK_RESHUFFLE_COMMIT").filter(|commit| !commit.is_empty()).unwrap_or("unknown"),
        features: features.into_iter().filter(|(_, is_on)| *is_on).map(|(name, _)| name).collect(),
    }
}

/// Logs the first line of the filter with this coordinator, unless another worker has logged it.
fn announce(coordinator: &str, line: &str) {
    let (shared, key) = (EnvoysSharedData, format!("bulk_reshuffle.announced.{coordinator}"));
    let (last, version) = shared.read(&key);
    if last.as_deref() != Some(line.as_bytes()) && shared.write(&key, line.as_bytes(), version) {
        log::info!("{line}");
    }
}

impl Context for Root {
    /// Returns whether the root may end at once. It may not while requests are held or calls are in flight.
    fn on_done(&mut self) -> bool {
        self.leaving = self.shell.as_ref().is_some_and(|shell| !shell.is_idle());
        !self.leaving
    }

    fn on_http_call_response(&mut self, token: u32, headers: usize, body_size: usize, _trailers: usize) {
        self.with_shell(|shell| shell.call_ended(token, headers, body_size));
    }
}

impl RootContext for Root {
    fn on_configure(&mut self, _size: usize) -> bool {
        match self.configure() {
            Ok(shell) => self.shell = Some(Rc::new(shell)),
            Err(error) => log::error!("{error}"),
        }
        self.shell.is_some()
    }

    fn on_tick(&mut self) {
        self.with_shell(|shell| shell.handle_in_root(Input::Tick));
    }

    fn on_queue_ready(&mut self, queue: u32) {
        self.with_shell(|shell| {
            if shell.is_woken_by(queue) {
                shell.woken();
            }
        });
    }

    fn create_http_context(&self, context_id: u32) -> Option<Box<dyn HttpContext>> {
        Some(Box::new(Stream::new(context_id, Rc::clone(self.shell.as_ref()?))))
    }

    fn get_type(&self) -> Option<ContextType> {
        Some(ContextType::HttpContext)
    }
}
