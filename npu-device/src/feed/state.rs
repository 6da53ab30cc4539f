//! States of a feed and what is allowed in each.
//!
//! ```text
//! Uninit ─load─► Loading ─execute─► Running ─end of graph─► Idle ─execute─► Running …
//!                                   Running ─abort─► Abort, ─report of a task─► Error
//! every state ─stop─► Stopped ─restart─► Idle;  every state ─destroy─► Uninit
//! ```

/// Where a feed is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedState {
    /// Nothing is loaded.
    Uninit,
    /// Between the end of the model and the next set.
    Idle,
    /// Loaded, not executed yet.
    Loading,
    /// Takes sets.
    Running,
    /// A task failed.
    Error,
    /// It was aborted.
    Abort,
    /// It was stopped.
    Stopped,
}

/// What is done to a feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedOp {
    /// It gets a model.
    Load,
    /// It begins.
    Execute,
    /// Its run ends now.
    Abort,
    /// A task says that it failed.
    TaskReport,
    /// The model has ended.
    EndGraph,
    /// A task is run.
    RunTask,
    /// It ends.
    Destroy,
    /// It takes no more sets.
    Stop,
    /// It can go on.
    Restart,
    /// Its inputs are thrown away.
    ClearInput,
}

impl FeedState {
    /// The state after `op`; `None` where it is not allowed.
    #[must_use]
    pub const fn after(self, op: FeedOp) -> Option<Self> {
        let allowed = match self {
            Self::Uninit => matches!(op, FeedOp::Load | FeedOp::Destroy | FeedOp::Stop),
            Self::Idle => matches!(
                op,
                FeedOp::Execute
                    | FeedOp::EndGraph
                    | FeedOp::RunTask
                    | FeedOp::Destroy
                    | FeedOp::Stop
            ),
            Self::Loading | Self::Abort => {
                matches!(op, FeedOp::Execute | FeedOp::Destroy | FeedOp::Stop)
            }
            Self::Running => matches!(
                op,
                FeedOp::Abort
                    | FeedOp::TaskReport
                    | FeedOp::EndGraph
                    | FeedOp::RunTask
                    | FeedOp::Destroy
                    | FeedOp::Stop
            ),
            Self::Error => {
                matches!(op, FeedOp::Execute | FeedOp::Abort | FeedOp::Destroy | FeedOp::Stop)
            }
            Self::Stopped => matches!(op, FeedOp::Destroy | FeedOp::Restart | FeedOp::ClearInput),
        };
        if !allowed {
            return None;
        }
        Some(match op {
            FeedOp::Load => Self::Loading,
            FeedOp::Execute => Self::Running,
            FeedOp::Abort => Self::Abort,
            FeedOp::TaskReport => Self::Error,
            FeedOp::EndGraph | FeedOp::Restart => Self::Idle,
            FeedOp::RunTask => self,
            FeedOp::Destroy => Self::Uninit,
            FeedOp::Stop | FeedOp::ClearInput => Self::Stopped,
        })
    }
}
