use serde::Serialize;

use crate::engine::pass_through::PassThrough;
use crate::routing::Unrouted;

/// A reason, in a word and in a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Why {
    /// As metrics call it.
    pub reason: &'static str,
    /// What it means.
    pub text: &'static str,
}

impl From<PassThrough> for Why {
    fn from(why: PassThrough) -> Self {
        let text = match why {
            PassThrough::Disabled => "The filter is switched off.",
            PassThrough::Route => "The route does not lead to the coordinating upstream.",
            PassThrough::NoState => "The cluster's state is not known yet.",
            PassThrough::HeaderPause => "No body came while the request's headers were held back.",
            PassThrough::TooLarge => "The body is larger than `limits.max_request`.",
            PassThrough::Memory => {
                "The request and the items that it may be answered with take more memory than `limits.memory` leaves."
            }
            PassThrough::Path => "The path is percent-encoded, or names a type besides the index.",
            PassThrough::Parameter => {
                "The query has a parameter, or a value of one, that may mean more than one thing."
            }
            PassThrough::ContentType => "The content type is not NDJSON or JSON in UTF-8.",
            PassThrough::ContentEncoding => "The body is compressed in another way than gzip.",
            PassThrough::Gzip => "The body says that it is gzip, and is not, or is cut off.",
            PassThrough::Accept => "The client does not accept JSON.",
            PassThrough::Header => {
                "A header is not text, or holds for this request alone: a digest of its body, or a signature."
            }
            PassThrough::ActionLine => {
                "The action line is not one that every cluster takes to mean the same: it is malformed, lacks an id \
                 that it needs, or has a parameter such as a version."
            }
            PassThrough::Pipeline => "An ingest pipeline is named, which may change where documents go.",
            PassThrough::UpdateBody => "The body of the update is not one that every cluster takes.",
            PassThrough::Incomplete => "The body ends in the middle of an operation, or without a newline.",
            PassThrough::Empty => "The body holds no operation.",
            PassThrough::SameId => {
                "An operation whose node is known has the same id as one whose node is not: if they mean one document, \
                 their order counts."
            }
            PassThrough::Shards => "Its operations are for more shards than one request is split into.",
            PassThrough::Unrouted(why) => return why.into(),
        };
        Self { reason: why.name(), text }
    }
}

impl From<Unrouted> for Why {
    fn from(why: Unrouted) -> Self {
        let text = match why {
            Unrouted::NoIndex => "Neither the action line nor the path names an index.",
            Unrouted::UnknownIndex => "No index, alias or data stream of this name is known; the cluster may make one.",
            Unrouted::DateMath => "The name is a formula with dates, of which the cluster makes the index's name.",
            Unrouted::Alias => "The alias has no single index to write to.",
            Unrouted::AliasRouting => "The alias has a routing value of its own, and the operation another.",
            Unrouted::Rollover => "The next operation makes the data stream begin a new index.",
            Unrouted::CreateOnly => "Data streams take nothing but `create`.",
            Unrouted::RequireDataStream => {
                "The operation or the query has `require_data_stream`, and not all nodes know it (Elasticsearch does from \
                 8.13 on), or it is said of an update."
            }
            Unrouted::Closed => "The index is closed.",
            Unrouted::WriteBlock => "The index takes no operations: it has a block.",
            Unrouted::Pipeline => "The index has an ingest pipeline, which may change where documents go.",
            Unrouted::IndexMode => "The index has a mode that the filter does not know.",
            Unrouted::RoutingPath => "The index routes by fields of the document, as time series do.",
            Unrouted::VirtualShards => "The index has virtual shards.",
            Unrouted::Split => "Shards of the index were or are being split in place.",
            Unrouted::Resharding => "The number of the index's shards is being changed.",
            Unrouted::Version => "The index was made by a version whose formula the filter does not know.",
            Unrouted::UnknownSettings => {
                "The index has settings about routing, shards or pipelines that the filter does not know, or that do \
                 not fit together."
            }
            Unrouted::RoutingRequired => "The index needs a routing value, and there is none.",
            Unrouted::Partition => "The index is partitioned: it needs both an id and a routing value.",
            Unrouted::Primary => "No primary of the shard is started.",
            Unrouted::Upstream => "The node has no upstream of its own.",
            Unrouted::Distrusted => "Answers for the index came out of order, so that it is left alone for a while.",
            Unrouted::Disabled => "The index is not to be touched: its mapping says so, or the configuration.",
        };
        Self { reason: why.name(), text }
    }
}
