//! A group in ordinary memory for the tests of the Rust API.
#![allow(dead_code, reason = "each test file uses a part")]
#![allow(unsafe_code, reason = "attach takes memory")]

use executor_core::abi::MsgInfo;
use executor_core::error::{AttachError, DequeueError, EnqueueError};
use executor_core::group::{Group, format};
use executor_core::layout::{GroupConfig, Layout, PartitionConfig, PoolConfig};
use executor_core::mbuf::Mbuf;
use executor_core::owner::SlotId;
use executor_core::pool::{Head, Worker};
use executor_core::queue::{Consumer, Producer, QueueConfig, QueueFlags, Rights};
use executor_core::region::Memory;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

/// Bytes of the larger blocks.
pub(crate) const BLOCK: u64 = 256;

/// Page-aligned, zeroed memory.
pub(crate) struct Pages {
    pages: Vec<Page>,
}

#[derive(Clone, Copy)]
#[repr(C, align(4096))]
struct Page([u8; 4096]);

impl Pages {
    /// At least `len` bytes.
    pub(crate) fn new(len: u64) -> Pages {
        let pages = usize::try_from(len.div_ceil(4096).max(1)).unwrap();
        Pages { pages: vec![Page([0; 4096]); pages] }
    }

    /// All bytes; only while no group is attached.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        self.pages.as_flattened_bytes()
    }

    fn start(&mut self) -> NonNull<u8> {
        NonNull::new(self.pages.as_mut_ptr()).unwrap().cast()
    }
}

trait Flat {
    fn as_flattened_bytes(&mut self) -> &mut [u8];
}

impl Flat for Vec<Page> {
    fn as_flattened_bytes(&mut self) -> &mut [u8] {
        // SAFETY: `Page` is bytes without padding, and the vector is borrowed for as long as the
        // slice lives.
        unsafe { std::slice::from_raw_parts_mut(self.as_mut_ptr().cast(), self.len() * 4096) }
    }
}

const POOLS: [PoolConfig; 2] = [
    PoolConfig { block_size: 128, block_count: 6 },
    PoolConfig { block_size: BLOCK, block_count: 4 },
];

/// The configuration of every room: three slots.
pub(crate) fn with_config<T>(work: impl FnOnce(&GroupConfig<'_>) -> T) -> T {
    let partitions = [
        PartitionConfig { pools: &POOLS, extra_entries: 130 },
        PartitionConfig { pools: &POOLS, extra_entries: 3 },
        PartitionConfig { pools: &POOLS, extra_entries: 3 },
    ];
    work(&GroupConfig {
        name: "room",
        partitions: &partitions,
        workers: 2,
        lanes: 3,
        heads: 8,
        ring_words: 16,
        queues: 4,
    })
}

/// A formatted control segment and its arena.
pub(crate) fn formatted() -> (Pages, Pages, Layout) {
    with_config(|config| {
        let layout = Layout::compute(config).unwrap();
        let mut control = Pages::new(layout.control_len);
        format(control.bytes(), config).unwrap();
        (control, Pages::new(layout.arena_len), layout)
    })
}

/// Attaches to `control_len` bytes of `control`.
pub(crate) fn attach(
    control: &mut Pages,
    control_len: u64,
    arena: &mut Pages,
    arena_len: u64,
) -> Result<Group<'static>, AttachError> {
    assert!(control_len <= control.pages.len() as u64 * 4096);
    assert!(arena_len <= arena.pages.len() as u64 * 4096);
    // SAFETY:
    // - both vectors hold at least the lengths given (checked above), page-aligned, and outlive the
    //   group: every caller drops the group first;
    // - nobody writes the header while a group is attached.
    unsafe { Group::attach(control.start(), control_len, arena.start(), arena_len) }
}

/// A group with its memory.
pub(crate) struct Room {
    pub(crate) group: Group<'static>,
    pub(crate) layout: Layout,
    control: Pages,
    arena: Pages,
}

impl Room {
    pub(crate) fn new() -> Room {
        let (mut control, mut arena, layout) = formatted();
        let group = attach(&mut control, layout.control_len, &mut arena, layout.arena_len).unwrap();
        Room { group, layout, control, arena }
    }

    pub(crate) fn memory(&self) -> Memory<'static> {
        self.group.memory
    }

    pub(crate) fn worker(&self, slot: u32) -> Worker<'static> {
        self.worker_of(slot, 1)
    }

    pub(crate) fn worker_of(&self, slot: u32, generation: u32) -> Worker<'static> {
        Worker::new(&self.group, SlotId(slot), 0, generation).unwrap()
    }

    /// A queue from `a` to `b`, both ends open.
    pub(crate) fn pipe(
        &self,
        a: &Worker<'static>,
        b: &Worker<'static>,
        depth: u32,
        flags: QueueFlags,
    ) -> (Producer<'static>, Consumer<'static>) {
        let config = QueueConfig {
            name: "pipe",
            depth,
            flags,
            consumer: b.slot(),
            consumer_waiter: 0,
            ready_bit: 0,
        };
        let id = self.memory().create_queue(a, &config).unwrap();
        self.memory().grant_queue(a, id, a.slot(), Rights::WRITE).unwrap();
        let from = Producer::open(a, id, None).unwrap();
        (from, Consumer::open(b, id).unwrap())
    }

    /// Word `index` of the control segment as the atomic that a hostile peer writes.
    pub(crate) fn word(&self, offset: u64) -> &std::sync::atomic::AtomicU64 {
        assert!(offset.is_multiple_of(8) && offset + 8 <= self.layout.control_len);
        let start = self.control.pages.as_ptr().cast::<u8>();
        // SAFETY: inside the segment (checked above).
        let at = unsafe { start.add(usize::try_from(offset).unwrap()) };
        // SAFETY: aligned to 8 (checked above); everybody uses these bytes as atomics; the arena
        // and this vector live as long as `self`.
        unsafe { std::sync::atomic::AtomicU64::from_ptr(at.cast_mut().cast()) }
    }

    pub(crate) fn assert_all_free(&self) {
        for (index, entry) in self.memory().entries.iter().enumerate() {
            assert_eq!(entry.owner.load(Ordering::Relaxed), 0, "entry {index}");
            assert_eq!(entry.count.load(Ordering::Relaxed) & 0xFFFF_FFFF, 0, "block {index}");
        }
    }
}

pub(crate) fn slot(index: u32) -> SlotId {
    SlotId(index)
}

/// A fresh message with this id.
pub(crate) fn message(worker: &mut Worker<'static>, id: u64) -> Mbuf {
    let mbuf = worker.alloc(1, Head::Zeroed).unwrap();
    worker.of(&mbuf).set_msg_info(&MsgInfo { trans_id: id, ..MsgInfo::default() });
    mbuf
}

/// Enqueues a fresh message.
pub(crate) fn send(
    producer: &mut Producer<'static>,
    worker: &mut Worker<'static>,
    id: u64,
) -> Result<(), (Mbuf, EnqueueError)> {
    let mbuf = message(worker, id);
    match producer.enqueue(worker, mbuf) {
        Ok(_) => Ok(()),
        Err(rejected) => Err((rejected.mbuf, rejected.reason)),
    }
}

/// Dequeues a message and frees it; its id.
pub(crate) fn take(
    consumer: &mut Consumer<'static>,
    worker: &mut Worker<'static>,
) -> Result<u64, DequeueError> {
    let (mbuf, _) = consumer.dequeue(worker)?;
    let id = worker.of(&mbuf).msg_info().trans_id;
    let _ = worker.free(mbuf);
    Ok(id)
}
