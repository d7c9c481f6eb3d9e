use std::fmt;
use std::hash::Hasher;

use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use siphasher::sip::SipHasher13;

use crate::config::Config;
use crate::invariant::found;

/// The length of a checksum, in bytes.
const LENGTH: usize = size_of::<u64>();

/// A keyed checksum by which the workers of one Envoy recognise each other's values. Another plug-in with the same
/// `vm_id` can write under their keys, but it cannot create a valid checksum without the credentials.
///
/// The key is a hash of the settings that workers which share the table have in common. Without `credentials` it
/// contains no secret.
pub(crate) struct Checksum {
    key: [u8; 16],
    /// A number that all workers which share the table have in common.
    pub group: u64,
}

impl Checksum {
    /// Creates the checksum. It is the same for all workers that send the same cluster the same queries with the same
    /// credentials, whatever the rest of their configuration.
    pub fn new(config: &Config) -> Self {
        let mut hash = Sha256::new();
        let mut add = |part: &[u8]| {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        };
        add(config.polled().0.as_bytes());
        add(&[u8::from(config.nodes.needs_http())]);
        for (name, value) in config.credentials.headers() {
            add(name.as_bytes());
            add(value.as_bytes());
        }
        let bytes: [u8; 32] = hash.finalize().into();
        let (key, rest) = bytes.split_first_chunk().unwrap_or((&[0; 16], &[]));
        Self { key: *key, group: rest.first_chunk().map_or(0, |group| u64::from_le_bytes(*group)) }
    }

    /// Returns the published form of a value: the checksum, then the value.
    pub fn encode(&self, value: &impl Serialize) -> Vec<u8> {
        let bytes = found(postcard::to_allocvec(value).ok(), "a value with a known length needs only memory");
        let bytes = bytes.unwrap_or_default();
        [self.of(&bytes).as_slice(), bytes.as_slice()].concat()
    }

    /// Returns a published value, or `None` if the checksum does not match.
    pub fn decode<T: DeserializeOwned>(&self, value: &[u8]) -> Option<T> {
        let (found, bytes) = value.split_first_chunk::<LENGTH>()?;
        if *found != self.of(bytes) {
            return None;
        }
        postcard::from_bytes(bytes).ok()
    }

    fn of(&self, bytes: &[u8]) -> [u8; LENGTH] {
        let mut hasher = SipHasher13::new_with_key(&self.key);
        hasher.write(bytes);
        hasher.finish().to_le_bytes()
    }
}

impl fmt::Debug for Checksum {
    /// Leaves out the key.
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "Checksum({:016x})", self.group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checksum(more: &str) -> Checksum {
        Checksum::new(&Config::read(format!(r#"{{"coordinator":"es"{more}}}"#).as_bytes()).unwrap())
    }

    #[test]
    fn detects_any_changed_byte() {
        let checksum = checksum("");
        let value = checksum.encode(&(7_u64, "text"));
        assert_eq!(checksum.decode::<(u64, String)>(&value), Some((7, "text".to_owned())));
        for at in 0..value.len() {
            let mut other = value.clone();
            other[at] ^= 1;
            assert_eq!(checksum.decode::<(u64, String)>(&other), None, "{at}");
            assert_eq!(checksum.decode::<(u64, String)>(&value[..at]), None, "{at}");
        }
        assert_eq!(checksum.decode::<Vec<u8>>(&checksum.encode(&[u64::MAX; 3])), None, "a length beyond what is there");
    }

    #[test]
    fn without_the_credentials_no_valid_checksum_can_be_made() {
        let own = checksum(r#","credentials":{"authorization":"ApiKey hush"},"hold":{"interval":"20ms"}"#);
        assert_eq!(own.decode(&checksum(r#","credentials":{"authorization":"ApiKey hush"}"#).encode(&7)), Some(7));
        for other in [
            "",
            r#","credentials":{"authorization":"ApiKey hus"}"#,
            r#","credentials":{"authorizatio":"nApiKey hush"}"#,
            r#","credentials":{"authorization":"ApiKey hush","x":"y"}"#,
            r#","credentials":{"authorization":"ApiKey hush"},"nodes":{"upstream":"{ip}"}"#,
            r#","credentials":{"authorization":"ApiKey hush"},"cluster_state":{"upstream":"es-state"}"#,
        ] {
            let other = checksum(other);
            assert_eq!(own.decode::<i32>(&other.encode(&7)), None);
            assert_ne!(own.group, other.group);
        }
        let plain = checksum("");
        let without_key = Checksum { key: [0; 16], ..plain };
        assert_eq!(checksum("").decode::<i32>(&without_key.encode(&7)), None);
        assert!(!format!("{own:?}").contains("key"));
    }
}
