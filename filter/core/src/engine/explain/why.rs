use serde::Serialize;

use crate::engine::pass_through::PassThrough;
use crate::routing::Unrouted;

/// A reason, as a label value and as a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Why {
    /// Its label value in metrics.
    pub reason: &'static str,
    /// Its meaning.
    pub text: &'static str,
}

impl From<PassThrough> for Why {
    fn from(why: PassThrough) -> Self {
        let text = match why {
            PassThrough::Disabled => "The filter is switched off.",
            PassThrough::Route => "The route does not lead to the coordinating upstream.",
            PassThrough::NoState => {
                "The cluster state is not known yet, or polls have failed for longer than `cluster_state.stale_after`."
            }
            PassThrough::HeaderPause => "No body arrived while the request's headers were held back.",
            PassThrough::TooLarge => "The body is larger than `limits.max_request`.",
            PassThrough::Memory => {
                "The request and room for the items of its answer need more memory than `limits.memory` leaves."
            }
            PassThrough::Path => "The path is percent-encoded, or names a type in addition to the index.",
            PassThrough::Parameter => "The query has a parameter or a value that may be ambiguous.",
            PassThrough::ContentType => "The content type is not NDJSON or JSON in UTF-8.",
            PassThrough::ContentEncoding => "The body is compressed in a format other than gzip.",
            PassThrough::Gzip => "The body is declared as gzip, but is not valid gzip or is truncated.",
            PassThrough::Accept => "The client does not accept JSON.",
            PassThrough::Header => {
                "A header is not text, or is valid only for this request: a digest of its body, or a signature."
            }
            PassThrough::ActionLine => {
                "Not every cluster interprets the action line in the same way. It is malformed, lacks an id that it \
                 needs, or has a parameter such as `_type`, or a version without a version type. Or it has another \
                 value of `require_alias` or `require_data_stream` than the lines before it."
            }
            PassThrough::UpdateBody => "Not every cluster accepts the body of the update.",
            PassThrough::Incomplete => "The body ends in the middle of an operation, or without a newline.",
            PassThrough::Empty => "The body contains no operation.",
            PassThrough::SameId => {
                "Two operations that would go to different nodes have one id, and they may mean one document under two \
                 names. One of them has no known node, or names an alias. Their order matters."
            }
            PassThrough::MixedIndex => {
                "The path names an index, and so do some lines, but not all. If nodes do not allow that, they refuse \
                 the whole request."
            }
            PassThrough::Shards => "The operations target more shards than one request can be split into.",
            PassThrough::Unrouted(why) => return why.into(),
        };
        Self { reason: why.name(), text }
    }
}

impl From<Unrouted> for Why {
    fn from(why: Unrouted) -> Self {
        let text = match why {
            Unrouted::NoIndex => "Neither the action line nor the path names an index.",
            Unrouted::UnknownIndex => {
                "No index, alias or data stream of this name is known. The cluster may create one."
            }
            Unrouted::DateMath => {
                "The name is a date math expression, which the cluster resolves to the name of an index."
            }
            Unrouted::Alias => "The alias has no single index to write to.",
            Unrouted::AliasRouting => "The routing values of the alias and the operation differ.",
            Unrouted::Rollover => "The next operation rolls the data stream over to a new index.",
            Unrouted::CreateOnly => "Data streams accept only `create`.",
            Unrouted::RequireDataStream => {
                "The operation or the query has `require_data_stream`, and not all nodes support it (Elasticsearch \
                 does since 8.13), or the operation is an update."
            }
            Unrouted::DynamicTemplates => {
                "The operation has `dynamic_templates`, and not all nodes support it (Elasticsearch does since 7.13)."
            }
            Unrouted::Type => {
                "The operation has a `_type`, and not all nodes accept it (Elasticsearch 7 and OpenSearch 1 do)."
            }
            Unrouted::Closed => "The index is closed.",
            Unrouted::WriteBlock => "The index has a block and accepts no operations.",
            Unrouted::IndexPipeline => {
                "The index has an ingest pipeline. The operation is an update, the query has \
                 `list_executed_pipelines`, or not all nodes return items in order (Elasticsearch does since 7.17.18 \
                 and 8.13). Or a document under any pipeline has a field such as `_routing`, which Elasticsearch before \
                 8.4 applies to its operation."
            }
            Unrouted::NamedPipeline => {
                "The request names an ingest pipeline, and not all nodes return items in order (Elasticsearch does since \
                 7.17.18 and 8.13)."
            }
            Unrouted::Unproven => {
                "An ingest pipeline of the operation, or of another one in the request, may change where documents go. \
                 All operations of the request stay together."
            }
            Unrouted::IngestRole => "The operation has an ingest pipeline, and its node does not run pipelines.",
            Unrouted::IndexMode => "The index has a mode that is unknown to the filter.",
            Unrouted::RoutingPath => "The index routes by fields of the document, as time series indices do.",
            Unrouted::VirtualShards => "The index has virtual shards.",
            Unrouted::Split => "Shards of the index have been or are being split in place.",
            Unrouted::Resharding => "The number of shards of the index is being changed.",
            Unrouted::Version => "The index was created by a version whose routing formula is unknown to the filter.",
            Unrouted::UnknownSettings => {
                "The index has settings for routing, shards or pipelines that are unknown to the filter or contradict \
                 each other."
            }
            Unrouted::RoutingRequired => "The index requires a routing value, and the operation has none.",
            Unrouted::Partition => "The index is partitioned and requires both an id and a routing value.",
            Unrouted::Primary => "The primary of the shard is not started.",
            Unrouted::Upstream => "The node has no upstream of its own.",
            Unrouted::Distrusted => {
                "Answers for the index were out of order, so the filter does not split requests for it for a while."
            }
            Unrouted::Disabled => "The mapping of the index or the configuration disables the filter for it.",
        };
        Self { reason: why.name(), text }
    }
}
