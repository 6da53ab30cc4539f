//! Changing single tasks of a complete model: what is asked for is applied by an update, between
//! two runs.

use std::sync::atomic::Ordering;

use crate::codes::{
    MODEL_EXECUTE, MODEL_RUNNING, MODEL_UPDATE_FAILED, PARAM_INVALID, Result, STREAM_MODEL,
    TASK_TYPE_NOT_SUPPORT, refuse,
};
use crate::kernel::Function;
use crate::lock::lock;
use crate::model::Model;
use crate::sqe::{Sqe, kind, task};
use crate::stream::{Placed, Stream, TaskType, WaitValue};

/// What a task is to be instead; of the same type, or nothing.
#[derive(Clone, Copy, Debug)]
pub enum TaskChange<'a> {
    /// A kernel with these parameters.
    Kernel {
        /// What it runs.
        function: &'a Function,
        /// How often.
        blocks: u16,
        /// Its words.
        args: [u64; 4],
    },
    /// A value written.
    Write {
        /// Where.
        address: u64,
        /// What.
        value: u64,
    },
    /// A value waited for.
    Wait {
        /// Where.
        address: u64,
        /// When it ends.
        condition: WaitValue,
        /// By what.
        operand: u64,
    },
    /// Nothing, in its order; it stays so.
    Nothing,
}

impl TaskChange<'_> {
    /// The entry that comes of this one; `None` when it is of another type.
    fn of(&self, old: &Sqe) -> Option<Sqe> {
        let mut new = *old;
        let kind = TaskType::of(old);
        match *self {
            Self::Kernel { function, blocks, args } if kind == TaskType::Kernel => {
                new.header.block_dim = blocks;
                new.payload[0] = function.word();
                new.payload[1..5].copy_from_slice(&args);
            }
            Self::Write { address, value } if kind == TaskType::ValueWrite => {
                new.payload[..3].copy_from_slice(&[address, value, 8]);
            }
            Self::Wait { address, condition, operand } if kind == TaskType::ValueWait => {
                let condition = u64::from(condition as u8);
                new.payload[..3].copy_from_slice(&[address, operand, condition]);
            }
            Self::Nothing if can_go(old) => new = Sqe::place_holder(task::NOP),
            _ => return None,
        }
        Some(new)
    }
}

/// Whether others do without it: nobody is told by it that something happened.
fn can_go(sqe: &Sqe) -> bool {
    match sqe.kind() {
        kind::KERNEL | kind::AICPU | kind::SDMA | kind::WRITE_VALUE => true,
        kind::PLACE_HOLDER => matches!(sqe.task_type(), task::MEMSET | task::WAIT_VALUE),
        _ => false,
    }
}

impl Stream {
    /// Asks for another task in the place of one of this stream's, from the next
    /// [`Model::update`] on. Not by several threads at once for one model.
    ///
    /// # Errors
    /// 107005 for a stream of no model; 507011 before the model is complete; 107000 without such a
    /// task or without blocks; 507009 for a task of another type, or one that can't be changed.
    pub fn change_task(&self, sequence: u32, change: &TaskChange<'_>) -> Result<()> {
        if matches!(change, TaskChange::Kernel { blocks: 0, .. }) {
            return refuse(PARAM_INVALID, "a kernel needs at least one block");
        }
        let Some(graph) = self.core.graph() else {
            return refuse(STREAM_MODEL, format!("stream {} is of no model", self.id()));
        };
        let mut build = lock(&graph.build);
        if !build.complete {
            return refuse(MODEL_EXECUTE, format!("model {} is not complete", graph.id()));
        }
        let found = self.place_of(sequence).and_then(|placed| Some((placed.read()?, placed)));
        let Some((old, placed)) = found else {
            return refuse(PARAM_INVALID, format!("stream {} has no task {sequence}", self.id()));
        };
        let Some(new) = change.of(&old) else {
            let what = format!("task {sequence} of stream {} can't become this", self.id());
            return refuse(TASK_TYPE_NOT_SUPPORT, what);
        };
        build.edits.push((placed, new));
        Ok(())
    }

    /// Where a task of this stream is: perhaps in a slave.
    fn place_of(&self, sequence: u32) -> Option<Placed> {
        let slaves = lock(&self.core.submit).slaves.clone();
        let last = slaves.len();
        let mut left = u64::from(sequence);
        for (index, core) in std::iter::once(&self.core).chain(&slaves).enumerate() {
            // What starts a slave is not the user's.
            let tasks = core.tail.load(Ordering::Acquire);
            let own = if index < last { tasks.saturating_sub(1) } else { tasks };
            if left < own {
                return Some(Placed { stream: core.clone(), position: left, task: 0 });
            }
            left -= own;
        }
        None
    }
}

impl Model {
    /// Applies what [`Stream::change_task`] asked for, in that order, between two runs.
    ///
    /// # Errors
    /// 107026 while it is captured, 107000 for a branch of a condition, 107040 when it has ended;
    /// 107037 when its run does not end in the time that the device was configured with, and
    /// nothing is changed then.
    pub fn update(&self) -> Result<()> {
        self.check_own()?;
        let changed = self.graph.while_idle(self.context.device().config.patience, || {
            let mut build = lock(&self.graph.build);
            if build.destroyed {
                return refuse(MODEL_UPDATE_FAILED, format!("model {} has ended", self.id()));
            }
            build.edits.drain(..).for_each(|(placed, sqe)| placed.replace(&sqe));
            Ok(())
        });
        changed.unwrap_or_else(|| refuse(MODEL_RUNNING, format!("model {} is running", self.id())))
    }
}
