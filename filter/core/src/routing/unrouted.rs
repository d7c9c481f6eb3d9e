/// Why an operation's node is not known for certain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Unrouted {
    /// Neither the action line nor the path names an index.
    NoIndex,
    /// The table knows no index or alias of this name: a data stream, a date-math name, an index that the bulk
    /// request itself will create.
    UnknownIndex,
    /// The alias has no single index to write to.
    Alias,
    /// The alias has a routing value of its own and the operation another.
    AliasRouting,
    /// The index is not open.
    Closed,
    /// An ingest pipeline of the index may change where documents go.
    Pipeline,
    /// The index does not route by hash: a time series, virtual shards, a split or a resharding under way, or
    /// settings that do not fit together.
    IndexMode,
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
}

impl Unrouted {
    /// Whether operations of several requests may share a batch for a coordinating node. The index has to be known:
    /// with a pipeline items may come back in another order, and a shard without a primary keeps a whole batch
    /// waiting.
    pub fn may_be_merged(self) -> bool {
        matches!(self, Self::IndexMode | Self::Partition | Self::Upstream)
    }

    /// The word that stands for it in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::NoIndex => "no_index",
            Self::UnknownIndex => "unknown_index",
            Self::Alias => "alias",
            Self::AliasRouting => "alias_routing",
            Self::Closed => "closed",
            Self::Pipeline => "index_pipeline",
            Self::IndexMode => "index_mode",
            Self::RoutingRequired => "routing_required",
            Self::Partition => "partition",
            Self::Primary => "primary",
            Self::Upstream => "upstream",
            Self::Distrusted => "mismatch",
        }
    }
}
