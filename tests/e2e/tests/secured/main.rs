//! The filter in the real Envoy, in front of real nodes that know users and roles. Run with `make test-security`.

mod held;
mod polls;
mod scene;
mod users;
