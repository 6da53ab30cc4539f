//! Allocation, reference copies, chains and freeing: the verbs of a worker on its own partition.
//!
//! Entry `i < block_count` of a slot is the *primary entry* of block `i`; its metadata line also
//! holds the block's reference count. Extra entries carry `copy_ref`s of any block. There is no
//! free list: free is `owner == 0` (and for a block `count == 0`), found from a private cursor.
//!
//! Invariants: P1 a block's count goes up before a new entry refers to it, an entry dies before the
//! count goes down: count >= entries. P2 only the slot that owns an entry makes it live; anybody
//! who holds it frees it. P3 a block's count leaves 0 only by its own slot, and reaches it only by
//! the last holder or by a sweep. Errors can only leak, and a sweep finds leaks. P4 an entry names
//! a block only while it counts as a reference to it, or while its worker's journal names that
//! block.
//!
//! | killed after | state seen | repaired by |
//! |---|---|---|
//! | alloc: journal | nothing moved | sweep: journal dropped, block rechecked |
//! | alloc: owner | entry tagged, count 0 | tag scan frees the entry; block recheck |
//! | alloc: count | entry tagged, count 1 | tag scan frees the entry; block recheck |
//! | copy: owner | extra tagged, no block | tag scan frees the entry |
//! | copy: count | count one too high | block recheck once its last entry is gone |
//! | free: block, owner | entry without a block or free, count too high | block recheck |
//! | free: count | done but for the journal | nothing |
//! | chain: owner | member chained, not linked | sweep: freed with or without its head |
//!
//! Cost: alloc one CAS and one line; free two stores, one fence; copy one CAS and one fetch_add.

use crate::abi::control::{Entry, Journal, MAX_CHAIN, PoolDesc, SlotDesc};
use crate::error::{AllocError, AttachError};
use crate::group::{Group, POOLS_MAX};
use crate::journal::{self, Op, Record};
use crate::mbuf::{HeadWords, Marks, Mbuf, MbufRef};
use crate::owner::{Owner, SlotId};
use crate::primitive::{AtomicU64, Ordering, fence, kill_point};
use crate::queue::ring_word;
use crate::region::{Memory, PrivatePart};
use crate::wake::WakeSet;

/// What the head of a fresh mbuf holds.
#[derive(Clone, Copy, Debug)]
pub enum Head<'a> {
    /// Zeros.
    Zeroed,
    /// A copy of this mbuf's head.
    Of(&'a Mbuf),
    /// `MsgInfo` is whatever was there; the caller writes it. All other lines are zero.
    Unset,
}

/// A thread's right to touch mbufs: one journal of one slot.
#[derive(Debug)]
pub struct Worker<'g> {
    /// The group's memory.
    pub memory: Memory<'g>,
    pub(crate) slot: u32,
    pub(crate) tag: u64,
    pub(crate) journal: &'g Journal,
    /// The private part of this worker's slot.
    pub private: PrivatePart<'g>,
    desc: SlotDesc,
    cursors: [u32; POOLS_MAX],
    extra_cursor: u32,
}

/// What a free entry refers to.
pub(crate) const NO_BLOCK: u32 = u32::MAX;
const COUNT_MASK: u64 = 0xFFFF_FFFF;
const COUNT_VERSION: u64 = 1 << 32;

/// References in a count word.
pub(crate) fn references(word: u64) -> u64 {
    word & COUNT_MASK
}

