use crate::scenario::Settings;
use crate::violation::Promise;

/// Defines all faults, each with the promise that it breaks.
macro_rules! faults {
    ($($(#[$doc:meta])+ $name:ident breaks $promise:ident;)+) => {
        /// A fault that breaks the engine, and with it a promise. The engine itself is unchanged: a
        /// [`FaultInjector`](crate::fault_injector::FaultInjector) changes its inputs and outputs.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Fault {
            $($(#[$doc])+ $name,)+
        }

        impl Fault {
            /// All faults.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// Returns the promise that it breaks.
            pub fn breaks(self) -> Promise {
                match self {
                    $(Self::$name => Promise::$promise,)+
                }
            }
        }
    };
}

faults! {
    /// Some requests are never answered.
    DropReplies breaks Drained;
    /// Requests are answered twice.
    ReplyTwice breaks AnsweredOnce;
    /// The engine is not told that clients have left.
    ForgetLeavers breaks AnsweredOnce;
    /// Batches are answered without being sent.
    AnswerUnsent breaks NotEarly;
    /// The items of a reply are reversed.
    ReverseItems breaks OwnItems;
    /// A request is answered with another's items.
    MixReplies breaks OwnItems;
    /// Failures are reported as successes.
    HideErrors breaks OwnItems;
    /// Replies lose their headers.
    LoseHeaders breaks Headers;
    /// Batches are sent twice.
    SendTwice breaks SentOnce;
    /// Lost batches are treated as unsent.
    ResendLost breaks SentOnce;
    /// Refused documents are sent themselves twice.
    SendOriginalsTwice breaks SentOnce;
    /// Lost batches are treated as refused.
    RefuseLost breaks SentOnce;
    /// Refused documents are not sent themselves.
    KeepOriginals breaks OwnItems;
    /// Documents that are sent themselves are changed.
    TouchOriginals breaks SameBytes;
    /// Replies lose the path of a new document.
    LoseLocation breaks OwnItems;
    /// Unsent batches are never retried.
    DropResends breaks Drained;
    /// Callers are not distinguished.
    MergeCallers breaks CallersApart;
    /// Batches are sent under another header.
    ForgeHeader breaks CallersApart;
    /// A batch's bytes are changed.
    TouchBytes breaks SameBytes;
    /// The operations of a batch are reversed.
    ReverseOperations breaks Order;
    /// An operation of a batch is left out.
    LoseOperation breaks OwnItems;
    /// A batch is sent in two.
    SplitBatch breaks Order;
    /// Batches go to another node.
    WrongNode breaks Owner;
    /// A body that passes through is changed.
    TouchPassedBody breaks PassedWhole;
    /// Requests pass through twice.
    PassTwice breaks AnsweredOnce;
    /// Compressed bodies look uncompressed.
    MissOddity breaks PassedWhole;
    /// All routes look as if they led to the coordinator.
    IgnoreRoutes breaks PassedWhole;
    /// Requests are treated as too large.
    PassNeedlessly breaks PassedWhole;
    /// More batches are sent at once than allowed.
    OverLimit breaks Bounds;
    /// Batches have more operations than their answers have room for.
    LongAnswers breaks Bounds;
    /// All replies are released at once.
    FloodReplies breaks Bounds;
    /// Holds wait too long.
    WaitTooLong breaks Interval;
    /// The budget is exceeded.
    OverBudget breaks Memory;
    /// Some memory is never released.
    Leak breaks Drained;
    /// The parameter `filter_path` is ignored.
    ForgetFilter breaks OwnItems;
    /// Data after a compressed body is ignored.
    TakeDamaged breaks PassedWhole;
    /// Replies lose their warnings.
    LoseWarnings breaks Headers;
    /// Replies have warnings twice.
    RepeatWarnings breaks Headers;
    /// Headers that are held back are never let go.
    HoldForEver breaks Drained;
    /// Headers are let go although the body will arrive.
    LetGoNeedlessly breaks HeaderPause;
    /// One caller waits until others have gone first.
    StarveCaller breaks RoundRobin;
    /// All callers share the slots of a node, whatever their identity.
    ShareSlots breaks Fairness;
    /// Callers of one identity have slots of their own.
    SplitIdentities breaks Bounds;
    /// Requests that ask the cluster to wait take slots from others.
    MixWaiters breaks Interval;
    /// Most memory is not counted, not even held bodies.
    ForgetMemory breaks Memory;
    /// The generated ids are all the same.
    RepeatIds breaks SameBytes;
    /// Shards share batches although they must not.
    MixShards breaks OneShard;
    /// No batch is ever late.
    WaitForSlowShards breaks SlowShards;
    /// Queries are lost after the first few.
    LoseQueries breaks Fresh;
    /// The other workers cannot see which worker polls.
    DropLeases breaks AskedOnce;
    /// The results of other workers cannot be read.
    TakeNothingOver breaks AskedOnce;
}

impl Fault {
    /// Returns whether it keeps engines from learning the cluster.
    pub fn is_about_the_state(self) -> bool {
        matches!(self, Self::LoseQueries | Self::DropLeases | Self::TakeNothingOver)
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
