//! Properties against simple models, and hostile memory.
//!
//! - *verbs*: any sequence of pool and queue verbs of three processes does what a `VecDeque` a lane
//!   and a list of holders do; entries and counts conserve, and at the end everything can be given
//!   back.
//! - *attach*: garbage, truncated, bit-flipped and newer segments are refused (or are the very same
//!   layout).
//! - *hostile*: random words anywhere a peer may write, while a pipeline and sweeps run: no panic,
//!   no loop without end, no access outside; in debug builds arithmetic on what was read does not
//!   overflow.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

mod common;

use common::{BLOCK, Room, attach, formatted, message, slot};
use executor_core::error::{AllocError, AttachError, DequeueError, EnqueueError, QueueError};
use executor_core::inspect;
use executor_core::layout::{GroupConfig, Layout, PartitionConfig, PoolConfig};
use executor_core::mbuf::Mbuf;
use executor_core::owner::QueueId;
use executor_core::pool::{Head, Worker};
use executor_core::queue::{Consumer, Producer, QueueConfig, QueueFlags, Rights};
use executor_core::sweep::{Inputs, Sweeper, suspect_words};
use proptest::prelude::{Just, Strategy, any, prop_oneof, proptest};
use proptest::test_runner::Config;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::Ordering;

/// One step; numbers pick among what there is.
#[derive(Clone, Copy, Debug)]
enum Step {
    Alloc { slot: usize, large: bool },
    Copy { slot: usize, which: usize },
    Free { slot: usize, which: usize },
    Chain { slot: usize, head: usize, member: usize },
    Enqueue { slot: usize, queue: usize, which: usize },
    Dequeue { queue: usize },
    Peek { queue: usize },
    Query { queue: usize },
    Create { queue: usize, depth: u32, consumer: u32, overwrite: bool },
    Grant { queue: usize, slot: usize },
    Reset { queue: usize },
    Destroy { queue: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let (s, q, n) = (0..3usize, 0..4usize, 0..64usize);
    prop_oneof![
        3 => (s.clone(), any::<bool>()).prop_map(|(slot, large)| Step::Alloc { slot, large }),
        1 => (s.clone(), n.clone()).prop_map(|(slot, which)| Step::Copy { slot, which }),
        2 => (s.clone(), n.clone()).prop_map(|(slot, which)| Step::Free { slot, which }),
        1 => (s.clone(), n.clone(), n.clone())
            .prop_map(|(slot, head, member)| Step::Chain { slot, head, member }),
        5 => (s.clone(), q.clone(), n)
            .prop_map(|(slot, queue, which)| Step::Enqueue { slot, queue, which }),
        4 => q.clone().prop_map(|queue| Step::Dequeue { queue }),
        1 => q.clone().prop_map(|queue| Step::Peek { queue }),
        1 => q.clone().prop_map(|queue| Step::Query { queue }),
        1 => (q.clone(), 1..5u32, 0..3u32, any::<bool>()).prop_map(
            |(queue, depth, consumer, overwrite)| Step::Create { queue, depth, consumer, overwrite }
        ),
        2 => (q.clone(), s).prop_map(|(queue, slot)| Step::Grant { queue, slot }),
        1 => q.clone().prop_map(|queue| Step::Reset { queue }),
        1 => q.prop_map(|queue| Step::Destroy { queue }),
    ]
}

/// A queue of the model: ids a lane, in the order the lanes were granted.
struct ModelQueue {
    id: QueueId,
    depth: usize,
    overwrite: bool,
    consumer: usize,
    lanes: Vec<(usize, VecDeque<u64>)>,
    next: usize,
    drops: u64,
    producers: HashMap<usize, Producer<'static>>,
    end: Option<Consumer<'static>>,
}

struct World {
    room: Room,
    workers: Vec<Worker<'static>>,
    held: Vec<Vec<Mbuf>>,
    queues: HashMap<usize, ModelQueue>,
    /// Entries behind an id: the length of its chain.
    size: HashMap<u64, u32>,
    next_id: u64,
}

impl World {
    fn new() -> World {
        let room = Room::new();
        let workers = (0..3).map(|slot| room.worker(slot)).collect();
        World {
            room,
            workers,
            held: vec![Vec::new(), Vec::new(), Vec::new()],
            queues: HashMap::new(),
            size: HashMap::new(),
            next_id: 1,
        }
    }

