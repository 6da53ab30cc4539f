//! The deploy plan: who runs what, which queues connect them, how much memory each slot gets.
//!
//! Pure data, made from a [`CheckedFlow`](crate::CheckedFlow) without touching the machine, so it
//! can be printed, compared and stored. Slot 0 is the host (the session), slots 1… are the
//! instances of the nodes in graph order, then the devices that run the models. The arithmetic
//! behind every number is kept as [`Term`]s and printed by `dflow plan` ([`DeployPlan`]'s
//! `Display`); `budget` says where it comes from.

mod budget;
mod build;
mod devices;
mod limits;
mod private;
mod reach;
mod text;
mod work;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::graph::{
    Align, AlignTime, AttrValue, DType, Forwarding, QueuePolicy, Restart, SessionSettings, Shape,
    WritableInputs,
};

pub use budget::{CONTROL_BLOCK_BYTES, DESC_BYTES, PAGE_BYTES, SLACK_BYTES, WORKER_BLOCKS};
pub use build::{MESSAGE_QUEUE_DEPTH, request_queue_name, response_queue_name};
pub use limits::{Limits, MAX_BLOCK_BYTES, MAX_ENTRIES, MAX_EXECUTORS, MAX_POOLS, MAX_RING_WORDS};
pub use text::bytes_text;
pub use work::{DevicePlan, ModelPlan, Work};

/// Number of a queue: its index in [`DeployPlan::queues`].
pub type QueueId = u32;
/// Number of a slot: 0 = host; its index in [`DeployPlan::partitions`].
pub type SlotId = u32;

/// Everything a deployer needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeployPlan {
    /// Name of the flow.
    pub name: String,
    /// Settings of the session.
    pub session: SessionSettings,
    /// Slot 0.
    pub host: HostPlan,
    /// Slots 1…: `executors[i].slot == i + 1`.
    pub executors: Vec<ExecutorPlan>,
    /// All queues; `queues[i].id == i`. Data queues first, then the executors' message queues.
    pub queues: Vec<QueuePlan>,
    /// One partition a slot; `partitions[i].slot == i`.
    pub partitions: Vec<PartitionPlan>,
}

/// What the session feeds and fetches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostPlan {
    /// Graph inputs in feed order, as outputs of the host.
    pub inputs: Vec<OutputPlan>,
    /// Graph outputs in fetch order, as inputs of the host.
    pub outputs: Vec<InputPlan>,
}

/// One slot: a process of a node, an instance of a model, or a device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExecutorPlan {
    /// Slot of the memory group.
    pub slot: SlotId,
    /// What runs in it.
    #[serde(default, skip_serializing_if = "Work::is_function")]
    pub work: Work,
    /// Node's name; a device's label.
    pub node: String,
    /// Process's name for logs: the node's, with `@instance` when there are several.
    pub label: String,
    /// Which of the node's processes, from 0.
    pub instance: u32,
    /// How many processes the node has.
    pub instance_num: u32,
    /// Library file (relative to the working directory, or absolute).
    pub library: PathBuf,
    /// Project that is built into `library`, then a file name, before the deployment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<PathBuf>,
    /// Function in the library.
    pub function: String,
    /// Attributes for init.
    pub attrs: BTreeMap<String, AttrValue>,
    /// Additional environment.
    pub env: BTreeMap<String, String>,
    /// Input ports in order.
    pub inputs: Vec<InputPlan>,
    /// How they are put together by id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub align: Option<Align>,
    /// How they are put together by time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub align_time: Option<AlignTime>,
    /// Output ports in order.
    pub outputs: Vec<OutputPlan>,
    /// Host → executor control messages; the largest number for a model, which has none.
    pub request_queue: QueueId,
    /// Executor → host control messages.
    pub response_queue: QueueId,
    /// Restart policy.
    pub restart: Restart,
    /// Whether a successor gets the input its predecessor died with.
    pub redeliver: bool,
    /// Deaths with one input before it is answered.
    pub poison_limit: u32,
    /// Whether its death answers all ids open in it.
    pub stateful: bool,
    /// Whether inputs are copied before the function sees them.
    pub writable_inputs: WritableInputs,
    /// What becomes of an input that the function sets as an output.
    pub forwarding: Forwarding,
    /// Without progress it is killed after this, milliseconds.
    pub stall_ms: u32,
    /// Time for load and init, milliseconds.
    pub init_timeout_ms: u32,
    /// Core to pin to.
    pub cpu: Option<u32>,
}

/// A port that takes messages out of one queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InputPlan {
    /// Port's name.
    pub name: String,
    /// Graph input or `node.output` the messages come from.
    pub source: String,
    /// Queue to dequeue from.
    pub queue: QueueId,
    /// Element type the source sends.
    pub dtype: DType,
    /// Shape the source sends.
    pub shape: Shape,
    /// Worst-case payload, bytes.
    pub max_bytes: u64,
    /// Messages kept beyond those in hand.
    pub holds: u32,
    /// Pool of the own partition for copies, with `writable_inputs: copy`.
    pub copy_pool: Option<u32>,
}

