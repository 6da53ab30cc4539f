//! The submission queue of a stream: places for entries.
//!
//! ```text
//! place:  … │ done │ done │ head │ …  │ …  │ tail │ free │ …
//! ```
//! A ring for tasks that run once; a straight line for those of a model, which run again. Whoever
//! submits writes entries and the tail, a core the head, each in lines of their own.

use crate::sqe::{Place, Sqe};

#[derive(Debug)]
pub(crate) struct Queue {
    places: Box<[Place]>,
    mask: u64,
}

impl Queue {
    /// A ring; `depth` is a power of two.
    pub(crate) fn ring(depth: u32) -> Self {
        Self { mask: u64::from(depth) - 1, ..Self::line(depth as usize) }
    }

    /// A line of places that are not used again.
    pub(crate) fn line(depth: usize) -> Self {
        Self { places: (0..depth).map(|_| Place::default()).collect(), mask: u64::MAX }
    }

    pub(crate) fn depth(&self) -> u64 {
        self.places.len() as u64
    }

    fn index(&self, position: u64) -> usize {
        usize::try_from(position & self.mask).unwrap_or(usize::MAX)
    }

    /// Puts an entry down. Whoever reads it has seen the tail behind it.
    pub(crate) fn write(&self, position: u64, sqe: &Sqe) {
        self.places[self.index(position)].write(sqe);
    }

    pub(crate) fn read(&self, position: u64) -> Sqe {
        self.places[self.index(position)].read()
    }

    /// The entry at a place, if the queue has that place.
    pub(crate) fn get(&self, position: u64) -> Option<Sqe> {
        self.places.get(self.index(position)).map(Place::read)
    }
}
