use crate::scenario::Settings;
use crate::violation::Promise;

/// A fault that breaks the engine, and with it a promise. The engine itself is unchanged: a
/// [`FaultInjector`](crate::fault_injector::FaultInjector) changes its inputs and outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Some requests are never answered.
    DropReplies,
    /// Requests are answered twice.
    ReplyTwice,
    /// The engine is not told that clients have left.
    ForgetLeavers,
    /// Batches are answered without being sent.
    AnswerUnsent,
    /// The items of a reply are reversed.
    ReverseItems,
    /// A request is answered with another's items.
    MixReplies,
    /// Failures are reported as successes.
    HideErrors,
    /// Replies lose their headers.
    LoseHeaders,
    /// Batches are sent twice.
    SendTwice,
    /// Lost batches are treated as unsent.
    ResendLost,
    /// Unsent batches are never retried.
    DropResends,
    /// Callers are not distinguished.
    MergeCallers,
    /// Batches are sent under another header.
    ForgeHeader,
    /// A batch's bytes are changed.
    TouchBytes,
    /// The operations of a batch are reversed.
    ReverseOperations,
    /// An operation of a batch is left out.
    LoseOperation,
    /// A batch is sent in two.
    SplitBatch,
    /// Batches go to another node.
    WrongNode,
    /// A body that passes through is changed.
    TouchPassedBody,
    /// Requests pass through twice.
    PassTwice,
    /// Compressed bodies look uncompressed.
    MissOddity,
    /// All routes look as if they led to the coordinator.
    IgnoreRoutes,
    /// Requests are treated as too large.
    PassNeedlessly,
    /// More batches are sent at once than allowed.
    OverLimit,
    /// Batches have more operations than their answers have room for.
    LongAnswers,
    /// All replies are released at once.
    FloodReplies,
    /// Holds wait too long.
    WaitTooLong,
    /// The budget is exceeded.
    OverBudget,
    /// Some memory is never released.
    Leak,
    /// The parameter `filter_path` is ignored.
    ForgetFilter,
    /// Data after a compressed body is ignored.
    TakeDamaged,
    /// Replies lose their warnings.
    LoseWarnings,
    /// Replies have warnings twice.
    RepeatWarnings,
    /// Headers that are held back are never let go.
    HoldForEver,
    /// Headers are let go although the body will arrive.
    LetGoNeedlessly,
    /// One caller waits until others have gone first.
    StarveCaller,
    /// All callers share the slots of a node, whatever their identity.
    ShareSlots,
    /// Callers of one identity have slots of their own.
    SplitIdentities,
    /// Requests that ask the cluster to wait take slots from others.
    MixWaiters,
    /// Most memory is not counted, not even held bodies.
    ForgetMemory,
    /// The generated ids are all the same.
    RepeatIds,
    /// Shards share batches although they must not.
    MixShards,
    /// No batch is ever late.
    WaitForSlowShards,
    /// Queries are lost after the first few.
    LoseQueries,
    /// The other workers cannot see which worker polls.
    DropLeases,
    /// The results of other workers cannot be read.
    TakeNothingOver,
}

impl Fault {
    /// All faults.
    pub const ALL: &[Self] = &[
        Self::DropReplies,
        Self::ReplyTwice,
        Self::ForgetLeavers,
        Self::AnswerUnsent,
        Self::ReverseItems,
        Self::MixReplies,
        Self::HideErrors,
        Self::LoseHeaders,
        Self::SendTwice,
        Self::ResendLost,
        Self::DropResends,
        Self::MergeCallers,
        Self::ForgeHeader,
        Self::TouchBytes,
        Self::ReverseOperations,
        Self::LoseOperation,
        Self::SplitBatch,
        Self::WrongNode,
        Self::TouchPassedBody,
        Self::PassTwice,
        Self::MissOddity,
        Self::IgnoreRoutes,
        Self::PassNeedlessly,
        Self::OverLimit,
        Self::LongAnswers,
        Self::FloodReplies,
        Self::WaitTooLong,
        Self::OverBudget,
        Self::Leak,
        Self::ForgetFilter,
        Self::TakeDamaged,
        Self::LoseWarnings,
        Self::RepeatWarnings,
        Self::HoldForEver,
        Self::LetGoNeedlessly,
        Self::StarveCaller,
        Self::ShareSlots,
        Self::SplitIdentities,
        Self::MixWaiters,
        Self::ForgetMemory,
        Self::RepeatIds,
        Self::MixShards,
        Self::WaitForSlowShards,
        Self::LoseQueries,
        Self::DropLeases,
        Self::TakeNothingOver,
    ];

