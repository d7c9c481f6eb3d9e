//! A way to kill the VM, which the shipped filter does not have.

use proxy_wasm::hostcalls;
use proxy_wasm::types::MapType;

/// Panics if the request whose headers have come asks for it.
#[allow(clippy::panic, reason = "it is what this is for")]
pub fn spring() {
    if let Ok(Some(_)) = hostcalls::get_map_value_bytes(MapType::HttpRequestHeaders, "x-forced-trap") {
        panic!("forced");
    }
}
