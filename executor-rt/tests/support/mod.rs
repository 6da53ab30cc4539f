//! A real memory group for tests: two memfds, and members that attach by mappings of their own.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::os::fd::AsFd;
use std::sync::Arc;

use executor_core::error::Code;
use executor_core::inspect::{self, Usage};
use executor_core::layout::{GroupConfig, PartitionConfig, PoolConfig};
use executor_core::owner::{QueueId, SlotId, WaiterId};
use executor_core::primitive::Ordering;
use executor_core::queue::Rights;
use executor_core::region::Memory;
use executor_rt::attach::{Attached, Created, Role, attach, create};
use executor_rt::esched::{Config, Scheduler};
use executor_rt::exchange::{ControlInfo, Exchange, QueueAttr};
use executor_rt::waiter::Waiter;

pub(crate) const NAME: &str = "DM_QS_GROUP_1";
pub(crate) const SMALL: PoolConfig = PoolConfig { block_size: 4096, block_count: 32 };

/// A group.
pub(crate) struct Rig {
    pub(crate) created: Created,
}

/// A group of `slots` slots with these pools each.
pub(crate) fn rig_with(slots: usize, pools: &[PoolConfig]) -> Rig {
    let partition = PartitionConfig { pools, extra_entries: 8 };
    let partitions = vec![partition; slots];
    let config = GroupConfig {
        name: NAME,
        partitions: &partitions,
        workers: 4,
        lanes: 8,
        heads: 16,
        ring_words: 128,
        queues: 12,
    };
    Rig { created: create(&config, false).expect("group") }
}

pub(crate) fn rig(slots: usize) -> Rig {
    rig_with(slots, &[SMALL])
}

impl Rig {
    pub(crate) fn attach(&self, slot: u32) -> &'static Attached {
        let (control, arena) = (self.created.control.as_fd(), self.created.arena.as_fd());
        attach(control, arena, Role::Member(SlotId(slot))).expect("attach")
    }

    /// An exchange of `slot` with worker and waiter `index`, over a mapping of its own.
    pub(crate) fn member(&self, slot: u32, index: u32) -> Exchange<'static> {
        exchange(self.attach(slot), index)
    }

    /// A scheduler of `slot` on waiter `index`.
    pub(crate) fn scheduler(
        &self,
        slot: u32,
        index: u32,
        config: &Config,
    ) -> Arc<Scheduler<'static>> {
        let memory = self.attach(slot).group.memory;
        let waiter = Waiter::new(&memory, SlotId(slot), index).expect("waiter");
        Arc::new(Scheduler::new(memory, waiter, config).expect("scheduler"))
    }

    pub(crate) fn usage(&self) -> Usage {
        inspect::usage(&self.attach(0).group)
    }
}

pub(crate) fn exchange(attached: &'static Attached, index: u32) -> Exchange<'static> {
    let Role::Member(slot) = attached.role else { panic!("a member") };
    let waiter = Waiter::new(&attached.group.memory, slot, index).expect("waiter");
    Exchange::new(attached.worker(index, 1).expect("worker"), waiter)
}

/// Slot 0 makes a queue that slot 1 consumes, and may write to it.
pub(crate) fn pair(rig: &Rig, attr: QueueAttr) -> (Exchange<'static>, Exchange<'static>, QueueId) {
    let (mut producer, consumer) = (rig.member(0, 0), rig.member(1, 0));
    let queue = producer.create_queue("q", &attr.consumed_by(SlotId(1))).expect("queue");
    producer.grant(queue, SlotId(0), Rights::WRITE).expect("grant");
    (producer, consumer, queue)
}

pub(crate) fn plain() -> ControlInfo {
    ControlInfo::default()
}

pub(crate) fn code<T: core::fmt::Debug>(result: executor_rt::exchange::Result<T>) -> Code {
    result.expect_err("refused").code
}

/// Returns once the waiter has announced that it sleeps.
pub(crate) fn until_parked(memory: &Memory<'_>, slot: u32, index: u32) {
    let id = WaiterId(slot * executor_core::abi::control::WAITERS + index);
    while memory.waiter(id).expect("waiter").parked.load(Ordering::Acquire) == 0 {
        std::thread::yield_now();
    }
}