    /// Returns whether it keeps engines from learning the cluster.
    pub fn is_about_the_state(self) -> bool {
        matches!(self, Self::LoseQueries | Self::DropLeases | Self::TakeNothingOver)
    }

    /// Returns the promise that it breaks.
    pub fn breaks(self) -> Promise {
        match self {
            Self::DropReplies | Self::DropResends | Self::Leak | Self::HoldForEver => Promise::Drained,
            Self::ReplyTwice | Self::ForgetLeavers | Self::PassTwice => Promise::AnsweredOnce,
            Self::AnswerUnsent => Promise::NotEarly,
            Self::ReverseItems | Self::MixReplies | Self::HideErrors | Self::LoseOperation | Self::ForgetFilter => {
                Promise::OwnItems
            }
            Self::LoseHeaders | Self::LoseWarnings | Self::RepeatWarnings => Promise::Headers,
            Self::SendTwice | Self::ResendLost => Promise::SentOnce,
            Self::MergeCallers | Self::ForgeHeader => Promise::CallersApart,
            Self::TouchBytes | Self::RepeatIds => Promise::SameBytes,
            Self::ReverseOperations | Self::SplitBatch => Promise::Order,
            Self::WrongNode => Promise::Owner,
            Self::MixShards => Promise::OneShard,
            Self::WaitForSlowShards => Promise::SlowShards,
            Self::TouchPassedBody
            | Self::MissOddity
            | Self::IgnoreRoutes
            | Self::PassNeedlessly
            | Self::TakeDamaged => Promise::PassedWhole,
            Self::OverLimit | Self::LongAnswers | Self::FloodReplies | Self::SplitIdentities => Promise::Bounds,
            Self::WaitTooLong | Self::MixWaiters => Promise::Interval,
            Self::ShareSlots => Promise::Fairness,
            Self::OverBudget | Self::ForgetMemory => Promise::Memory,
            Self::LetGoNeedlessly => Promise::HeaderPause,
            Self::StarveCaller => Promise::RoundRobin,
            Self::LoseQueries => Promise::Fresh,
            Self::DropLeases | Self::TakeNothingOver => Promise::AskedOnce,
        }
    }

    /// Returns the settings of the engine with the fault, which is checked against the original ones.
    pub fn settings(self, mut settings: Settings) -> Settings {
        match self {
            Self::OverLimit => {
                settings.max_in_flight = settings.max_in_flight.saturating_add(3);
                settings.max_in_flight_per_node = settings.max_in_flight_per_node.saturating_add(3);
            }
            Self::WaitTooLong => {
                settings.early_release = false;
                settings.interval = settings.interval.saturating_add(100);
            }
            // With early release and one batch in flight, no hold waits for the end of its interval.
            Self::WaitForSlowShards if settings.early_release && settings.max_in_flight == 1 => {
                settings.interval = 60_000;
            }
            Self::LongAnswers => settings.max_answer = 32 << 20,
            Self::ShareSlots => settings.identity = &[],
            Self::SplitIdentities => settings.identity = &["x-opaque-id"],
            Self::MixShards => settings.level = "node",
            Self::PassNeedlessly => settings.max_request = 100,
            Self::OverBudget => settings.memory = settings.memory.saturating_mul(50).min(640 << 20),
            _ => {}
        }
        settings
    }
}
