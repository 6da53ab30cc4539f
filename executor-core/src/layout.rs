//! Sizes and offsets of a control segment and its arena, computed from a [`GroupConfig`].
//!
//! Run-time numbers, not constants: a group is as large as its plan says. Creator and attacher
//! compute the same [`Layout`] from the same counts; [`Layout::hash`] differs whenever a count, the
//! ABI version or the size of a struct differs, and attach refuses the segment.

use crate::abi::ABI_VERSION;
use crate::abi::control::{
    BlockDesc, Entry, HeadCtl, Header, Journal, LaneCtl, MAX_SLOTS, PoolDesc, QueueCtl, SlotCtl,
    SlotDesc, SlotShared, SlotStatus, StatusCtl, WAITERS, WaiterCtl,
};
use crate::group::POOLS_MAX;

/// Page size the sections are aligned to.
pub const PAGE: u64 = 4096;
/// Readable bytes behind the last block of a partition, for vector tails.
pub const TAIL_SLACK: u64 = 64;
/// Blocks start on this boundary.
pub const BLOCK_ALIGN: u64 = 64;
/// Largest block (device-runtime §2.2: ACL limit 4 GiB).
pub const BLOCK_SIZE_MAX: u64 = 4 << 30;

/// One size class that a partition shall have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolConfig {
    /// Bytes of a block; rounded up to [`BLOCK_ALIGN`].
    pub block_size: u64,
    /// Number of blocks.
    pub block_count: u32,
}

/// The partition of one slot. Pools must be sorted by block size, smallest first.
#[derive(Clone, Copy, Debug)]
pub struct PartitionConfig<'a> {
    /// Size classes.
    pub pools: &'a [PoolConfig],
    /// Entries for `copy_ref`.
    pub extra_entries: u32,
}

/// Everything that decides the layout of a group.
#[derive(Clone, Copy, Debug)]
pub struct GroupConfig<'a> {
    /// Group name, 1..=31 bytes.
    pub name: &'a str,
    /// One partition a slot; their number is the number of slots, 1..=64.
    pub partitions: &'a [PartitionConfig<'a>],
    /// Worker journals of each slot, 1..=256.
    pub workers: u32,
    /// Producer ends of each slot.
    pub lanes: u32,
    /// Consumer ends of each slot.
    pub heads: u32,
    /// Ring words of each slot: the sum of the depths of its lanes.
    pub ring_words: u32,
    /// Queues of the group, at most 8192.
    pub queues: u32,
}

/// Why a [`GroupConfig`] has no layout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ConfigError {
    /// Name empty, with a NUL or longer than 31 bytes.
    Name,
    /// No slot or more than 64.
    Slots(usize),
    /// Workers not 1..=256, queues above 8192, more than 8 pools in a partition, or another count
    /// above 2^20.
    Count(&'static str, u32),
    /// A block size is 0, above 4 GiB, or the pools are not sorted by size.
    BlockSize(u64),
    /// Total size overflows or is above 256 GiB.
    TotalSize(u64),
}

impl core::fmt::Display for ConfigError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Name => f.write_str("group name must be 1 to 31 bytes without NUL"),
            Self::Slots(n) => write!(f, "found {n} slots, expected 1 to {MAX_SLOTS}"),
            Self::Count(what, n) => write!(f, "{what}: found {n}, out of range"),
            Self::BlockSize(n) => {
                write!(f, "block size {n}: expected 1 byte to 4 GiB, smallest class first")
            }
            Self::TotalSize(n) => write!(f, "{n} bytes in all, expected at most 256 GiB"),
        }
    }
}

impl core::error::Error for ConfigError {}

/// The counts of a group, as they stand in the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Process slots.
    pub slots: u32,
    /// Worker journals a slot.
    pub workers: u32,
    /// Producer ends a slot.
    pub lanes: u32,
    /// Consumer ends a slot.
    pub heads: u32,
    /// Ring words a slot.
    pub ring_words: u32,
    /// Queues.
    pub queues: u32,
    /// Mbuf entries.
    pub entries: u32,
    /// Size classes.
    pub pools: u32,
}

