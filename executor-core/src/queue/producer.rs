//! Producer end: enqueue.
//!
//! | killed after | state seen | repaired by |
//! |---|---|---|
//! | journal | entry still the worker's | tag scan |
//! | owner := queue | not in the ring | sweep: entry back to the worker, then tag scan |
//! | ring word (**commit**) | message queued, tail one short | sweep: tail := position + 1 |
//! | tail | queued, journal open | sweep: ring word present, nothing to do |
//! | journal closed, queue destroyed meanwhile | drained or stranded | sweep: stranded ones freed |
//! | ready bit, unpark | peer may sleep on | sweep wakes everybody (wake W3) |

use crate::abi::control::{LaneCtl, QueueCtl, WAITERS, WaiterCtl};
use crate::error::{EnqueueError, QueueError};
use crate::journal::{self, Op};
use crate::mbuf::{HeadWords, Mbuf};
use crate::owner::{Owner, QueueId, WaiterId};
use crate::pool::Worker;
use crate::primitive::{AtomicU32, AtomicU64, Ordering, fence, kill_point};
use crate::queue::{
    GENERATION_MASK, LanePlace, QueueFlags, RING_ENTRY_MASK, Rights, TURN, advance, distance,
    ring_parts, state, try_lock, unlock,
};
use crate::region::{Memory, prefetch_write};
use crate::wake::WakeSet;

/// An enqueue that did not happen: the mbuf comes back with the reason.
#[derive(Debug, PartialEq, Eq)]
pub struct Rejected {
    /// Still the caller's.
    pub mbuf: Mbuf,
    /// Why.
    pub reason: EnqueueError,
}

/// The producer end of one lane. One a process; its threads share it behind a lock of theirs.
#[derive(Debug)]
pub struct Producer<'g> {
    id: QueueId,
    ctl: &'g QueueCtl,
    generation: u32,
    lane_index: u32,
    lane: &'g LaneCtl,
    ring: &'g [AtomicU64],
    heads: HeadCell<'g>,
    depth: u32,
    tail: u32,
    /// Free places as known; the consumer may have made more.
    room: u32,
    consumer: WaiterId,
    /// Words of `consumer`.
    waiter: Option<&'g WaiterCtl>,
    ready_mask: u64,
    flags: QueueFlags,
    /// The wake set's readers are several.
    many: bool,
    /// Bit of `SlotCtl::committed`, 0 when this end is no output.
    committed: u64,
    /// Owner word of entries in this lane.
    owner: u64,
    /// What the journal says of this end.
    action: u64,
    detail: u64,
}

/// Where a lane's head is and which generation makes it valid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeadCell<'g> {
    pub(crate) head: &'g AtomicU32,
    pub(crate) generation: Option<&'g AtomicU32>,
}

impl HeadCell<'_> {
    /// The head position; 0 until the consumer opened this generation of the queue.
    #[inline]
    pub(crate) fn load(&self, generation: u32, depth: u32) -> u32 {
        let live = self.generation.is_none_or(|g| g.load(Ordering::Acquire) == generation);
        // SYNC: acquire, pairs with the release store of the consumer: the slot may be reused.
        let head = if live { self.head.load(Ordering::Acquire) } else { 0 };
        if head < 2 * depth { head } else { 0 }
    }
}

