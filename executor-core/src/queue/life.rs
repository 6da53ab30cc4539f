//! Life of a queue: creating, finding by name, destroying, and ending what a dead process began.
//!
//! ```text
//! FREE -> CREATING -> NAMED -> ACTIVE -> DESTROYED -> FREE
//!                        \-> LOST -> FREE          (somebody else has the name)
//! ```
//! L1 One queue a name: a creator shows its name (NAMED), fences, and looks at all others. It loses
//! to an ACTIVE one and to a NAMED one of a lower index, and takes the name from one of a higher
//! index (NAMED -> LOST); ACTIVE is reached only from NAMED by compare-exchange. L2 The generation
//! ends before the drain: an enqueue that passed its check commits, fences, and sees either that
//! the queue is gone or has its ring word seen by the drain. The owner word names the life, so
//! whoever exchanges it has the mbuf, once. L3 A state other than FREE and ACTIVE names the slot
//! that brings the index out of it. L4 Grants and the end of a life exclude each other by the lane
//! lock of the consumer's slot, dequeues under the queue's lock and the end by that lock.
//!
//! | killed after | state seen | repaired by |
//! |---|---|---|
//! | create: index taken, generation, named | CREATING, NAMED | sweep: FREE |
//! | create: a rival lost | NAMED; the rival LOST | sweep: FREE; the rival frees its own |
//! | create: ACTIVE (**commit**) | a queue whose maker is dead | nobody needs to |
//! | destroy: locks | ACTIVE | sweep breaks the locks |
//! | destroy: DESTROYED (**commit**) | as said | sweep: next generation, stranded freed, FREE |
//! | destroy: an entry taken | tagged, or DEQUEUE in the journal | tag scan frees it |
//! | destroy: drained, locks left | DESTROYED | sweep: FREE |

use crate::abi::control::{MAX_QUEUES, NAME_WORDS, QUEUE_NAME_MAX, QueueCtl, WAITERS};
use crate::error::QueueError;
use crate::journal::{self, Op};
use crate::mbuf::{HeadWords, Mbuf};
use crate::owner::{Owner, QueueId, SlotId, WaiterId};
use crate::pool::Worker;
use crate::primitive::{AtomicU64, Ordering, fence, kill_point};
use crate::queue::{QueueFlags, RING_ENTRY_MASK, Rights, ring_parts, state, try_lock, unlock};
use crate::region::Memory;
use crate::wake::WakeSet;

/// Looks at a name that changes under the reader; a hostile peer may change it for ever.
const NAME_LOOKS: u32 = 16;

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

fn name_words(name: &str) -> [u64; NAME_WORDS] {
    let mut words = [0u64; NAME_WORDS];
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
    /// made the state CREATING or DESTROYED calls it, or the sweep in its place.
    fn next_generation(&self, index: u32) {
        const LIFE: u32 = MAX_QUEUES;
        let life =
            (self.generation.load(Ordering::Acquire) / LIFE).wrapping_add(1) % (u32::MAX / LIFE);
        self.generation.store(life.max(1) * LIFE + index % LIFE, Ordering::Release);
    }

    /// The state, when it is NAMED or ACTIVE under this name.
    fn state_if_named(&self, words: &[u64; NAME_WORDS]) -> Option<u32> {
        let look = || (self.generation.load(Ordering::Acquire), self.state.load(Ordering::Acquire));
        let mut seen = look();
        for _ in 0..NAME_LOOKS {
            if !matches!(state::kind(seen.1), state::ACTIVE | state::NAMED) {
                return None;
            }
            // SYNC: acquire, pairs with `write_queue`: who reads a later life's word sees its
            // state and generation in the second look.
            let same = self.name.iter().zip(words).all(|(a, b)| a.load(Ordering::Acquire) == *b);
            let again = look();
            if again == seen {
                return same.then_some(seen.1);
            }
            seen = again;
        }
        None
    }

    /// The name's bytes, without NUL.
    #[must_use]
    pub fn name_bytes(&self) -> heapless::Vec<u8, 128> {
        let bytes = self.name.iter().flat_map(|w| w.load(Ordering::Relaxed).to_le_bytes());
        bytes.take_while(|b| *b != 0).collect()
    }
}