    fn id(&self, slot: usize, mbuf: &Mbuf) -> u64 {
        self.workers[slot].of(mbuf).msg_info().trans_id
    }

    fn keep(&mut self, slot: usize, mbuf: Mbuf) {
        let id = self.next_id;
        self.next_id += 1;
        self.workers[slot].of(&mbuf).update_msg_info(|info| info.trans_id = id);
        self.size.insert(id, 1);
        self.held[slot].push(mbuf);
    }

    fn pick(&self, slot: usize, which: usize) -> Option<usize> {
        let count = self.held[slot].len();
        (count != 0).then(|| which % count.max(1))
    }

    fn play(&mut self, step: Step) {
        match step {
            Step::Alloc { slot, large } => {
                match self.workers[slot].alloc(if large { BLOCK } else { 1 }, Head::Zeroed) {
                    Ok(mbuf) => self.keep(slot, mbuf),
                    Err(error) => assert_eq!(error, AllocError::Exhausted),
                }
            }
            Step::Copy { slot, which } => {
                let Some(at) = self.pick(slot, which) else { return };
                match self.workers[slot].copy_ref(&self.held[slot][at]) {
                    Ok(copy) => self.keep(slot, copy),
                    Err(error) => assert_eq!(error, AllocError::Exhausted),
                }
            }
            Step::Free { slot, which } => {
                let Some(at) = self.pick(slot, which) else { return };
                let mbuf = self.held[slot].swap_remove(at);
                let id = self.id(slot, &mbuf);
                self.size.remove(&id);
                let _ = self.workers[slot].free(mbuf);
            }
            Step::Chain { slot, head, member } => self.chain(slot, head, member),
            Step::Enqueue { slot, queue, which } => self.enqueue(slot, queue, which),
            Step::Dequeue { queue } => self.dequeue(queue),
            Step::Peek { queue } => self.peek(queue),
            Step::Query { queue } => self.query(queue),
            Step::Create { queue, depth, consumer, overwrite } => {
                self.create(queue, depth, consumer, overwrite);
            }
            Step::Grant { queue, slot } => self.grant(queue, slot),
            Step::Reset { queue } => self.reset(queue),
            Step::Destroy { queue } => self.destroy(queue),
        }
    }

    fn chain(&mut self, slot: usize, head: usize, member: usize) {
        let (Some(head), Some(member)) = (self.pick(slot, head), self.pick(slot, member)) else {
            return;
        };
        if head == member {
            return;
        }
        let mbuf = self.held[slot].remove(member);
        let head = if member < head { head - 1 } else { head };
        let (head_id, id) = (self.id(slot, &self.held[slot][head]), self.id(slot, &mbuf));
        match self.workers[slot].chain_append(&self.held[slot][head], mbuf) {
            Ok(()) => {
                self.size.remove(&id);
                *self.size.get_mut(&head_id).unwrap() += 1;
                let chain = self.workers[slot].of(&self.held[slot][head]).chain_len();
                assert_eq!(chain, self.size[&head_id]);
            }
            Err((mbuf, error)) => {
                assert_eq!(error, AllocError::Invalid);
                assert_ne!(self.size[&id], 1, "only a chain is refused");
                self.held[slot].push(mbuf);
            }
        }
    }

    fn enqueue(&mut self, slot: usize, queue: usize, which: usize) {
        let Some(at) = self.pick(slot, which) else { return };
        let Some(queue) = self.queues.get_mut(&queue) else { return };
        let Some(producer) = queue.producers.get_mut(&slot) else { return };
        let mbuf = self.held[slot].swap_remove(at);
        let id = self.workers[slot].of(&mbuf).msg_info().trans_id;
        let lane = queue.lanes.iter_mut().find(|(s, _)| *s == slot).map(|(_, lane)| lane).unwrap();
        let full = lane.len() == queue.depth;
        match producer.enqueue(&mut self.workers[slot], mbuf) {
            Ok(_) => {
                if full {
                    assert!(queue.overwrite);
                    queue.drops += 1;
                    self.size.remove(&lane.pop_front().unwrap());
                }
                lane.push_back(id);
            }
            Err(rejected) => {
                assert!(full && !queue.overwrite);
                assert_eq!(rejected.reason, EnqueueError::Full);
                self.held[slot].push(rejected.mbuf);
            }
        }
    }

