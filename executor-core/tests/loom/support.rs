//! What all models share: the bound, a small group, sides, messages, and a futex that loom
//! understands.

use executor_core::abi::MsgInfo;
use executor_core::error::{DequeueError, EnqueueError};
use executor_core::group::Group;
use executor_core::layout::{GroupConfig, PartitionConfig, PoolConfig};
use executor_core::mbuf::Mbuf;
use executor_core::owner::{QueueId, SlotId};
use executor_core::pool::{Head, Worker};
use executor_core::primitive::{self, Ordering};
use executor_core::queue::{Consumer, Producer, QueueConfig, QueueFlags, Rights};
use loom::sync::{Condvar, Mutex};
use loom::thread;
use std::sync::atomic::AtomicU64 as Plain;
use std::time::Instant;

/// Bytes of every block.
const BLOCK: u64 = 64;
/// Depth of every queue.
pub(crate) const DEPTH: u32 = 2;
/// The group's creator; also sweeps.
pub(crate) const HOST: SlotId = SlotId(0);
/// The participant that vanishes.
pub(crate) const VICTIM: SlotId = SlotId(1);
/// The participant that lives.
pub(crate) const PEER: SlotId = SlotId(2);

/// True when the larger variants run.
pub(crate) fn full() -> bool {
    std::env::var_os("DFLOW_LOOM_FULL").is_some_and(|v| v == "1")
}

/// Runs `model` in every schedule up to the bound; the number of schedules.
pub(crate) fn explore(model: impl Fn() + Send + Sync + 'static) -> u64 {
    explore_to(if full() { 3 } else { 2 }, model)
}

/// As [`explore`] with a bound of its own; `LOOM_MAX_PREEMPTIONS` overrides both.
pub(crate) fn explore_to(bound: usize, model: impl Fn() + Send + Sync + 'static) -> u64 {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(bound));
    builder.max_branches = 20_000;
    let runs = std::sync::Arc::new(Plain::new(0));
    let count = runs.clone();
    builder.check(move || {
        count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        primitive::contended(false);
        model();
    });
    runs.load(std::sync::atomic::Ordering::Relaxed)
}

/// Runs `model` and prints how many schedules it had.
pub(crate) fn check(name: &str, model: impl Fn() + Send + Sync + 'static) {
    let start = Instant::now();
    let runs = explore(model);
    println!("model {name}: {runs} schedules, {:.1} s", start.elapsed().as_secs_f32());
}

/// A group of three slots; `(blocks, extra entries)` each.
pub(crate) fn group(parts: [(u32, u32); 3]) -> Group<'static> {
    group_of(1, parts)
}

/// As [`group`], with this many queues.
pub(crate) fn group_of(queues: u32, parts: [(u32, u32); 3]) -> Group<'static> {
    let pools = parts.map(|(block_count, _)| [PoolConfig { block_size: BLOCK, block_count }]);
    let partitions: Vec<_> = parts
        .iter()
        .zip(&pools)
        .map(|((blocks, extra_entries), pools)| PartitionConfig {
            pools: if *blocks == 0 { &[] } else { pools },
            extra_entries: *extra_entries,
        })
        .collect();
    Group::modelled(&GroupConfig {
        name: "model",
        partitions: &partitions,
        workers: 1,
        lanes: 1,
        heads: 2,
        ring_words: DEPTH,
        queues,
    })
}

/// A thread of a model; from here on several run.
pub(crate) fn spawn<T: 'static>(body: impl FnOnce() -> T + 'static) -> thread::JoinHandle<T> {
    primitive::contended(true);
    thread::spawn(body)
}

/// Joins the last other thread of a model: what follows runs alone.
pub(crate) fn join_last<T>(thread: thread::JoinHandle<T>) -> T {
    let value = thread.join().unwrap();
    primitive::contended(false);
    value
}

/// A process in a model: its worker, its ends, what it holds and what it did.
pub(crate) struct Side {
    pub(crate) worker: Worker<'static>,
    pub(crate) producer: Option<Producer<'static>>,
    pub(crate) consumer: Option<Consumer<'static>>,
    pub(crate) held: Vec<Mbuf>,
    /// Ids whose enqueue returned.
    pub(crate) sent: Vec<u64>,
    /// Ids whose dequeue returned.
    pub(crate) received: Vec<u64>,
    /// Input sets taken so far.
    pub(crate) sets: u64,
}

impl Side {
    pub(crate) fn new(group: &Group<'static>, slot: SlotId, generation: u32) -> Side {
        Side {
            worker: Worker::new(group, slot, 0, generation).unwrap(),
            producer: None,
            consumer: None,
            held: Vec::new(),
            sent: Vec::new(),
            received: Vec::new(),
            sets: 0,
        }
    }