impl<'g> Memory<'g> {
    pub(crate) fn head_cell(&self, ctl: &'g QueueCtl, lane: u32) -> Option<HeadCell<'g>> {
        if ctl.queue_flags().intersects(QueueFlags::SHARED | QueueFlags::OVERWRITE) {
            let head = ctl.shared_heads.get(lane as usize)?;
            return Some(HeadCell { head, generation: None });
        }
        let consumer = self.private(ctl.consumer.load(Ordering::Acquire))?;
        let cell = ctl.head_cells.get(lane as usize)?.load(Ordering::Acquire);
        let cell = consumer.heads.get(cell as usize)?;
        Some(HeadCell { head: &cell.head, generation: Some(&cell.generation) })
    }

    /// Ring and lane words of a place, checked against the slot's sizes (Q3).
    pub(crate) fn lane_parts(
        &self,
        place: LanePlace,
        depth: u32,
    ) -> Option<(&'g LaneCtl, &'g [AtomicU64])> {
        let part = self.private(place.slot)?;
        let first = place.ring as usize;
        let ring = part.ring.get(first..first.checked_add(depth as usize)?)?;
        Some((part.lanes.get(place.lane as usize)?, ring))
    }
}

impl<'g> Producer<'g> {
    /// Opens the lane of the worker's slot in queue `id`. A restarted process continues where its
    /// predecessor stopped. `out` is this end's destination number, noted for sweeps (0..=254).
    /// The process has no enqueue under way on an older end: the ring may be the same memory.
    ///
    /// # Errors
    /// [`QueueError::NotPermitted`] without a write grant, [`QueueError::Invalid`] for words out of
    /// range, and for a lane that is quarantined.
    pub fn open(worker: &Worker<'g>, id: QueueId, out: Option<u32>) -> Result<Self, QueueError> {
        let memory = &worker.memory;
        let ctl = memory.queues.get(id.0 as usize).ok_or(QueueError::Invalid)?;
        // Before the state: a queue that is destroyed from here on has another generation.
        let generation = ctl.generation.load(Ordering::Acquire);
        if ctl.state.load(Ordering::Acquire) != state::ACTIVE
            || !ctl.rights(worker.slot()).contains(Rights::WRITE)
        {
            return Err(QueueError::NotPermitted);
        }
        let found = ctl.lane_places().find(|(_, place)| place.slot == worker.slot);
        let (lane_index, place) = found.ok_or(QueueError::NotPermitted)?;
        let depth = ctl.sound_depth().ok_or(QueueError::Invalid)?;
        let (lane, ring) = memory.lane_parts(place, depth).ok_or(QueueError::Invalid)?;
        if lane.generation.load(Ordering::Relaxed) != generation {
            for word in ring {
                word.store(0, Ordering::Relaxed);
            }
            lane.tail.store(0, Ordering::Relaxed);
            // Another queue's counts may still stand here.
            lane.enqueued.store(0, Ordering::Relaxed);
            lane.full.store(0, Ordering::Relaxed);
            lane.high_water.store(0, Ordering::Relaxed);
            // SYNC: release, pairs with `Consumer::open_lane`: an empty ring before it is read
            // (Q1).
            lane.generation.store(generation, Ordering::Release);
        }
        if ctl.is_quarantined(lane_index) {
            return Err(QueueError::Invalid);
        }
        let heads = memory.head_cell(ctl, lane_index).ok_or(QueueError::Invalid)?;
        let consumer = ctl.consumer.load(Ordering::Acquire);
        #[cfg_attr(loom, allow(clippy::unnecessary_min_or_max, reason = "models have one"))]
        let index = ctl.consumer_waiter.load(Ordering::Relaxed).min(WAITERS - 1);
        let consumer = WaiterId(consumer.saturating_mul(WAITERS).saturating_add(index));
        let tail = lane.tail.load(Ordering::Relaxed);
        Ok(Producer {
            id,
            ctl,
            generation,
            lane_index,
            lane,
            ring,
            heads,
            depth,
            tail: if tail < 2 * depth { tail } else { 0 },
            room: 0,
            consumer,
            waiter: memory.waiter(consumer),
            ready_mask: 1 << (ctl.ready_bit.load(Ordering::Relaxed) & 63),
            flags: ctl.queue_flags(),
            many: ctl.queue_flags().intersects(QueueFlags::SHARED | QueueFlags::OVERWRITE),
            committed: out.and_then(|n| 1u64.checked_shl(n)).unwrap_or(0),
            owner: Owner::Queue { queue: id.0, lane: lane_index, generation }.word(),
            action: journal::action(Op::Enqueue, out.map_or(0, |n| (n + 1).min(255))),
            detail: journal::place(id.0, lane_index),
        })
    }

