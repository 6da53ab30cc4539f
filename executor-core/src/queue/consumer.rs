//! Consumer end: dequeue, peek, and waking a producer that waits for room.
//!
//! | killed after | state seen | repaired by |
//! |---|---|---|
//! | journal | message still queued | sweep: journal dropped |
//! | owner := worker | head not advanced | sweep: owner back to the queue, still queued |
//! | head (**commit**) | entry is the worker's | sweep: adopted, answered or freed |
//! | full_waiting cleared | producer may sleep on | sweep wakes everybody (wake W3) |

use heapless::Vec;

use crate::abi::MsgInfo;
use crate::abi::control::{LaneCtl, MAX_LANES, QueueCtl, WAITERS, WaiterCtl};
use crate::error::{DequeueError, QueueError};
use crate::mbuf::{HeadWords, Mbuf};
use crate::owner::{QueueId, WaiterId};
use crate::pool::Worker;
use crate::primitive::{AtomicU64, Ordering, fence, kill_point};
use crate::queue::producer::{HeadCell, Place, take};
use crate::queue::{
    QueueFlags, Rights, TURN, advance, distance, ring_parts, state, try_lock, unlock,
};
use crate::region::Memory;
use crate::wake::WakeSet;

#[derive(Debug)]
struct Lane<'g> {
    ctl: &'g LaneCtl,
    ring: &'g [AtomicU64],
    cell: HeadCell<'g>,
    place: Place<'g>,
    head: u32,
    producer: u32,
    live: bool,
    quarantined: bool,
}

impl Lane<'_> {
    /// The ring word of this lane's next message.
    #[inline(always)]
    fn look(&self, depth: u32) -> Option<u64> {
        let first_lap = self.head < depth;
        let slot = if first_lap { self.head } else { self.head - depth };
        // SYNC: acquire, pairs with the ring word store of `Producer::enqueue`.
        let word = self.ring.get(slot as usize)?.load(Ordering::Acquire);
        (first_lap == (word & TURN != 0) && self.live).then_some(word)
    }

    /// Messages that lie before this position by the producer's tail, which follows the ring word.
    fn behind(&self, depth: u32) -> Option<u32> {
        // SYNC: acquire, pairs with the tail store of `Producer::enqueue`: the ring word is seen.
        let tail = self.ctl.tail.load(Ordering::Acquire);
        (tail < 2 * depth).then(|| distance(self.head, tail, depth))
    }

    /// Nothing can be taken any more: the tail names a message that the ring has not, or is where
    /// no tail can be (Q4). One short of the head is the moment before a producer stores it.
    fn is_torn(&self, depth: u32) -> bool {
        match self.behind(depth) {
            Some(0) => false,
            Some(behind) if behind <= depth => self.look(depth).is_none(),
            Some(behind) => behind != 2 * depth - 1,
            None => true,
        }
    }
}

/// What stands at the front of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peeked {
    /// Bytes in use, a chain's sum.
    pub len: u64,
    /// Its `MsgInfo`.
    pub info: MsgInfo,
}

/// The consumer end of a queue. One a process; its threads share it behind a lock of theirs.
#[derive(Debug)]
pub struct Consumer<'g> {
    id: QueueId,
    ctl: &'g QueueCtl,
    generation: u32,
    depth: u32,
    locked: bool,
    all_live: bool,
    lanes: Vec<Lane<'g>, MAX_LANES>,
    next: usize,
    /// Where this process sleeps for this queue.
    waiter: Option<&'g WaiterCtl>,
    /// A lane was quarantined and nobody was told yet.
    news: bool,
}

