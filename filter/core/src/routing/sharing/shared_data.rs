use std::fmt::Debug;

/// What the workers of one machine share: small values by key, in memory. Reading and writing take microseconds and
/// never wait.
pub trait SharedData: Debug {
    /// A value and its version, which another write changes and which is not the greatest of numbers; neither if there
    /// is no value.
    fn read(&self, key: &str) -> (Option<Vec<u8>>, Option<u32>);

    /// Writes a value; with a version only if the value's is that still, or there is none. Says whether it did, or
    /// whether nothing can be shared at all: each worker polls by itself then.
    fn write(&self, key: &str, value: &[u8], version: Option<u32>) -> bool;
}

/// Nothing is shared.
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
