//! Sweep: what the supervisor does to the memory group after a process was reaped.
//!
//! Only the supervisor sweeps, one slot at a time, after the slot's process (all its threads) is
//! gone and before a successor starts. Live peers go on meanwhile. Steps:
//! 0. queues whose end the process began: their generation ends;
//! 1. every worker's journal of the slot: repair or finish the one operation it names (table in
//!    [`crate::journal`]); its block becomes *suspect*;
//! 2. locks tagged with the slot are broken; lane tails are recomputed from the turn bits;
//! 3. every entry tagged with the slot's workers: an input that the process had not answered is
//!    left for the successor (ADOPT) or, without one, freed; everything else is freed, its block
//!    suspect;
//! 4. members of chains whose head is gone are freed, and entries in a queue's life that is over;
//!    then the indices of queues that the process was making or ending are free (L3);
//! 5. suspects: a block that no live journal names gets the number of its entries as its count; the
//!    others are looked at again after each later sweep and by [`Sweeper::recheck`].
//!
//! S1 An entry is touched only if tagged with the dead slot, named in its journal, or chained to a
//! dead head. S2 A block's count is changed only by compare-exchange from a value read before the
//! entries were scanned, and only while no journal names the block before and after the scan;
//! every change of the references changes the word, so a live `copy_ref` or `free` makes the
//! exchange fail. S3 The sweep may itself be repeated from the start: each step is idempotent.
//! Killed within: the group ends with its supervisor, so nobody repeats it but the same one.

use crate::abi::control::{Entry, MAX_CHAIN, QueueCtl};
use crate::group::Group;
use crate::journal::{self, Op, Record};
use crate::mbuf::HeadWords;
use crate::owner::{Owner, SlotId};
use crate::pool::{NO_BLOCK, references};
use crate::primitive::{Ordering, fence};
use crate::queue::{advance, distance, ring_word, state, turn};
use crate::region::{Memory, PrivatePart};

/// What becomes of inputs that the dead process had taken and not answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inputs {
    /// A successor starts in the same slot and adopts them.
    Adopt,
    /// There is no successor: they are freed.
    Free,
}

/// What a sweep did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Swept {
    /// Entries freed.
    pub freed: u32,
    /// Entries left for the successor.
    pub adopted: u32,
    /// Operations that were not committed and were undone.
    pub undone: u32,
    /// Operations that were committed and were finished.
    pub finished: u32,
    /// Locks broken.
    pub locks: u32,
    /// Blocks whose count was repaired.
    pub blocks: u32,
    /// Blocks still suspect.
    pub suspects: u32,
}

/// The supervisor's sweeper. `suspects` is a bit set over all entries, caller's memory.
#[derive(Debug)]
pub struct Sweeper<'g, 's> {
    memory: Memory<'g>,
    suspects: &'s mut [u64],
}

/// Words of a suspect set for a group.
#[must_use]
pub fn suspect_words(group: &Group<'_>) -> usize {
    (group.memory.layout.counts.entries as usize).div_ceil(64)
}

impl<'g, 's> Sweeper<'g, 's> {
    /// A sweeper; `suspects` has at least [`suspect_words`] words, zeroed before its first use.
    pub fn new(group: &Group<'g>, suspects: &'s mut [u64]) -> Self {
        Sweeper { memory: group.memory, suspects }
    }

    /// Sweeps `slot`, whose process was reaped.
    pub fn sweep(&mut self, slot: SlotId, inputs: Inputs) -> Swept {
        let mut swept = Swept::default();
        let Some(part) = self.memory.private(slot.0) else { return swept };
        // SYNC: SeqCst fence, pairs with `Memory::end_life`: a live drain saw what the dead process
        // stored, or we see that the queue is gone.
        fence(Ordering::SeqCst);
        // Before the locks are broken: a dequeue looks at the generation under the lock.
        self.end_lives(slot);
        for journal in part.journals {
            if let Some(record) = journal::read(journal) {
                self.repair(slot, &part, &record, &mut swept);
                journal.operation.store(0, Ordering::Release);
            }
        }
        self.break_locks(slot, &mut swept);
        self.recompute_tails(slot);
        self.free_tagged(slot, &part, inputs, &mut swept);
        self.free_orphans(slot, &mut swept);
        self.free_stranded(slot, &mut swept);
        self.free_indices(slot, &mut swept);
        self.recheck(&mut swept);
        swept
    }

