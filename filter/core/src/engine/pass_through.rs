use crate::bulk::ReadError;
use crate::document::{PathError, QueryError};
use crate::routing::Unrouted;

reasons! {
    /// The reason why a whole bulk request passed through, byte for byte.
    PassThrough or Unrouted;
    Disabled = "switched_off", "The filter is switched off.";
    Observed = "observed", "The filter only observes the request, or an index that it writes to.";
    Route = "route", "The route does not lead to the coordinator.";
    NoState = "no_state",
        "The cluster state is not known yet, or polls have failed for longer than `cluster_state.stale_after`. Or the headers arrived longer ago than that, and the state has changed.";
    HeaderPause = "header_pause", "No body arrived while the request's headers were held back.";
    TooLarge = "too_large", "The body is larger than `limits.max_request`.";
    Memory = "memory", "The request and room for the items of its answer need more memory than `limits.memory` leaves.";
    Path = "path", "The path is percent-encoded, or names a type in addition to the index. Or a single document's id begins with \
         an underscore.";
    Parameter = "parameter", "The query has a parameter or a value that may be ambiguous.";
    ContentType = "content_type", "The content type is not NDJSON or JSON in UTF-8.";
    ContentEncoding = "content_encoding", "The body is compressed in a format other than gzip.";
    Gzip = "gzip", "The body is declared as gzip, but is not valid gzip or is truncated.";
    Accept = "accept", "The client does not accept JSON.";
    Header = "header", "A header is not text, or is valid only for this request: a digest of its body, or a signature.";
    ActionLine = "action_line",
        "Not every cluster interprets the action line in the same way. It is malformed, lacks an id that it needs, \
         or has a parameter such as `_type`, or a version without a version type. Or it has another value of \
         `require_alias` or `require_data_stream` than the lines before it.";
    UpdateBody = "update_body", "Not every cluster accepts the body of the update.";
    Incomplete = "incomplete", "The body ends in the middle of an operation, or without a newline.";
    Empty = "empty", "The body contains no operation.";
    SameId = "same_id",
        "Two operations that would go to different nodes have one id, and they may mean one document under two \
         names. One of them has no known node, or names an alias. Their order matters.";
    MixedIndex = "mixed_index",
        "The path names an index, and so do some lines, but not all. If nodes do not allow that, they refuse the \
         whole request.";
    DocumentBody = "document_body",
        "The request writes a single document. Its body is empty, has a newline or ends with a carriage return, or it \
         is a deletion with a body.";
    OftenRefused = "often_refused",
        "The cluster has lately refused more than a third of the caller's single documents of this kind, and each \
         refused one is sent twice.";
    Shards = "shards", "The operations target more shards than one request can be split into.";
}

impl From<PathError> for PassThrough {
    fn from(PathError: PathError) -> Self {
        Self::Path
    }
}

impl From<QueryError> for PassThrough {
    fn from(QueryError: QueryError) -> Self {
        Self::Parameter
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