    pub(crate) fn produces(mut self, queue: QueueId) -> Side {
        self.producer = Some(Producer::open(&self.worker, queue, Some(0)).unwrap());
        self
    }

    pub(crate) fn consumes(mut self, queue: QueueId) -> Side {
        self.consumer = Some(Consumer::open(&self.worker, queue).unwrap());
        self
    }

    /// A fresh message with this id.
    pub(crate) fn message(&mut self, id: u64) -> Mbuf {
        let mbuf = self.worker.alloc(BLOCK, Head::Zeroed).expect("the model has enough blocks");
        self.worker.of(&mbuf).set_msg_info(&MsgInfo { trans_id: id, ..MsgInfo::default() });
        mbuf
    }

    pub(crate) fn id_of(&self, mbuf: &Mbuf) -> u64 {
        self.worker.of(mbuf).msg_info().trans_id
    }

    /// One try to enqueue; the message comes back when there was no room.
    pub(crate) fn send(&mut self, mbuf: Mbuf) -> Result<(), (Mbuf, EnqueueError)> {
        let id = self.id_of(&mbuf);
        let producer = self.producer.as_mut().expect("a producer end");
        match producer.enqueue(&mut self.worker, mbuf) {
            Ok(wakes) => {
                let _ = wakes;
                self.sent.push(id);
                Ok(())
            }
            Err(rejected) => Err((rejected.mbuf, rejected.reason)),
        }
    }

    /// One try to dequeue; the message, marked as input, is held afterwards.
    pub(crate) fn receive(&mut self) -> Result<u64, DequeueError> {
        let consumer = self.consumer.as_mut().expect("a consumer end");
        let (mbuf, wakes) = consumer.dequeue_input(&mut self.worker, 0, self.sets + 1)?;
        let _ = wakes;
        self.sets += 1;
        let id = self.id_of(&mbuf);
        self.received.push(id);
        self.held.push(mbuf);
        Ok(id)
    }

    /// Gives back the first mbuf held.
    pub(crate) fn free_first(&mut self) {
        if !self.held.is_empty() {
            let mbuf = self.held.remove(0);
            let _ = self.worker.free(mbuf);
        }
    }

    pub(crate) fn free_all(&mut self) {
        while !self.held.is_empty() {
            self.free_first();
        }
    }
}

/// What to create.
pub(crate) fn named(name: &str, consumer: SlotId, flags: QueueFlags) -> QueueConfig<'_> {
    QueueConfig { name, depth: DEPTH, flags, consumer, consumer_waiter: 0, ready_bit: 0 }
}

/// A queue of [`DEPTH`] with these producers, made by the host.
pub(crate) fn queue(
    group: &Group<'static>,
    consumer: SlotId,
    producers: &[SlotId],
    flags: QueueFlags,
) -> QueueId {
    let host = Worker::new(group, HOST, 0, 1).unwrap();
    let memory = group.memory;
    let id = memory.create_queue(&host, &named("q", consumer, flags)).unwrap();
    for slot in producers {
        memory.grant_queue(&host, id, *slot, Rights::WRITE).unwrap();
    }
    id
}

/// Moves the positions of a queue on by `steps`, so that a model begins before a wrap.
pub(crate) fn advance_by(steps: u32, from: &mut Side, to: &mut Side) {
    for _ in 0..steps {
        let mbuf = from.message(0);
        from.send(mbuf).unwrap();
        to.receive().unwrap();
        to.free_all();
    }
    from.sent.clear();
    to.received.clear();
}

/// References of a count word.
pub(crate) fn references(word: u64) -> u64 {
    word & 0xFFFF_FFFF
}

/// Every entry is free and every count 0.
pub(crate) fn assert_all_free(group: &Group<'static>) {
    for (index, entry) in group.memory.entries.iter().enumerate() {
        assert_eq!(entry.owner.load(Ordering::Acquire), 0, "entry {index} is not free");
        let count = references(entry.count.load(Ordering::Acquire));
        assert_eq!(count, 0, "block {index} still has references");
    }
}

/// The futex of one waiter: sleeps while the word has the expected value. A lost wake is a deadlock
/// that loom reports.
#[derive(Default)]
pub(crate) struct Futex {
    lock: Mutex<()>,
    bell: Condvar,
}

impl Futex {
    pub(crate) fn wait(&self, word: &executor_core::primitive::AtomicU32, expected: u32) {
        let mut guard = self.lock.lock().unwrap();
        while word.load(Ordering::Relaxed) == expected {
            guard = self.bell.wait(guard).unwrap();
        }
    }

    pub(crate) fn wake(&self) {
        let _guard = self.lock.lock().unwrap();
        self.bell.notify_all();
    }
}