    fn dequeue(&mut self, queue: usize) {
        let Some(queue) = self.queues.get_mut(&queue) else { return };
        let worker = &mut self.workers[queue.consumer];
        let expected = queue.front();
        match queue.end.as_mut().unwrap().dequeue(worker) {
            Ok((mbuf, _)) => {
                let at = expected.expect("the model has a message");
                let id = queue.lanes[at].1.pop_front();
                queue.next = (at + 1) % queue.lanes.len();
                assert_eq!(Some(worker.of(&mbuf).msg_info().trans_id), id);
                self.held[queue.consumer].push(mbuf);
            }
            Err(error) => {
                assert_eq!(error, DequeueError::Empty);
                assert_eq!(expected, None);
            }
        }
    }

    fn peek(&mut self, queue: usize) {
        let Some(queue) = self.queues.get_mut(&queue) else { return };
        let memory = self.room.memory();
        let peeked = queue.end.as_mut().unwrap().peek(&memory);
        let front = queue.front().map(|at| queue.lanes[at].1[0]);
        assert_eq!(peeked.map(|p| p.info.trans_id).ok(), front);
    }

    fn query(&mut self, queue: usize) {
        let Some(queue) = self.queues.get(&queue) else { return };
        let info = self.room.memory().query_queue(queue.id).unwrap();
        let size: usize = queue.lanes.iter().map(|(_, lane)| lane.len()).sum();
        assert_eq!((info.size as usize, info.drops, info.faults), (size, queue.drops, 0));
        assert_eq!(info.depth as usize, queue.depth * queue.lanes.len().max(1));
    }

    fn create(&mut self, index: usize, depth: u32, consumer: u32, overwrite: bool) {
        let name = format!("q{index}");
        let flags = if overwrite { QueueFlags::OVERWRITE } else { QueueFlags::empty() };
        let config = QueueConfig {
            name: &name,
            depth,
            flags,
            consumer: slot(consumer),
            consumer_waiter: 0,
            ready_bit: 0,
        };
        let memory = self.room.memory();
        let made = memory.create_queue(&self.workers[0], &config);
        let id = match made {
            Err(error) => {
                let expected = if depth < 2 { QueueError::Invalid } else { QueueError::Exists };
                assert_eq!(error, expected);
                return;
            }
            Ok(id) => id,
        };
        assert!(!self.queues.contains_key(&index));
        let manage = Rights::MANAGE;
        memory.grant_queue(&self.workers[0], id, slot(consumer), manage).unwrap();
        let consumer = consumer as usize;
        self.queues.insert(
            index,
            ModelQueue {
                id,
                depth: depth as usize,
                overwrite,
                consumer,
                lanes: Vec::new(),
                next: 0,
                drops: 0,
                producers: HashMap::new(),
                end: Some(Consumer::open(&self.workers[consumer], id).unwrap()),
            },
        );
    }

    fn grant(&mut self, queue: usize, to: usize) {
        let Some(queue) = self.queues.get_mut(&queue) else { return };
        let to_slot = slot(u32::try_from(to).unwrap());
        let memory = self.room.memory();
        match memory.grant_queue(&self.workers[0], queue.id, to_slot, Rights::WRITE) {
            Ok(()) => {
                if !queue.producers.contains_key(&to) {
                    let producer = Producer::open(&self.workers[to], queue.id, None).unwrap();
                    assert!(producer.is_empty());
                    queue.producers.insert(to, producer);
                    queue.lanes.push((to, VecDeque::new()));
                }
            }
            Err(error) => assert_eq!(error, QueueError::OverLimit),
        }
    }

    fn reset(&mut self, queue: usize) {
        let Some(queue) = self.queues.get_mut(&queue) else { return };
        let worker = &mut self.workers[queue.consumer];
        let memory = self.room.memory();
        let _ = memory.reset_queue(worker, queue.end.as_mut().unwrap()).unwrap();
        while let Some(at) = queue.front() {
            queue.lanes[at].1.pop_front();
            queue.next = (at + 1) % queue.lanes.len();
            queue.drops += 1;
        }
    }

