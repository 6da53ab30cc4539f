//! The control segment and the arena as typed references: the one place that turns bytes into
//! words.
//!
//! A [`Memory`] is `Copy` and hands out references to atomics, which are sound over memory that
//! other processes write. It never hands out `&T` to plain bytes a peer may write; payload leaves
//! as `(pointer, length)` that was checked against the read-only block table.
//!
//! Under `cfg(loom)` the same accessors run over a leaked heap structure, so that the models
//! execute the very code of the product.
//!
//! Invariants: R1 every table lies inside the segment (checked once, in `attach`). R2 header,
//! tables and counts were written before the segment was shared and are mapped read-only. R3
//! `BlockDesc` names bytes inside the arena (checked once, in `attach`).
#![allow(unsafe_code, reason = "turns mapped bytes into references; see R1 to R3")]

use core::ptr::NonNull;

use crate::abi::control::{
    BlockDesc, Entry, HeadCtl, Journal, LaneCtl, PoolDesc, QueueCtl, SlotCtl, SlotDesc, SlotShared,
    SlotStatus, StatusCtl, WaiterCtl,
};
use crate::abi::head::MSG_INFO_OFFSET;
use crate::layout::Layout;
use crate::primitive::AtomicU64;
use crate::queue::ring_parts;

/// A partition's bytes of one block: start and length. Checked against the arena at attach.
#[derive(Clone, Copy, Debug)]
pub struct BlockSpan {
    /// First byte.
    pub pointer: NonNull<u8>,
    /// Bytes.
    pub len: u64,
}

/// Typed view of a group's memory. Lives as long as the mapping, `'g`.
#[derive(Clone, Copy)]
pub struct Memory<'g> {
    /// The layout that was checked at attach.
    pub layout: Layout,
    /// Partitions, one a slot.
    pub slot_descs: &'g [SlotDesc],
    /// Size classes.
    pub pools: &'g [PoolDesc],
    /// Blocks, one an entry.
    pub blocks: &'g [BlockDesc],
    /// Words of the supervisor.
    pub status: &'g StatusCtl,
    /// Words of the supervisor, one a slot.
    pub slot_status: &'g [SlotStatus],
    /// Queues.
    pub queues: &'g [QueueCtl],
    /// Waiters, [`crate::abi::control::WAITERS`] a slot.
    pub waiters: &'g [WaiterCtl],
    /// Shared words, one a slot.
    pub slot_shared: &'g [SlotShared],
    /// Mbuf entries.
    pub entries: &'g [Entry],
    private: Private<'g>,
    arena: Arena,
}

/// The private part of one slot: only that slot writes it.
#[derive(Clone, Copy, Debug)]
pub struct PrivatePart<'g> {
    /// What the process says of itself.
    pub ctl: &'g SlotCtl,
    /// One a worker.
    pub journals: &'g [Journal],
    /// Producer ends.
    pub lanes: &'g [LaneCtl],
    /// Consumer ends.
    pub heads: &'g [HeadCtl],
    /// Ring words of all lanes.
    pub ring: &'g [AtomicU64],
}

#[derive(Clone, Copy)]
struct Arena {
    base: NonNull<u8>,
    len: u64,
}

// SAFETY: the pointer is only handed out as a checked span; the mapping outlives 'g and is shared
// memory.
unsafe impl Send for Memory<'_> {}
// SAFETY: all references inside are to atomics or to memory that nobody writes (R2).
unsafe impl Sync for Memory<'_> {}

impl core::fmt::Debug for Memory<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Memory").field("layout", &self.layout).finish_non_exhaustive()
    }
}

#[cfg(not(loom))]
#[derive(Clone, Copy)]
struct Private<'g> {
    base: NonNull<u8>,
    _lives: core::marker::PhantomData<&'g AtomicU64>,
}

#[cfg(loom)]
#[derive(Clone, Copy)]
struct Private<'g> {
    parts: &'g [PrivatePart<'g>],
}

impl<'g> Memory<'g> {
    /// The private part of `slot`, or `None` when there is no such slot.
    #[must_use]
    pub fn private(&self, slot: u32) -> Option<PrivatePart<'g>> {
        if slot >= self.layout.counts.slots {
            return None;
        }
        self.private_part(slot)
    }

    /// The bytes of block `block`, or `None` for an extra entry or an index out of range.
    #[must_use]
    pub fn block_span(&self, block: u32) -> Option<BlockSpan> {
        let desc = self.blocks.get(block as usize)?;
        if desc.size == 0 {
            return None;
        }
        let offset = usize::try_from(desc.offset).ok()?;
        debug_assert!(desc.offset + desc.size <= self.arena.len);
        // SAFETY:
        // - offset + size lies inside the arena: R3, checked at attach.
        // - the arena is one mapping that outlives 'g: promised by the caller of `view`.
        let pointer = unsafe { self.arena.base.add(offset) };
        Some(BlockSpan { pointer, len: desc.size })
    }

    /// The arena's bytes: start and length.
    #[must_use]
    pub fn arena_span(&self) -> BlockSpan {
        BlockSpan { pointer: self.arena.base, len: self.arena.len }
    }
}

