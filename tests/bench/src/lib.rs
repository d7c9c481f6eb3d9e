//! What the benchmarks measure.
//!
//! - [`routines`] are the parts of core's work for a request. `make bench-core` times them natively and inside Envoy's
//!   V8; `make bench-instructions` counts their instructions.
//! - [`large_state`] is a cluster of very many indices, and a worker that follows its state: `make bench-size`.
//!
//! Two programs measure the filter inside the real Envoy: `make bench` and `make bench-size`.

#[cfg(target_family = "wasm")]
mod envoy_vm;
#[cfg(not(target_family = "wasm"))]
pub mod large_state;
#[cfg(feature = "envoy")]
pub mod processor_time;
pub mod routines;
#[cfg(feature = "envoy")]
pub mod tables;