    fn destroy(&mut self, index: usize) {
        let Some(mut queue) = self.queues.remove(&index) else { return };
        let worker = &mut self.workers[queue.consumer];
        let memory = self.room.memory();
        let _ = memory.destroy_queue(worker, queue.end.take().unwrap()).unwrap();
        for (slot, mut producer) in queue.producers {
            let Some(mbuf) = self.held[slot].pop() else { continue };
            let rejected = producer.enqueue(&mut self.workers[slot], mbuf).unwrap_err();
            assert_eq!(rejected.reason, EnqueueError::NotPermitted);
            self.held[slot].push(rejected.mbuf);
        }
    }

    /// Entries and counts are those that the model knows.
    fn conserve(&self) {
        let queued: u64 =
            self.queues.values().flat_map(|q| &q.lanes).map(|l| l.1.len() as u64).sum();
        let usage = inspect::usage(&self.room.group);
        assert_eq!(u64::from(usage.queued), queued);
        let held: usize = self.held.iter().map(Vec::len).sum();
        assert_eq!(usage.held as usize, held);
        let mut over: HashMap<u32, u64> = HashMap::new();
        for mbuf in inspect::held(&self.room.group) {
            *over.entry(mbuf.block).or_default() += 1;
        }
        for (block, entry) in (0..).zip(self.room.memory().entries) {
            let count = entry.count.load(Ordering::Relaxed) & 0xFFFF_FFFF;
            assert_eq!(count, over.get(&block).copied().unwrap_or(0), "block {block}");
        }
    }

    fn finish(mut self) {
        for index in 0..4 {
            self.destroy(index);
        }
        for slot in 0..3 {
            while let Some(mbuf) = self.held[slot].pop() {
                let _ = self.workers[slot].free(mbuf);
            }
        }
        self.room.assert_all_free();
    }
}

impl ModelQueue {
    /// The lane whose turn it is.
    fn front(&self) -> Option<usize> {
        let count = self.lanes.len();
        (0..count).map(|n| (self.next + n) % count).find(|at| !self.lanes[*at].1.is_empty())
    }
}

proptest! {
    #![proptest_config(Config { failure_persistence: None, ..Config::default() })]

    #[test]
    fn verbs_do_what_the_model_does(steps in proptest::collection::vec(step(), 1..200)) {
        let mut world = World::new();
        for (at, step) in steps.into_iter().enumerate() {
            world.play(step);
            if at % 16 == 0 {
                world.conserve();
            }
        }
        world.conserve();
        world.finish();
    }

    /// Any flip in the header section is refused, or changes nothing that a layout depends on; what
    /// is
    /// accepted has every block inside the arena.
    #[test]
    fn a_flipped_header_is_refused_or_harmless(
        flips in proptest::collection::vec((any::<u16>(), 0..8u32), 1..4)
    ) {
        let (mut control, mut arena, layout) = formatted();
        for (at, bit) in flips {
            let at = usize::from(at) % usize::try_from(layout.status).unwrap();
            control.bytes()[at] ^= 1 << bit;
        }
        let group = attach(&mut control, layout.control_len, &mut arena, layout.arena_len);
        if let Ok(group) = group {
            let memory = group.memory;
            let arena = memory.arena_span();
            for block in 0..layout.counts.entries {
                let Some(span) = memory.block_span(block) else { continue };
                let start = span.pointer.as_ptr() as u64 - arena.pointer.as_ptr() as u64;
                assert!(start <= arena.len && span.len <= arena.len - start, "block {block}");
            }
            for slot in 0..3 {
                let mut worker = Worker::new(&group, common::slot(slot), 0, 1).unwrap();
                let mut held = Vec::new();
                while let Ok(mbuf) = worker.alloc(1, Head::Zeroed) {
                    held.push(mbuf);
                }
                for mbuf in held {
                    let _ = worker.free(mbuf);
                }
            }
        }
    }

    #[test]
    fn garbage_is_refused(
        bytes in proptest::collection::vec(any::<u8>(), 0..512),
        len in 0..8192u64,
    ) {
        let mut control = common::Pages::new(8192);
        control.bytes()[..bytes.len()].copy_from_slice(&bytes);
        let mut arena = common::Pages::new(4096);
        let refused = attach(&mut control, len, &mut arena, 4096).unwrap_err();
        assert!(refused == AttachError::Truncated || refused == AttachError::BadMagic);
    }

    /// Numbers out of any range give an error, never a panic.
    #[test]
    fn any_config_has_a_layout_or_a_reason(
        sizes in proptest::collection::vec((any::<u64>(), any::<u32>()), 0..10),
        extra in any::<u32>(),
        workers in any::<u32>(),
        lanes in any::<u32>(),
        queues in any::<u32>(),
    ) {
        let pools: Vec<_> = sizes
            .iter()
            .map(|(size, count)| PoolConfig {
                block_size: if size % 3 == 0 { size % (1 << 33) } else { *size },
                block_count: if size % 2 == 0 { *count } else { count % 64 },
            })
            .collect();
        let partition = PartitionConfig { pools: &pools, extra_entries: extra };
        let config = GroupConfig {
            name: "n",
            partitions: &[partition, partition],
            workers: workers % 300,
            lanes,
            heads: lanes,
            ring_words: queues,
            queues: queues % 9000,
        };
        let _ = Layout::compute(&config);
    }

    /// Writes anywhere that a peer can write: shared section and every private part.
    #[test]
    fn hostile_words_neither_panic_nor_hang(
        writes in proptest::collection::vec((any::<u32>(), hostile_word(), 0..6u8), 1..60)
    ) {
        let mut pipeline = Pipeline::new();
        for (at, word, kind) in writes {
            pipeline.room.word(pipeline.place(at, kind)).store(word, Ordering::Relaxed);
            pipeline.step();
        }
        pipeline.sweep_all();
    }
}

fn hostile_word() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        Just(0),
        Just(u64::MAX),
        (any::<u32>(), any::<u32>()).prop_map(|(a, b)| u64::from(a % 64) << 32 | u64::from(b % 64)),
        (1..5u64, 0..4u64, 0..4u64).prop_map(|(kind, a, b)| kind << 56 | a << 40 | b << 32 | 1),
        (0..8u64, 0..40u64, 0..40u64)
            .prop_map(|(op, entry, block)| op << 56 | 1 << 48 | block << 24 | entry),
        (0..2u64, 0..40u64, 0..40u64, 0..4u64)
            .prop_map(|(turn, entry, block, life)| turn << 63 | life << 48 | block << 24 | entry),
    ]
}

