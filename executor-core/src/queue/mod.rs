//! Bounded queue of mbuf handles: one SPSC lane for each producer process.
//!
//! ```text
//! ring word  63 turn | 62..48 low bits of the entry's generation | 47..24 block | 23..0 entry
//! position   0..2*depth; slot = position % depth; turn = 1 on the first lap, 0 on the second
//! ```
//! Handle and turn bit share one word: a spinning consumer needs one line. The ring and `tail` lie
//! in the producer's private part, `head` in the consumer's, so only one process can write each.
//! An *exclusive* queue has one consumer process. A *shared* one (several consumers, or
//! overwriting) keeps its heads in the queue and takes the owner-tagged lock for every dequeue.
//!
//! Semantics (device-runtime §2.3): depth >= 2 a lane, names <= 127 bytes, FIFO per producer; the
//! consumer merges lanes round-robin, one message a lane; FULL hands the mbuf back; overwriting
//! drops the oldest of the producer's lane, counted with the first and last trans_id.
//!
//! Invariants: Q1 a lane is read only when its generation is the queue's. Q2 the ring word is the
//! commit of an enqueue, `head` that of a dequeue; `tail` is a hint. Q3 handles check place and
//! depth once, at open. Q4 a message lies between `head` and `tail`: where the two contradict the
//! ring, the lane is quarantined by its consumer (`PEER_FAULT` at both ends), the others go on.
//!
//! | killed after | state seen | repaired by |
//! |---|---|---|
//! | lock taken | a shared end that a dead process holds | sweep breaks the lock |
//! | lock released | as if it had never been taken | nobody needs to |
//!
//! What a dequeue, an enqueue, a grant and an end leave: the tables of the modules below.

pub mod consumer;
pub mod life;
pub mod manage;
pub mod producer;

use bitflags::bitflags;

use crate::abi::control::{LANES_MAX, QueueCtl};
use crate::owner::SlotId;
use crate::primitive::{AtomicU64, Ordering, kill_point};

pub use consumer::{Consumer, Peeked};
pub use life::QueueConfig;
pub use manage::{LaneInfo, QueueInfo};
pub use producer::{Producer, Rejected};

bitflags! {
    /// What kind of queue it is.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct QueueFlags: u32 {
        /// Full: drop the oldest of the lane instead of refusing.
        const OVERWRITE = 1;
        /// Several consumer processes; implied by OVERWRITE.
        const SHARED = 2;
        /// PUSH mode: every enqueue is an event, not only empty-to-not-empty.
        const PUSH = 4;
    }
}

bitflags! {
    /// Rights of a slot on a queue.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct Rights: u32 {
        /// May grant, reset and destroy.
        const MANAGE = 1;
        /// May dequeue.
        const READ = 2;
        /// May enqueue.
        const WRITE = 4;
    }
}

/// Life of a queue index.
///
/// ```text
/// 31 low bits of the life 16 | 15 slot that makes or ends it 8 | 7 kind 0
/// ```
/// FREE and ACTIVE have no slot and no life: those are the words 0 and 1.
pub(crate) mod state {
    pub(crate) const FREE: u32 = 0;
    pub(crate) const ACTIVE: u32 = 1;
    /// Being drained by the slot.
    pub(crate) const DESTROYED: u32 = 2;
    /// Its words are being written by the slot.
    pub(crate) const CREATING: u32 = 3;
    /// Has its words; the slot looks whether anybody else has the name.
    pub(crate) const NAMED: u32 = 4;
    /// Was NAMED; somebody else won the name.
    pub(crate) const LOST: u32 = 5;

    pub(crate) const fn word(kind: u32, slot: u32, life: u32) -> u32 {
        kind | (slot & 0xFF) << 8 | (life & 0xFFFF) << 16
    }

    pub(crate) const fn kind(word: u32) -> u32 {
        word & 0xFF
    }

    /// The slot that has to bring the index out of this state.
    pub(crate) const fn slot(word: u32) -> Option<u32> {
        match kind(word) {
            DESTROYED..=LOST => Some(word >> 8 & 0xFF),
            _ => None,
        }
    }
}

/// Where a lane's producer end lies. A claim when read from the queue; checked at open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LanePlace {
    /// Producer slot.
    pub slot: u32,
    /// Lane of that slot.
    pub lane: u32,
    /// First ring word of that slot.
    pub ring: u32,
}

impl LanePlace {
    /// Packs: bit 63 = in use.
    #[must_use]
    pub const fn word(self) -> u64 {
        1 << 63
            | (self.slot as u64 & 0xFF) << 48
            | (self.lane as u64 & 0xFFFF) << 32
            | self.ring as u64
    }

    /// Unpacks; `None` for a lane that is not in use.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, reason = "fields are cut out of the word")]
    pub const fn from_word(word: u64) -> Option<LanePlace> {
        if word >> 63 == 0 {
            return None;
        }
        Some(LanePlace {
            slot: (word >> 48) as u32 & 0xFF,
            lane: (word >> 32) as u32 & 0xFFFF,
            ring: word as u32,
        })
    }
}

/// Most messages of a lane.
pub const DEPTH_MAX: u32 = 1 << 20;

pub(crate) const TURN: u64 = 1 << 63;
pub(crate) const GENERATION_MASK: u32 = 0x7FFF;