/// Offsets in the control segment, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The counts it follows from.
    pub counts: Counts,
    /// SlotDesc table.
    pub slot_descs: u64,
    /// PoolDesc table.
    pub pool_descs: u64,
    /// BlockDesc table.
    pub block_descs: u64,
    /// Status section: StatusCtl, then SlotStatus.
    pub status: u64,
    /// Shared section: queues.
    pub shared: u64,
    /// WaiterCtl table.
    pub waiters: u64,
    /// SlotShared table.
    pub slot_shared: u64,
    /// Entry table.
    pub entries: u64,
    /// First private part.
    pub private: u64,
    /// Bytes from one private part to the next.
    pub private_stride: u64,
    /// Bytes in all.
    pub control_len: u64,
    /// Bytes of the arena.
    pub arena_len: u64,
}

const fn size<T>(count: u32) -> u64 {
    size_of::<T>() as u64 * count as u64
}

const fn page_up(offset: u64) -> u64 {
    offset.next_multiple_of(PAGE)
}

impl Layout {
    /// The layout of `config`.
    ///
    /// # Errors
    /// [`ConfigError`] names the number that is out of range.
    pub fn compute(config: &GroupConfig<'_>) -> Result<Layout, ConfigError> {
        let (counts, arena_len) = count(config)?;
        Ok(Self::from_counts(counts, arena_len))
    }

    /// The layout of a group with these counts.
    #[must_use]
    pub fn from_counts(counts: Counts, arena_len: u64) -> Layout {
        let slot_descs = size_of::<Header>() as u64;
        let pool_descs = slot_descs + size::<SlotDesc>(counts.slots);
        let block_descs = pool_descs + size::<PoolDesc>(counts.pools);
        let status = page_up(block_descs + size::<BlockDesc>(counts.entries));
        let shared =
            page_up(status + size_of::<StatusCtl>() as u64 + size::<SlotStatus>(counts.slots));
        let waiters = shared + size::<QueueCtl>(counts.queues);
        let slot_shared = waiters + size::<WaiterCtl>(counts.slots) * u64::from(WAITERS);
        let entries = slot_shared + size::<SlotShared>(counts.slots);
        let private = page_up(entries + size::<Entry>(counts.entries));
        let private_stride = page_up(Self::ring_offset(&counts) + u64::from(counts.ring_words) * 8);
        Layout {
            counts,
            slot_descs,
            pool_descs,
            block_descs,
            status,
            shared,
            waiters,
            slot_shared,
            entries,
            private,
            private_stride,
            control_len: private + private_stride * u64::from(counts.slots),
            arena_len,
        }
    }

    /// Offset of the journals in a private part.
    #[must_use]
    pub const fn journal_offset() -> u64 {
        size_of::<SlotCtl>() as u64
    }

    /// Offset of the lanes in a private part.
    #[must_use]
    pub const fn lane_offset(counts: &Counts) -> u64 {
        Self::journal_offset() + size::<Journal>(counts.workers)
    }

    /// Offset of the head cells in a private part.
    #[must_use]
    pub const fn head_offset(counts: &Counts) -> u64 {
        Self::lane_offset(counts) + size::<LaneCtl>(counts.lanes)
    }

    /// Offset of the ring words in a private part.
    #[must_use]
    pub const fn ring_offset(counts: &Counts) -> u64 {
        Self::head_offset(counts) + size::<HeadCtl>(counts.heads)
    }

    /// Offset of the private part of slot `slot`.
    #[must_use]
    pub const fn private_offset(&self, slot: u32) -> u64 {
        self.private + self.private_stride * slot as u64
    }

