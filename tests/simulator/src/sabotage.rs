use crate::scenario::Settings;
use crate::violation::Promise;

/// One way to break the engine, and with it a promise. Nothing of it is in the engine itself: a
/// [`Saboteur`](crate::saboteur::Saboteur) changes what goes in and what comes out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sabotage {
    /// Some requests are never answered.
    DropReplies,
    /// Requests are answered twice.
    ReplyTwice,
    /// The engine is not told that clients have left.
    ForgetLeavers,
    /// Batches are answered without being sent.
    AnswerUnsent,
    /// The items of a reply are turned round.
    TurnItemsRound,
    /// A request is answered with another's items.
    MixReplies,
    /// Failures are told as successes.
    HideErrors,
    /// Replies lose their headers.
    LoseHeaders,
    /// Batches are sent twice.
    SendTwice,
    /// What was lost is taken for what was not sent.
    ResendLost,
    /// What was not sent is never sent again.
    DropResends,
    /// Callers look alike.
    MergeCallers,
    /// Batches are sent under another header.
    ForgeHeader,
    /// A batch's bytes are changed.
    TouchBytes,
    /// The operations of a batch are turned round.
    TurnOperationsRound,
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
    /// Compressed bodies look as if they were not.
    MissOddity,
    /// Routes all look as if they led to the coordinator.
    IgnoreRoutes,
    /// Requests are taken for too large.
    PassNeedlessly,
    /// More is sent at a time than may be.
    OverLimit,
    /// Batches have more operations than their answers have room for.
    LongAnswers,
    /// Replies are let go all at once.
    FloodReplies,
    /// Holds wait too long.
    WaitTooLong,
    /// The budget is not kept.
    OverBudget,
    /// Some memory is never given back.
    Leak,
    /// What clients want to see is not heeded.
    ForgetFilter,
    /// What follows a compressed body is not noticed.
    TakeDamaged,
    /// Replies lose their warnings.
    LoseWarnings,
    /// Replies have warnings twice.
    RepeatWarnings,
    /// Headers that are held back are never let go.
    HoldForEver,
    /// Headers are let go although the body will come.
    LetGoNeedlessly,
    /// One caller waits until others have had their turns.
    StarveCaller,
    /// All callers share the slots of a node, whatever their identity.
    ShareSlots,
    /// Callers of one identity have slots of their own.
    SplitIdentities,
    /// Requests that ask the cluster to wait take slots from others.
    MixWaiters,
    /// Most memory is not counted, not even the bodies that are held.
    ForgetMemory,
    /// The ids that the filter makes are all the same.
    RepeatIds,
    /// Shards share batches although they should not.
    MixShards,
    /// Questions are lost after the first few.
    LoseQuestions,
    /// Nobody is told who asks.
    DropLeases,
    /// What others have found is not to be had.
    TakeNothingOver,
}

impl Sabotage {
    /// Every one.
    pub const ALL: &[Self] = &[
        Self::DropReplies,
        Self::ReplyTwice,
        Self::ForgetLeavers,
        Self::AnswerUnsent,
        Self::TurnItemsRound,
        Self::MixReplies,
        Self::HideErrors,
        Self::LoseHeaders,
        Self::SendTwice,
        Self::ResendLost,
        Self::DropResends,
        Self::MergeCallers,
        Self::ForgeHeader,
        Self::TouchBytes,
        Self::TurnOperationsRound,
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
        Self::LoseQuestions,
        Self::DropLeases,
        Self::TakeNothingOver,
    ];

    /// Whether it keeps engines from knowing the cluster.
    pub fn is_about_the_state(self) -> bool {
        matches!(self, Self::LoseQuestions | Self::DropLeases | Self::TakeNothingOver)
    }

    /// The promise that it breaks.
    pub fn breaks(self) -> Promise {
        match self {
            Self::DropReplies | Self::DropResends | Self::Leak | Self::HoldForEver => Promise::Drained,
            Self::ReplyTwice | Self::ForgetLeavers | Self::PassTwice => Promise::AnsweredOnce,
            Self::AnswerUnsent => Promise::NotEarly,
            Self::TurnItemsRound | Self::MixReplies | Self::HideErrors | Self::LoseOperation | Self::ForgetFilter => {
                Promise::OwnItems
            }
            Self::LoseHeaders | Self::LoseWarnings | Self::RepeatWarnings => Promise::Headers,
            Self::SendTwice | Self::ResendLost => Promise::SentOnce,
            Self::MergeCallers | Self::ForgeHeader => Promise::CallersApart,
            Self::TouchBytes | Self::RepeatIds => Promise::SameBytes,
            Self::TurnOperationsRound | Self::SplitBatch => Promise::Order,
            Self::WrongNode => Promise::Owner,
            Self::MixShards => Promise::OneShard,
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
            Self::StarveCaller => Promise::Turns,
            Self::LoseQuestions => Promise::Fresh,
            Self::DropLeases | Self::TakeNothingOver => Promise::AskedOnce,
        }
    }

    /// The settings with which the broken engine runs, while it is checked against the true ones.
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
