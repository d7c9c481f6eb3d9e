use std::fmt;

use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize};

/// The path below which the filter serves its admin endpoints.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct AdminPath(String);

impl AdminPath {
    /// Returns the rest of a request's path after this prefix: nothing, or text that begins with `/` or `?`. Returns
    /// `None` if the path does not have the prefix, or if the prefix is empty.
    pub fn rest<'a>(&self, path: &'a [u8]) -> Option<&'a [u8]> {
        let rest = path.strip_prefix(self.0.as_bytes()).filter(|_| !self.0.is_empty())?;
        matches!(rest.first(), None | Some(b'/' | b'?')).then_some(rest)
    }
}

impl fmt::Display for AdminPath {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for AdminPath {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let path = String::deserialize(from)?;
        let is_name = |name: &str| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.~".contains(&byte);
            !["", ".", "..", "_bulk"].contains(&name) && name.bytes().all(plain)
        };
        let is_path = path.strip_prefix('/').is_some_and(|names| names.split('/').all(is_name));
        if !path.is_empty() && !is_path {
            let expected = "expected a path such as \"/_bulk_reshuffle\", without a slash at the end, or nothing";
            return Err(D::Error::custom(format!("{expected}, found {path:?}")));
        }
        Ok(Self(path))
    }
}

#[cfg(test)]
mod tests {
    use super::AdminPath;

    #[test]
    fn matches_only_whole_leading_segments() {
        let path: AdminPath = serde_json::from_str(r#""/_bulk_reshuffle""#).unwrap();
        for (request, rest) in [
            ("/_bulk_reshuffle", Some("")),
            ("/_bulk_reshuffle/status?x", Some("/status?x")),
            ("/_bulk_reshuffle?x", Some("?x")),
            ("/_bulk_reshuffled", None),
            ("/x/_bulk_reshuffle", None),
            ("/", None),
        ] {
            assert_eq!(path.rest(request.as_bytes()), rest.map(str::as_bytes), "{request}");
        }
        let off = AdminPath::default();
        for request in ["", "/", "/_bulk_reshuffle", "?"] {
            assert_eq!(off.rest(request.as_bytes()), None, "{request}");
        }
    }
}