    /// Queues that the dead process was making or ending, with their state.
    fn unfinished(&self, slot: SlotId) -> impl Iterator<Item = (u32, &'g QueueCtl, u32)> + use<'g> {
        (0u32..).zip(self.memory.queues).filter_map(move |(index, ctl)| {
            let word = ctl.state.load(Ordering::Acquire);
            (state::slot(word) == Some(slot.0)).then_some((index, ctl, word))
        })
    }

    /// The process may have died before it ended the generation; a second end does no harm.
    fn end_lives(&self, slot: SlotId) {
        for (index, ctl, word) in self.unfinished(slot) {
            if state::kind(word) == state::DESTROYED {
                self.memory.end_life(ctl, index);
            }
        }
    }

    /// Last, so that a repeated sweep does it all again (S3).
    fn free_indices(&self, slot: SlotId, swept: &mut Swept) {
        for (_, ctl, word) in self.unfinished(slot) {
            ctl.state.swap(state::FREE, Ordering::AcqRel);
            if state::kind(word) == state::DESTROYED {
                swept.finished += 1;
            } else {
                swept.undone += 1;
            }
        }
    }

    /// Entries in a queue's life that is over: the drain did not see them, and whoever would take
    /// them back is dead. A live drain or producer may be at it: who exchanges the word has it.
    fn free_stranded(&mut self, slot: SlotId, swept: &mut Swept) {
        for (index, entry) in (0u32..).zip(self.memory.entries) {
            let word = entry.owner.load(Ordering::Acquire);
            let Owner::Queue { queue, generation, .. } = Owner::from_word(word) else { continue };
            let life = self.memory.queues.get(queue as usize);
            let life = life.map(|ctl| ctl.generation.load(Ordering::Acquire));
            if life != Some(generation) {
                self.release_if(slot, (index, entry), word, swept);
            }
        }
    }

    /// Frees an entry unless its owner word changed meanwhile: a live peer may have it, and the
    /// entry begun another life (S1).
    fn release_if(
        &mut self,
        slot: SlotId,
        (index, entry): (u32, &Entry),
        word: u64,
        swept: &mut Swept,
    ) {
        // Tagged as the dead's: a repeated sweep finds it (S3).
        let dead = Owner::Worker { slot: slot.0, worker: 0, generation: 0 }.word();
        let taken = entry.owner.compare_exchange(word, dead, Ordering::AcqRel, Ordering::Relaxed);
        if taken.is_ok() {
            self.release(index, entry, swept);
        }
    }

    fn suspect(&mut self, block: u32) {
        if let Some(word) = self.suspects.get_mut(block as usize / 64) {
            *word |= 1 << (block % 64);
        }
    }

    fn repair(&mut self, slot: SlotId, part: &PrivatePart<'g>, record: &Record, swept: &mut Swept) {
        match record.op {
            Op::Enqueue => self.repair_enqueue(slot, part, record, swept),
            Op::Dequeue => self.repair_dequeue(slot, record, swept),
            Op::Alloc | Op::Copy => {
                self.suspect(record.block);
                swept.undone += 1;
            }
            Op::Free => self.repair_free(slot, record, swept),
            Op::Chain => self.repair_chain(slot, record, swept),
        }
    }

    /// An entry that lost its block already can't be anything but free.
    fn repair_free(&mut self, slot: SlotId, record: &Record, swept: &mut Swept) {
        self.suspect(record.block);
        let Some(entry) = self.memory.entries.get(record.entry as usize) else { return };
        let owner = Owner::from_word(entry.owner.load(Ordering::Acquire));
        let dying = is_worker_of(entry, slot) || matches!(owner, Owner::Chained { .. });
        if dying && entry.block() == NO_BLOCK {
            self.release(record.entry, entry, swept);
            swept.finished += 1;
        } else {
            swept.undone += 1;
        }
    }

    /// Members that can be reached from `head`.
    fn links(&self, head: u32) -> impl Iterator<Item = u32> + use<'g> {
        let entries = self.memory.entries;
        let after = move |at: u32| {
            entries.get(at as usize)?.chain_next.load(Ordering::Acquire).checked_sub(1)
        };
        core::iter::successors(after(head), move |at| after(*at)).take(MAX_CHAIN as usize - 1)
    }

