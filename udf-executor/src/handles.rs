//! Messages that the function holds during one call: a table of fixed size, filled before seal.
//!
//! A handle dies with `release` or when `proc` returns. A reshape of a block that others see (or
//! that lies in another partition) is kept here as a *local shape*; sending such a handle copies
//! the payload once, and the copy serves every further send of this shape.

use core::sync::atomic::{AtomicI64, Ordering};

use executor_core::mbuf::Mbuf;

/// Most handles at once.
const HANDLES_MAX: usize = 512;
/// Most dimensions.
const RANK_MAX: usize = executor_core::abi::MAX_DIMS;

/// One handle.
#[derive(Debug, Default)]
pub(crate) struct Handle {
    /// The message; `None` = this place is free.
    pub(crate) mbuf: Option<Mbuf>,
    /// Rank of the local shape, if there is one.
    pub(crate) local_rank: Option<u32>,
    /// The message in its local shape, in the own partition.
    pub(crate) reshaped: Option<Mbuf>,
}

/// The table.
#[derive(Debug)]
pub(crate) struct Handles {
    places: Box<[Handle]>,
    free: Vec<usize>,
    // Atomics, because the function reads them through a pointer while the table is borrowed.
    shapes: &'static [[AtomicI64; RANK_MAX]],
}

impl Handles {
    /// A table for a slot with `entries` mbuf entries.
    pub(crate) fn new(entries: usize) -> Handles {
        let count = entries.clamp(1, HANDLES_MAX);
        let shapes: Vec<[AtomicI64; RANK_MAX]> =
            (0..count).map(|_| [const { AtomicI64::new(0) }; RANK_MAX]).collect();
        Handles {
            places: (0..count).map(|_| Handle::default()).collect(),
            free: (0..count).rev().collect(),
            shapes: Vec::leak(shapes),
        }
    }

    /// Puts a message in a free place; it comes back when the function holds too many.
    pub(crate) fn add(&mut self, mbuf: Mbuf) -> Result<usize, Mbuf> {
        let Some(index) = self.free.pop() else { return Err(mbuf) };
        if let Some(place) = self.places.get_mut(index) {
            *place = Handle { mbuf: Some(mbuf), local_rank: None, reshaped: None };
        }
        Ok(index)
    }

    /// The live handle at `index`.
    pub(crate) fn get(&self, index: usize) -> Option<&Handle> {
        self.places.get(index).filter(|handle| handle.mbuf.is_some())
    }

    /// The live handle at `index`, to be changed.
    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut Handle> {
        self.places.get_mut(index).filter(|handle| handle.mbuf.is_some())
    }

    /// Notes a local shape (of at most 32 dimensions), or that there is none.
    pub(crate) fn set_shape(&mut self, index: usize, dims: Option<&[i64]>) {
        let (Some(place), Some(shape)) = (self.places.get_mut(index), self.shapes.get(index))
        else {
            return;
        };
        for (to, dim) in shape.iter().zip(dims.unwrap_or(&[])) {
            to.store(*dim, Ordering::Relaxed);
        }
        place.local_rank = dims.and_then(|dims| u32::try_from(dims.len()).ok());
    }

    /// Gives `to` the local shape of `from`; false when there is none.
    pub(crate) fn copy_shape(&mut self, from: usize, to: usize) -> bool {
        let Some((shape, rank)) = self.shape(from) else { return false };
        let Some(place) = self.shapes.get(to) else { return false };
        for (to, dim) in place.iter().zip(shape) {
            to.store(dim.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        if let Some(handle) = self.get_mut(to) {
            handle.local_rank = Some(rank);
        }
        true
    }

    /// The local shape of a handle: first dimension and rank.
    pub(crate) fn shape(&self, index: usize) -> Option<(&'static [AtomicI64], u32)> {
        let rank = self.get(index)?.local_rank?;
        Some((self.shapes.get(index)?.get(..rank as usize)?, rank))
    }

    /// Empties a place: what the caller has to free.
    pub(crate) fn remove(&mut self, index: usize) -> [Option<Mbuf>; 2] {
        let Some(place) = self.places.get_mut(index) else { return [None, None] };
        let Some(mbuf) = place.mbuf.take() else { return [None, None] };
        // Within capacity: one number for each place.
        self.free.push(index);
        [Some(mbuf), place.reshaped.take()]
    }

    /// A live handle, if there is any.
    pub(crate) fn any(&self) -> Option<usize> {
        if self.free.len() == self.places.len() {
            return None;
        }
        self.places.iter().position(|place| place.mbuf.is_some())
    }
}
