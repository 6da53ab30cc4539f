//! Granting, querying and resetting queues: the cold half; see [`super::life`] for the rest.
//!
//! A lane is placed in its producer's private part by whoever grants; the placing is guarded by the
//! producer's and the consumer's `lane_lock` (owner-tagged, broken by a sweep), which a grant holds
//! from its look at the queue to the last right: the queue can't end in between. The words of a
//! lane are only ever written by their own slot, which zeroes them when the queue's generation
//! changed (Q1).
//!
//! | killed after | state seen | repaired by |
//! |---|---|---|
//! | grant: lane locks | locks with a dead owner | sweep breaks them |
//! | grant: head cell, place written | words behind `lane_count` | the next grant writes them |
//! | grant: lane counted | a lane that nobody may use | a grant finds it again |
//! | grant: a right (**commit** of that right) | as said; others missing | whoever grants again |
//!
//! A query writes nothing; a reset dequeues, see [`super::consumer`].

use crate::abi::control::{LANES_MAX, QueueCtl};
use crate::error::QueueError;
use crate::owner::{QueueId, SlotId};
use crate::pool::Worker;
use crate::primitive::{AtomicU64, Ordering, kill_point};
use crate::queue::{LanePlace, QueueFlags, Rights, distance, state, try_lock, unlock};
use crate::region::Memory;
use crate::wake::WakeSet;

/// What a query tells (device-runtime §2.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueInfo {
    /// The queue.
    pub id: QueueId,
    /// Messages queued now.
    pub size: u32,
    /// Capacity of all lanes together.
    pub depth: u32,
    /// 0 normal, 1 empty, 2 full.
    pub status: u32,
    /// Messages enqueued since creation.
    pub enqueued: u64,
    /// Messages dequeued since creation (exclusive queues).
    pub dequeued: u64,
    /// Waits for room.
    pub full_waits: u64,
    /// Most messages queued in one lane: exact when it was full, else as seen once in `depth`
    /// messages.
    pub high_water: u32,
    /// Dropped by overwrite or reset.
    pub drops: u64,
    /// Skipped because a word was impossible.
    pub faults: u64,
    /// Bit n: lane n is quarantined, its words contradict each other.
    pub quarantined: u64,
}

/// The lane of one producer process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LaneInfo {
    /// Number of the lane in its queue.
    pub lane: u32,
    /// Messages queued in it now.
    pub size: u32,
    /// Most messages it holds.
    pub depth: u32,
}

impl QueueInfo {
    /// Neither empty nor full.
    pub const NORMAL: u32 = 0;
    /// No message.
    pub const EMPTY: u32 = 1;
    /// Every lane is full.
    pub const FULL: u32 = 2;
}

