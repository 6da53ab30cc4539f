//! Creating, granting, finding, querying, resetting and destroying queues: the cold half.
//!
//! A lane is placed in its producer's private part by whoever grants; the placing is guarded by the
//! producer's `lane_lock` (owner-tagged, broken by a sweep). The words of a lane are only ever
//! written by their own slot, which zeroes them when the queue's generation changed (Q1).

use crate::abi::control::{LANES_MAX, MAX_QUEUES, QUEUE_NAME_MAX, QueueCtl, WAITERS};
use crate::error::QueueError;
use crate::owner::{QueueId, SlotId};
use crate::pool::Worker;
use crate::primitive::{AtomicU64, Ordering, kill_point};
use crate::queue::{LanePlace, QueueFlags, Rights, distance, state, try_lock, unlock};
use crate::region::Memory;
use crate::wake::WakeSet;

/// A queue to create.
#[derive(Clone, Copy, Debug)]
pub struct QueueConfig<'a> {
    /// 1..=127 bytes, unique in the group.
    pub name: &'a str,
    /// Most messages of each lane, 2..=2^20.
    pub depth: u32,
    /// Kind.
    pub flags: QueueFlags,
    /// Slot of the consumer.
    pub consumer: SlotId,
    /// Waiter of the consumer that producers ring, 0..4.
    pub consumer_waiter: u32,
    /// Bit in that waiter's ready set, 0..64.
    pub ready_bit: u32,
}

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

fn name_words(name: &str) -> [u64; 16] {
    let mut words = [0u64; 16];
    for (index, byte) in name.bytes().enumerate() {
        if let Some(word) = words.get_mut(index / 8) {
            *word |= u64::from(byte) << (8 * (index % 8));
        }
    }
    words
}

impl QueueCtl {
    /// Begins the next life of this index. The index is part of the number: a lane or head cell
    /// that goes from one queue to another never finds its old generation there (Q1). Only who
    /// made the state CREATING or DESTROYED calls it.
    fn next_generation(&self, index: u32) {
        const LIFE: u32 = MAX_QUEUES;
        let life =
            (self.generation.load(Ordering::Acquire) / LIFE).wrapping_add(1) % (u32::MAX / LIFE);
        self.generation.store(life.max(1) * LIFE + index % LIFE, Ordering::Release);
    }

    fn has_name(&self, words: &[u64; 16]) -> bool {
        self.name.iter().zip(words).all(|(a, b)| a.load(Ordering::Relaxed) == *b)
    }

    /// The name's bytes, without NUL.
    #[must_use]
    pub fn name_bytes(&self) -> heapless::Vec<u8, 128> {
        let bytes = self.name.iter().flat_map(|w| w.load(Ordering::Relaxed).to_le_bytes());
        bytes.take_while(|b| *b != 0).collect()
    }
}

