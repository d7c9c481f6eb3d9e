use std::fmt::Debug;

/// The key-value memory that the workers of one machine share. It holds small values. Reads and writes take
/// microseconds and never block.
pub trait SharedData: Debug {
    /// Returns a value and its version. Each write changes the version, which is never `u32::MAX`. Returns neither if
    /// there is no value.
    fn read(&self, key: &str) -> (Option<Vec<u8>>, Option<u32>);

    /// Writes a value. If `version` is given, writes only if it is the value's current version, or if there is no
    /// value. Returns whether it wrote. Also returns `true` if nothing can be shared: each worker then polls for
    /// itself.
    fn write(&self, key: &str, value: &[u8], version: Option<u32>) -> bool;
}

/// Shared data that shares nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unshared;

impl SharedData for Unshared {
    fn read(&self, _: &str) -> (Option<Vec<u8>>, Option<u32>) {
        (None, None)
    }

    fn write(&self, _: &str, _: &[u8], _: Option<u32>) -> bool {
        true
    }
}
