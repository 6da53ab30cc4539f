//! Lanes whose own words a hostile peer destroyed: the lane is quarantined with a code at both
//! ends, and the other lanes of the queue go on.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

mod common;

use common::{Room, formatted, message, send, slot, take};
use executor_core::error::{Code, DequeueError, EnqueueError, QueueError};
use executor_core::pool::Worker;
use executor_core::queue::{Consumer, Producer, QueueFlags, Rights};
use executor_core::region::PrivatePart;
use executor_core::wake;
use std::sync::atomic::Ordering;

const DEPTH: u32 = 4;
const TURN: u64 = 1 << 63;

/// Two producers, of which the first is hostile, and a consumer.
struct Scene {
    room: Room,
    workers: [Worker<'static>; 3],
    hostile: Producer<'static>,
    other: Producer<'static>,
    to: Consumer<'static>,
}

impl Scene {
    fn new(flags: QueueFlags) -> Scene {
        let room = Room::new();
        let workers = [room.worker(0), room.worker(1), room.worker(2)];
        let (hostile, to) = room.pipe(&workers[0], &workers[2], DEPTH, flags);
        room.memory().grant_queue(&workers[0], to.id(), slot(1), Rights::WRITE).unwrap();
        let other = Producer::open(&workers[1], to.id(), None).unwrap();
        Scene { room, workers, hostile, other, to }
    }

    /// The hostile slot's own words.
    fn own(&self) -> PrivatePart<'static> {
        self.room.memory().private(0).unwrap()
    }

    fn take(&mut self) -> Result<u64, DequeueError> {
        take(&mut self.to, &mut self.workers[2])
    }

    /// A look as a waiter has it that is about to sleep.
    fn looks_before_sleep(&mut self) -> bool {
        let memory = self.room.memory();
        let waiter = memory.waiter(self.room.group.waiter_id(slot(2), 0)).unwrap();
        wake::begin_park(waiter);
        let found = self.to.has_message(&memory);
        wake::end_park(waiter);
        found
    }

    /// The hostile lane is out, with a code for whoever uses it; the other one goes on.
    fn is_quarantined(&mut self) {
        let info = self.room.memory().query_queue(self.to.id()).unwrap();
        assert_eq!((info.quarantined, info.faults), (1, 1));
        let refused = loop {
            if let Err((mbuf, error)) = send(&mut self.hostile, &mut self.workers[0], 9) {
                let _ = self.workers[0].free(mbuf);
                break error;
            }
        };
        assert_eq!((refused, refused.code()), (EnqueueError::Fault, Code::PEER_FAULT));
        assert!(self.hostile.has_room(), "who waits for room is told by the next enqueue");
        let again = Producer::open(&self.workers[0], self.to.id(), None);
        assert_eq!(again.err(), Some(QueueError::Invalid));
        for id in 0..3 * u64::from(DEPTH) {
            send(&mut self.other, &mut self.workers[1], id).unwrap();
            assert_eq!(self.take(), Ok(id));
        }
        assert_eq!(self.take(), Err(DequeueError::Empty));
        assert!(!self.looks_before_sleep());
        // A successor of the consumer knows it too.
        self.to = Consumer::open(&self.workers[2], self.to.id()).unwrap();
        assert_eq!(self.take(), Err(DequeueError::Empty));
        let info = self.room.memory().query_queue(self.to.id()).unwrap();
        assert_eq!((info.quarantined, info.faults), (1, 1));
    }
}

/// A word where no message is yet: a step over it would put the head before the tail for ever.
#[test]
fn a_word_beyond_the_tail_quarantines_its_lane() {
    for flags in [QueueFlags::empty(), QueueFlags::SHARED] {
        let mut scene = Scene::new(flags);
        scene.own().ring[0].store(TURN, Ordering::Relaxed);
        assert_eq!(scene.take(), Err(DequeueError::Fault));
        scene.is_quarantined();
    }
}

/// A message whose word was destroyed: the lane would stand still without a word.
#[test]
fn a_message_that_vanished_from_the_ring_quarantines_its_lane() {
    for flags in [QueueFlags::empty(), QueueFlags::SHARED] {
        let mut scene = Scene::new(flags);
        send(&mut scene.hostile, &mut scene.workers[0], 1).unwrap();
        scene.own().ring[0].store(0, Ordering::Relaxed);
        assert_eq!(scene.take(), Err(DequeueError::Empty));
        assert!(scene.looks_before_sleep());
        assert_eq!(scene.take(), Err(DequeueError::Fault));
        scene.is_quarantined();
    }
}