impl<'g> Memory<'g> {
    /// Creates a queue. The creating slot gets all rights; the consumer gets READ.
    ///
    /// # Errors
    /// [`QueueError::Invalid`] for depth, name or slot out of range, `Exists` for a name in use,
    /// `OverLimit` when every queue of the group is used.
    pub fn create_queue(
        &self,
        worker: &Worker<'g>,
        config: &QueueConfig<'_>,
    ) -> Result<QueueId, QueueError> {
        let named =
            (1..=QUEUE_NAME_MAX).contains(&config.name.len()) && !config.name.contains('\0');
        if !named
            || !(2..=1 << 20).contains(&config.depth)
            || config.consumer.0 >= self.layout.counts.slots
            || config.consumer_waiter >= WAITERS
            || config.ready_bit > 63
        {
            return Err(QueueError::Invalid);
        }
        if self.find_queue(config.name).is_some() {
            return Err(QueueError::Exists);
        }
        let free = (0u32..).zip(self.queues).find(|(_, ctl)| {
            ctl.state
                .compare_exchange(state::FREE, state::CREATING, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        });
        let (index, ctl) = free.ok_or(QueueError::OverLimit)?;
        self.write_queue(ctl, index, worker.slot(), config);
        Ok(QueueId(index))
    }

    fn write_queue(&self, ctl: &QueueCtl, index: u32, creator: SlotId, config: &QueueConfig<'_>) {
        ctl.next_generation(index);
        ctl.depth.store(config.depth, Ordering::Relaxed);
        let mut flags = config.flags;
        if flags.contains(QueueFlags::OVERWRITE) {
            flags |= QueueFlags::SHARED;
        }
        ctl.flags.store(flags.bits(), Ordering::Relaxed);
        ctl.consumer.store(config.consumer.0, Ordering::Relaxed);
        ctl.consumer_waiter.store(config.consumer_waiter, Ordering::Relaxed);
        ctl.ready_bit.store(config.ready_bit, Ordering::Relaxed);
        ctl.lane_count.store(0, Ordering::Relaxed);
        for word in [&ctl.lock, &ctl.full_waiting, &ctl.faults, &ctl.drops, &ctl.drop_first] {
            word.store(0, Ordering::Relaxed);
        }
        for (word, value) in ctl.name.iter().zip(name_words(config.name)) {
            word.store(value, Ordering::Relaxed);
        }
        for (lane, head) in ctl.lanes.iter().zip(&ctl.shared_heads) {
            lane.store(0, Ordering::Relaxed);
            head.store(0, Ordering::Relaxed);
        }
        let creator = 1u64 << creator.0;
        ctl.manage.store(creator, Ordering::Relaxed);
        ctl.read.store(1u64 << config.consumer.0 | creator, Ordering::Relaxed);
        ctl.write.store(0, Ordering::Relaxed);
        ctl.state.store(state::ACTIVE, Ordering::Release);
    }

    /// The active queue of that name.
    #[must_use]
    pub fn find_queue(&self, name: &str) -> Option<QueueId> {
        let words = name_words(name);
        let found = (0u32..).zip(self.queues).find(|(_, ctl)| {
            ctl.state.load(Ordering::Acquire) == state::ACTIVE && ctl.has_name(&words)
        });
        found.filter(|_| name.len() <= QUEUE_NAME_MAX).map(|(index, _)| QueueId(index))
    }

    fn active(&self, id: QueueId) -> Result<&'g QueueCtl, QueueError> {
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
        if !ctl.rights(worker.slot()).contains(Rights::MANAGE) {
            return Err(QueueError::NotPermitted);
        }
        if to.0 >= self.layout.counts.slots {
            return Err(QueueError::Invalid);
        }
        if rights.contains(Rights::WRITE) && !ctl.lane_places().any(|(_, p)| p.slot == to.0) {
            self.place_lane(worker, ctl, to)?;
        }
        let bit = 1u64 << to.0;
        for (set, right) in
            [(&ctl.manage, Rights::MANAGE), (&ctl.read, Rights::READ), (&ctl.write, Rights::WRITE)]
        {
            if rights.contains(right) {
                set.fetch_or(bit, Ordering::AcqRel);
            }
        }
        Ok(())
    }

    fn place_lane(
        &self,
        worker: &Worker<'g>,
        ctl: &'g QueueCtl,
        to: SlotId,
    ) -> Result<(), QueueError> {
        let consumer = ctl.consumer.load(Ordering::Acquire);
        let locks = [to.0.min(consumer), to.0.max(consumer)];
        let mut held = heapless::Vec::<&AtomicU64, 2>::new();
        for (at, slot) in locks.into_iter().enumerate() {
            if at == 1 && locks[0] == slot {
                continue;
            }
            let shared = self.slot_shared.get(slot as usize).ok_or(QueueError::Invalid)?;
            if !try_lock(&shared.lane_lock, worker.tag) {
                held.iter().for_each(|lock| unlock(lock));
                return Err(QueueError::Busy);
            }
            let _ = held.push(&shared.lane_lock);
        }
        let result = self.place_lane_locked(ctl, to, consumer);
        held.iter().for_each(|lock| unlock(lock));
        result
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

    /// Destroys the queue; queued mbufs are freed. Handles of all processes report NotPermitted
    /// from now on.
    ///
    /// # Errors
    /// As [`Memory::reset_queue`].
    pub fn destroy_queue(
        &self,
        worker: &mut Worker<'g>,
        mut consumer: super::Consumer<'g>,
    ) -> Result<WakeSet, QueueError> {
        let mut wakes = self.reset_queue(worker, &mut consumer)?;
        let ctl = self.active(consumer.id())?;
        ctl.write.store(0, Ordering::Release);
        // An enqueue that was past its check lands before the state changes or is drained here.
        wakes.merge(self.reset_queue(worker, &mut consumer)?);
        ctl.state.store(state::DESTROYED, Ordering::Release);
        ctl.next_generation(consumer.id().0);
        ctl.state.store(state::FREE, Ordering::Release);
        Ok(wakes)
    }
}