impl<'g> Worker<'g> {
    /// Worker `index` of the process `generation` in `slot`. The caller makes each index once.
    ///
    /// # Errors
    /// [`AttachError::Slot`] when slot or index is out of range.
    pub fn new(
        group: &Group<'g>,
        slot: SlotId,
        index: u32,
        generation: u32,
    ) -> Result<Worker<'g>, AttachError> {
        let memory = group.memory;
        let private = memory.private(slot.0).ok_or(AttachError::Slot)?;
        let journal = private.journals.get(index as usize).ok_or(AttachError::Slot)?;
        let desc = *memory.slot_descs.get(slot.0 as usize).ok_or(AttachError::Slot)?;
        let tag = Owner::Worker { slot: slot.0, worker: index, generation }.word();
        Ok(Worker {
            memory,
            slot: slot.0,
            tag,
            journal,
            private,
            desc,
            cursors: [0; POOLS_MAX],
            extra_cursor: 0,
        })
    }

    /// This worker's slot.
    #[must_use]
    pub fn slot(&self) -> SlotId {
        SlotId(self.slot)
    }

    /// Access to an mbuf this worker holds. A handle of another group gives an empty dummy of entry
    /// 0.
    #[must_use]
    #[inline]
    pub fn of(&self, mbuf: &Mbuf) -> MbufRef<'g> {
        // An `Mbuf` is only made with checked indices of this group.
        self.memory.mbuf(mbuf).expect("mbuf of this group")
    }

    /// Allocates an mbuf with a buffer of `size` bytes and data length 0.
    ///
    /// # Errors
    /// [`AllocError::Exhausted`]: wait on the pool; [`AllocError::TooLarge`].
    pub fn alloc(&mut self, size: u64, head: Head<'_>) -> Result<Mbuf, AllocError> {
        let first = self.desc.first_pool as usize;
        let pools = self.memory.pools.get(first..first + self.desc.pool_count as usize);
        let pools: &'g [PoolDesc] = pools.unwrap_or(&[]);
        let mut fits = false;
        for (index, pool) in pools.iter().enumerate().filter(|(_, p)| p.block_size >= size) {
            fits = true;
            if let Some(block) = self.take_block(index, pool) {
                let entry = self.memory.entries.get(block as usize).ok_or(AllocError::Invalid)?;
                let generation = self.init(entry, size, head);
                return Ok(Mbuf::from_parts(block, block, generation));
            }
        }
        Err(if fits { AllocError::Exhausted } else { AllocError::TooLarge })
    }

    fn take_block(&mut self, index: usize, pool: &PoolDesc) -> Option<u32> {
        let cursor = self.cursors.get_mut(index)?;
        let mut at = *cursor;
        for _ in 0..pool.block_count {
            let block = pool.first_block + at;
            at = if at + 1 < pool.block_count { at + 1 } else { 0 };
            let entry = self.memory.entries.get(block as usize)?;
            if entry.owner.load(Ordering::Relaxed) != Owner::FREE_WORD
                || references(entry.count.load(Ordering::Acquire)) != 0
            {
                continue;
            }
            if claim(self.journal, self.tag, &Record::of(Op::Alloc, block, block), entry) {
                // A thread of this slot may have freed the primary while a copy lives: look again
                // (P1).
                let word = entry.count.load(Ordering::Acquire);
                if references(word) == 0 {
                    entry.count.store(word.wrapping_add(COUNT_VERSION | 1), Ordering::Release);
                    kill_point!("alloc: count");
                    entry.set_block(block);
                    journal::close(self.journal);
                    *cursor = at;
                    return Some(block);
                }
                entry.owner.store(Owner::FREE_WORD, Ordering::Release);
                journal::close(self.journal);
            }
        }
        None
    }

    /// Starts a life of `entry`; its generation.
    #[inline]
    fn init(&self, entry: &Entry, size: u64, head: Head<'_>) -> u32 {
        let generation = entry.generation.load(Ordering::Relaxed).wrapping_add(1);
        entry.generation.store(generation, Ordering::Relaxed);
        entry.data_len.store(0, Ordering::Relaxed);
        entry.buffer_size.store(size, Ordering::Relaxed);
        entry.chain_next.store(0, Ordering::Relaxed);
        entry.set.store(0, Ordering::Relaxed);
        entry.set_marks(Marks::default().with_lines(entry.marks().lines()));
        match head {
            Head::Zeroed => entry.zero_head(),
            Head::Of(from) => {
                if let Some(from) = self.memory.entries.get(from.entry() as usize) {
                    entry.copy_head(from);
                }
            }
            Head::Unset if entry.marks().lines() != 0 => entry.zero_head(),
            Head::Unset => {}
        }
        generation
    }

    /// Brings the lines of the mbuf that the next small `alloc` will probably take into this core.
    /// Worth calling where the peer is being waited for anyway (bench `hop`).
    pub fn prepare_next(&self) {
        let pools = self.memory.pools.get(self.desc.first_pool as usize);
        let cursor = self.cursors.first().copied().unwrap_or(0);
        let Some(block) = pools.map(|pool| pool.first_block + cursor) else { return };
        self.memory.prefetch_message(ring_word(block, block, 0, 0), true);
    }

    /// A second mbuf over the same data with its own head, a copy of `mbuf`'s.
    ///
    /// # Errors
    /// [`AllocError::Exhausted`] when every extra entry of this slot is in use.
    pub fn copy_ref(&mut self, mbuf: &Mbuf) -> Result<Mbuf, AllocError> {
        let block = mbuf.block();
        let (count, from) = match (
            self.memory.entries.get(block as usize),
            self.memory.entries.get(mbuf.entry() as usize),
        ) {
            (Some(primary), Some(from)) => (&primary.count, from),
            _ => return Err(AllocError::Invalid),
        };
        let first = self.desc.first_entry + self.desc.block_count;
        for step in 0..self.desc.extra_count {
            let at = (self.extra_cursor + step) % self.desc.extra_count;
            let index = first + at;
            let Some(entry) = self.memory.entries.get(index as usize) else { break };
            if entry.owner.load(Ordering::Relaxed) == Owner::FREE_WORD
                && claim(self.journal, self.tag, &Record::of(Op::Copy, index, block), entry)
            {
                count.fetch_add(COUNT_VERSION | 1, Ordering::AcqRel);
                kill_point!("copy: count");
                entry.set_block(block);
                kill_point!("copy: block");
                journal::close(self.journal);
                self.extra_cursor = (at + 1) % self.desc.extra_count;
                let size = from.buffer_size.load(Ordering::Relaxed);
                let generation = self.init(entry, size, Head::Of(mbuf));
                entry.data_len.store(from.data_len.load(Ordering::Relaxed), Ordering::Relaxed);
                return Ok(Mbuf::from_parts(index, block, generation));
            }
        }
        Err(AllocError::Exhausted)
    }

    /// Gives `mbuf` (and its chain) back. Never fails, never waits. The caller rings the returned
    /// waiters.
    pub fn free(&mut self, mbuf: Mbuf) -> WakeSet {
        let mut wakes = WakeSet::NONE;
        let index = mbuf.entry();
        let Some(entry) = self.memory.entries.get(index as usize) else { return wakes };
        if entry.marks().chained() != 0 {
            self.free_chain(index, entry, &mut wakes);
        }
        self.free_one(index, mbuf.block(), &mut wakes);
        wakes
    }

    fn free_chain(&mut self, index: u32, head: &'g Entry, wakes: &mut WakeSet) {
        let generation = head.generation.load(Ordering::Relaxed);
        // A link that a dead process left may name an entry that lives on elsewhere.
        let mine = Owner::Chained { head: index, generation }.word();
        let mut next = head.chain_next.load(Ordering::Acquire);
        for _ in 1..MAX_CHAIN {
            let Some(index) = next.checked_sub(1) else { break };
            let Some(entry) = self.memory.entries.get(index as usize) else { break };
            let block = entry.block();
            next = entry.chain_next.load(Ordering::Acquire);
            head.chain_next.store(next, Ordering::Release);
            kill_point!("chain: member unlinked");
            if entry.owner.load(Ordering::Acquire) == mine {
                self.free_one(index, block, wakes);
            }
        }
    }

    pub(crate) fn free_one(&mut self, index: u32, block: u32, wakes: &mut WakeSet) {
        let (Some(entry), Some(primary)) =
            (self.memory.entries.get(index as usize), self.memory.entries.get(block as usize))
        else {
            return;
        };
        journal::open(self.journal, &Record::of(Op::Free, index, block));
        let word = primary.count.load(Ordering::Acquire);
        // P4: from here the journal alone names the block.
        entry.set_block(NO_BLOCK);
        kill_point!("free: block");
        // SYNC: release, pairs with the owner CAS in `claim`: the next owner sees our reads done.
        entry.owner.store(Owner::FREE_WORD, Ordering::Release);
        kill_point!("free: owner");
        drop_reference(&primary.count, word);
        kill_point!("free: count");
        journal::close(self.journal);
        // SYNC: SeqCst fence, pairs with `wake::recheck`.
        fence(Ordering::SeqCst);
        self.wake_home(index, wakes);
        if block != index {
            self.wake_home(block, wakes);
        }
    }

    /// Wakes who waits for an mbuf of the slot that entry or block `index` belongs to.
    #[inline]
    fn wake_home(&self, index: u32, wakes: &mut WakeSet) {
        if let Some(home) = self.memory.blocks.get(index as usize) {
            self.memory.wake_pool(home.slot, wakes);
        }
    }

    /// Appends `member` to the chain of `head`; both must be held, `member` must not be a chain
    /// itself.
    ///
    /// # Errors
    /// `(member, Invalid)` hands the member back: the chain has 128 mbufs, or `member` is a chain.
    pub fn chain_append(&mut self, head: &Mbuf, member: Mbuf) -> Result<(), (Mbuf, AllocError)> {
        let entries = self.memory.entries;
        let (Some(to), Some(new)) =
            (entries.get(head.entry() as usize), entries.get(member.entry() as usize))
        else {
            return Err((member, AllocError::Invalid));
        };
        let marks = to.marks();
        if marks.chained() + 1 >= MAX_CHAIN || new.marks().chained() != 0 || head == &member {
            return Err((member, AllocError::Invalid));
        }
        journal::open(self.journal, &Record::of(Op::Chain, member.entry(), head.entry()));
        let generation = to.generation.load(Ordering::Relaxed);
        let owner = Owner::Chained { head: head.entry(), generation };
        new.owner.store(owner.word(), Ordering::Release);
        kill_point!("chain: owner");
        let link = member.entry() + 1;
        let tail = if marks.chained() == 0 { 0 } else { to.chain_tail.load(Ordering::Relaxed) };
        let last = tail.checked_sub(1).and_then(|index| entries.get(index as usize)).unwrap_or(to);
        last.chain_next.store(link, Ordering::Release);
        kill_point!("chain: linked");
        to.chain_tail.store(link, Ordering::Relaxed);
        to.set_marks(marks.with_chained(marks.chained() + 1));
        journal::close(self.journal);
        Ok(())
    }

    /// Entry and block of mbuf `index` of a chain, 0 = the head; `None` at and past its end.
    #[must_use]
    pub fn chain_get(&self, head: &Mbuf, index: u32) -> Option<MbufRef<'g>> {
        let entries = self.memory.entries;
        let entry = entries.get(head.entry() as usize)?;
        if index > entry.marks().chained() {
            return None;
        }
        let mut at = head.entry();
        for _ in 0..index {
            at = entries.get(at as usize)?.chain_next.load(Ordering::Acquire).checked_sub(1)?;
        }
        let block = entries.get(at as usize)?.block();
        self.memory.mbuf(&Mbuf::from_parts(at, block, 0))
    }

    /// True when the block of this mbuf lies in this worker's partition.
    #[must_use]
    pub fn is_home(&self, mbuf: &Mbuf) -> bool {
        self.memory.blocks.get(mbuf.block() as usize).is_some_and(|b| b.slot == self.slot)
    }

    /// True when this mbuf is the only one over its block and the block lies in this worker's
    /// partition: then (and only then) the payload may be rewritten in place (M2).
    #[must_use]
    pub fn is_sole_owner(&self, mbuf: &Mbuf) -> bool {
        let home = self.is_home(mbuf);
        let primary = self.memory.entries.get(mbuf.block() as usize);
        home && primary.is_some_and(|p| references(p.count.load(Ordering::Acquire)) == 1)
    }

    /// Takes back the handle of an entry that this worker owns (by its tag), as left by
    /// [`Mbuf::into_entry`] or by [`Worker::adopt`]'s search.
    #[must_use]
    pub fn reclaim(&self, index: u32) -> Option<Mbuf> {
        let entry = self.memory.entries.get(index as usize)?;
        let block = entry.block();
        let owned = entry.owner.load(Ordering::Acquire) == self.tag;
        let generation = entry.generation.load(Ordering::Relaxed);
        (owned && self.memory.block_span(block).is_some())
            .then(|| Mbuf::from_parts(index, block, generation))
    }

    /// Adopts an entry that a dead process of this slot left (owner ADOPT), `index` from
    /// [`crate::inspect::adoptable`].
    #[must_use]
    pub fn adopt(&mut self, index: u32) -> Option<Mbuf> {
        let entry = self.memory.entries.get(index as usize)?;
        let word = entry.owner.load(Ordering::Acquire);
        if !matches!(Owner::from_word(word), Owner::Adopt { slot, .. } if slot == self.slot) {
            return None;
        }
        let taken =
            entry.owner.compare_exchange(word, self.tag, Ordering::AcqRel, Ordering::Relaxed);
        taken.ok().and_then(|_| self.reclaim(index))
    }
}

/// Claims a free entry under an open journal; false (journal closed) when somebody was faster.
#[inline]
fn claim(journal: &Journal, tag: u64, record: &Record, entry: &Entry) -> bool {
    journal::open(journal, record);
    // SYNC: acquire, pairs with the owner store in `free_one`.
    let free =
        entry.owner.compare_exchange(Owner::FREE_WORD, tag, Ordering::AcqRel, Ordering::Relaxed);
    kill_point!("claimed");
    if free.is_err() {
        journal::close(journal);
    }
    free.is_ok()
}

/// One reference less; `word` is the count as loaded while the caller still held its entry.
#[inline]
fn drop_reference(count: &AtomicU64, word: u64) {
    if references(word) == 1 {
        // The caller's entry was the only one: nobody else can raise the count, so a store will do.
        count.store(word - 1, Ordering::Release);
    } else if references(word) > 1 {
        // SYNC: release + acquire: the last holder's store follows every other holder's reads.
        count.fetch_sub(1, Ordering::AcqRel);
    }
}
