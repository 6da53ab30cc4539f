//! Memory group: format a new control segment, attach to one, and read what is in it.
//!
//! *Creator*: maps an empty segment of [`Layout::control_len`] bytes, calls [`format`], seals the
//! sizes and shares the descriptors. *Everybody*: maps it and calls [`Group::attach`], which trusts
//! nothing: the header is copied once and checked, the layout recomputed and compared by hash, the
//! tables checked.
//!
//! | killed while | state seen | repaired by |
//! |---|---|---|
//! | formatting | nobody has the descriptor yet | the kernel |
//! | attaching | nothing was written | nobody needs to |

#![allow(unsafe_code, reason = "attach reads the header of a mapping")]

use core::ptr::NonNull;

use crate::abi::ABI_VERSION;
use crate::abi::control::{BlockDesc, Header, MAGIC, PoolDesc, SLOTS_MAX, SlotDesc};
use crate::error::AttachError;
use crate::layout::{ConfigError, Counts, GroupConfig, Layout, block_stride, partition_len};
use crate::owner::{SlotId, WaiterId};
use crate::primitive::Ordering;
use crate::region::Memory;

/// Most size classes of one partition.
pub const POOLS_MAX: usize = 8;

/// A group as one process sees it. `Copy`: a view, not a right.
#[derive(Clone, Copy, Debug)]
pub struct Group<'g> {
    /// The typed memory.
    pub memory: Memory<'g>,
}

/// The read-only tables of a group.
#[cfg(any(loom, test))]
#[derive(Debug, Default)]
#[allow(missing_docs, reason = "test support")]
pub struct Tables {
    pub slots: std::vec::Vec<SlotDesc>,
    pub pools: std::vec::Vec<PoolDesc>,
    pub blocks: std::vec::Vec<BlockDesc>,
}
#[cfg(any(loom, test))]
extern crate std;

/// Calls the three functions with every row of the tables of `config`, in order.
fn tables(
    config: &GroupConfig<'_>,
    mut slot_row: impl FnMut(SlotDesc),
    mut pool_row: impl FnMut(PoolDesc),
    mut block_row: impl FnMut(BlockDesc),
) {
    let (mut first_pool, mut entry, mut partition_offset) = (0u32, 0u32, 0u64);
    for (slot, partition) in (0u32..).zip(config.partitions) {
        let first_entry = entry;
        let mut offset = partition_offset;
        for pool in partition.pools {
            pool_row(PoolDesc {
                first_block: entry,
                block_count: pool.block_count,
                block_size: pool.block_size,
            });
            for _ in 0..pool.block_count {
                block_row(BlockDesc { offset, size: pool.block_size, slot, reserved: 0 });
                offset += block_stride(pool.block_size);
            }
            entry += pool.block_count;
        }
        let pool_count = u32::try_from(partition.pools.len()).unwrap_or(0);
        slot_row(SlotDesc {
            first_pool,
            pool_count,
            first_entry,
            block_count: entry - first_entry,
            extra_count: partition.extra_entries,
            reserved: 0,
            partition_offset,
            partition_len: partition_len(partition),
        });
        for _ in 0..partition.extra_entries {
            block_row(BlockDesc { offset: 0, size: 0, slot, reserved: 0 });
        }
        entry += partition.extra_entries;
        first_pool += pool_count;
        partition_offset += partition_len(partition);
    }
}

/// Writes header and tables into `control`, which must be zeroed memory of exactly
/// [`Layout::control_len`] bytes that nobody shares yet.
///
/// # Errors
/// [`ConfigError`] for impossible numbers; `TotalSize` when `control` has another length.
pub fn format(control: &mut [u8], config: &GroupConfig<'_>) -> Result<Layout, ConfigError> {
    let layout = Layout::compute(config)?;
    if control.len() as u64 != layout.control_len {
        return Err(ConfigError::TotalSize(control.len() as u64));
    }
    let split = |at: u64| usize::try_from(at).unwrap_or(0);
    let (head, rest) = control.split_at_mut(split(layout.slot_descs));
    let (slots, rest) = rest.split_at_mut(split(layout.pool_descs - layout.slot_descs));
    let (pools, rest) = rest.split_at_mut(split(layout.block_descs - layout.pool_descs));
    let mut slots = Bytes(slots);
    let mut pools = Bytes(pools);
    let mut blocks = Bytes(rest);
    tables(
        config,
        |s| {
            for word in [s.first_pool, s.pool_count, s.first_entry, s.block_count] {
                slots.put(&word.to_le_bytes());
            }
            slots.put(&s.extra_count.to_le_bytes());
            slots.put(&s.reserved.to_le_bytes());
            slots.put(&s.partition_offset.to_le_bytes());
            slots.put(&s.partition_len.to_le_bytes());
        },
        |p| {
            pools.put(&p.first_block.to_le_bytes());
            pools.put(&p.block_count.to_le_bytes());
            pools.put(&p.block_size.to_le_bytes());
        },
        |b| {
            blocks.put(&b.offset.to_le_bytes());
            blocks.put(&b.size.to_le_bytes());
            blocks.put(&b.slot.to_le_bytes());
            blocks.put(&b.reserved.to_le_bytes());
        },
    );
    write_header(&mut Bytes(head), &layout, config.name);
    Ok(layout)
}