/// Slot 0 feeds, slot 1 works, slot 2 ends; everything is tried, nothing is believed.
struct Pipeline {
    room: Room,
    workers: Vec<Worker<'static>>,
    from: Vec<Producer<'static>>,
    to: Vec<Consumer<'static>>,
    ids: Vec<QueueId>,
    held: Vec<Vec<Mbuf>>,
    next: u64,
}

impl Pipeline {
    fn new() -> Pipeline {
        let room = Room::new();
        let workers: Vec<_> = (0..3).map(|slot| room.worker(slot)).collect();
        let memory = room.memory();
        let (mut from, mut to, mut ids) = (Vec::new(), Vec::new(), Vec::new());
        let kinds = [QueueFlags::empty(), QueueFlags::OVERWRITE, QueueFlags::SHARED];
        for (index, (a, b)) in [(0, 1), (1, 2), (0, 2)].into_iter().enumerate() {
            let name = format!("q{index}");
            let config = QueueConfig {
                name: &name,
                depth: 2,
                flags: kinds[index],
                consumer: slot(u32::try_from(b).unwrap()),
                consumer_waiter: 0,
                ready_bit: 0,
            };
            let id = memory.create_queue(&workers[a], &config).unwrap();
            memory.grant_queue(&workers[a], id, workers[a].slot(), Rights::WRITE).unwrap();
            from.push(Producer::open(&workers[a], id, Some(0)).unwrap());
            to.push(Consumer::open(&workers[b], id).unwrap());
            ids.push(id);
        }
        let held = vec![Vec::new(), Vec::new(), Vec::new()];
        Pipeline { room, workers, from, to, ids, held, next: 1 }
    }