    /// A member that was linked stays: tail and length are finished. One that was only tagged goes
    /// back to the worker.
    fn repair_chain(&mut self, slot: SlotId, record: &Record, swept: &mut Swept) {
        let entries = self.memory.entries;
        let (Some(member), Some(head)) =
            (entries.get(record.entry as usize), entries.get(record.block as usize))
        else {
            return;
        };
        let generation = head.generation.load(Ordering::Acquire);
        let chained = Owner::Chained { head: record.block, generation };
        if member.owner.load(Ordering::Acquire) != chained.word() || !is_worker_of(head, slot) {
            return;
        }
        if self.links(record.block).any(|link| link == record.entry) {
            head.chain_tail.store(record.entry + 1, Ordering::Relaxed);
            let length = u32::try_from(self.links(record.block).count()).unwrap_or(0);
            head.set_marks(head.marks().with_chained(length));
            swept.finished += 1;
        } else {
            let dead = Owner::Worker { slot: slot.0, worker: 0, generation: 0 };
            member.owner.store(dead.word(), Ordering::Release);
            swept.undone += 1;
        }
    }

    fn repair_enqueue(
        &mut self,
        slot: SlotId,
        part: &PrivatePart<'g>,
        record: &Record,
        swept: &mut Swept,
    ) {
        let memory = self.memory;
        let (Some(ctl), Some(entry)) =
            (memory.queues.get(record.queue as usize), memory.entries.get(record.entry as usize))
        else {
            return;
        };
        let Some(depth) = ctl.sound_depth().filter(|depth| record.position < 2 * depth) else {
            return;
        };
        let place = ctl.lane_places().find(|(index, p)| *index == record.lane && p.slot == slot.0);
        let Some((lane, ring)) = place.and_then(|(_, p)| memory.lane_parts(p, depth)) else {
            return;
        };
        let life = ctl.generation.load(Ordering::Acquire);
        if lane.generation.load(Ordering::Acquire) != life {
            // The queue is gone: its entries are freed where they are found.
            swept.undone += 1;
            return;
        }
        let at = record.position % depth;
        let found = ring.get(at as usize).map_or(0, |word| word.load(Ordering::Acquire));
        // The generation part is compared too, but the entry may have lived on since: take it from
        // the word.
        let generation = crate::queue::ring_parts(found).2;
        let wanted =
            ring_word(record.entry, record.block, generation, turn(record.position, depth));
        if found == wanted {
            let next = advance(record.position, depth);
            lane.tail.store(next, Ordering::Release);
            if let Some(out) = record.out.checked_sub(1).filter(|out| *out < 64) {
                part.ctl.committed.fetch_or(1 << out, Ordering::AcqRel);
            }
            swept.finished += 1;
        } else {
            let queued =
                Owner::Queue { queue: record.queue, lane: record.lane, generation: life }.word();
            let dead = Owner::Worker { slot: slot.0, worker: 0, generation: 0 }.word();
            // A live peer may end the queue right now, and find the entry by an older ring word.
            let _ = entry.owner.compare_exchange(queued, dead, Ordering::AcqRel, Ordering::Relaxed);
            swept.undone += 1;
        }
    }