struct Bytes<'a>(&'a mut [u8]);

impl Bytes<'_> {
    fn put(&mut self, bytes: &[u8]) {
        let all = core::mem::take(&mut self.0);
        if let Some((to, rest)) = all.split_at_mut_checked(bytes.len()) {
            to.copy_from_slice(bytes);
            self.0 = rest;
        }
    }
}

fn write_header(out: &mut Bytes<'_>, layout: &Layout, name: &str) {
    let c = &layout.counts;
    out.put(&MAGIC.to_le_bytes());
    out.put(&ABI_VERSION.to_le_bytes());
    out.put(&u32::try_from(size_of::<Header>()).unwrap_or(0).to_le_bytes());
    out.put(&layout.hash().to_le_bytes());
    out.put(&layout.control_len.to_le_bytes());
    out.put(&layout.arena_len.to_le_bytes());
    for n in [c.slots, c.workers, c.lanes, c.heads, c.ring_words, c.queues, c.entries, c.pools] {
        out.put(&n.to_le_bytes());
    }
    out.put(name.as_bytes());
}

/// Checks a header that was copied out of a segment of `len` bytes.
///
/// # Errors
/// [`AttachError`] says what is wrong.
pub fn check_header(header: &Header, len: u64) -> Result<Layout, AttachError> {
    if header.magic != MAGIC {
        return Err(AttachError::BadMagic);
    }
    if header.abi_version != ABI_VERSION || header.header_size as usize != size_of::<Header>() {
        return Err(AttachError::Version);
    }
    let counts = Counts {
        slots: header.slots,
        workers: header.workers,
        lanes: header.lanes,
        heads: header.heads,
        ring_words: header.ring_words,
        queues: header.queues,
        entries: header.entries,
        pools: header.pools,
    };
    let limits = [
        (counts.slots, SLOTS_MAX),
        (counts.workers, 256),
        (counts.lanes, 4096),
        (counts.heads, 65_536),
        (counts.ring_words, 1 << 20),
        (counts.queues, 8192),
        (counts.entries, (1 << 24) - 1),
        (counts.pools, 4096),
    ];
    if counts.slots == 0 || limits.iter().any(|(n, max)| n > max) {
        return Err(AttachError::Layout);
    }
    let layout = Layout::from_counts(counts, header.arena_len);
    if layout.hash() != header.layout_hash || layout.control_len != header.control_len {
        return Err(AttachError::Layout);
    }
    if len < layout.control_len {
        return Err(AttachError::Truncated);
    }
    Ok(layout)
}

/// True when `offset + len` is a number and at most `end`.
#[cfg(not(loom))]
fn ends_by(offset: u64, len: u64, end: u64) -> bool {
    offset.checked_add(len).is_some_and(|last| last <= end)
}