    /// An offset in the part of the segment that `kind` names.
    fn place(&self, at: u32, kind: u8) -> u64 {
        let layout = &self.room.layout;
        let (start, end) = match kind {
            0 => (layout.shared, layout.waiters),
            1 => (layout.entries, layout.entries + 320 * 16),
            2 => (layout.shared, layout.private),
            slot => {
                let start = layout.private_offset(u32::from(slot) - 3);
                (start, start + layout.private_stride)
            }
        };
        start + u64::from(at) % ((end - start) / 8) * 8
    }

    fn step(&mut self) {
        let ends = [(0, 1), (1, 2), (0, 2)];
        for (index, (a, b)) in ends.into_iter().enumerate() {
            if let Ok(mbuf) = self.workers[a].alloc(1, Head::Zeroed) {
                let id = self.next;
                self.next += 1;
                self.workers[a].of(&mbuf).update_msg_info(|info| info.trans_id = id);
                if let Ok(copy) = self.workers[a].copy_ref(&mbuf)
                    && let Err((copy, _)) = self.workers[a].chain_append(&mbuf, copy)
                {
                    let _ = self.workers[a].free(copy);
                }
                if let Err(rejected) = self.from[index].enqueue(&mut self.workers[a], mbuf) {
                    let _ = self.workers[a].free(rejected.mbuf);
                }
            }
            let _ = self.to[index].peek(&self.room.memory());
            for _ in 0..3 {
                if let Ok((mbuf, _)) = self.to[index].dequeue_input(&mut self.workers[b], 0, 1) {
                    let own = self.workers[b].of(&mbuf);
                    let span = own.span();
                    assert!(own.data_len() <= span.len && own.buffer_size() <= span.len);
                    let _ = (self.workers[b].chain_get(&mbuf, 1), own.head_bytes());
                    self.held[b].push(mbuf);
                }
            }
            let _ = self.room.memory().query_queue(self.ids[index]);
            if self.held[b].len() > 2 {
                let mbuf = self.held[b].remove(0);
                let _ = self.workers[b].free(mbuf);
            }
        }
        let again = Producer::open(&self.workers[1], self.ids[1], None);
        let _ = again.map(|mut producer| producer.has_room());
        let _ = Consumer::open(&self.workers[1], self.ids[0]);
        let memory = self.room.memory();
        let _ = memory.grant_queue(&self.workers[0], self.ids[0], slot(2), Rights::WRITE);
        let _ = memory.find_queue("q1");
        let _ = inspect::usage(&self.room.group);
    }

    /// Every slot dies in turn; the sweep ends, and the survivors go on.
    fn sweep_all(&mut self) {
        let mut words = vec![0; suspect_words(&self.room.group)];
        for index in 0..3 {
            let inputs = if index == 1 { Inputs::Adopt } else { Inputs::Free };
            let mut sweeper = Sweeper::new(&self.room.group, &mut words);
            let _ = sweeper.sweep(slot(index), inputs);
            let mut next = self.room.worker_of(index, 2);
            for (_, _, entry) in inspect::adoptable(&self.room.group, slot(index)).take(50) {
                if let Some(mbuf) = next.adopt(entry) {
                    let _ = next.free(mbuf);
                }
            }
            self.workers[index as usize] = next;
            self.held[index as usize].clear();
            self.step();
        }
    }
}

#[test]
fn truncated_newer_and_other_segments_have_their_code() {
    let refuse = |change: &dyn Fn(&mut [u8]), cut: u64| {
        let (mut control, mut arena, layout) = formatted();
        change(control.bytes());
        attach(&mut control, layout.control_len - cut, &mut arena, layout.arena_len).err()
    };
    assert_eq!(refuse(&|_| {}, 0), None);
    assert_eq!(refuse(&|_| {}, 1), Some(AttachError::Truncated));
    assert_eq!(refuse(&|b| b[0] ^= 1, 0), Some(AttachError::BadMagic));
    assert_eq!(refuse(&|b| b[8] += 1, 0), Some(AttachError::Version));
    assert_eq!(refuse(&|b| b[12] += 1, 0), Some(AttachError::Version));
    assert_eq!(refuse(&|b| b[16] ^= 1, 0), Some(AttachError::Layout));
    assert_eq!(refuse(&|b| b[40] += 1, 0), Some(AttachError::Layout));
    let at = usize::try_from(formatted().2.block_descs).unwrap();
    assert_eq!(refuse(&|b| b[at + 8] = 0, 0), Some(AttachError::Layout), "a block without bytes");
    assert_eq!(refuse(&|b| b[at + 16] = 1, 0), Some(AttachError::Layout), "another slot's");
    let (mut control, mut arena, at) = formatted();
    let short = attach(&mut control, at.control_len, &mut arena, at.arena_len - 1).err();
    assert_eq!(short, Some(AttachError::Truncated));
}

