//! Words of the control segment: one memfd that every process of a memory group maps.
//!
//! ```text
//! section   written by        content (each section starts on a page)
//! header    creator, once     Header, SlotDesc[slots], PoolDesc[pools], BlockDesc[entries]
//! status    supervisor        StatusCtl, SlotStatus[slots]
//! shared    everybody         QueueCtl[queues], WaiterCtl[slots*WAITERS], SlotShared[slots],
//!                             Entry[entries]
//! private   one slot each     SlotCtl, Journal[workers], LaneCtl[lanes], HeadCtl[heads],
//!                             ring words
//! ```
//! A process maps everything read-only and overlays *shared* and its own *private* part read-write,
//! so a wild write can't reach the header, the status or another slot's indices. Every word is
//! atomic; whatever a peer may write is a claim until checked against bounds, owner and generation.
//! Sizes, alignments and offsets are asserted in `control_offsets.rs`; docs/layout.md has a table.

use super::head::HEAD_WORDS;
use crate::primitive::{AtomicU32, AtomicU64};

/// First word of a control segment, "DFLOWCTL".
pub const MAGIC: u64 = u64::from_le_bytes(*b"DFLOWCTL");
/// Most slots of a group (rights are 64-bit sets).
pub const MAX_SLOTS: usize = 64;
/// [`MAX_SLOTS`] as a slot number.
pub const SLOTS_MAX: u32 = 64;
/// Most lanes of a queue: producer processes. Models have two.
pub const MAX_LANES: usize = if cfg!(loom) { 2 } else { 32 };
/// [`MAX_LANES`] as a lane number.
#[allow(clippy::cast_possible_truncation, reason = "a small constant")]
pub const LANES_MAX: u32 = MAX_LANES as u32;
/// Waiters of a slot: 0 the main loop, 1 a wait inside user code, others for user threads.
pub const WAITERS: u32 = if cfg!(loom) { 1 } else { 4 };
/// Most queues of a group.
pub const MAX_QUEUES: u32 = 8192;
/// Most mbufs of a chain, head included (device-runtime §2.2).
pub const MAX_CHAIN: u32 = 128;
/// Bytes of a queue name without the NUL.
pub const QUEUE_NAME_MAX: usize = 127;
/// Words of a queue name. Models have one: names of up to seven bytes.
pub const NAME_WORDS: usize = if cfg!(loom) { 1 } else { 16 };
/// Bytes of a group name without the NUL.
pub const GROUP_NAME_MAX: usize = 31;

/// Start of the header section. Plain data: written before the segment is shared, then read-only.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Header {
    /// [`MAGIC`].
    pub magic: u64,
    /// [`super::ABI_VERSION`].
    pub abi_version: u32,
    /// Bytes of this struct.
    pub header_size: u32,
    /// Hash over ABI version, struct sizes and all counts.
    pub layout_hash: u64,
    /// Bytes of the control segment.
    pub control_len: u64,
    /// Bytes of the arena.
    pub arena_len: u64,
    /// Number of process slots.
    pub slots: u32,
    /// Worker journals of each slot.
    pub workers: u32,
    /// Lanes (producer ends) of each slot.
    pub lanes: u32,
    /// Head cells (consumer ends, one a lane) of each slot.
    pub heads: u32,
    /// Ring words of each slot, shared by its lanes.
    pub ring_words: u32,
    /// Queues of the group.
    pub queues: u32,
    /// Mbuf entries of the group.
    pub entries: u32,
    /// Size classes of all partitions.
    pub pools: u32,
    /// Group name, NUL-terminated.
    pub name: [u8; 32],
    /// Zero.
    pub reserved: [u8; 24],
}

/// One partition: the pools and entries of a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct SlotDesc {
    /// First pool of this slot.
    pub first_pool: u32,
    /// Number of its pools.
    pub pool_count: u32,
    /// First entry of this slot; its blocks come first.
    pub first_entry: u32,
    /// Blocks of this slot: entry index == block index.
    pub block_count: u32,
    /// Entries without a block, for `copy_ref`.
    pub extra_count: u32,
    /// Zero.
    pub reserved: u32,
    /// Offset of the partition in the arena.
    pub partition_offset: u64,
    /// Bytes of the partition, tail slack included.
    pub partition_len: u64,
}

/// One size class of a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct PoolDesc {
    /// First block.
    pub first_block: u32,
    /// Number of blocks.
    pub block_count: u32,
    /// Bytes of a block.
    pub block_size: u64,
}

/// Where the block of an entry lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct BlockDesc {
    /// Offset in the arena; unused for extra entries.
    pub offset: u64,
    /// Bytes; 0 for an extra entry.
    pub size: u64,
    /// Slot that owns the entry and the block.
    pub slot: u32,
    /// Zero.
    pub reserved: u32,
}

macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[doc = $doc:literal])+ $field:ident : $ty:ty,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Default)]
        pub struct $name {
            $($(#[doc = $doc])+ pub $field: $ty,)+
        }
    };
}

words! {
    /// Group-wide words that only the supervisor writes.
    #[repr(C, align(64))]
    StatusCtl {
        /// Futex word, bumped with every change of a [`SlotStatus`].
        sequence: AtomicU32,
        /// 0 running, 1 ending, 2 failed.
        phase: AtomicU32,
        /// Sweeps done.
        sweeps: AtomicU64,
        /// Blocks that wait for their last reader before a leak is repaired.
        suspects: AtomicU64,
        /// Mbufs freed by sweeps.
        swept: AtomicU64,
    }
}

words! {
    /// What the supervisor says of a slot; nobody else writes it.
    #[repr(C, align(64))]
    SlotStatus {
        /// Counts the processes this slot has had; 0 = never started.
        generation: AtomicU32,
        /// [`crate::owner::SlotState`] number.
        state: AtomicU32,
        /// Restarts so far.
        restarts: AtomicU32,
        /// 0 none, 1 exited, 2 signalled, 3 stalled and killed, 4 killed before it was ready.
        exit_kind: AtomicU32,
        /// Exit code or signal number of the last process.
        exit_value: AtomicU32,
        /// Process id as the host sees it; 0 while none runs, or its parent has not yet noted it.
        pid: AtomicU32,
        /// Monotonic nanoseconds of the last start.
        started_ns: AtomicU64,
        /// Sweeps of this slot.
        sweeps: AtomicU64,
    }
}

words! {
    /// One queue.
    #[repr(C, align(64))]
    QueueCtl {
        /// 0 free, 1 active; else who is making or ending the queue, see `crate::queue::state`.
        state: AtomicU32,
        /// 8192 x lives of this index + index: no two queues of a group ever share one.
        generation: AtomicU32,
        /// Most messages of each lane, >= 2.
        depth: AtomicU32,
        /// [`crate::queue::QueueFlags`] bits.
        flags: AtomicU32,
        /// Slot of the consumer; `u32::MAX` before one attached.
        consumer: AtomicU32,
        /// Waiter that a producer rings.
        consumer_waiter: AtomicU32,
        /// Lanes in use.
        lane_count: AtomicU32,
        /// Bit in the consumer's ready set.
        ready_bit: AtomicU32,
        /// 0, or the owner word of the worker that holds the shared end.
        lock: AtomicU64,
        /// Bit n: the producer of lane n waits for room.
        full_waiting: AtomicU64,
        /// Entries skipped because a word in them was impossible.
        faults: AtomicU64,
        /// Messages dropped by overwrite or reset.
        drops: AtomicU64,
        /// Name, NUL-terminated.
        name: [AtomicU64; NAME_WORDS],
        /// Slots that may manage.
        manage: AtomicU64,
        /// Slots that may dequeue.
        read: AtomicU64,
        /// Slots that may enqueue.
        write: AtomicU64,
        /// trans_id of the first dropped message.
        drop_first: AtomicU64,
        /// trans_id of the last dropped message.
        drop_last: AtomicU64,
        /// Bit n: lane n is quarantined, its words contradict each other.
        quarantined: AtomicU64,
        /// Zero.
        reserved: [AtomicU64; 2],
        /// Lane n: packed place of the producer end, see [`crate::queue::LanePlace`].
        lanes: [AtomicU64; MAX_LANES],
        /// Head cells of a queue with a shared consumer end.
        shared_heads: [AtomicU32; MAX_LANES],
        /// Head cell in the consumer's private part, for an exclusive end.
        head_cells: [AtomicU32; MAX_LANES],
    }
}

words! {
    /// What wakes one waiting thread.
    #[repr(C, align(64))]
    WaiterCtl {
        /// Futex word, bumped only when `parked` was set.
        sequence: AtomicU32,
        /// 1 while the thread is about to sleep or sleeps.
        parked: AtomicU32,
        /// Ready set: bit n = queue with that ready bit got a message.
        ready: AtomicU64,
    }
}

words! {
    /// Words of a slot that everybody writes.
    #[repr(C, align(64))]
    SlotShared {
        /// Bit n: waiter n of this slot waits for a free mbuf of this partition.
        pool_waiting: AtomicU64,
        /// 0, or the owner word of the worker that places lanes in this slot's private part.
        lane_lock: AtomicU64,
        /// 0, or the process that was added to the group in this slot: process id in the high
        /// half, rights
        /// below. Advisory; written by administrators of the group.
        member: AtomicU64,
    }
}