/// A port that sends messages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OutputPlan {
    /// Port's name.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Shape.
    pub shape: Shape,
    /// Worst-case payload, bytes.
    pub max_bytes: u64,
    /// Pool of the own partition that messages of this port come from, ret_code messages too.
    pub pool: u32,
    /// Consumers; a message goes to all of them. None: the message is freed.
    pub destinations: Vec<DestinationPlan>,
}

/// One consumer of an output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DestinationPlan {
    /// `node.input`, or the graph output's name.
    pub consumer: String,
    /// One queue an instance of the consumer.
    pub queues: Vec<QueueId>,
}

impl DestinationPlan {
    /// The queue for a message without a route_label: instance trans_id mod N.
    ///
    /// # Panics
    /// If the destination has no queue, which no planned one does.
    #[must_use]
    pub fn queue_for(&self, trans_id: u64) -> QueueId {
        let count = self.queues.len() as u64;
        let index = usize::try_from(trans_id % count).unwrap_or(0);
        self.queues[index]
    }
}

/// What a queue carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QueueKind {
    /// Messages of the flow.
    Data,
    /// Control messages to an executor.
    Request,
    /// Control messages from an executor.
    Response,
}

/// One queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuePlan {
    /// Its index in the plan.
    pub id: QueueId,
    /// `consumer:port`, at most 127 bytes.
    pub name: String,
    /// Messages each lane holds.
    pub depth: u32,
    /// What a full lane does.
    pub policy: QueuePolicy,
    /// What it carries.
    pub kind: QueueKind,
    /// The one slot that dequeues.
    pub consumer_slot: SlotId,
    /// Slots that enqueue; lane `i` is `producer_slots[i]`'s.
    pub producer_slots: Vec<SlotId>,
}

/// The part of the arena that one slot writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionPlan {
    /// Slot.
    pub slot: SlotId,
    /// `host`, or the executor's label.
    pub label: String,
    /// Pools by block size, smallest first; the control pool comes before all others.
    pub pools: Vec<PoolPlan>,
    /// Index of the pool for control messages.
    pub control_pool: u32,
    /// Mbuf entries beyond one a block: for `copy_ref` (fan-out, references kept).
    pub extra_entries: u32,
    /// How `extra_entries` comes about.
    pub entry_terms: Vec<Term>,
    /// Size of the partition: all blocks and the readable slack behind them.
    pub bytes: u64,
}

impl PartitionPlan {
    /// The pool for payloads of at most `payload` bytes: the smallest that fits.
    #[must_use]
    pub fn pool_for(&self, payload: u64) -> Option<u32> {
        let size = budget::block_size(payload);
        let data = self.pools.iter().zip(0..).skip(self.control_pool as usize + 1);
        data.filter(|(pool, _)| pool.block_size >= size).map(|(_, index)| index).next()
    }

    /// Blocks of all pools.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.pools.iter().map(|pool| u64::from(pool.block_count)).sum()
    }

    /// Mbuf entries of the slot: one a block, and the extra ones.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.blocks() + u64::from(self.extra_entries)
    }
}

/// Blocks of one size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolPlan {
    /// Bytes a block: descriptor, payload and slack, rounded up to pages.
    pub block_size: u64,
    /// Number of blocks: the sum of the terms.
    pub block_count: u32,
    /// How `block_count` comes about.
    pub terms: Vec<Term>,
}

/// One summand of a budget.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Term {
    /// Where the blocks or entries can be.
    pub what: String,
    /// How many.
    pub count: u64,
}

impl DeployPlan {
    /// Bytes of all partitions.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.partitions.iter().map(|partition| partition.bytes).sum()
    }

    /// The executors that are processes, in slot order.
    pub fn processes(&self) -> impl Iterator<Item = &ExecutorPlan> {
        self.executors.iter().filter(|executor| executor.is_process())
    }

    /// The models of a device, in slot order; none for other executors.
    pub fn models_of(&self, executor: &ExecutorPlan) -> impl Iterator<Item = &ExecutorPlan> {
        let slots = executor.work.models().iter();
        slots.filter_map(|slot| self.executor(*slot))
    }

    /// Label of an executor; that of a device with its models.
    #[must_use]
    pub fn title(&self, executor: &ExecutorPlan) -> String {
        let models: Vec<&str> =
            self.models_of(executor).map(|model| model.label.as_str()).collect();
        match models.as_slice() {
            [] => format!("`{}`", executor.label),
            models => format!("`{}` (models {})", executor.label, models.join(", ")),
        }
    }

    /// The executor of a slot; `None` for the host's slot and for unknown ones.
    #[must_use]
    pub fn executor(&self, slot: SlotId) -> Option<&ExecutorPlan> {
        self.executors.get((slot as usize).checked_sub(1)?)
    }

    /// The plan as JSON. A number that JSON lacks (infinity) becomes `null`.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}