/// Bytes from a block's start to the descriptor lines that a message uses, and to the payload
/// behind the descriptor (`abi::tensor`).
const MESSAGE_LINES: [usize; 4] = [0, 256, 512, 1024];

impl Memory<'_> {
    /// Brings the lines of a message in, where the CPU has an instruction for it: those of the
    /// entry that are written next, then what a reader (or with `write` a writer) of the message
    /// touches. Transfers that would follow each other then overlap (bench `hop`).
    #[inline(never)]
    pub(crate) fn prefetch_message(&self, ring: u64, write: bool) {
        let (entry, block, _) = ring_parts(ring);
        let (Some(entry), Some(span)) = (self.entries.get(entry as usize), self.block_span(block))
        else {
            return;
        };
        let info =
            entry.head.get(MSG_INFO_OFFSET / 8).map_or(core::ptr::null(), core::ptr::from_ref);
        prefetch_write(core::ptr::from_ref(&entry.owner).cast());
        let prefetch = if write { prefetch_write } else { prefetch_read };
        prefetch(info.cast());
        for offset in MESSAGE_LINES {
            prefetch(span.pointer.as_ptr().wrapping_add(offset).cast());
        }
    }
}

/// Prefetches the line at `address` for writing.
#[inline(always)]
pub(crate) fn prefetch_write(address: *const i8) {
    #[cfg(all(not(loom), target_arch = "x86_64"))]
    {
        use core::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        // SAFETY: a prefetch never faults, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_ET0>(address) }
    }
    #[cfg(any(loom, not(target_arch = "x86_64")))]
    let _ = address;
}

/// Prefetches the line at `address` for reading.
#[inline(always)]
fn prefetch_read(address: *const i8) {
    #[cfg(all(not(loom), target_arch = "x86_64"))]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch never faults, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address) }
    }
    #[cfg(any(loom, not(target_arch = "x86_64")))]
    let _ = address;
}

#[cfg(not(loom))]
mod mapped {
    use super::{
        Arena, BlockDesc, Entry, HeadCtl, Journal, LaneCtl, Layout, Memory, NonNull, PoolDesc,
        Private, PrivatePart, QueueCtl, SlotCtl, SlotDesc, SlotShared, SlotStatus, StatusCtl,
        WaiterCtl,
    };
    use crate::abi::control::WAITERS;
    use crate::primitive::AtomicU64;

    /// A table of `count` elements at `offset`.
    ///
    /// # Safety
    /// `base + offset .. + count * size_of::<T>()` is mapped readable for `'g` and aligned for `T`;
    /// `T` is atomics only, or plain data that nobody writes any more.
    unsafe fn table<'g, T>(base: NonNull<u8>, offset: u64, count: u32) -> &'g [T] {
        let offset = usize::try_from(offset).unwrap_or(0);
        // SAFETY: in bounds: the caller's promise.
        let start = unsafe { base.add(offset) }.cast::<T>();
        // SAFETY: mapped, aligned and of a type sound to share: the caller's promise.
        unsafe { core::slice::from_raw_parts(start.as_ptr(), count as usize) }
    }

    impl<'g> Memory<'g> {
        /// The view of a mapped control segment with this layout.
        ///
        /// # Safety
        /// - `base .. base + layout.control_len` is mapped readable and page-aligned for `'g`, and
        ///   readable as atomics; header and tables are not written any more.
        /// - `arena .. arena + layout.arena_len` is mapped readable for `'g`.
        /// - every `BlockDesc` was or will be checked (R3) before `block_span` is used.
        pub(crate) unsafe fn view(base: NonNull<u8>, layout: Layout, arena: NonNull<u8>) -> Self {
            let c = layout.counts;
            let status = layout.status + size_of::<StatusCtl>() as u64;
            // SAFETY: R1: the layout's offsets lie in the segment; the caller mapped it.
            let ctl: &'g [StatusCtl] = unsafe { table(base, layout.status, 1) };
            let private = usize::try_from(layout.private).unwrap_or(0);
            // SAFETY: R1.
            let private = unsafe { base.add(private) };
            Memory {
                layout,
                // SAFETY: R1, R2.
                slot_descs: unsafe { table::<SlotDesc>(base, layout.slot_descs, c.slots) },
                // SAFETY: R1, R2.
                pools: unsafe { table::<PoolDesc>(base, layout.pool_descs, c.pools) },
                // SAFETY: R1, R2.
                blocks: unsafe { table::<BlockDesc>(base, layout.block_descs, c.entries) },
                #[allow(clippy::indexing_slicing, reason = "a table of one")]
                status: &ctl[0],
                // SAFETY: R1, atomics only.
                slot_status: unsafe { table::<SlotStatus>(base, status, c.slots) },
                // SAFETY: R1, atomics only.
                queues: unsafe { table::<QueueCtl>(base, layout.shared, c.queues) },
                // SAFETY: R1, atomics only.
                waiters: unsafe { table::<WaiterCtl>(base, layout.waiters, c.slots * WAITERS) },
                // SAFETY: R1, atomics only.
                slot_shared: unsafe { table::<SlotShared>(base, layout.slot_shared, c.slots) },
                // SAFETY: R1, atomics only.
                entries: unsafe { table::<Entry>(base, layout.entries, c.entries) },
                private: Private { base: private, _lives: core::marker::PhantomData },
                arena: Arena { base: arena, len: layout.arena_len },
            }
        }

