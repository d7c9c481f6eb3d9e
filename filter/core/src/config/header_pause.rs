use serde::{Deserialize, Serialize};

/// How a request's headers are held back while its body is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HeaderPause {
    /// The filter finds out by itself which of the two works.
    #[default]
    Auto,
    /// By the filter, which needs `allow_on_headers_stop_iteration`.
    Stop,
    /// By a buffer filter right behind it.
    Buffer,
}
