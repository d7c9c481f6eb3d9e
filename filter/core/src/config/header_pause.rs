use serde::{Deserialize, Serialize};

/// How the filter holds back a request's headers while it reads the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HeaderPause {
    /// The filter detects which of the two works.
    #[default]
    Auto,
    /// The filter stops them itself, which needs `allow_on_headers_stop_iteration`.
    Stop,
    /// A buffer filter right after this one holds them back.
    Buffer,
}
