//! Bounded storage of one group's events: 64 FIFO lists (one an event id) over one slab, no
//! allocation.
//!
//! Priority belongs to the event id (see [`super::Scheduler::set_priority`]), so the next event of
//! a thread is the head of one of its lists: the highest level first, the oldest stamp within a
//! level.

use super::{EventId, MESSAGE_MAX, Priority};

/// No slab index.
const NONE: u32 = u32::MAX;

/// An event as it is kept: its message is copied in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stored {
    pub(super) event: EventId,
    pub(super) subevent: u32,
    pub(super) pid: u32,
    /// Number of the synchronous submit that waits for its answer, plus one.
    pub(super) sync: u32,
    pub(super) len: u32,
    pub(super) message: [u8; MESSAGE_MAX],
    stamp: u64,
    next: u32,
}

impl Stored {
    /// `None` for a message above 128 bytes.
    pub(super) fn new(event: EventId, subevent: u32, pid: u32, message: &[u8]) -> Option<Stored> {
        let len = u32::try_from(message.len()).ok()?;
        let mut bytes = [0; MESSAGE_MAX];
        bytes.get_mut(..message.len())?.copy_from_slice(message);
        Some(Stored { event, subevent, pid, sync: 0, len, message: bytes, stamp: 0, next: NONE })
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.message.get(..self.len as usize).unwrap_or(&[])
    }
}

/// The store of one group.
#[derive(Debug)]
pub(super) struct Store {
    slab: Vec<Option<Stored>>,
    free: Vec<u32>,
    heads: [u32; 64],
    tails: [u32; 64],
    pending: u64,
    stamp: u64,
}

impl Store {
    pub(super) fn new(capacity: u32) -> Store {
        Store {
            slab: vec![None; capacity as usize],
            free: (0..capacity).rev().collect(),
            heads: [NONE; 64],
            tails: [NONE; 64],
            pending: 0,
            stamp: 0,
        }
    }

    /// Forgets every event.
    pub(super) fn clear(&mut self) {
        self.free.clear();
        self.free.extend((0..u32::try_from(self.slab.len()).unwrap_or(0)).rev());
        self.slab.fill(None);
        (self.heads, self.tails) = ([NONE; 64], [NONE; 64]);
        (self.pending, self.stamp) = (0, 0);
    }

    /// Bits of the event ids that have an event.
    pub(super) fn pending(&self) -> u64 {
        self.pending
    }

    /// Appends an event; false when the store is full.
    pub(super) fn push(&mut self, event: &Stored) -> bool {
        let Some(index) = self.free.pop() else { return false };
        let id = event.event.index();
        self.stamp += 1;
        let kept = Stored { stamp: self.stamp, next: NONE, ..*event };
        if let Some(place) = self.slab.get_mut(index as usize) {
            *place = Some(kept);
        }
        let last = self.tails[id];
        match self.slab.get_mut(last as usize).and_then(Option::as_mut) {
            Some(last) => last.next = index,
            None => self.heads[id] = index,
        }
        self.tails[id] = index;
        self.pending |= event.event.bit();
        true
    }

    /// The next event of a thread that subscribed `bitmap`.
    pub(super) fn front(&self, bitmap: u64, levels: &[Priority; 64]) -> Option<&Stored> {
        let mut bits = self.pending & bitmap;
        let mut best: Option<(u8, &Stored)> = None;
        while bits != 0 {
            let id = bits.trailing_zeros() as usize;
            bits &= bits - 1;
            let head = self.heads.get(id).and_then(|head| self.slab.get(*head as usize));
            let Some(event) = head.and_then(Option::as_ref) else { continue };
            let level = levels.get(id).map_or(u8::MAX, |level| level.level());
            if best.is_none_or(|(l, b)| (level, event.stamp) < (l, b.stamp)) {
                best = Some((level, event));
            }
        }
        best.map(|(_, event)| event)
    }

    /// Takes the first event of `event`'s list away.
    pub(super) fn pop(&mut self, event: EventId) {
        let id = event.index();
        let index = self.heads[id];
        let Some(taken) = self.slab.get_mut(index as usize).and_then(Option::take) else { return };
        self.heads[id] = taken.next;
        if taken.next == NONE {
            self.tails[id] = NONE;
            self.pending &= !event.bit();
        }
        self.free.push(index);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{EventId, Priority};
    use super::{Store, Stored};

    fn event(id: u32, subevent: u32) -> Stored {
        Stored::new(EventId::new(id).unwrap(), subevent, 0, &[]).unwrap()
    }

    #[test]
    fn levels_first_then_age() {
        let mut store = Store::new(8);
        let mut levels = [Priority::DEFAULT; 64];
        levels[7] = Priority::LEVEL0;
        for (id, sub) in [(5, 1), (6, 2), (7, 3), (5, 4), (7, 5)] {
            assert!(store.push(&event(id, sub)));
        }
        let mut order = Vec::new();
        while let Some(next) = store.front(u64::MAX, &levels).copied() {
            order.push(next.subevent);
            store.pop(next.event);
        }
        assert_eq!(order, [3, 5, 1, 2, 4]);
        assert_eq!(store.pending(), 0);
    }

    #[test]
    fn it_is_bounded_and_reuses_its_places() {
        let mut store = Store::new(2);
        let levels = [Priority::DEFAULT; 64];
        for round in 0..5 {
            assert!(store.push(&event(1, round)) && store.push(&event(2, round)));
            assert!(!store.push(&event(3, round)));
            assert!(store.front(1 << 3, &levels).is_none());
            store.pop(EventId::new(2).unwrap());
            store.pop(EventId::new(1).unwrap());
        }
        store.push(&event(1, 9));
        store.clear();
        assert!(store.front(u64::MAX, &levels).is_none());
        assert!(store.push(&event(1, 0)) && store.push(&event(1, 1)));
    }

    #[test]
    fn messages_have_at_most_128_bytes() {
        let id = EventId::new(63).unwrap();
        assert_eq!(Stored::new(id, 0, 0, &[7; 128]).unwrap().bytes(), [7; 128]);
        assert!(Stored::new(id, 0, 0, &[7; 129]).is_none());
        assert!(EventId::new(64).is_none());
    }
}