impl<'g> Memory<'g> {
    /// Creates a queue. The creating slot gets all rights; the consumer gets READ. Of several that
    /// create one name at once, one succeeds.
    ///
    /// # Errors
    /// [`QueueError::Invalid`] for depth, name or slot out of range, `Exists` for a name in use or
    /// being taken by somebody else, `OverLimit` when every queue of the group is used.
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
        let creating = state::word(state::CREATING, worker.slot, 0);
        let free = (0u32..).zip(self.queues).find(|(_, ctl)| {
            ctl.state
                .compare_exchange(state::FREE, creating, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        });
        kill_point!("create: index taken");
        let (index, ctl) = free.ok_or(QueueError::OverLimit)?;
        let words = name_words(config.name);
        let mine = self.write_queue(ctl, index, worker.slot(), config, &words);
        // SYNC: SeqCst fence (L1): of two that want one name, one sees the other's NAMED.
        fence(Ordering::SeqCst);
        let won = self.wins_name(index, &words)
            && ctl
                .state
                .compare_exchange(mine, state::ACTIVE, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok();
        kill_point!("create: decided");
        if won {
            return Ok(QueueId(index));
        }
        // A swap, not a store: a rival may exchange it right now.
        ctl.state.swap(state::FREE, Ordering::AcqRel);
        Err(QueueError::Exists)
    }

    /// L1: nobody else has the name, or can get it any more.
    fn wins_name(&self, mine: u32, words: &[u64; NAME_WORDS]) -> bool {
        let others = (0u32..).zip(self.queues).filter(|(index, _)| *index != mine);
        others.into_iter().all(|(index, ctl)| {
            // A rival becomes LOST, ACTIVE or free; the second look finds which.
            for _ in 0..NAME_LOOKS {
                let Some(rival) = ctl.state_if_named(words) else { return true };
                if rival == state::ACTIVE || index < mine {
                    return false;
                }
                let lost = rival & !0xFF | state::LOST;
                let exchanged =
                    ctl.state.compare_exchange(rival, lost, Ordering::AcqRel, Ordering::Relaxed);
                kill_point!("create: rival lost");
                if exchanged.is_ok() {
                    return true;
                }
            }
            false
        })
    }

    /// Writes a CREATING queue's words; its NAMED state.
    fn write_queue(
        &self,
        ctl: &QueueCtl,
        index: u32,
        creator: SlotId,
        config: &QueueConfig<'_>,
        name: &[u64; NAME_WORDS],
    ) -> u32 {
        ctl.next_generation(index);
        kill_point!("create: generation");
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
        // Not the lock: an old end of this index may hold it for a moment.
        let words = [&ctl.full_waiting, &ctl.faults, &ctl.drops, &ctl.drop_first];
        for word in words.into_iter().chain([&ctl.quarantined]) {
            word.store(0, Ordering::Relaxed);
        }
        for (word, value) in ctl.name.iter().zip(name) {
            word.store(*value, Ordering::Release);
        }
        for (lane, head) in ctl.lanes.iter().zip(&ctl.shared_heads) {
            lane.store(0, Ordering::Relaxed);
            head.store(0, Ordering::Relaxed);
        }
        let creator_bit = 1u64 << creator.0;
        ctl.manage.store(creator_bit, Ordering::Relaxed);
        ctl.read.store(1u64 << config.consumer.0 | creator_bit, Ordering::Relaxed);
        ctl.write.store(0, Ordering::Relaxed);
        let life = ctl.generation.load(Ordering::Relaxed) / MAX_QUEUES;
        let named = state::word(state::NAMED, creator.0, life);
        ctl.state.store(named, Ordering::Release);
        kill_point!("create: named");
        named
    }

    /// The active queue of that name.
    #[must_use]
    pub fn find_queue(&self, name: &str) -> Option<QueueId> {
        let words = name_words(name);
        let found = (0u32..)
            .zip(self.queues)
            .find(|(_, ctl)| ctl.state_if_named(&words) == Some(state::ACTIVE));
        found.filter(|_| name.len() <= QUEUE_NAME_MAX).map(|(index, _)| QueueId(index))
    }

    /// Destroys the queue; queued mbufs are freed. Handles of all processes report NotPermitted
    /// from now on; an enqueue under way goes in and is dropped, or comes back with NotPermitted.
    /// The caller rings the returned waiters: whoever may use the queue.
    ///
    /// # Errors
    /// [`QueueError::NotPermitted`] without MANAGE, `Invalid` when it is gone already, `Busy` while
    /// another process grants, or holds the shared end.
    pub fn destroy_queue(
        &self,
        worker: &mut Worker<'g>,
        consumer: super::Consumer<'g>,
    ) -> Result<WakeSet, QueueError> {
        let id = consumer.id();
        let ctl = self.active(id)?;
        if !ctl.rights(worker.slot()).contains(Rights::MANAGE) {
            return Err(QueueError::NotPermitted);
        }
        let lanes = self.slot_shared.get(ctl.consumer.load(Ordering::Acquire) as usize);
        let lanes = &lanes.ok_or(QueueError::Invalid)?.lane_lock;
        if !try_lock(lanes, worker.tag) {
            return Err(QueueError::Busy);
        }
        if !try_lock(&ctl.lock, worker.tag) {
            unlock(lanes);
            return Err(QueueError::Busy);
        }
        let result = self.destroy_locked(worker, ctl, &consumer);
        unlock(&ctl.lock);
        unlock(lanes);
        if result.is_ok() {
            // SYNC: release, pairs with `create_queue`: the next life begins with what we left.
            ctl.state.store(state::FREE, Ordering::Release);
            kill_point!("destroy: free");
        }
        result
    }

    fn destroy_locked(
        &self,
        worker: &mut Worker<'g>,
        ctl: &'g QueueCtl,
        consumer: &super::Consumer<'g>,
    ) -> Result<WakeSet, QueueError> {
        let generation = consumer.generation();
        let life = generation / MAX_QUEUES;
        let destroyed = state::word(state::DESTROYED, worker.slot, life);
        if ctl.generation.load(Ordering::Acquire) != generation
            || ctl
                .state
                .compare_exchange(state::ACTIVE, destroyed, Ordering::AcqRel, Ordering::Relaxed)
                .is_err()
        {
            return Err(QueueError::Invalid);
        }
        kill_point!("destroy: destroyed");
        self.end_life(ctl, consumer.id().0);
        let mut wakes = self.drain_ended(worker, ctl, consumer.id().0, generation);
        let lanes = ctl.lane_places().fold(0, |set, (_, place)| set | 1u64 << (place.slot & 63));
        let users = [&ctl.manage, &ctl.read, &ctl.write];
        let mut users = users.iter().fold(lanes, |set, word| set | word.load(Ordering::Relaxed));
        while users != 0 {
            let slot = users.trailing_zeros();
            users &= users - 1;
            for id in (0..WAITERS).map(|index| WaiterId(slot * WAITERS + index)) {
                if self.waiter(id).is_some_and(Memory::unpark) {
                    wakes.insert(id);
                }
            }
        }
        Ok(wakes)
    }

    /// The generation ends; what is behind it sees every enqueue that did not see the end (L2).
    pub(crate) fn end_life(&self, ctl: &QueueCtl, index: u32) {
        ctl.next_generation(index);
        kill_point!("destroy: generation");
        // SYNC: SeqCst fence, pairs with `Producer::enqueue`: the generation before the ring words
        // and the owner words.
        fence(Ordering::SeqCst);
    }

    /// Frees what the life `generation` of a queue still holds. All ring words are looked at: only
    /// the owner word says whether an entry is in this queue.
    fn drain_ended(
        &self,
        worker: &mut Worker<'g>,
        ctl: &'g QueueCtl,
        queue: u32,
        generation: u32,
    ) -> WakeSet {
        let mut wakes = WakeSet::NONE;
        let Some(depth) = ctl.sound_depth() else { return wakes };
        for (lane, place) in ctl.lane_places() {
            let Some((_, ring)) = self.lane_parts(place, depth) else { continue };
            let owner = Owner::Queue { queue, lane, generation }.word();
            for word in ring {
                if let Some(mbuf) = seize(worker, word, owner, journal::place(queue, lane)) {
                    wakes.merge(worker.free(mbuf));
                }
            }
        }
        wakes
    }
}

/// Takes the entry of a ring word from an ended queue, if it is still there.
fn seize(worker: &mut Worker<'_>, ring: &AtomicU64, owner: u64, place: u64) -> Option<Mbuf> {
    // SYNC: acquire, pairs with the ring word store of `Producer::enqueue`.
    let word = ring.load(Ordering::Acquire);
    let (index, block, _) = ring_parts(word);
    let entry = worker.memory.entries.get(index as usize)?;
    if entry.owner.load(Ordering::Acquire) != owner
        || entry.block() != block
        || worker.memory.block_span(block).is_none()
    {
        return None;
    }
    let operation = journal::action(Op::Dequeue, 0) | word & RING_ENTRY_MASK;
    journal::open_words(worker.journal, operation, place);
    // SYNC: acquire, pairs with the enqueue: the head is read next; who exchanges it has it (L2).
    let taken =
        entry.owner.compare_exchange(owner, worker.tag, Ordering::AcqRel, Ordering::Relaxed);
    kill_point!("destroy: owner");
    if taken.is_ok() {
        // The mark of an earlier holder must not make it an input of ours.
        entry.set_marks(entry.marks().with_port(None));
    }
    journal::close(worker.journal);
    // The word may be one of an earlier pass of this entry: its own generation counts.
    let generation = entry.generation.load(Ordering::Relaxed);
    taken.ok().map(|_| Mbuf::from_parts(index, block, generation))
}
