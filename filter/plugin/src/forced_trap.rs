//! A way for tests to kill the VM. The shipped filter does not have it.

use proxy_wasm::hostcalls;
use proxy_wasm::types::MapType;

/// Panics if the current request's headers ask for it.
#[allow(clippy::panic, reason = "tests use this function to kill the VM")]
pub fn trigger() {
    if let Ok(Some(_)) = hostcalls::get_map_value_bytes(MapType::HttpRequestHeaders, "x-forced-trap") {
        panic!("forced");
    }
}
