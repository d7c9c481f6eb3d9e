use bulk_reshuffle::routing::SharedData;
use proxy_wasm::hostcalls;
use proxy_wasm::types::Status;

/// Envoy's shared data: all VMs with the same `vm_id` share it, on all workers.
#[derive(Debug, Clone, Copy)]
pub struct EnvoysSharedData;

impl SharedData for EnvoysSharedData {
    fn read(&self, key: &str) -> (Option<Vec<u8>>, Option<u32>) {
        hostcalls::get_shared_data(key).unwrap_or_default()
    }

    fn write(&self, key: &str, value: &[u8], version: Option<u32>) -> bool {
        hostcalls::set_shared_data(key, Some(value), version) != Err(Status::CasMismatch)
    }
}
