//! Looking at a stream's tasks.

use std::sync::atomic::Ordering;

use crate::codes::{INSUFFICIENT_INPUT_ARRAY, Result, refuse};
use crate::lock::lock;
use crate::sqe::{Sqe, kind, task};
use crate::stream::Stream;

/// What a task is, as tools show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskType {
    /// None of the others.
    Other,
    /// A kernel.
    Kernel,
    /// Marks an event.
    EventRecord,
    /// Waits for an event.
    EventWait,
    /// Resets an event.
    EventReset,
    /// Writes a value.
    ValueWrite,
    /// Waits for a value.
    ValueWait,
}

/// A task that stands in a stream.
#[derive(Clone, Copy, Debug)]
pub struct TaskInfo {
    /// Its place among the stream's tasks.
    pub sequence: u32,
    /// What it is.
    pub kind: TaskType,
    /// All of it.
    pub sqe: Sqe,
}

impl TaskType {
    /// What an entry is.
    #[must_use]
    pub fn of(sqe: &Sqe) -> Self {
        match (sqe.kind(), sqe.task_type()) {
            (kind::KERNEL | kind::AICPU, _) => Self::Kernel,
            (kind::EVENT_RECORD, _) | (kind::PLACE_HOLDER, task::CAPTURE_RECORD_EXTERNAL) => {
                Self::EventRecord
            }
            (kind::EVENT_WAIT, _) | (kind::PLACE_HOLDER, task::CAPTURE_WAIT_EXTERNAL) => {
                Self::EventWait
            }
            (kind::WRITE_VALUE, _) => Self::ValueWrite,
            (kind::PLACE_HOLDER, task::EVENT_RESET) => Self::EventReset,
            (kind::PLACE_HOLDER, task::WAIT_VALUE) => Self::ValueWait,
            _ => Self::Other,
        }
    }
}

impl Stream {
    /// Its tasks, in order: of a persistent stream all, slaves included; of an ordinary one those
    /// that are not done.
    #[must_use]
    pub fn tasks(&self) -> Vec<TaskInfo> {
        let slaves = lock(&self.core.submit).slaves.clone();
        let cores = std::iter::once(&self.core).chain(&slaves);
        // What starts a slave is not the user's.
        let last = slaves.len();
        let entries = cores.enumerate().flat_map(|(index, core)| {
            let mut entries = core.entries();
            entries.truncate(entries.len() - usize::from(index < last && !entries.is_empty()));
            entries
        });
        let info = |(sequence, sqe)| TaskInfo { sequence, kind: TaskType::of(&sqe), sqe };
        (0..).zip(entries).map(info).collect()
    }

    /// The same in two calls: without an array the count, with one as many as there are.
    ///
    /// # Errors
    /// 107039 when the array is too small; nothing is written then.
    pub fn tasks_into(&self, array: Option<&mut [Option<TaskInfo>]>) -> Result<usize> {
        let tasks = self.tasks();
        let Some(array) = array else { return Ok(tasks.len()) };
        if array.len() < tasks.len() {
            let what = format!("an array of {} for {} tasks", array.len(), tasks.len());
            return refuse(INSUFFICIENT_INPUT_ARRAY, what);
        }
        let count = tasks.len();
        array.iter_mut().zip(tasks).for_each(|(place, task)| *place = Some(task));
        Ok(count)
    }

    /// Numbers of the tasks that are submitted and not done, from the places of the queue.
    #[must_use]
    pub fn waiting(&self) -> Vec<u16> {
        let (core, queue) = (&self.core, self.core.queue());
        let places = core.head.load(Ordering::Acquire)..core.tail.load(Ordering::Acquire);
        places.filter_map(|place| queue.get(place)).map(|sqe| sqe.header.task).collect()
    }

    /// Whether somebody waits for it on the host.
    #[must_use]
    pub fn is_waited_for(&self) -> bool {
        self.core.is_waited_for()
    }

    /// Streams that continue this one, unseen otherwise.
    #[must_use]
    pub fn slave_count(&self) -> usize {
        lock(&self.core.submit).slaves.len()
    }

    /// Depth of its queue on the device; 0 until it has one.
    #[must_use]
    pub fn sq_depth(&self) -> u64 {
        self.core.queue().depth()
    }

    /// Entries that its buffer on the host has room for.
    #[must_use]
    pub fn host_capacity(&self) -> usize {
        lock(&self.core.submit).host.capacity()
    }
}
