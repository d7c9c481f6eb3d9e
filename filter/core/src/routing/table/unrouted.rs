use serde::{Deserialize, Serialize};

/// Why an operation's node is not known for certain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Unrouted {
    /// Neither the action line nor the path names an index.
    NoIndex,
    /// The table knows no index, alias or data stream of this name: one that the bulk request itself will create.
    UnknownIndex,
    /// A name such as `<logs-{now/d}>`, of which the cluster makes an index when it carries the request out.
    DateMath,
    /// The alias has no single index to write to.
    Alias,
    /// The alias has a routing value of its own and the operation another.
    AliasRouting,
    /// The next operation makes the data stream begin a new index.
    Rollover,
    /// Data streams take nothing but `create`. The index that a refusal of something else shows depends on whether a
    /// `create` stands before it in the same body.
    CreateOnly,
    /// The operation or the request has `require_data_stream`, and not all nodes know it, or it is said of an update.
    /// Then the whole request is refused, with the number of the line.
    RequireDataStream,
    /// The index is not open.
    Closed,
    /// The index takes no operations: `index.blocks`. Some of the refusals look as if it would soon.
    WriteBlock,
    /// An ingest pipeline of the index may change where documents go.
    Pipeline,
    /// The index is one of a mode that the filter does not know.
    IndexMode,
    /// The index routes by fields of the document: a time series, or `logsdb` that routes by its sort fields.
    RoutingPath,
    /// The index has virtual shards.
    VirtualShards,
    /// Shards of the index were or are being split in place.
    Split,
    /// The number of the index's shards is being changed.
    Resharding,
    /// The index was created by a version whose formula the filter does not know.
    Version,
    /// The index has settings about routing, shards or pipelines that the filter does not know, or that do not fit
    /// together.
    UnknownSettings,
    /// The index needs a routing value, and there is none. For an operation without an id OpenSearch 2 then refuses
    /// the whole request, with 500: it must not meet others in a batch.
    RoutingRequired,
    /// A partitioned index needs both an id and a routing value.
    Partition,
    /// No primary of the shard is started.
    Primary,
    /// The node has no upstream of its own.
    Upstream,
    /// An answer's items for the index did not stand where its operations were sent.
    Distrusted,
    /// The index is not to be touched: its mapping says so, or the configuration.
    Disabled,
}

impl Unrouted {
    /// All of them.
    pub const ALL: [Self; 24] = [
        Self::NoIndex,
        Self::UnknownIndex,
        Self::DateMath,
        Self::Alias,
        Self::AliasRouting,
        Self::Rollover,
        Self::CreateOnly,
        Self::RequireDataStream,
        Self::Closed,
        Self::WriteBlock,
        Self::Pipeline,
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

    /// Whether operations of several requests may share a batch for a coordinating node. The index has to be known:
    /// with a pipeline items may come back in another order, and a shard without a primary keeps a whole batch
    /// waiting.
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
        )
    }

    /// Whether the request itself may make its index one that can be routed to.
    pub fn may_pass_soon(self) -> bool {
        matches!(self, Self::UnknownIndex | Self::Primary | Self::Rollover)
    }

    /// The word that stands for it in metrics.
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
            Self::Closed => "closed",
            Self::WriteBlock => "write_block",
            Self::Pipeline => "index_pipeline",
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
