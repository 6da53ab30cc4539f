//! States of a model that runs by what comes in queues, and what is allowed in each
//! (device-runtime §3.2). The table only: whoever has a model acts by it.
//!
//! ```text
//! Uninit ─load─► Loading ─execute─► Running ─end of graph─► Idle ─execute─► Running …
//!                                   Running ─abort─► Abort, ─report of a task─► Error
//! every state but Stopped ─stop─► Stopped ─restart─► Idle;  every state ─destroy─► Uninit
//! ```

use core::fmt;

/// Where a model is. The numbers stand in `SlotCtl::model`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ModelState {
    /// Nothing is loaded.
    Uninit = 0,
    /// Between the end of the model and the next set.
    Idle = 1,
    /// Loaded, not executed yet.
    Loading = 2,
    /// Takes sets.
    Running = 3,
    /// A task failed.
    Error = 4,
    /// It was aborted.
    Abort = 5,
    /// It was stopped.
    Stopped = 6,
}

/// What is done to a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelOp {
    /// It gets a program and queues.
    Load,
    /// It begins.
    Execute,
    /// Its run ends now.
    Abort,
    /// A task says that it failed.
    TaskReport,
    /// The run has ended.
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

/// An operation that the state does not allow; as text, with both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Where the model is.
    pub state: ModelState,
    /// What was asked for.
    pub op: ModelOp,
}

impl ModelState {
    /// All of them, in the order of their numbers.
    pub const ALL: [ModelState; 7] = [
        Self::Uninit,
        Self::Idle,
        Self::Loading,
        Self::Running,
        Self::Error,
        Self::Abort,
        Self::Stopped,
    ];

    /// The state of a number; `None` for one that no state has.
    #[must_use]
    pub fn from_word(word: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|state| *state as u64 == word)
    }

    /// The state after `op`.
    ///
    /// # Errors
    /// It is not allowed here.
    pub const fn after(self, op: ModelOp) -> Result<Self, Refused> {
        use ModelOp as Op;
        let allowed = match self {
            Self::Uninit => matches!(op, Op::Load | Op::Destroy | Op::Stop),
            Self::Idle => {
                matches!(op, Op::Execute | Op::EndGraph | Op::RunTask | Op::Destroy | Op::Stop)
            }
            Self::Loading | Self::Abort => matches!(op, Op::Execute | Op::Destroy | Op::Stop),
            Self::Running => matches!(
                op,
                Op::Abort | Op::TaskReport | Op::EndGraph | Op::RunTask | Op::Destroy | Op::Stop
            ),
            Self::Error => matches!(op, Op::Execute | Op::Abort | Op::Destroy | Op::Stop),
            Self::Stopped => matches!(op, Op::Destroy | Op::Restart | Op::ClearInput),
        };
        if !allowed {
            return Err(Refused { state: self, op });
        }
        Ok(match op {
            Op::Load => Self::Loading,
            Op::Execute => Self::Running,
            Op::Abort => Self::Abort,
            Op::TaskReport => Self::Error,
            Op::EndGraph | Op::Restart => Self::Idle,
            Op::RunTask => self,
            Op::Destroy => Self::Uninit,
            Op::Stop | Op::ClearInput => Self::Stopped,
        })
    }
}

impl fmt::Display for ModelState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Uninit => "UNINIT",
            Self::Idle => "IDLE",
            Self::Loading => "LOADING",
            Self::Running => "RUNNING",
            Self::Error => "ERROR",
            Self::Abort => "ABORT",
            Self::Stopped => "STOPPED",
        })
    }
}

impl fmt::Display for ModelOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Load => "load",
            Self::Execute => "execute",
            Self::Abort => "abort",
            Self::TaskReport => "taskReport",
            Self::EndGraph => "endGraph",
            Self::RunTask => "runTask",
            Self::Destroy => "destroy",
            Self::Stop => "stop",
            Self::Restart => "restart",
            Self::ClearInput => "clearInput",
        })
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not allowed in the state {}", self.op, self.state)
    }
}

#[cfg(test)]
mod tests {
    use super::ModelOp::{
        Abort as DoAbort, ClearInput, Destroy, EndGraph, Execute, Load, Restart, RunTask, Stop,
        TaskReport,
    };
    use super::ModelState::{self, Abort, Error, Idle, Loading, Running, Stopped, Uninit};
    use super::{ModelOp, Refused};

    const OPS: [ModelOp; 10] =
        [Load, Execute, DoAbort, TaskReport, EndGraph, RunTask, Destroy, Stop, Restart, ClearInput];

    /// Of each state and operation the next state, as the specification's table says.
    #[test]
    fn v7_34_every_cell_of_the_table_of_states() {
        let no = None;
        let [load, run, abort] = [Loading, Running, Abort].map(Some);
        let [fail, idle, empty, stop] = [Error, Idle, Uninit, Stopped].map(Some);
        let own = Some;
        #[rustfmt::skip]
        let table: [(ModelState, [Option<ModelState>; 10]); 7] = [
            (Uninit,  [load, no,  no,    no,   no,   no,           empty, stop, no,   no]),
            (Idle,    [no,   run, no,    no,   idle, own(Idle),    empty, stop, no,   no]),
            (Loading, [no,   run, no,    no,   no,   no,           empty, stop, no,   no]),
            (Running, [no,   no,  abort, fail, idle, own(Running), empty, stop, no,   no]),
            (Error,   [no,   run, abort, no,   no,   no,           empty, stop, no,   no]),
            (Abort,   [no,   run, no,    no,   no,   no,           empty, stop, no,   no]),
            (Stopped, [no,   no,  no,    no,   no,   no,           empty, no,   idle, stop]),
        ];
        for (state, row) in table {
            for (op, next) in OPS.into_iter().zip(row) {
                let expected = next.ok_or(Refused { state, op });
                assert_eq!(state.after(op), expected, "{op} in {state}");
            }
        }
    }

    #[test]
    fn numbers_come_back_as_their_state() {
        for state in ModelState::ALL {
            assert_eq!(ModelState::from_word(state as u64), Some(state));
        }
        assert_eq!(ModelState::from_word(7), None);
        assert_eq!(ModelState::from_word(1 << 32), None);
    }
}