impl<'g> Consumer<'g> {
    /// Opens the consumer end. A restarted process continues at its predecessor's heads.
    ///
    /// # Errors
    /// [`QueueError::NotPermitted`] without a read grant, or when another slot has the exclusive
    /// end.
    pub fn open(worker: &Worker<'g>, id: QueueId) -> Result<Self, QueueError> {
        let ctl = worker.memory.queues.get(id.0 as usize).ok_or(QueueError::Invalid)?;
        let locked = ctl.queue_flags().intersects(QueueFlags::SHARED | QueueFlags::OVERWRITE);
        let mine = locked || ctl.consumer.load(Ordering::Acquire) == worker.slot;
        // Before the state: a queue that is destroyed from here on has another generation.
        let generation = ctl.generation.load(Ordering::Acquire);
        if ctl.state.load(Ordering::Acquire) != state::ACTIVE
            || !ctl.rights(worker.slot()).contains(Rights::READ)
            || !mine
        {
            return Err(QueueError::NotPermitted);
        }
        let depth = ctl.sound_depth().ok_or(QueueError::Invalid)?;
        #[cfg_attr(loom, allow(clippy::unnecessary_min_or_max, reason = "models have one"))]
        let index = ctl.consumer_waiter.load(Ordering::Relaxed).min(WAITERS - 1);
        let mut end = Consumer {
            id,
            ctl,
            generation,
            depth,
            locked,
            all_live: false,
            lanes: Vec::new(),
            next: 0,
            waiter: worker.memory.waiter(WaiterId(worker.slot * WAITERS + index)),
            news: false,
        };
        end.refresh(&worker.memory);
        Ok(end)
    }

    /// The queue.
    #[must_use]
    pub fn id(&self) -> QueueId {
        self.id
    }

    /// Life of the queue that this end was opened for.
    pub(crate) fn generation(&self) -> u32 {
        self.generation
    }

    /// Bit of this queue in the consumer's ready set.
    #[must_use]
    pub fn ready_mask(&self) -> u64 {
        1 << (self.ctl.ready_bit.load(Ordering::Relaxed) & 63)
    }

    /// Takes in lanes that were granted since, and lanes whose producer opened them.
    #[cold]
    fn refresh(&mut self, memory: &Memory<'g>) {
        for (index, place) in self.ctl.lane_places() {
            if index as usize >= self.lanes.len() {
                let Some((ctl, ring)) = memory.lane_parts(place, self.depth) else { break };
                let Some(cell) = memory.head_cell(self.ctl, index) else { break };
                if let Some(generation) = cell.generation
                    && generation.load(Ordering::Relaxed) != self.generation
                {
                    cell.head.store(0, Ordering::Relaxed);
                    generation.store(self.generation, Ordering::Release);
                }
                let head = cell.load(self.generation, self.depth);
                let producer = place.slot;
                let place = Place::new(self.id, self.generation, index, cell.head);
                let (live, quarantined) = (false, false);
                let lane = Lane { ctl, ring, cell, place, head, producer, live, quarantined };
                if self.lanes.push(lane).is_err() {
                    break;
                }
            }
        }
        for (index, lane) in (0..).zip(&mut self.lanes) {
            lane.quarantined = self.ctl.is_quarantined(index);
            // SYNC: acquire, pairs with `Producer::open`: the ring is zeroed before it is live
            // (Q1).
            let opened = lane.ctl.generation.load(Ordering::Acquire) == self.generation;
            lane.live = opened && !lane.quarantined;
        }
        self.all_live = self.lanes.iter().all(|lane| lane.live || lane.quarantined);
    }

    /// The lane with the next message, in round-robin order.
    #[inline(always)]
    fn front(&mut self) -> Option<(usize, u64)> {
        if self.locked {
            self.reload_heads();
        }
        if let Some(lane) = self.lanes.get(self.next)
            && let Some(word) = lane.look(self.depth)
        {
            return Some((self.next, word));
        }
        self.front_of_others()
    }

    /// A shared end: others have moved the heads.
    #[cold]
    fn reload_heads(&mut self) {
        for lane in &mut self.lanes {
            lane.head = lane.cell.load(self.generation, self.depth);
        }
    }

    /// As [`Consumer::front`] where the lane whose turn it is has nothing.
    #[inline(never)]
    fn front_of_others(&self) -> Option<(usize, u64)> {
        let depth = self.depth;
        let (before, after) = self.lanes.split_at_checked(self.next)?;
        let in_turn = (self.next..).zip(after).chain((0..).zip(before));
        in_turn.filter_map(|(at, lane)| Some((at, lane.look(depth)?))).next()
    }