    /// The queue.
    #[must_use]
    pub fn id(&self) -> QueueId {
        self.id
    }

    /// Messages this lane holds now, as far as this end knows.
    #[must_use]
    pub fn len(&self) -> u32 {
        distance(self.heads.load(self.generation, self.depth), self.tail, self.depth)
    }

    /// True when this lane holds nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True when an enqueue would not find the queue full now.
    #[inline]
    pub fn has_room(&mut self) -> bool {
        self.room != 0 || self.looks_again() || self.is_gone() || self.is_quarantined()
    }

    /// The consumer takes nothing from this lane any more.
    fn is_quarantined(&self) -> bool {
        self.ctl.is_quarantined(self.lane_index)
    }

    /// The queue was destroyed: it has another generation.
    #[inline]
    fn is_gone(&self) -> bool {
        self.ctl.generation.load(Ordering::Relaxed) != self.generation
    }

    /// True when a message without room takes the place of the oldest.
    #[must_use]
    pub fn overwrites(&self) -> bool {
        self.flags.contains(QueueFlags::OVERWRITE)
    }

    /// Reads the consumer's head. The level seen here, once in `depth` messages and whenever the
    /// lane is full, is what the high-water mark knows.
    #[cold]
    fn looks_again(&mut self) -> bool {
        let head = self.heads.load(self.generation, self.depth);
        let level = distance(head, self.tail, self.depth).min(self.depth);
        if level > self.lane.high_water.load(Ordering::Relaxed) {
            self.lane.high_water.store(level, Ordering::Relaxed);
        }
        self.room = self.depth - level;
        self.room != 0
    }

    /// Registers for room: the consumer's next dequeue from this lane rings a waiter of this slot.
    pub fn register_full_wait(&self) {
        self.ctl.full_waiting.fetch_or(1 << self.lane_index, Ordering::AcqRel);
    }

    /// Withdraws [`Producer::register_full_wait`].
    pub fn withdraw_full_wait(&self) {
        self.ctl.full_waiting.fetch_and(!(1 << self.lane_index), Ordering::AcqRel);
    }

    /// Counts one wait for room.
    pub fn count_full_wait(&self) {
        bump(&self.lane.full);
    }

    /// Moves `mbuf` into the queue. On success the caller rings the returned waiters.
    ///
    /// # Errors
    /// [`Rejected`] gives the mbuf back: full, destroyed, or locked by another process.
    #[inline(always)]
    pub fn enqueue(&mut self, worker: &mut Worker<'g>, mbuf: Mbuf) -> Result<WakeSet, Rejected> {
        if self.is_gone() {
            return Err(Rejected { mbuf, reason: EnqueueError::NotPermitted });
        }
        let mut wakes = WakeSet::NONE;
        if self.room == 0
            && let Err(reason) = self.make_room(worker, &mut wakes)
        {
            return Err(Rejected { mbuf, reason });
        }
        let (depth, tail) = (self.depth, self.tail);
        let first_lap = tail < depth;
        let at = if first_lap { tail } else { tail - depth };
        let (Some(entry), Some(slot)) =
            (worker.memory.entries.get(mbuf.entry() as usize), self.ring.get(at as usize))
        else {
            return Err(Rejected { mbuf, reason: EnqueueError::Fault });
        };
        let word = mbuf.ring(if first_lap { TURN } else { 0 });
        let operation = self.action | mbuf.ring(0) & RING_ENTRY_MASK;
        journal::open_words(worker.journal, operation, self.detail | u64::from(tail));
        entry.owner.store(self.owner, Ordering::Release);
        kill_point!("enqueue: owner");
        // SYNC: release, pairs with `Consumer::front`: head and payload before the word. The commit
        // (Q2).
        slot.store(word, Ordering::Release);
        kill_point!("enqueue: ring word");
        let (tail, room) = (advance(tail, depth), self.room.saturating_sub(1));
        (self.tail, self.room) = (tail, room);
        self.lane.tail.store(tail, Ordering::Release);
        kill_point!("enqueue: tail");
        bump(&self.lane.enqueued);
        if self.committed != 0 {
            // Before the journal closes: a sweep sets the bit when we vanish in between.
            let committed = &worker.private.ctl.committed;
            committed.store(committed.load(Ordering::Relaxed) | self.committed, Ordering::Release);
            kill_point!("enqueue: destination");
        }
        journal::close(worker.journal);
        if room == 0 {
            self.looks_again();
        }
        // SYNC: SeqCst fence, pairs with `wake::recheck` (the ring word before `ready` and
        // `parked`) and with `Memory::destroy_queue`: the drain sees the ring word, or we see that
        // the queue is gone.
        fence(Ordering::SeqCst);
        if self.is_gone() {
            return self.withdraw(worker, mbuf, wakes);
        }
        self.wake_consumer(&worker.memory, &mut wakes);
        Ok(wakes)
    }