impl<'g> Group<'g> {
    /// Attaches to a mapped control segment of `control_len` bytes and its arena of `arena_len`
    /// bytes.
    ///
    /// # Errors
    /// [`AttachError`]: truncated, garbage, another version, other sizes, or tables out of range.
    ///
    /// # Safety
    /// - both ranges are mapped readable for `'g`, page-aligned, and shared memory;
    /// - the header section is not written by anybody any more;
    /// - a worker is only made for a slot whose private part (and the shared section) is mapped
    ///   writable.
    #[cfg(not(loom))]
    pub unsafe fn attach(
        control: NonNull<u8>,
        control_len: u64,
        arena: NonNull<u8>,
        arena_len: u64,
    ) -> Result<Group<'g>, AttachError> {
        if control_len < size_of::<Header>() as u64 {
            return Err(AttachError::Truncated);
        }
        // SAFETY: mapped readable and page-aligned (the caller's promise), long enough (checked).
        let header = unsafe { control.cast::<Header>().read_volatile() };
        let layout = check_header(&header, control_len)?;
        if arena_len < layout.arena_len {
            return Err(AttachError::Truncated);
        }
        // SAFETY: the layout fits the mapping (checked above); the rest is the caller's promise; R3
        // follows.
        let memory = unsafe { Memory::view(control, layout, arena) };
        let group = Group { memory };
        if group.tables_are_sound() { Ok(group) } else { Err(AttachError::Layout) }
    }

    /// A group of a model run; nothing is shared with anybody.
    #[cfg(loom)]
    #[must_use]
    pub fn modelled(config: &GroupConfig<'_>) -> Group<'static> {
        let layout = Layout::compute(config).expect("a model's config is sound");
        let mut all = Tables::default();
        tables(config, |s| all.slots.push(s), |p| all.pools.push(p), |b| all.blocks.push(b));
        let _ = NonNull::<u8>::dangling();
        Group { memory: Memory::modelled(layout, &all) }
    }

    #[cfg(not(loom))]
    fn tables_are_sound(&self) -> bool {
        let m = &self.memory;
        let (mut pool, mut entry) = (0u64, 0u64);
        let slots = m.slot_descs.iter().all(|s| {
            let sound = u64::from(s.first_pool) == pool
                && u64::from(s.first_entry) == entry
                && s.pool_count as usize <= POOLS_MAX
                && ends_by(s.partition_offset, s.partition_len, m.layout.arena_len);
            pool += u64::from(s.pool_count);
            entry += u64::from(s.block_count) + u64::from(s.extra_count);
            sound
        });
        let c = &m.layout.counts;
        let sums = pool == u64::from(c.pools) && entry == u64::from(c.entries);
        slots && sums && m.blocks.iter().all(|b| self.block_is_sound(b)) && self.pools_are_sound()
    }

    #[cfg(not(loom))]
    fn block_is_sound(&self, block: &BlockDesc) -> bool {
        let Some(slot) = self.memory.slot_descs.get(block.slot as usize) else { return false };
        let partition_end = slot.partition_offset.saturating_add(slot.partition_len);
        block.size == 0
            || (block.offset >= slot.partition_offset
                && ends_by(block.offset, block.size, partition_end))
    }

    #[cfg(not(loom))]
    fn pools_are_sound(&self) -> bool {
        let m = &self.memory;
        (0u32..).zip(m.slot_descs).all(|(slot, s)| {
            let first = s.first_pool as usize;
            let Some(pools) = m.pools.get(first..first + s.pool_count as usize) else {
                return false;
            };
            let mut block = u64::from(s.first_entry);
            let sound = pools.iter().all(|p| {
                let sound = u64::from(p.first_block) == block && self.has_blocks(slot, p);
                block += u64::from(p.block_count);
                sound
            });
            sound && block == u64::from(s.first_entry) + u64::from(s.block_count)
        })
    }

    /// Every block of a pool is there: who allocates one relies on its size.
    #[cfg(not(loom))]
    fn has_blocks(&self, slot: u32, pool: &PoolDesc) -> bool {
        let (first, count) = (pool.first_block as usize, pool.block_count as usize);
        let blocks = first.checked_add(count).and_then(|end| self.memory.blocks.get(first..end));
        let sound = |b: &BlockDesc| b.slot == slot && b.size == pool.block_size && b.size != 0;
        blocks.is_some_and(|blocks| blocks.iter().all(sound))
    }

    /// The group's name.
    #[must_use]
    pub fn slot_count(&self) -> u32 {
        self.memory.layout.counts.slots
    }

    /// Generation of the process in `slot`, as the supervisor counts it.
    #[must_use]
    pub fn generation(&self, slot: SlotId) -> u32 {
        self.memory
            .slot_status
            .get(slot.0 as usize)
            .map_or(0, |status| status.generation.load(Ordering::Acquire))
    }

    /// The waiter number `index` of `slot`.
    #[must_use]
    pub fn waiter_id(&self, slot: SlotId, index: u32) -> WaiterId {
        WaiterId(slot.0 * crate::abi::control::WAITERS + index)
    }
}