    /// True when a dequeue would not find the queue empty now: one load a lane.
    #[inline]
    pub fn has_message(&mut self, memory: &Memory<'g>) -> bool {
        if !self.knows_all_lanes() {
            self.refresh(memory);
        }
        let Some((_, word)) = self.front() else { return self.is_gone() || self.finds_torn() };
        memory.prefetch_message(word, false);
        true
    }

    /// Before and after a sleep, when time is no matter: quarantines lanes that stand still for
    /// ever (Q4). True when the next dequeue tells of it.
    #[inline]
    fn finds_torn(&mut self) -> bool {
        self.waiter.is_some_and(|w| w.parked.load(Ordering::Relaxed) != 0) && self.looks_for_torn()
    }

    #[cold]
    fn looks_for_torn(&mut self) -> bool {
        for at in 0..self.lanes.len() {
            let Some(lane) = self.lanes.get(at) else { break };
            if !lane.live || !lane.is_torn(self.depth) {
                continue;
            }
            // A shared end: others may have moved on while we looked.
            if !self.locked || lane.cell.load(self.generation, self.depth) == lane.head {
                self.quarantine(at);
                self.news = true;
            }
        }
        self.news
    }

    /// The lane is not looked at any more, and its producer is told instead of waiting for room.
    #[cold]
    fn quarantine(&mut self, at: usize) {
        self.ctl.quarantined.fetch_or(1 << at, Ordering::AcqRel);
        self.ctl.faults.fetch_add(1, Ordering::Relaxed);
        if let Some(lane) = self.lanes.get_mut(at) {
            (lane.live, lane.quarantined) = (false, true);
        }
    }

    /// An impossible ring word: skipped where a message can be. Elsewhere a step would put the head
    /// before the tail, and the lane would stand still: it is quarantined.
    #[cold]
    fn skip(&mut self, at: usize) -> DequeueError {
        let (depth, count) = (self.depth, self.lanes.len());
        self.next = if at + 1 < count { at + 1 } else { 0 };
        let Some(lane) = self.lanes.get_mut(at) else { return DequeueError::Fault };
        if lane.behind(depth).is_some_and(|behind| (1..=depth).contains(&behind)) {
            lane.head = advance(lane.head, depth);
            lane.cell.head.store(lane.head, Ordering::Release);
            self.ctl.faults.fetch_add(1, Ordering::Relaxed);
        } else {
            self.quarantine(at);
        }
        DequeueError::Fault
    }

    /// Why there is no message.
    #[inline]
    fn nothing(&mut self) -> DequeueError {
        if core::mem::take(&mut self.news) { DequeueError::Fault } else { DequeueError::Empty }
    }

    /// Every lane that was granted is known and opened by its producer: one load. While one is not,
    /// each look takes the new ones in, so that a late lane gets its turn at once.
    #[inline]
    fn knows_all_lanes(&self) -> bool {
        self.all_live && self.ctl.lane_count.load(Ordering::Relaxed) as usize == self.lanes.len()
    }

    /// Moves the next message out. On success the caller rings the returned waiters (a producer
    /// that waited for room).
    ///
    /// # Errors
    /// [`DequeueError`]; after `Fault` the bad entry was skipped, or its lane quarantined, and
    /// counted; the next call goes on.
    #[inline(always)]
    pub fn dequeue(&mut self, worker: &mut Worker<'g>) -> Result<(Mbuf, WakeSet), DequeueError> {
        self.dequeue_marked(worker, (None, 0))
    }

    /// As [`Consumer::dequeue`], and marks the mbuf as input `port` of set `set` *before* the
    /// commit: a process that dies right after it leaves an input that its successor adopts.
    ///
    /// # Errors
    /// As [`Consumer::dequeue`].
    #[inline(always)]
    pub fn dequeue_input(
        &mut self,
        worker: &mut Worker<'g>,
        port: u32,
        set: u64,
    ) -> Result<(Mbuf, WakeSet), DequeueError> {
        self.dequeue_marked(worker, (Some(port), set))
    }

