use crate::bulk::{LineError, ReadError};
use crate::routing::Unrouted;

/// Why a bulk request passed on whole, byte for byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PassThrough {
    /// The filter is switched off.
    Disabled,
    /// Its route does not lead to the coordinating upstream.
    Route,
    /// The cluster state is not known yet.
    NoState,
    /// No body came while the headers were held back, and it is not known yet whether one can.
    HeaderPause,
    /// The body is larger than `limits.max_request`.
    TooLarge,
    /// As much as `limits.memory` is held and in flight.
    Memory,
    /// The path is encoded or names a type.
    Path,
    /// A query parameter that the filter does not vouch for.
    Parameter,
    /// The body's type is not NDJSON or JSON in UTF-8.
    ContentType,
    /// The body is compressed in another way than gzip.
    ContentEncoding,
    /// The body says that it is gzip, and is not.
    Gzip,
    /// The client does not accept JSON.
    Accept,
    /// A header that cannot be sent on as it is, or that holds for this body alone.
    Header,
    /// An action line that the filter does not vouch for.
    ActionLine,
    /// An ingest pipeline.
    Pipeline,
    /// The body of an update that the filter does not vouch for.
    UpdateBody,
    /// The body ends in the middle of an operation.
    Incomplete,
    /// The body holds no operation.
    Empty,
    /// An operation whose node is known has the same id as one whose node is not.
    SameId,
    /// Its operations are for more shards than one request is split into: 65,536.
    Shards,
    /// The node of an operation is not known for certain.
    Unrouted(Unrouted),
}

/// All reasons but those of single operations.
const OWN: [PassThrough; 20] = [
    PassThrough::Disabled,
    PassThrough::Route,
    PassThrough::NoState,
    PassThrough::HeaderPause,
    PassThrough::TooLarge,
    PassThrough::Memory,
    PassThrough::Path,
    PassThrough::Parameter,
    PassThrough::ContentType,
    PassThrough::ContentEncoding,
    PassThrough::Gzip,
    PassThrough::Accept,
    PassThrough::Header,
    PassThrough::ActionLine,
    PassThrough::Pipeline,
    PassThrough::UpdateBody,
    PassThrough::Incomplete,
    PassThrough::Empty,
    PassThrough::SameId,
    PassThrough::Shards,
];

impl PassThrough {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        OWN.into_iter().chain(Unrouted::ALL.map(Self::Unrouted))
    }

    /// The word that stands for it in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Disabled => "switched_off",
            Self::Route => "route",
            Self::NoState => "no_state",
            Self::HeaderPause => "header_pause",
            Self::TooLarge => "too_large",
            Self::Memory => "memory",
            Self::Path => "path",
            Self::Parameter => "parameter",
            Self::ContentType => "content_type",
            Self::ContentEncoding => "content_encoding",
            Self::Gzip => "gzip",
            Self::Accept => "accept",
            Self::Header => "header",
            Self::ActionLine => "action_line",
            Self::Pipeline => "pipeline",
            Self::UpdateBody => "update_body",
            Self::Incomplete => "incomplete",
            Self::Empty => "empty",
            Self::SameId => "same_id",
            Self::Shards => "shards",
            Self::Unrouted(why) => why.name(),
        }
    }
}

impl From<ReadError<Self>> for PassThrough {
    fn from(error: ReadError<Self>) -> Self {
        match error {
            ReadError::Line { why: LineError::Line, .. } => Self::ActionLine,
            ReadError::Line { why: LineError::Pipeline, .. } => Self::Pipeline,
            ReadError::UpdateBody { .. } => Self::UpdateBody,
            ReadError::Incomplete => Self::Incomplete,
            ReadError::Empty => Self::Empty,
            ReadError::Placement { why, .. } => why,
        }
    }
}
