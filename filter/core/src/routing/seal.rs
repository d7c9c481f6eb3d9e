use std::hash::{DefaultHasher, Hasher};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// How many bytes of a sealed value are its seal.
const SEAL: usize = size_of::<u64>();

/// A value as it is published: in front of it a number by which anything else that stands in its place is noticed.
pub(super) fn sealed(value: &impl Serialize) -> Vec<u8> {
    // Nothing that is published is of unknown length, and memory is all that it takes.
    let bytes = postcard::to_allocvec(value).unwrap_or_default();
    [seal(&bytes).as_slice(), bytes.as_slice()].concat()
}

/// The value that was sealed; `None` if this is not how it was.
pub(super) fn unsealed<T: DeserializeOwned>(value: &[u8]) -> Option<T> {
    let (found, bytes) = value.split_first_chunk::<SEAL>()?;
    if *found != seal(bytes) {
        return None;
    }
    postcard::from_bytes(bytes).ok()
}

fn seal(bytes: &[u8]) -> [u8; SEAL] {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish().to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_other_bytes_are_noticed() {
        let value = sealed(&(7_u64, "text"));
        assert_eq!(unsealed::<(u64, String)>(&value), Some((7, "text".to_owned())));
        for at in 0..value.len() {
            let mut other = value.clone();
            other[at] ^= 1;
            assert_eq!(unsealed::<(u64, String)>(&other), None, "{at}");
            assert_eq!(unsealed::<(u64, String)>(&value[..at]), None, "{at}");
        }
        assert_eq!(unsealed::<Vec<u8>>(&sealed(&[u64::MAX; 3])), None, "a length beyond what is there");
    }
}