    /// FNV-1a over ABI version, struct sizes and counts.
    #[must_use]
    pub fn hash(&self) -> u64 {
        let c = &self.counts;
        let words = [
            u64::from(ABI_VERSION),
            size::<Entry>(1) | size::<QueueCtl>(1) << 16 | size::<SlotCtl>(1) << 32,
            size::<Journal>(1) | size::<LaneCtl>(1) << 16 | size::<HeadCtl>(1) << 32,
            u64::from(c.slots) | u64::from(c.workers) << 32,
            u64::from(c.lanes) | u64::from(c.heads) << 32,
            u64::from(c.ring_words) | u64::from(c.queues) << 32,
            u64::from(c.entries) | u64::from(c.pools) << 32,
            self.arena_len,
            self.control_len,
        ];
        words
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            })
    }
}

/// Bytes of a block of this size class in the arena.
#[must_use]
pub const fn block_stride(block_size: u64) -> u64 {
    block_size.next_multiple_of(BLOCK_ALIGN)
}

/// Bytes of a partition: its blocks and the tail slack, whole pages.
#[must_use]
pub fn partition_len(partition: &PartitionConfig<'_>) -> u64 {
    let blocks: u64 = partition
        .pools
        .iter()
        .map(|p| block_stride(p.block_size).saturating_mul(u64::from(p.block_count)))
        .fold(0, u64::saturating_add);
    let with_slack = blocks.saturating_add(TAIL_SLACK).checked_next_multiple_of(PAGE);
    if blocks == 0 { 0 } else { with_slack.unwrap_or(u64::MAX) }
}

fn count(config: &GroupConfig<'_>) -> Result<(Counts, u64), ConfigError> {
    const TOTAL_MAX: u64 = 256 << 30;
    let name = config.name.as_bytes();
    if name.is_empty() || name.len() > 31 || name.contains(&0) {
        return Err(ConfigError::Name);
    }
    let slots = config.partitions.len();
    if slots == 0 || slots > MAX_SLOTS {
        return Err(ConfigError::Slots(slots));
    }
    let (mut entries, mut pools, mut arena_len) = (0u64, 0u32, 0u64);
    for partition in config.partitions {
        if partition.pools.len() > POOLS_MAX {
            let found = u32::try_from(partition.pools.len()).unwrap_or(u32::MAX);
            return Err(ConfigError::Count("pools of a partition", found));
        }
        let mut last = 0;
        for pool in partition.pools {
            if pool.block_size == 0 || pool.block_size > BLOCK_SIZE_MAX || pool.block_size < last {
                return Err(ConfigError::BlockSize(pool.block_size));
            }
            last = pool.block_size;
            entries += u64::from(pool.block_count);
        }
        pools += u32::try_from(partition.pools.len()).unwrap_or(u32::MAX);
        entries += u64::from(partition.extra_entries);
        arena_len = arena_len.saturating_add(partition_len(partition));
    }
    if arena_len > TOTAL_MAX {
        return Err(ConfigError::TotalSize(arena_len));
    }
    // Entry and block numbers have 24 bits in a ring word.
    let entries = u32::try_from(entries).ok().filter(|n| *n < 1 << 24);
    let entries = entries.ok_or(ConfigError::Count("entries", u32::MAX))?;
    let counts = Counts {
        slots: u32::try_from(slots).unwrap_or(u32::MAX),
        workers: checked("workers", config.workers, 1, 256)?,
        lanes: checked("lanes", config.lanes, 0, 4096)?,
        heads: checked("heads", config.heads, 0, 65_536)?,
        ring_words: checked("ring words", config.ring_words, 0, 1 << 20)?,
        queues: checked("queues", config.queues, 0, 8192)?,
        entries,
        pools: checked("pools", pools, 0, 4096)?,
    };
    Ok((counts, arena_len))
}

fn checked(what: &'static str, n: u32, min: u32, max: u32) -> Result<u32, ConfigError> {
    if (min..=max).contains(&n) { Ok(n) } else { Err(ConfigError::Count(what, n)) }
}