    /// The queue was destroyed while the message went in. Its owner word tells who has it: the
    /// drain (then it was dropped with the queue), or nobody, and we take it back.
    #[cold]
    fn withdraw(
        &mut self,
        worker: &mut Worker<'g>,
        mbuf: Mbuf,
        mut wakes: WakeSet,
    ) -> Result<WakeSet, Rejected> {
        let entry = worker.memory.entries.get(mbuf.entry() as usize);
        let taken = entry.is_some_and(|entry| {
            let owner = &entry.owner;
            owner
                .compare_exchange(self.owner, worker.tag, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        });
        kill_point!("withdraw: owner");
        if !taken {
            return Ok(wakes);
        }
        if wakes.is_empty() {
            let committed = &worker.private.ctl.committed;
            committed.store(committed.load(Ordering::Relaxed) & !self.committed, Ordering::Release);
            return Err(Rejected { mbuf, reason: EnqueueError::NotPermitted });
        }
        // A rejection carries no wakes: this one came just before the end and was dropped by it.
        wakes.merge(worker.free(mbuf));
        Ok(wakes)
    }

    #[inline(always)]
    fn wake_consumer(&self, memory: &Memory<'g>, wakes: &mut WakeSet) {
        if self.many {
            self.wake_readers(memory, wakes);
        } else if let Some(waiter) = self.waiter
            && (waiter.parked.load(Ordering::Relaxed) != 0
                || waiter.ready.load(Ordering::Relaxed) & self.ready_mask == 0)
        {
            self.wake_one(memory, self.consumer, wakes);
        }
    }

    /// Looks at the consumer's head; overwriting, drops the oldest.
    #[cold]
    #[inline(never)]
    fn make_room(
        &mut self,
        worker: &mut Worker<'g>,
        wakes: &mut WakeSet,
    ) -> Result<(), EnqueueError> {
        if self.looks_again() {
            return Ok(());
        }
        if self.is_quarantined() {
            return Err(EnqueueError::Fault);
        }
        if !self.flags.contains(QueueFlags::OVERWRITE) {
            return Err(EnqueueError::Full);
        }
        self.drop_oldest(worker, wakes)
    }

    /// A shared end: whoever may read could be the one that sleeps.
    #[cold]
    fn wake_readers(&self, memory: &Memory<'g>, wakes: &mut WakeSet) {
        let mut readers = self.ctl.read.load(Ordering::Acquire);
        #[cfg_attr(loom, allow(clippy::modulo_one, reason = "models have one"))]
        let index = self.consumer.0 % WAITERS;
        while readers != 0 {
            let slot = readers.trailing_zeros();
            readers &= readers - 1;
            self.wake_one(memory, WaiterId(slot * WAITERS + index), wakes);
        }
    }

    #[inline(never)]
    fn wake_one(&self, memory: &Memory<'g>, id: WaiterId, wakes: &mut WakeSet) {
        let Some(waiter) = memory.waiter(id) else { return };
        if waiter.ready.load(Ordering::Relaxed) & self.ready_mask == 0 {
            waiter.ready.fetch_or(self.ready_mask, Ordering::AcqRel);
            kill_point!("ready bit set");
        }
        if Memory::unpark(waiter) {
            wakes.insert(id);
        }
    }

    /// Overwriting: drops the oldest message of this lane, under the queue's lock.
    #[cold]
    fn drop_oldest(
        &mut self,
        worker: &mut Worker<'g>,
        wakes: &mut WakeSet,
    ) -> Result<(), EnqueueError> {
        if !try_lock(&self.ctl.lock, worker.tag) {
            return Err(EnqueueError::Busy);
        }
        if self.is_gone() {
            unlock(&self.ctl.lock);
            return Err(EnqueueError::NotPermitted);
        }
        let head = self.heads.load(self.generation, self.depth);
        if distance(head, self.tail, self.depth) >= self.depth {
            let at = if head < self.depth { head } else { head - self.depth };
            let word = self.ring.get(at as usize).map_or(0, |w| w.load(Ordering::Acquire));
            let place = Place::new(self.id, self.generation, self.lane_index, self.heads.head);
            let taken = take(worker, &place, word, head, self.depth, (None, 0));
            if let Some(mbuf) = taken {
                let info = worker.of(&mbuf).msg_info();
                self.ctl.count_drop(info.trans_id);
                wakes.merge(worker.free(mbuf));
            } else {
                self.ctl.faults.fetch_add(1, Ordering::Relaxed);
                self.heads.head.store(advance(head, self.depth), Ordering::Release);
            }
        }
        self.looks_again();
        unlock(&self.ctl.lock);
        Ok(())
    }
}

/// Single-writer counter.
#[inline]
pub(crate) fn bump(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
}

/// One consumer end of a lane, as [`take`] needs it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'g> {
    /// Owner word of entries in this lane.
    pub(crate) owner: u64,
    /// What the journal says of this lane.
    pub(crate) detail: u64,
    /// The head.
    pub(crate) cell: &'g AtomicU32,
}

impl<'g> Place<'g> {
    pub(crate) fn new(queue: QueueId, generation: u32, lane: u32, cell: &'g AtomicU32) -> Self {
        let owner = Owner::Queue { queue: queue.0, lane, generation }.word();
        Place { owner, detail: journal::place(queue.0, lane), cell }
    }
}

/// Moves the entry at `head` from the queue to the worker and commits by advancing the head; `None`
/// when the ring word is impossible (the caller then skips it). `mark` replaces the input mark that
/// the previous holder left, before the commit: a sweep trusts the marks of whatever the dead
/// process held.
#[inline(always)]
pub(crate) fn take<'g>(
    worker: &Worker<'g>,
    place: &Place<'g>,
    word: u64,
    head: u32,
    depth: u32,
    mark: (Option<u32>, u64),
) -> Option<Mbuf> {
    let (entry_index, block, generation) = ring_parts(word);
    let entry = worker.memory.entries.get(entry_index as usize)?;
    // It is written below: one transfer instead of two.
    prefetch_write(core::ptr::from_ref(&entry.owner).cast());
    let is_block = worker.memory.blocks.get(block as usize)?.size != 0;
    // The word's generation must be that of the entry's present life.
    if !is_block
        || entry.owner.load(Ordering::Acquire) != place.owner
        || entry.block() != block
        || entry.generation.load(Ordering::Relaxed) & GENERATION_MASK != generation
    {
        return None;
    }
    let operation = journal::action(Op::Dequeue, 0) | word & RING_ENTRY_MASK;
    journal::open_words(worker.journal, operation, place.detail | u64::from(head));
    entry.owner.store(worker.tag, Ordering::Release);
    kill_point!("dequeue: owner");
    entry.set.store(mark.1, Ordering::Relaxed);
    entry.set_marks(entry.marks().with_port(mark.0));
    // SYNC: release, pairs with `HeadCell::load`: our read of the ring word is done. The commit
    // (Q2).
    place.cell.store(advance(head, depth), Ordering::Release);
    kill_point!("dequeue: head");
    journal::close(worker.journal);
    Some(Mbuf::from_ring(word))
}