/// A tail that can't be, or that is further from the head than the lane is long.
#[test]
fn a_tail_out_of_range_quarantines_its_lane() {
    for tail in [2 * DEPTH, u32::MAX, DEPTH + 1, 2 * DEPTH - 2] {
        let mut scene = Scene::new(QueueFlags::empty());
        scene.own().lanes[0].tail.store(tail, Ordering::Relaxed);
        assert!(scene.looks_before_sleep(), "tail {tail}");
        assert_eq!(scene.take(), Err(DequeueError::Fault));
        scene.is_quarantined();
    }
}

/// The producer stores the ring word before the tail: a look in between is no fault.
#[test]
fn a_tail_one_short_is_no_fault() {
    let mut scene = Scene::new(QueueFlags::empty());
    for id in 0..2 * u64::from(DEPTH) + 1 {
        send(&mut scene.hostile, &mut scene.workers[0], id).unwrap();
        let tail = scene.own().lanes[0].tail.load(Ordering::Relaxed);
        let short = if tail == 0 { 2 * DEPTH - 1 } else { tail - 1 };
        scene.own().lanes[0].tail.store(short, Ordering::Relaxed);
        assert_eq!(scene.take(), Ok(id));
        assert!(!scene.looks_before_sleep());
        scene.own().lanes[0].tail.store(tail, Ordering::Relaxed);
        assert!(!scene.looks_before_sleep());
    }
    let info = scene.room.memory().query_queue(scene.to.id()).unwrap();
    assert_eq!((info.quarantined, info.faults), (0, 0));
}

/// Nothing of a quarantined lane is lost for good: its queue's end frees what it still holds.
#[test]
fn destroying_frees_what_a_quarantined_lane_holds() {
    let mut scene = Scene::new(QueueFlags::empty());
    for id in 1..=2 {
        send(&mut scene.hostile, &mut scene.workers[0], id).unwrap();
    }
    scene.own().lanes[0].tail.store(u32::MAX, Ordering::Relaxed);
    scene.own().ring[1].fetch_xor(TURN, Ordering::Relaxed);
    assert_eq!(scene.take(), Ok(1));
    assert!(scene.looks_before_sleep());
    let Scene { room, mut workers, hostile, to, .. } = scene;
    let memory = room.memory();
    memory.grant_queue(&workers[0], to.id(), slot(2), Rights::MANAGE).unwrap();
    let _ = memory.destroy_queue(&mut workers[2], to).unwrap();
    room.assert_all_free();
    let mut hostile = hostile;
    let mbuf = message(&mut workers[0], 3);
    let rejected = hostile.enqueue(&mut workers[0], mbuf).unwrap_err();
    assert_eq!(rejected.reason, EnqueueError::NotPermitted);
    let _ = workers[0].free(rejected.mbuf);
}

/// The header of the test room, byte for byte. The hash is one over version, sizes and counts: a
/// change of any layout changes it.
#[test]
fn the_header_has_golden_bytes() {
    let (mut control, _, layout) = formatted();
    let bytes = control.bytes();
    assert_eq!((layout.control_len, layout.arena_len), (81_920, 12_288));
    assert_eq!(&bytes[..16], b"DFLOWCTL\x02\0\0\0\x80\0\0\0");
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let words = [word(16), word(24), word(32)];
    assert_eq!(words, [6_112_038_770_321_049_789, 81_920, 12_288]);
    let counts: Vec<u32> = bytes[40..72]
        .chunks_exact(4)
        .map(|count| u32::from_le_bytes(count.try_into().unwrap()))
        .collect();
    // Slots, workers, lanes, heads, ring words, queues, entries, pools.
    assert_eq!(counts, [3, 2, 3, 8, 16, 4, 3 * 10 + 130 + 3 + 3, 6]);
    let mut name = [0; 56];
    name[..4].copy_from_slice(b"room");
    assert_eq!(bytes[72..128], name);
    // The second slot: first pool and their number, first entry, blocks, extra entries, zero.
    let slot = usize::try_from(layout.slot_descs).unwrap() + 40;
    let words: Vec<u8> = [2u32, 2, 140, 10, 3, 0].iter().flat_map(|w| w.to_le_bytes()).collect();
    assert_eq!(bytes[slot..slot + 24], words);
    // Its first pool: first block, blocks, bytes of one.
    let pool = usize::try_from(layout.pool_descs).unwrap() + 2 * 16;
    let words: Vec<u8> = [140u32, 6, 128, 0].iter().flat_map(|w| w.to_le_bytes()).collect();
    assert_eq!(bytes[pool..pool + 16], words);
}