    #[inline(always)]
    fn dequeue_marked(
        &mut self,
        worker: &mut Worker<'g>,
        mark: (Option<u32>, u64),
    ) -> Result<(Mbuf, WakeSet), DequeueError> {
        if self.is_gone() {
            return Err(DequeueError::NotPermitted);
        }
        if self.locked {
            return self.dequeue_locked(worker, mark);
        }
        self.dequeue_now(worker, mark)
    }

    /// A shared end: the lock is tried once.
    #[cold]
    #[inline(never)]
    fn dequeue_locked(
        &mut self,
        worker: &mut Worker<'g>,
        mark: (Option<u32>, u64),
    ) -> Result<(Mbuf, WakeSet), DequeueError> {
        if !try_lock(&self.ctl.lock, worker.tag) {
            return Err(DequeueError::Busy);
        }
        // It may have been destroyed before the lock was ours.
        let gone = self.is_gone();
        let result =
            if gone { Err(DequeueError::NotPermitted) } else { self.dequeue_now(worker, mark) };
        unlock(&self.ctl.lock);
        result
    }

    /// The queue was destroyed: it has another generation.
    #[inline]
    fn is_gone(&self) -> bool {
        self.ctl.generation.load(Ordering::Relaxed) != self.generation
    }

    #[inline(always)]
    fn dequeue_now(
        &mut self,
        worker: &mut Worker<'g>,
        mark: (Option<u32>, u64),
    ) -> Result<(Mbuf, WakeSet), DequeueError> {
        if !self.knows_all_lanes() {
            self.refresh(&worker.memory);
        }
        let Some((at, word)) = self.front() else { return Err(self.nothing()) };
        let count = self.lanes.len();
        let lane = self.lanes.get_mut(at).ok_or(DequeueError::Fault)?;
        let taken = take(worker, &lane.place, word, lane.head, self.depth, mark);
        let Some(mbuf) = taken else { return Err(self.skip(at)) };
        lane.head = advance(lane.head, self.depth);
        self.next = if at + 1 < count { at + 1 } else { 0 };
        // SYNC: SeqCst fence, pairs with `wake::recheck`: the head before `full_waiting`.
        fence(Ordering::SeqCst);
        let mut wakes = WakeSet::NONE;
        if self.ctl.full_waiting.load(Ordering::Relaxed) & 1 << at != 0 {
            self.wake_producer(&worker.memory, at, &mut wakes);
        }
        Ok((mbuf, wakes))
    }

    #[cold]
    fn wake_producer(&self, memory: &Memory<'g>, lane: usize, wakes: &mut WakeSet) {
        self.ctl.full_waiting.fetch_and(!(1 << lane), Ordering::AcqRel);
        kill_point!("full waiter taken");
        let Some(producer) = self.lanes.get(lane).map(|l| l.producer) else { return };
        for index in 0..WAITERS {
            let id = WaiterId(producer * WAITERS + index);
            if memory.waiter(id).is_some_and(Memory::unpark) {
                wakes.insert(id);
            }
        }
    }

    /// What `dequeue` would return now, without taking it.
    ///
    /// # Errors
    /// [`DequeueError::Empty`], or `NotPermitted` when the queue is gone.
    pub fn peek(&mut self, memory: &Memory<'g>) -> Result<Peeked, DequeueError> {
        if self.is_gone() || self.ctl.state.load(Ordering::Relaxed) != state::ACTIVE {
            return Err(DequeueError::NotPermitted);
        }
        if !self.has_message(memory) {
            return Err(DequeueError::Empty);
        }
        let Some((_, word)) = self.front() else { return Err(self.nothing()) };
        let (entry, ..) = ring_parts(word);
        let head = memory.entries.get(entry as usize).ok_or(DequeueError::Fault)?;
        let mut len = head.data_len.load(Ordering::Relaxed);
        let mut next = head.chain_next.load(Ordering::Relaxed);
        for _ in 0..head.marks().chained() {
            let Some(member) = next.checked_sub(1).and_then(|i| memory.entries.get(i as usize))
            else {
                break;
            };
            len = len.saturating_add(member.data_len.load(Ordering::Relaxed));
            next = member.chain_next.load(Ordering::Relaxed);
        }
        Ok(Peeked { len, info: head.msg_info() })
    }
}