impl<'g> Memory<'g> {
    pub(super) fn active(&self, id: QueueId) -> Result<&'g QueueCtl, QueueError> {
        let ctl = self.queues.get(id.0 as usize).ok_or(QueueError::Invalid)?;
        if ctl.state.load(Ordering::Acquire) == state::ACTIVE {
            Ok(ctl)
        } else {
            Err(QueueError::Invalid)
        }
    }

    /// Grants `rights` on `id` to `to`. A first WRITE grant places a lane in `to`'s private part.
    ///
    /// # Errors
    /// [`QueueError::NotPermitted`] unless the worker's slot may manage; `OverLimit` when `to` (or
    /// the consumer) has no free lane, ring words or head cell; `Busy` while another process
    /// places lanes.
    pub fn grant_queue(
        &self,
        worker: &Worker<'g>,
        id: QueueId,
        to: SlotId,
        rights: Rights,
    ) -> Result<(), QueueError> {
        let ctl = self.active(id)?;
        if to.0 >= self.layout.counts.slots {
            return Err(QueueError::Invalid);
        }
        let consumer = ctl.consumer.load(Ordering::Acquire);
        let locks = [to.0.min(consumer), to.0.max(consumer)];
        let mut held = heapless::Vec::<&AtomicU64, 2>::new();
        for (at, slot) in locks.into_iter().enumerate() {
            if at == 1 && locks[0] == slot {
                continue;
            }
            let shared = self.slot_shared.get(slot as usize);
            if !shared.is_some_and(|shared| try_lock(&shared.lane_lock, worker.tag)) {
                held.iter().for_each(|lock| unlock(lock));
                return Err(shared.map_or(QueueError::Invalid, |_| QueueError::Busy));
            }
            let _ = shared.map(|shared| held.push(&shared.lane_lock));
        }
        // Another queue may have this index since.
        let result = match self.active(id) {
            Ok(_) if ctl.consumer.load(Ordering::Acquire) != consumer => Err(QueueError::Busy),
            Ok(_) if !ctl.rights(worker.slot()).contains(Rights::MANAGE) => {
                Err(QueueError::NotPermitted)
            }
            Ok(_) => self.grant_locked(ctl, to, consumer, rights),
            Err(error) => Err(error),
        };
        held.iter().for_each(|lock| unlock(lock));
        result
    }

    fn grant_locked(
        &self,
        ctl: &'g QueueCtl,
        to: SlotId,
        consumer: u32,
        rights: Rights,
    ) -> Result<(), QueueError> {
        if rights.contains(Rights::WRITE) && !ctl.lane_places().any(|(_, p)| p.slot == to.0) {
            self.place_lane_locked(ctl, to, consumer)?;
        }
        let bit = 1u64 << to.0;
        for (set, right) in
            [(&ctl.manage, Rights::MANAGE), (&ctl.read, Rights::READ), (&ctl.write, Rights::WRITE)]
        {
            if rights.contains(right) {
                set.fetch_or(bit, Ordering::AcqRel);
                kill_point!("grant: a right");
            }
        }
        Ok(())
    }

    fn place_lane_locked(
        &self,
        ctl: &'g QueueCtl,
        to: SlotId,
        consumer: u32,
    ) -> Result<(), QueueError> {
        let counts = self.layout.counts;
        let index = ctl.lane_count.load(Ordering::Acquire);
        if index >= LANES_MAX {
            return Err(QueueError::OverLimit);
        }
        let depth = ctl.sound_depth().ok_or(QueueError::Invalid)?;
        let lane = (0..counts.lanes)
            .find(|lane| !self.lanes_of(to).any(|(_, p)| p.lane == *lane))
            .ok_or(QueueError::OverLimit)?;
        let free_at = |start: u32| {
            start.checked_add(depth).is_some_and(|end| {
                end <= counts.ring_words
                    && !self
                        .lanes_of(to)
                        .any(|(d, p)| p.ring < end && start < p.ring.saturating_add(d))
            })
        };
        let ends = self.lanes_of(to).map(|(d, p)| p.ring.saturating_add(d));
        let ring = core::iter::once(0).chain(ends).filter(|start| free_at(*start)).min();
        let ring = ring.ok_or(QueueError::OverLimit)?;
        if !ctl.queue_flags().contains(QueueFlags::SHARED) {
            let cell = (0..counts.heads)
                .find(|cell| !self.head_cells_of(consumer).any(|used| used == *cell))
                .ok_or(QueueError::OverLimit)?;
            let slot = ctl.head_cells.get(index as usize).ok_or(QueueError::OverLimit)?;
            slot.store(cell, Ordering::Release);
        }
        let place = LanePlace { slot: to.0, lane, ring };
        let word = ctl.lanes.get(index as usize).ok_or(QueueError::OverLimit)?;
        word.store(place.word(), Ordering::Release);
        kill_point!("grant: place written");
        ctl.lane_count.store(index + 1, Ordering::Release);
        kill_point!("grant: lane counted");
        Ok(())
    }

    /// Lanes that lie in `slot`'s private part, with their depth.
    fn lanes_of(&self, slot: SlotId) -> impl Iterator<Item = (u32, LanePlace)> + use<'g> {
        let in_use = self.queues.iter().filter(|c| c.state.load(Ordering::Acquire) != state::FREE);
        in_use.flat_map(move |ctl| {
            let depth = ctl.depth.load(Ordering::Relaxed);
            ctl.lane_places().filter(move |(_, p)| p.slot == slot.0).map(move |(_, p)| (depth, p))
        })
    }

    fn head_cells_of(&self, slot: u32) -> impl Iterator<Item = u32> + use<'g> {
        let exclusive = self.queues.iter().filter(move |ctl| {
            ctl.state.load(Ordering::Acquire) != state::FREE
                && ctl.consumer.load(Ordering::Relaxed) == slot
                && !ctl.queue_flags().contains(QueueFlags::SHARED)
        });
        exclusive.flat_map(|ctl| {
            let count = ctl.lane_count.load(Ordering::Acquire) as usize;
            ctl.head_cells.iter().take(count).map(|cell| cell.load(Ordering::Acquire))
        })
    }

    /// Size, depth, status and counters of a queue. Needs no right: counts only.
    ///
    /// # Errors
    /// [`QueueError::Invalid`] for an unknown queue.
    pub fn query_queue(&self, id: QueueId) -> Result<QueueInfo, QueueError> {
        let ctl = self.active(id)?;
        let depth = ctl.sound_depth().ok_or(QueueError::Invalid)?;
        let generation = ctl.generation.load(Ordering::Acquire);
        let mut info = QueueInfo {
            id,
            size: 0,
            depth,
            status: QueueInfo::EMPTY,
            enqueued: 0,
            dequeued: 0,
            full_waits: 0,
            high_water: 0,
            drops: ctl.drops.load(Ordering::Relaxed),
            faults: ctl.faults.load(Ordering::Relaxed),
            quarantined: ctl.quarantined.load(Ordering::Relaxed),
        };
        let mut lanes = 0;
        for (index, place) in ctl.lane_places() {
            lanes += 1;
            let (Some((lane, _)), Some(cell)) =
                (self.lane_parts(place, depth), self.head_cell(ctl, index))
            else {
                continue;
            };
            if lane.generation.load(Ordering::Acquire) != generation {
                continue;
            }
            let head = cell.load(generation, depth);
            let tail = lane.tail.load(Ordering::Acquire).min(2 * depth - 1);
            let size = distance(head, tail, depth).min(depth);
            info.size += size;
            info.enqueued = info.enqueued.wrapping_add(lane.enqueued.load(Ordering::Relaxed));
            info.full_waits = info.full_waits.wrapping_add(lane.full.load(Ordering::Relaxed));
            let high = lane.high_water.load(Ordering::Relaxed).max(size);
            info.high_water = info.high_water.max(high);
        }
        info.dequeued =
            info.enqueued.saturating_sub(u64::from(info.size).saturating_add(info.drops));
        info.depth = depth * lanes.max(1);
        info.status = match info.size {
            0 => QueueInfo::EMPTY,
            n if n >= info.depth => QueueInfo::FULL,
            _ => QueueInfo::NORMAL,
        };
        Ok(info)
    }

    /// The lane of producer `slot`. Needs no right: counts only.
    ///
    /// # Errors
    /// [`QueueError::Invalid`] for an unknown queue or a slot without a lane in it.
    pub fn query_lane(&self, id: QueueId, slot: SlotId) -> Result<LaneInfo, QueueError> {
        let ctl = self.active(id)?;
        let depth = ctl.sound_depth().ok_or(QueueError::Invalid)?;
        let generation = ctl.generation.load(Ordering::Acquire);
        let found = ctl.lane_places().find(|(_, place)| place.slot == slot.0);
        let (index, place) = found.ok_or(QueueError::Invalid)?;
        let (lane, _) = self.lane_parts(place, depth).ok_or(QueueError::Invalid)?;
        let cell = self.head_cell(ctl, index).ok_or(QueueError::Invalid)?;
        let opened = lane.generation.load(Ordering::Acquire) == generation;
        let head = cell.load(generation, depth);
        let tail = lane.tail.load(Ordering::Acquire).min(2 * depth - 1);
        let size = if opened { distance(head, tail, depth).min(depth) } else { 0 };
        Ok(LaneInfo { lane: index, size, depth })
    }

    /// As [`super::Producer::register_full_wait`], for a thread without the producer end.
    pub fn register_lane_wait(&self, id: QueueId, lane: u32) {
        if let Ok(ctl) = self.active(id) {
            ctl.full_waiting.fetch_or(1 << (lane & 63), Ordering::AcqRel);
        }
    }

    /// Empties the queue: every queued mbuf is freed and counted as dropped. The caller must hold
    /// the consumer end (or the queue is shared).
    ///
    /// # Errors
    /// [`QueueError::NotPermitted`] without MANAGE or the consumer end, `Busy` while it is locked.
    pub fn reset_queue(
        &self,
        worker: &mut Worker<'g>,
        consumer: &mut super::Consumer<'g>,
    ) -> Result<WakeSet, QueueError> {
        let ctl = self.active(consumer.id())?;
        if !ctl.rights(worker.slot()).contains(Rights::MANAGE) {
            return Err(QueueError::NotPermitted);
        }
        let mut wakes = WakeSet::NONE;
        loop {
            match consumer.dequeue(worker) {
                Ok((mbuf, woken)) => {
                    ctl.count_drop(worker.of(&mbuf).msg_info().trans_id);
                    wakes.merge(woken);
                    wakes.merge(worker.free(mbuf));
                }
                Err(crate::error::DequeueError::Fault) => {}
                Err(crate::error::DequeueError::Busy) => return Err(QueueError::Busy),
                Err(_) => return Ok(wakes),
            }
        }
    }
}
