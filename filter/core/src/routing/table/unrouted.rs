use serde::{Deserialize, Serialize};

reasons! {
    /// The reason why an operation's node is not known for certain.
    #[derive(Serialize, Deserialize)]
    Unrouted;
    NoIndex = "no_index", "Neither the action line nor the path names an index.";
    UnknownIndex = "unknown_index", "No index, alias or data stream of this name is known. The cluster may create one.";
    DateMath = "date_math", "The name is a date math expression, which the cluster resolves to the name of an index.";
    Alias = "alias", "The alias has no single index to write to.";
    AliasRouting = "alias_routing", "The routing values of the alias and the operation differ.";
    Rollover = "rollover", "The next operation rolls the data stream over to a new index.";
    /// The index shown in the refusal depends on whether a `create` precedes the operation in the same body.
    CreateOnly = "create_only", "Data streams accept only `create`.";
    /// The cluster then refuses the whole request, with the number of the line.
    RequireDataStream = "require_data_stream",
        "The operation or the query has `require_data_stream`, and not all nodes support it (Elasticsearch does \
         since 8.13), or the operation is an update.";
    /// The cluster then refuses the whole request.
    DynamicTemplates = "dynamic_templates",
        "The operation has `dynamic_templates`, and not all nodes support it (Elasticsearch does since 7.13).";
    /// The others refuse the whole request.
    Type = "type", "The operation has a `_type`, and not all nodes accept it (Elasticsearch 7 and OpenSearch 1 do).";
    Closed = "closed", "The index is closed.";
    /// Some of these refusals look temporary.
    WriteBlock = "write_block", "The index has a block and accepts no operations.";
    IndexPipeline = "index_pipeline",
        "The index has an ingest pipeline. The operation is an update, the query has `list_executed_pipelines`, or \
         not all nodes return items in order (Elasticsearch does since 7.17.18 and 8.13). Or a document under any \
         pipeline has a field such as `_routing`, which Elasticsearch before 8.4 applies to its operation.";
    NamedPipeline = "pipeline",
        "The request names an ingest pipeline, and not all nodes return items in order (Elasticsearch does since \
         7.17.18 and 8.13).";
    Unproven = "unproven_pipeline",
        "An ingest pipeline of the operation, or of another one in the request, may change where documents go. All \
         operations of the request stay together.";
    IngestRole = "ingest_role", "The operation has an ingest pipeline, and its node does not run pipelines.";
    SingleUpdate = "single_update",
        "A bulk request would do something else with this update of a single document. Its alias adds a routing value, \
         or its index infers fields, has no sequence numbers or waits for copies.";
    IndexMode = "index_mode", "The index has a mode that is unknown to the filter.";
    RoutingPath = "routing_path", "The index routes by fields of the document, as time series indices do.";
    VirtualShards = "virtual_shards", "The index has virtual shards.";
    Split = "split", "Shards of the index have been or are being split in place.";
    Resharding = "resharding", "The number of shards of the index is being changed.";
    Version = "version", "The index was created by a version whose routing formula is unknown to the filter.";
    UnknownSettings = "unknown_settings",
        "The index has settings for routing, shards or pipelines that are unknown to the filter or contradict each \
         other.";
    /// If such an operation has no id, OpenSearch 2 refuses the whole request with 500: it must not share a batch with
    /// others.
    RoutingRequired = "routing_required", "The index requires a routing value, and the operation has none.";
    Partition = "partition", "The index is partitioned and requires both an id and a routing value.";
    Primary = "primary", "The primary of the shard is not started.";
    Upstream = "upstream", "The node has no upstream of its own, or connections to it take too long.";
    WrongUpstream = "wrong_upstream", "The node's upstream leads to another node.";
    Distrusted = "mismatch",
        "Answers for the index were out of order, so the filter does not split requests for it for a while.";
    Disabled = "disabled", "The mapping of the index or the configuration disables the filter for it.";
}

impl Unrouted {
    /// Returns whether operations of several requests may share a batch for a coordinating node. This requires a known
    /// index: a shard without a primary delays a whole batch.
    pub fn may_be_merged(self) -> bool {
        matches!(
            self,
            Self::IndexMode
                | Self::RoutingPath
                | Self::VirtualShards
                | Self::Split
                | Self::Resharding
                | Self::Version
                | Self::Partition
                | Self::Upstream
                | Self::WrongUpstream
                | Self::Unproven
                | Self::IngestRole
        )
    }

    /// Returns whether the request itself may make the index routable.
    pub fn may_pass_soon(self) -> bool {
        matches!(self, Self::UnknownIndex | Self::Primary | Self::Rollover)
    }
}
