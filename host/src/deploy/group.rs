//! The memory group of a plan: sizes, then queues with their grants.

use executor_core::layout::{GroupConfig, PartitionConfig, PoolConfig};
use executor_core::owner::{QueueId, SlotId};
use executor_core::pool::Worker;
use executor_core::queue::{Producer, QueueConfig, QueueFlags, Rights};
use executor_rt::attach::{self, Created, Failure};

use crate::error::{DeployError, Place, Problem, system_hint};
use crate::graph::QueuePolicy;
use crate::plan::{DeployPlan, QueueKind};

/// Workers of each slot: the host uses feed, fetch, control and the freeing of outputs.
pub const WORKERS: u32 = 4;
/// Waiter that fetch sleeps on.
pub const WAITER_FETCH: u32 = 0;
/// Waiter that feed sleeps on.
pub const WAITER_FEED: u32 = 1;
/// Waiter that control messages sleep on.
pub const WAITER_CONTROL: u32 = 2;

/// Creates the group of `plan`.
///
/// # Errors
/// [`DeployError::Group`].
pub fn create(plan: &DeployPlan, populate: bool) -> Result<Created, DeployError> {
    let pools: Vec<Vec<PoolConfig>> = plan
        .partitions
        .iter()
        .map(|partition| {
            let pools = partition.pools.iter();
            let mut pools: Vec<PoolConfig> = pools
                .map(|p| PoolConfig { block_size: p.block_size, block_count: p.block_count })
                .collect();
            pools.sort_by_key(|pool| pool.block_size);
            pools
        })
        .collect();
    let partitions: Vec<PartitionConfig<'_>> = plan
        .partitions
        .iter()
        .zip(&pools)
        .map(|(plan, pools)| PartitionConfig { pools, extra_entries: plan.extra_entries })
        .collect();
    let ends = Ends::of(plan);
    let name = format!("DM_QS_GROUP_{}", std::process::id());
    let config = GroupConfig {
        name: &name,
        partitions: &partitions,
        workers: WORKERS,
        lanes: ends.lanes,
        heads: ends.heads,
        ring_words: ends.ring_words,
        queues: u32::try_from(plan.queues.len()).unwrap_or(u32::MAX),
    };
    attach::create(&config, populate).map_err(|failure| group_error(plan, failure))
}

/// Largest numbers of ends that one slot has.
struct Ends {
    lanes: u32,
    heads: u32,
    ring_words: u32,
}

impl Ends {
    fn of(plan: &DeployPlan) -> Ends {
        let mut ends = Ends { lanes: 0, heads: 0, ring_words: 0 };
        for partition in &plan.partitions {
            let slot = partition.slot;
            let produced = || plan.queues.iter().filter(|q| q.producer_slots.contains(&slot));
            let consumed = plan.queues.iter().filter(|q| q.consumer_slot == slot);
            let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
            ends.lanes = ends.lanes.max(count(produced().count()));
            ends.ring_words = ends.ring_words.max(produced().map(|q| q.depth).sum());
            ends.heads = ends.heads.max(consumed.map(|q| count(q.producer_slots.len())).sum());
        }
        ends
    }
}

/// Creates the queues of `plan` in its order, so that plan ids are group ids, and grants their
/// ends.
///
/// # Errors
/// [`DeployError::Group`].
pub fn create_queues(plan: &DeployPlan, worker: &Worker<'_>) -> Result<(), DeployError> {
    let memory = worker.memory;
    let mut ready_bits = vec![0u32; plan.partitions.len()];
    for queue in &plan.queues {
        let refuse = |error: executor_core::error::QueueError| {
            DeployError::Group(Problem::new(
                Place::graph(&plan.name).port(format!("queue `{}`", queue.name)),
                error.to_string(),
                "a queue of the memory group",
                "this is a fault of the planner: please report it with `dflow plan`",
            ))
        };
        let bit = ready_bits.get_mut(queue.consumer_slot as usize);
        let ready_bit = bit.map_or(0, |bit| core::mem::replace(bit, (*bit + 1) % 64));
        let flags = match queue.policy {
            QueuePolicy::Overwrite => QueueFlags::OVERWRITE,
            QueuePolicy::Fifo => QueueFlags::empty(),
        };
        let consumer_waiter =
            if queue.kind == QueueKind::Response { WAITER_CONTROL } else { WAITER_FETCH };
        let config = QueueConfig {
            name: &queue.name,
            depth: queue.depth,
            flags,
            consumer: SlotId(queue.consumer_slot),
            consumer_waiter,
            ready_bit,
        };
        let id = memory.create_queue(worker, &config).map_err(refuse)?;
        debug_assert_eq!(id, QueueId(queue.id));
        for producer in &queue.producer_slots {
            memory.grant_queue(worker, id, SlotId(*producer), Rights::WRITE).map_err(refuse)?;
        }
        if queue.kind == QueueKind::Request {
            // Executors look at a lane that nobody has opened anew with each message.
            Producer::open(worker, id, None).map_err(refuse)?;
        }
    }
    Ok(())
}

/// A failure of the group as a deploy error, with the arithmetic.
pub fn group_error(plan: &DeployPlan, failure: Failure) -> DeployError {
    let bytes = crate::plan::bytes_text(plan.bytes());
    DeployError::Group(Problem::new(
        Place::graph(&plan.name).port("memory group"),
        failure.to_string(),
        format!("{bytes} of shared memory in {} partitions", plan.partitions.len()),
        match &failure {
            Failure::Sys(error) if error.errno != sys::errno::Errno::NOMEM => system_hint(error),
            _ => {
                "lower max_bytes, depths or instances (`dflow plan` shows the arithmetic), or free \
                 memory"
            }
        },
    ))
}