/// The turn bit of `position`.
#[inline]
pub(crate) const fn turn(position: u32, depth: u32) -> u64 {
    if position < depth { TURN } else { 0 }
}

/// The position after `position`.
#[inline]
pub(crate) const fn advance(position: u32, depth: u32) -> u32 {
    if position + 1 >= 2 * depth { 0 } else { position + 1 }
}

/// Messages between `head` and `tail`.
#[inline]
pub(crate) const fn distance(head: u32, tail: u32, depth: u32) -> u32 {
    if tail >= head { tail - head } else { tail + 2 * depth - head }
}

/// The ring word of an entry at a position.
#[inline]
pub(crate) const fn ring_word(entry: u32, block: u32, generation: u32, turn: u64) -> u64 {
    turn | ((generation & GENERATION_MASK) as u64) << 48 | (block as u64) << 24 | entry as u64
}

/// Entry and block of a ring word, as they stand in a journal.
pub(crate) const RING_ENTRY_MASK: u64 = 0xFFFF_FFFF_FFFF;

/// Entry and block of a ring word.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "fields are cut out of the word")]
pub(crate) const fn ring_parts(word: u64) -> (u32, u32, u32) {
    let entry = (word & 0x00FF_FFFF) as u32;
    let block = ((word >> 24) & 0x00FF_FFFF) as u32;
    (entry, block, (word >> 48) as u32 & GENERATION_MASK)
}

/// The owner-tagged lock of a shared end. Released by its holder, or by the supervisor after the
/// holder was reaped; never waited for here.
#[inline]
pub(crate) fn try_lock(lock: &AtomicU64, tag: u64) -> bool {
    // SYNC: acquire, pairs with `unlock`.
    let taken = lock.compare_exchange(0, tag, Ordering::Acquire, Ordering::Relaxed).is_ok();
    kill_point!("lock taken");
    taken
}

#[inline]
pub(crate) fn unlock(lock: &AtomicU64) {
    // SYNC: release, pairs with `try_lock`.
    lock.store(0, Ordering::Release);
    kill_point!("lock released");
}

impl QueueCtl {
    /// Rights of `slot`.
    #[must_use]
    pub fn rights(&self, slot: SlotId) -> Rights {
        let bit = 1u64.checked_shl(slot.0).unwrap_or(0);
        let mut rights = Rights::empty();
        for (set, right) in [
            (&self.manage, Rights::MANAGE),
            (&self.read, Rights::READ),
            (&self.write, Rights::WRITE),
        ] {
            if set.load(Ordering::Acquire) & bit != 0 {
                rights |= right;
            }
        }
        rights
    }

    /// The depth, if it is one that a queue can have.
    pub(crate) fn sound_depth(&self) -> Option<u32> {
        let depth = self.depth.load(Ordering::Relaxed);
        (2..=DEPTH_MAX).contains(&depth).then_some(depth)
    }

    /// The consumer found the lane's words contradicting each other (Q4).
    #[cold]
    pub(crate) fn is_quarantined(&self, lane: u32) -> bool {
        self.quarantined.load(Ordering::Relaxed) & 1 << (lane & 63) != 0
    }

    /// The flags.
    #[must_use]
    pub fn queue_flags(&self) -> QueueFlags {
        QueueFlags::from_bits_truncate(self.flags.load(Ordering::Relaxed))
    }

    /// Counts dropped messages with their ids.
    pub(crate) fn count_drop(&self, trans_id: u64) {
        if self.drops.fetch_add(1, Ordering::Relaxed) == 0 {
            self.drop_first.store(trans_id, Ordering::Relaxed);
        }
        self.drop_last.store(trans_id, Ordering::Relaxed);
    }

    /// Places of the lanes in use, with their number.
    pub fn lane_places(&self) -> impl Iterator<Item = (u32, LanePlace)> + '_ {
        let count = self.lane_count.load(Ordering::Acquire).min(LANES_MAX);
        (0..count).zip(&self.lanes).filter_map(|(index, word)| {
            LanePlace::from_word(word.load(Ordering::Acquire)).map(|place| (index, place))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{LanePlace, advance, distance, ring_parts, ring_word, turn};

    #[test]
    fn positions_wrap_at_twice_the_depth() {
        for depth in [2u32, 3, 64] {
            let (mut head, mut tail) = (0, 0);
            for step in 0..10 * depth {
                assert_eq!(distance(head, tail, depth), 0);
                tail = advance(tail, depth);
                assert_eq!(distance(head, tail, depth), 1);
                assert_ne!(turn(head, depth), turn((head + depth) % (2 * depth), depth));
                head = advance(head, depth);
                assert!(head < 2 * depth, "step {step}");
            }
        }
        assert_eq!(distance(0, 2, 2), 2);
        assert_eq!(distance(3, 1, 2), 2);
    }

    #[test]
    fn words_round_trip() {
        let word = ring_word(0x00AB_CDEF, 0x0012_3456, 0xFFFF_8001, super::TURN);
        assert_eq!(ring_parts(word), (0x00AB_CDEF, 0x0012_3456, 1));
        let place = LanePlace { slot: 63, lane: 4095, ring: u32::MAX };
        assert_eq!(LanePlace::from_word(place.word()), Some(place));
        assert_eq!(LanePlace::from_word(0), None);
    }
}
