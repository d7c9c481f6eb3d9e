use serde::{Deserialize, Serialize};

/// The reason why an operation's node is not known for certain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Unrouted {
    /// Neither the action line nor the path names an index.
    NoIndex,
    /// The table has no index, alias or data stream of this name: the bulk request itself will create it.
    UnknownIndex,
    /// The name is an expression such as `<logs-{now/d}>`, which the cluster resolves to an index when it executes the
    /// request.
    DateMath,
    /// The alias does not have a single index to write to.
    Alias,
    /// The alias has a routing value and the operation has a different one.
    AliasRouting,
    /// The next operation makes the data stream create a new index.
    Rollover,
    /// The operation is not a `create`, which is all that data streams accept. The index shown in the refusal depends
    /// on whether a `create` precedes the operation in the same body.
    CreateOnly,
    /// The operation or the request has `require_data_stream`, and the operation is an update or not all nodes know the
    /// parameter. The cluster then refuses the whole request, with the number of the line.
    RequireDataStream,
    /// The operation has `dynamic_templates`, and not all nodes know the parameter. The cluster then refuses the whole
    /// request.
    DynamicTemplates,
    /// The operation has a `_type`, and not all nodes accept the parameter. The others refuse the whole request.
    Type,
    /// The index is not open.
    Closed,
    /// The index takes no operations: `index.blocks`. Some of these refusals look temporary.
    WriteBlock,
    /// The index has an ingest pipeline, and the items may return in another order; or the operation is an update; or
    /// the items list all pipelines, so that they may have any length.
    IndexPipeline,
    /// The operation or the request names an ingest pipeline, and the items may return in another order.
    NamedPipeline,
    /// A pipeline of the operation, or of another one in the request, may change where documents go. All operations of
    /// the request stay together.
    Unproven,
    /// The operation is under an ingest pipeline, and its node does not run any.
    IngestRole,
    /// The index has a mode that the filter does not know.
    IndexMode,
    /// The index routes by fields of the document: it is a time series, or `logsdb` that routes by its sort fields.
    RoutingPath,
    /// The index has virtual shards.
    VirtualShards,
    /// Shards of the index were or are being split in place.
    Split,
    /// The number of the index's shards is changing.
    Resharding,
    /// The index was created by a version whose formula the filter does not know.
    Version,
    /// The index has settings about routing, shards or pipelines that the filter does not know, or that are
    /// inconsistent.
    UnknownSettings,
    /// The index needs a routing value, and the operation has none. If such an operation has no id, OpenSearch 2
    /// refuses the whole request with 500: it must not share a batch with others.
    RoutingRequired,
    /// The index is partitioned, and the operation lacks an id or a routing value.
    Partition,
    /// The primary of the shard is not started.
    Primary,
    /// The node does not have an upstream of its own.
    Upstream,
    /// The items of an answer for the index did not match the operations that were sent.
    Distrusted,
    /// The index's mapping or the configuration disables splitting.
    Disabled,
}

impl Unrouted {
    /// All reasons.
    pub const ALL: [Self; 29] = [
        Self::NoIndex,
        Self::UnknownIndex,
        Self::DateMath,
        Self::Alias,
        Self::AliasRouting,
        Self::Rollover,
        Self::CreateOnly,
        Self::RequireDataStream,
        Self::DynamicTemplates,
        Self::Type,
        Self::Closed,
        Self::WriteBlock,
        Self::IndexPipeline,
        Self::NamedPipeline,
        Self::Unproven,
        Self::IngestRole,
        Self::IndexMode,
        Self::RoutingPath,
        Self::VirtualShards,
        Self::Split,
        Self::Resharding,
        Self::Version,
        Self::UnknownSettings,
        Self::RoutingRequired,
        Self::Partition,
        Self::Primary,
        Self::Upstream,
        Self::Distrusted,
        Self::Disabled,
    ];

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
                | Self::Unproven
                | Self::IngestRole
        )
    }

    /// Returns whether the request itself may make the index routable.
    pub fn may_pass_soon(self) -> bool {
        matches!(self, Self::UnknownIndex | Self::Primary | Self::Rollover)
    }

    /// Returns the reason's name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::NoIndex => "no_index",
            Self::UnknownIndex => "unknown_index",
            Self::DateMath => "date_math",
            Self::Alias => "alias",
            Self::AliasRouting => "alias_routing",
            Self::Rollover => "rollover",
            Self::CreateOnly => "create_only",
            Self::RequireDataStream => "require_data_stream",
            Self::DynamicTemplates => "dynamic_templates",
            Self::Type => "type",
            Self::Closed => "closed",
            Self::WriteBlock => "write_block",
            Self::IndexPipeline => "index_pipeline",
            Self::NamedPipeline => "pipeline",
            Self::Unproven => "unproven_pipeline",
            Self::IngestRole => "ingest_role",
            Self::IndexMode => "index_mode",
            Self::RoutingPath => "routing_path",
            Self::VirtualShards => "virtual_shards",
            Self::Split => "split",
            Self::Resharding => "resharding",
            Self::Version => "version",
            Self::UnknownSettings => "unknown_settings",
            Self::RoutingRequired => "routing_required",
            Self::Partition => "partition",
            Self::Primary => "primary",
            Self::Upstream => "upstream",
            Self::Disabled => "disabled",
            Self::Distrusted => "mismatch",
        }
    }
}