    fn repair_dequeue(&mut self, slot: SlotId, record: &Record, swept: &mut Swept) {
        let memory = self.memory;
        let (Some(ctl), Some(entry)) =
            (memory.queues.get(record.queue as usize), memory.entries.get(record.entry as usize))
        else {
            return;
        };
        let ending = ctl.state.load(Ordering::Acquire);
        if state::kind(ending) == state::DESTROYED && state::slot(ending) == Some(slot.0) {
            // Taken by the drain of an ended queue: no input, whatever an earlier mark says.
            if is_worker_of(entry, slot) {
                entry.set_marks(entry.marks().with_port(None));
            }
            swept.finished += 1;
            return;
        }
        let Some(depth) = ctl.sound_depth() else { return };
        let generation = ctl.generation.load(Ordering::Acquire);
        let Some(cell) = memory.head_cell(ctl, record.lane) else { return };
        if cell.load(generation, depth) == record.position {
            if is_worker_of(entry, slot) {
                let queued = Owner::Queue { queue: record.queue, lane: record.lane, generation };
                entry.owner.store(queued.word(), Ordering::Release);
            }
            swept.undone += 1;
        } else {
            swept.finished += 1;
        }
    }

    fn break_locks(&self, slot: SlotId, swept: &mut Swept) {
        let queues = self.memory.queues.iter().map(|ctl| &ctl.lock);
        let lanes = self.memory.slot_shared.iter().map(|shared| &shared.lane_lock);
        for lock in queues.chain(lanes) {
            let held = Owner::from_word(lock.load(Ordering::Acquire));
            if matches!(held, Owner::Worker { slot: s, .. } if s == slot.0) {
                // SYNC: release: what the sweep repaired is seen by the next holder.
                lock.store(0, Ordering::Release);
                swept.locks += 1;
            }
        }
    }

    /// `tail` is a hint: walk on while the ring word at `tail` carries its turn and names a queued
    /// entry.
    fn recompute_tails(&self, slot: SlotId) {
        for ctl in self.memory.queues {
            let Some(depth) = ctl.sound_depth() else { continue };
            let generation = ctl.generation.load(Ordering::Acquire);
            for (index, place) in ctl.lane_places().filter(|(_, p)| p.slot == slot.0) {
                let (Some((lane, ring)), Some(cell)) =
                    (self.memory.lane_parts(place, depth), self.memory.head_cell(ctl, index))
                else {
                    continue;
                };
                if lane.generation.load(Ordering::Acquire) != generation {
                    continue;
                }
                let head = cell.load(generation, depth);
                let mut tail = lane.tail.load(Ordering::Acquire) % (2 * depth);
                while distance(head, tail, depth) < depth {
                    let at = tail % depth;
                    let word = ring.get(at as usize).map_or(0, |w| w.load(Ordering::Acquire));
                    if word & crate::queue::TURN != turn(tail, depth) {
                        break;
                    }
                    tail = advance(tail, depth);
                }
                lane.tail.store(tail, Ordering::Release);
            }
        }
    }

    fn free_tagged(
        &mut self,
        slot: SlotId,
        part: &PrivatePart<'g>,
        inputs: Inputs,
        swept: &mut Swept,
    ) {
        let done = part.ctl.set_done.load(Ordering::Acquire);
        for (index, entry) in (0u32..).zip(self.memory.entries) {
            let word = entry.owner.load(Ordering::Acquire);
            let generation = match Owner::from_word(word) {
                Owner::Worker { slot: s, generation, .. } if s == slot.0 => generation,
                Owner::Adopt { slot: s, generation } if s == slot.0 => generation,
                _ => continue,
            };
            let unanswered =
                entry.marks().port().is_some() && entry.set.load(Ordering::Relaxed) > done;
            if unanswered && inputs == Inputs::Adopt {
                let adopt = Owner::Adopt { slot: slot.0, generation };
                entry.owner.store(adopt.word(), Ordering::Release);
                swept.adopted += 1;
            } else {
                self.release(index, entry, swept);
            }
        }
    }

