//! The same as `lib.rs`, with a way for tests to kill the VM.
// `proxy_wasm::main!` exports the symbol that Envoy calls first.
#![allow(unsafe_code)]

mod forced_trap;
mod metrics;
mod root;
mod shared_data;
mod shell;
mod stream;
mod wake_up;

proxy_wasm::main! {{ root::register() }}