        pub(super) fn private_part(&self, slot: u32) -> Option<PrivatePart<'g>> {
            let c = &self.layout.counts;
            let start = usize::try_from(self.layout.private_stride * u64::from(slot)).ok()?;
            // SAFETY: slot < slots (checked by the caller), so the part lies in the segment (R1).
            let base = unsafe { self.private.base.add(start) };
            // SAFETY: R1, atomics only.
            let ctl: &'g [SlotCtl] = unsafe { table(base, 0, 1) };
            Some(PrivatePart {
                ctl: ctl.first()?,
                // SAFETY: R1, atomics only.
                journals: unsafe { table::<Journal>(base, Layout::journal_offset(), c.workers) },
                // SAFETY: R1, atomics only.
                lanes: unsafe { table::<LaneCtl>(base, Layout::lane_offset(c), c.lanes) },
                // SAFETY: R1, atomics only.
                heads: unsafe { table::<HeadCtl>(base, Layout::head_offset(c), c.heads) },
                // SAFETY: R1, atomics only.
                ring: unsafe { table::<AtomicU64>(base, Layout::ring_offset(c), c.ring_words) },
            })
        }
    }
}

#[cfg(loom)]
mod modelled {
    #![allow(clippy::std_instead_of_core, clippy::indexing_slicing, reason = "models only")]
    extern crate std;

    use super::{Arena, Layout, Memory, NonNull, Private, PrivatePart};
    use crate::abi::control::WAITERS;
    use std::any::Any;
    use std::boxed::Box;
    use std::cell::RefCell;
    use std::vec::Vec;

    std::thread_local! {
        /// What the present execution of this thread's model works on; freed when the next begins.
        static KEPT: RefCell<Vec<Box<dyn Any>>> = const { RefCell::new(Vec::new()) };
    }

    fn keep<T: 'static>(rows: Vec<T>) -> &'static [T] {
        let rows = rows.into_boxed_slice();
        let slice: *const [T] = &raw const *rows;
        KEPT.with(|kept| kept.borrow_mut().push(Box::new(rows)));
        // SAFETY: the box is freed by the next `modelled` on this OS thread, when the execution
        // that uses this reference is over (loom runs all threads of a model on one OS
        // thread).
        unsafe { &*slice }
    }

    fn leak<T: Default + 'static>(count: u32) -> &'static [T] {
        keep((0..count).map(|_| T::default()).collect())
    }

    impl Memory<'static> {
        /// A group's memory out of loom objects that live until the next call on this OS thread.
        #[must_use]
        pub fn modelled(layout: Layout, tables: &crate::group::Tables) -> Self {
            KEPT.with(|kept| kept.borrow_mut().clear());
            let c = layout.counts;
            let parts: Vec<PrivatePart<'static>> = (0..c.slots)
                .map(|_| PrivatePart {
                    ctl: &leak(1)[0],
                    journals: leak(c.workers),
                    lanes: leak(c.lanes),
                    heads: leak(c.heads),
                    ring: leak(c.ring_words),
                })
                .collect();
            let arena = keep(std::vec![0u8; usize::try_from(layout.arena_len).expect("small")]);
            Memory {
                layout,
                slot_descs: keep(tables.slots.clone()),
                pools: keep(tables.pools.clone()),
                blocks: keep(tables.blocks.clone()),
                status: &leak(1)[0],
                slot_status: leak(c.slots),
                queues: leak(c.queues),
                waiters: leak(c.slots * WAITERS),
                slot_shared: leak(c.slots),
                entries: leak(c.entries),
                private: Private { parts: keep(parts) },
                arena: Arena { base: NonNull::from(arena).cast(), len: layout.arena_len },
            }
        }
    }

    impl<'g> Memory<'g> {
        pub(super) fn private_part(&self, slot: u32) -> Option<PrivatePart<'g>> {
            self.private.parts.get(slot as usize).copied()
        }
    }
}