    fn release(&mut self, index: u32, entry: &Entry, swept: &mut Swept) {
        self.suspect(entry.block());
        entry.set_block(NO_BLOCK);
        entry.owner.store(Owner::FREE_WORD, Ordering::Release);
        // A primary entry that never got its count still has its own block: look at that too.
        self.suspect(index);
        swept.freed += 1;
    }

    /// Members of a chain whose head is free or has begun another life.
    fn free_orphans(&mut self, slot: SlotId, swept: &mut Swept) {
        for (index, entry) in (0u32..).zip(self.memory.entries) {
            let word = entry.owner.load(Ordering::Acquire);
            let Owner::Chained { head, generation } = Owner::from_word(word) else { continue };
            let orphan = self.memory.entries.get(head as usize).is_none_or(|head_entry| {
                let owner = head_entry.owner.load(Ordering::Acquire);
                // The dead process may have unlinked a member and not freed it yet.
                let left =
                    matches!(Owner::from_word(owner), Owner::Adopt { slot: s, .. } if s == slot.0);
                owner == Owner::FREE_WORD
                    || head_entry.generation.load(Ordering::Acquire) != generation
                    || (left && self.links(head).all(|member| member != index))
            });
            if orphan {
                self.release_if(slot, (index, entry), word, swept);
            }
        }
    }

    /// Looks at every suspect again; repaired ones leave the set. Call it now and then while
    /// [`Swept::suspects`] is not 0.
    pub fn recheck(&mut self, swept: &mut Swept) {
        swept.suspects = 0;
        for index in 0..self.suspects.len() {
            let mut bits = self.suspects.get(index).copied().unwrap_or(0);
            while bits != 0 {
                let bit = bits.trailing_zeros();
                bits &= bits - 1;
                let block = u32::try_from(index * 64).unwrap_or(u32::MAX) + bit;
                let cleared = match self.repair_block(block) {
                    Some(repaired) => {
                        swept.blocks += u32::from(repaired);
                        true
                    }
                    None => false,
                };
                if cleared && let Some(word) = self.suspects.get_mut(index) {
                    *word &= !(1 << bit);
                }
                swept.suspects += u32::from(!cleared);
            }
        }
    }

    /// `Some(repaired)` when the block's count is now known to be the number of its entries, `None`
    /// to look again later (S2).
    fn repair_block(&self, block: u32) -> Option<bool> {
        let memory = &self.memory;
        let Some(primary) = memory.entries.get(block as usize) else { return Some(false) };
        if memory.block_span(block).is_none() {
            return Some(false);
        }
        let word = primary.count.load(Ordering::Acquire);
        // SYNC: SeqCst fence, pairs with the one in `free_one`: entries and journals are read after
        // `word`.
        fence(Ordering::SeqCst);
        if self.named_by_journal(block) {
            return None;
        }
        let live =
            |e: &&Entry| e.block() == block && e.owner.load(Ordering::Acquire) != Owner::FREE_WORD;
        let entries = memory.entries.iter().filter(live).count() as u64;
        // A copy that counted before `word` was read was named then, or is among the entries; a
        // free that the scan saw is named now, or has changed the word.
        if self.named_by_journal(block) || entries > references(word) {
            return None;
        }
        let right = (word & !0xFFFF_FFFF) | entries;
        if word == right {
            return (primary.count.load(Ordering::Acquire) == word).then_some(false);
        }
        let exchanged =
            primary.count.compare_exchange(word, right, Ordering::AcqRel, Ordering::Relaxed);
        exchanged.ok().map(|_| true)
    }

    fn named_by_journal(&self, block: u32) -> bool {
        let slots = self.memory.layout.counts.slots;
        (0..slots).filter_map(|slot| self.memory.private(slot)).any(|part| {
            part.journals.iter().filter_map(journal::read).any(|record| {
                matches!(record.op, Op::Alloc | Op::Copy | Op::Free) && record.block == block
            })
        })
    }
}

fn is_worker_of(entry: &Entry, slot: SlotId) -> bool {
    let owner = Owner::from_word(entry.owner.load(Ordering::Acquire));
    matches!(owner, Owner::Worker { slot: s, .. } if s == slot.0)
}
