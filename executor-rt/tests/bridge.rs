//! The eventfd bridge against a producer of another slot: every message is seen, none without
//! readiness.

use std::os::fd::AsFd;

use executor_core::layout::{GroupConfig, PartitionConfig, PoolConfig};
use executor_core::owner::SlotId;
use executor_core::pool::Head;
use executor_core::queue::{Consumer, Producer, QueueConfig, QueueFlags, Rights};
use executor_rt::attach::{self, Attached, Role};
use executor_rt::bridge::Bridge;
use executor_rt::port;
use executor_rt::waiter::Waiter;
use sys::clock::MonoTime;
use sys::poll::{Events, PollFd};

const MESSAGES: u64 = 20_000;

fn group() -> (&'static Attached, &'static Attached) {
    let pools = [PoolConfig { block_size: 4096, block_count: 16 }];
    let partition = PartitionConfig { pools: &pools, extra_entries: 4 };
    let config = GroupConfig {
        name: "bridge",
        partitions: &[partition, partition],
        workers: 1,
        lanes: 2,
        heads: 2,
        ring_words: 64,
        queues: 2,
    };
    let created = attach::create(&config, false).expect("group");
    let member = |slot| {
        attach::attach(created.control.as_fd(), created.arena.as_fd(), Role::Member(SlotId(slot)))
            .expect("attach")
    };
    (member(0), member(1))
}

#[test]
fn every_message_makes_the_descriptor_readable() {
    let (ours, theirs) = group();
    let mut worker = ours.worker(0, 1).unwrap();
    let memory = worker.memory;
    let config = QueueConfig {
        name: "bridged",
        depth: 4,
        flags: QueueFlags::empty(),
        consumer: SlotId(0),
        consumer_waiter: 0,
        ready_bit: 5,
    };
    let id = memory.create_queue(&worker, &config).unwrap();
    memory.grant_queue(&worker, id, SlotId(1), Rights::WRITE).unwrap();
    let mut consumer = Consumer::open(&worker, id).unwrap();
    let waiter = Waiter::new(&memory, SlotId(0), 0).unwrap();
    let bridge = Bridge::start(waiter, consumer.ready_mask()).unwrap();
    let producer = std::thread::spawn(move || {
        let mut worker = theirs.worker(0, 1).unwrap();
        let mut producer = Producer::open(&worker, id, None).unwrap();
        let waiter = Waiter::new(&worker.memory, SlotId(1), 0).unwrap();
        for n in 0..MESSAGES {
            let mbuf = port::alloc(&mut worker, &waiter, 8, Head::Zeroed, None).unwrap();
            worker.of(&mbuf).update_msg_info(|info| info.trans_id = n + 1);
            port::enqueue(&mut worker, &mut producer, &waiter, mbuf, None).unwrap();
        }
    });
    let watchdog = MonoTime::now().add_ms(60_000);
    let mut next = 1;
    while next <= MESSAGES {
        let mut fds = [PollFd::new(&bridge, Events::IN)];
        let ready = sys::poll::poll(&mut fds, Some(watchdog)).unwrap();
        assert_eq!(ready, 1, "a wake-up was lost after message {next}");
        assert!(bridge.drain());
        while let Ok((mbuf, wakes)) = consumer.dequeue(&mut worker) {
            executor_rt::waiter::ring(&memory, wakes);
            assert_eq!(worker.of(&mbuf).msg_info().trans_id, next);
            next += 1;
            port::free(&mut worker, mbuf);
        }
    }
    producer.join().unwrap();
}