words! {
    /// One mbuf: its head and what the runtime knows of it. 320 bytes.
    #[repr(C, align(64))]
    Entry {
        /// The 256-byte head, see [`super::head`].
        head: [AtomicU64; HEAD_WORDS],
        /// Who holds this entry, see [`crate::owner::Owner`]; 0 = free.
        owner: AtomicU64,
        /// References to the block of this index: low half the count, high half grows with each.
        count: AtomicU64,
        /// Block this entry refers to plus one; 0 while it is free, see [`Entry::block`].
        block: AtomicU32,
        /// Grows with every allocation of this entry.
        generation: AtomicU32,
        /// Bytes in use.
        data_len: AtomicU64,
        /// Bytes asked for at allocation.
        buffer_size: AtomicU64,
        /// Next mbuf of the chain plus one; 0 = none.
        chain_next: AtomicU32,
        /// Last mbuf of the chain plus one, in the head.
        chain_tail: AtomicU32,
        /// Packed [`crate::mbuf::Marks`]: input port, head lines in use, chain length.
        marks: AtomicU32,
        /// Zero.
        reserved: AtomicU32,
        /// Number of the input set this entry belongs to.
        set: AtomicU64,
    }
}

impl Entry {
    /// Block this entry refers to; `u32::MAX` (no block) from just before it is freed until its
    /// next life has a reference of its own: whoever counts the entries of a block never counts
    /// a stale one.
    #[must_use]
    #[inline]
    pub fn block(&self) -> u32 {
        self.block.load(crate::primitive::Ordering::Acquire).wrapping_sub(1)
    }

    /// Sets [`Entry::block`]; `u32::MAX` for none.
    #[inline]
    pub(crate) fn set_block(&self, block: u32) {
        self.block.store(block.wrapping_add(1), crate::primitive::Ordering::Release);
    }
}

words! {
    /// What a process says of itself. Only this slot writes it.
    #[repr(C, align(64))]
    SlotCtl {
        /// Process id in its own namespace.
        pid: AtomicU32,
        /// Generation it was started as.
        generation: AtomicU32,
        /// Processor state number (udf §3.5) or 100 + start-up step.
        state: AtomicU32,
        /// Code that ends this process.
        last_code: AtomicU32,
        /// Last input set taken from the queues.
        set_taken: AtomicU64,
        /// Last input set given to the function.
        set_delivered: AtomicU64,
        /// Last input set that is answered.
        set_done: AtomicU64,
        /// Bit n: destination n got its message of the delivered set.
        committed: AtomicU64,
        /// Times the delivered set was tried.
        attempts: AtomicU64,
        /// Grows whenever the main loop makes progress.
        progress: AtomicU64,
        /// malloc-family calls before seal.
        setup_allocations: AtomicU64,
        /// malloc-family calls of the runtime after seal.
        runtime_allocations: AtomicU64,
        /// malloc-family calls in user code after seal.
        user_allocations: AtomicU64,
        /// Payload bytes copied by the runtime.
        bytes_copied: AtomicU64,
        /// Sets processed.
        processed: AtomicU64,
        /// Nanoseconds spent in user code.
        user_ns: AtomicU64,
        /// Waits that slept.
        parks: AtomicU64,
        /// Waits for a free mbuf.
        pool_waits: AtomicU64,
        /// Answers with a code instead of data.
        coded: AtomicU64,
        /// trans_id of the delivered set.
        trans_id: AtomicU64,
        /// Messages that came after their id was given up, or are too old for those of the other
        /// inputs, and were dropped.
        late: AtomicU64,
        /// [`crate::model_state::ModelState`] number of a model; 0 for what has none.
        model: AtomicU64,
        /// Zero.
        reserved: [AtomicU64; 10],
    }
}

words! {
    /// The one operation that a worker has under way. Written `detail` first, `operation` last.
    #[repr(C, align(64))]
    Journal {
        /// 0 = none; see [`crate::journal`].
        operation: AtomicU64,
        /// Queue, lane, position.
        detail: AtomicU64,
        /// Operations done; tools only.
        done: AtomicU64,
    }
}

words! {
    /// Producer end of a lane. Only the producer slot writes it.
    #[repr(C, align(64))]
    LaneCtl {
        /// Next position, 0..2*depth; a hint, the turn bits are the truth.
        tail: AtomicU32,
        /// Most messages seen queued.
        high_water: AtomicU32,
        /// Messages enqueued.
        enqueued: AtomicU64,
        /// Times the queue was full.
        full: AtomicU64,
        /// Queue generation whose ring this is; 0 = the producer has not opened it.
        generation: AtomicU32,
        /// Zero.
        reserved: AtomicU32,
    }
}

words! {
    /// Consumer end of a lane. Only the consumer slot writes it.
    #[repr(C, align(64))]
    HeadCtl {
        /// Next position, 0..2*depth.
        head: AtomicU32,
        /// Queue generation this position belongs to.
        generation: AtomicU32,
        /// Messages dequeued.
        dequeued: AtomicU64,
    }
}
