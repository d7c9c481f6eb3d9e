//! The proxy-wasm shell of bulk-reshuffle.
//!
//! It passes Envoy's callbacks to the [`Engine`](bulk_reshuffle::engine::Engine) and the engine's commands to Envoy,
//! and makes no decisions itself. Envoy creates one VM per worker, and in it one [`Root`](root::Root) per
//! configuration. The state that a root's streams share is in its [`Shell`](shell::Shell).
//!
//! Memory comes from the target's own allocator. With talc 4.4 instead, a one-document request took 2.5 % more of
//! Envoy's instructions.
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, clippy::unreachable)]
// `proxy_wasm::main!` exports the symbol that Envoy calls first.
#![allow(unsafe_code)]

#[cfg(feature = "forced-trap")]
mod forced_trap;
mod metrics;
mod root;
mod shared_data;
mod shell;
mod stream;
mod wake_up;

proxy_wasm::main! {{ root::register() }}
