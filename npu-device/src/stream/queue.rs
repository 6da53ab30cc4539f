//! The submission queue of a stream: places for entries, and which task stands at each.
//!
//! ```text
//! place:    … │ done │ done │ head │ …  │ …  │ tail │ free │ …
//! task id:  … │ NONE │ NONE │  17  │ 18 │ 19 │ NONE │ NONE │ …
//! ```
//! A ring for tasks that run once; a straight line for those of a model, which run again.

use std::sync::atomic::{AtomicU16, Ordering};

use crate::sqe::{Place, Sqe};

/// No task stands here.
pub(crate) const NO_TASK: u16 = 0xFFFF;

#[derive(Debug)]
pub(crate) struct Queue {
    places: Box<[Place]>,
    /// Task at each place.
    tasks: Box<[AtomicU16]>,
    mask: u64,
}

impl Queue {
    /// A ring; `depth` is a power of two.
    pub(crate) fn ring(depth: u32) -> Self {
        Self { mask: u64::from(depth) - 1, ..Self::line(depth as usize) }
    }

    /// A line of places that are not used again.
    pub(crate) fn line(depth: usize) -> Self {
        Self {
            places: (0..depth).map(|_| Place::default()).collect(),
            tasks: (0..depth).map(|_| AtomicU16::new(NO_TASK)).collect(),
            mask: u64::MAX,
        }
    }

    pub(crate) fn depth(&self) -> u64 {
        self.places.len() as u64
    }

    fn index(&self, position: u64) -> usize {
        usize::try_from(position & self.mask).unwrap_or(usize::MAX)
    }

    /// Puts an entry down. Whoever reads it has seen the tail behind it.
    pub(crate) fn write(&self, position: u64, sqe: &Sqe) {
        let index = self.index(position);
        self.places[index].write(sqe);
        self.tasks[index].store(sqe.header.task, Ordering::Relaxed);
    }

    pub(crate) fn read(&self, position: u64) -> Sqe {
        self.places[self.index(position)].read()
    }

    /// The entry at a place, if the queue has that place.
    pub(crate) fn get(&self, position: u64) -> Option<Sqe> {
        self.places.get(self.index(position)).map(Place::read)
    }

    /// The task at a place, if there is one.
    pub(crate) fn task(&self, position: u64) -> Option<u16> {
        let task = self.tasks.get(self.index(position))?.load(Ordering::Relaxed);
        (task != NO_TASK).then_some(task)
    }

    /// The task at a place is done.
    pub(crate) fn clear(&self, position: u64) {
        self.tasks[self.index(position)].store(NO_TASK, Ordering::Relaxed);
    }
}