/// Offsets whose sum overflows are refused: a block must lie in its partition, a partition in the
/// arena.
#[test]
fn offsets_that_overflow_are_refused() {
    let (mut control, mut arena, layout) = formatted();
    let at = |offset: u64| usize::try_from(offset).unwrap();
    let get = |bytes: &[u8], offset: u64| {
        u64::from_le_bytes(bytes[at(offset)..at(offset) + 8].try_into().unwrap())
    };
    let put = |bytes: &mut [u8], offset: u64, value: u64| {
        bytes[at(offset)..at(offset) + 8].copy_from_slice(&value.to_le_bytes());
    };
    // The last slot's partition and its first block end where the numbers begin again.
    let slot_desc = layout.slot_descs + 2 * 40;
    let bytes = control.bytes();
    let first_entry = get(bytes, slot_desc + 8) & 0xFFFF_FFFF;
    let offset = get(bytes, slot_desc + 24);
    assert_ne!(offset, 0);
    put(bytes, slot_desc + 32, offset.wrapping_neg());
    put(bytes, layout.block_descs + first_entry * 24 + 8, offset.wrapping_neg());
    let group = attach(&mut control, layout.control_len, &mut arena, layout.arena_len);
    assert_eq!(group.err(), Some(AttachError::Layout));
}

/// Sizes whose sum overflows, and more size classes than a worker has cursors for.
#[test]
fn impossible_partitions_have_no_layout() {
    let huge = PoolConfig { block_size: 4 << 30, block_count: u32::MAX };
    let small = PoolConfig { block_size: 64, block_count: 1 };
    for pools in [vec![huge; 3], vec![small; 9]] {
        let partition = PartitionConfig { pools: &pools, extra_entries: 0 };
        let config = GroupConfig {
            name: "n",
            partitions: &[partition],
            workers: 1,
            lanes: 0,
            heads: 0,
            ring_words: 0,
            queues: 0,
        };
        assert!(Layout::compute(&config).is_err());
    }
}

/// A dead process may leave anything in its journal: positions out of the ring, queues and lanes
/// that are not.
#[test]
fn any_journal_is_swept() {
    for op in 0..8u64 {
        for detail in [0, 1, u64::MAX, 0xFFFF_FFFF, 3, 1 << 40, 1 << 48, 7 << 48 | 4] {
            for named in [0, 1, u64::MAX >> 16, 5 << 24 | 5] {
                let mut pipeline = Pipeline::new();
                let part = pipeline.room.memory().private(0).unwrap();
                part.journals[0].detail.store(detail, Ordering::Relaxed);
                part.journals[0].operation.store(op << 56 | named, Ordering::Relaxed);
                pipeline.sweep_all();
            }
        }
    }
}

/// A message that a peer made impossible is skipped and counted, and the queue goes on.
#[test]
fn impossible_messages_are_counted_and_skipped() {
    let room = Room::new();
    let (mut a, mut b) = (room.worker(0), room.worker(1));
    let (mut from, mut to) = room.pipe(&a, &b, 4, QueueFlags::empty());
    for id in 1..=3 {
        let mbuf = message(&mut a, id);
        let entry = mbuf.entry();
        let _ = from.enqueue(&mut a, mbuf).unwrap();
        if id == 2 {
            room.memory().entries[entry as usize].owner.store(u64::MAX, Ordering::Relaxed);
        }
    }
    assert_eq!(common::take(&mut to, &mut b), Ok(1));
    assert_eq!(common::take(&mut to, &mut b), Err(DequeueError::Fault));
    assert_eq!(common::take(&mut to, &mut b), Ok(3));
    assert_eq!(room.memory().query_queue(to.id()).unwrap().faults, 1);
}
