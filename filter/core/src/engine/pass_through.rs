use crate::bulk::ReadError;
use crate::routing::Unrouted;

/// The reason why a whole bulk request passed through, byte for byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PassThrough {
    /// The filter is switched off.
    Disabled,
    /// Its route does not lead to the coordinating upstream.
    Route,
    /// The cluster state is not known yet, or stale.
    NoState,
    /// No body arrived while the headers were held back, and it is not known yet whether one can.
    HeaderPause,
    /// The body is larger than `limits.max_request`.
    TooLarge,
    /// The requests that are held and in flight have reached `limits.memory`.
    Memory,
    /// The path is encoded or names a type.
    Path,
    /// The filter does not accept a query parameter.
    Parameter,
    /// The body's type is not NDJSON or JSON in UTF-8.
    ContentType,
    /// The body is compressed in a format other than gzip.
    ContentEncoding,
    /// The body is declared as gzip but is not valid gzip.
    Gzip,
    /// The client does not accept JSON.
    Accept,
    /// A header cannot be forwarded as it is, or is valid only for this body.
    Header,
    /// The filter does not accept an action line.
    ActionLine,
    /// The filter does not accept the body of an update.
    UpdateBody,
    /// The body ends in the middle of an operation.
    Incomplete,
    /// The body contains no operation.
    Empty,
    /// Two operations that would go to different nodes have one id, and may mean one document under two names.
    SameId,
    /// The path names an index, and so do some lines, but not all. Nodes with
    /// `rest.action.multi.allow_explicit_index: false` refuse such a request as a whole.
    MixedIndex,
    /// The operations target more than 65,536 shards, into which one request can be split.
    Shards,
    /// The node of an operation is not known for certain.
    Unrouted(Unrouted),
}

/// All reasons except those of single operations.
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
    PassThrough::UpdateBody,
    PassThrough::Incomplete,
    PassThrough::Empty,
    PassThrough::SameId,
    PassThrough::MixedIndex,
    PassThrough::Shards,
];

impl PassThrough {
    /// Returns all reasons.
    pub fn all() -> impl Iterator<Item = Self> {
        OWN.into_iter().chain(Unrouted::ALL.map(Self::Unrouted))
    }

    /// Returns the label value for metrics.
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
            Self::UpdateBody => "update_body",
            Self::Incomplete => "incomplete",
            Self::Empty => "empty",
            Self::SameId => "same_id",
            Self::MixedIndex => "mixed_index",
            Self::Shards => "shards",
            Self::Unrouted(why) => why.name(),
        }
    }
}

impl From<ReadError<Self>> for PassThrough {
    fn from(error: ReadError<Self>) -> Self {
        match error {
            ReadError::Line { .. } => Self::ActionLine,
            ReadError::UpdateBody { .. } => Self::UpdateBody,
            ReadError::Incomplete => Self::Incomplete,
            ReadError::Empty => Self::Empty,
            ReadError::Placement { why, .. } => why,
        }
    }
}
