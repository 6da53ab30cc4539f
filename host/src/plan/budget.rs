//! Blocks and entries of each partition.
//!
//! Blocks of a partition = Σ over all queues reachable by forwarding of depth + aligner maximum ×
//! inputs + batch sizes + declared user holds + 2 per worker (design of the memory group). Batching
//! does not exist yet and counts 0. Each place holds one block at most, so with
//! that many blocks a producer never waits for memory while every place has what it can hold.
//! Outputs with one block size share a pool, and a place that several of them reach counts once.
//!
//! Extra entries: `copy_ref` takes an entry of its own slot; such an entry is in one of the places
//! the slot's outputs reach, or is a reference that the slot itself keeps to an input.

use std::collections::BTreeMap;

use crate::check::{CheckedFlow, Source};
use crate::error::{Place, PlanError, Problem};
use crate::graph::WritableInputs;
use crate::memory_config::MemoryConfig;

use super::build::MESSAGE_QUEUE_DEPTH;
use super::limits::{MAX_BLOCK_BYTES, MAX_ENTRIES, MAX_POOLS, MAX_RING_WORDS};
use super::text::bytes_text;
use super::{
    DeployPlan, ExecutorPlan, InputPlan, Limits, OutputPlan, PartitionPlan, PoolPlan, Term, reach,
};

/// Tensor descriptor in front of every payload, bytes (spec/executor-deployer.md §0.4).
pub const DESC_BYTES: u64 = 1024;
/// Readable bytes behind a payload, for vector tails.
pub const SLACK_BYTES: u64 = 64;
/// Blocks are whole pages of this size; a partition ends with one more.
pub const PAGE_BYTES: u64 = 4096;
/// Size of a control message's block.
pub const CONTROL_BLOCK_BYTES: u64 = PAGE_BYTES;
/// Blocks a worker can have in hand at a port.
pub const WORKER_BLOCKS: u64 = 2;

/// Pools under construction: block size → terms.
type Pools = BTreeMap<u64, Vec<Term>>;

/// Size of the blocks for a payload.
pub(super) fn block_size(payload: u64) -> u64 {
    let bytes = payload.saturating_add(DESC_BYTES + SLACK_BYTES);
    bytes.checked_next_multiple_of(PAGE_BYTES).unwrap_or(u64::MAX)
}

/// Fills in partitions and the pool numbers of all ports.
pub(super) fn fill(flow: &CheckedFlow, plan: &mut DeployPlan) -> Result<(), PlanError> {
    let sources: Vec<_> = (0..plan.host.inputs.len()).map(Source::Input).collect();
    let processes = plan.processes().count() as u64;
    let control = processes * (MESSAGE_QUEUE_DEPTH + WORKER_BLOCKS);
    let what = format!("requests: {processes} executor(s) x depth 3 + 2");
    let control = Term { what, count: control };
    let mut host = Budget::new(flow, 0, "host");
    host.outputs(&sources, &plan.host.inputs);
    let partition = host.finish(control)?;
    set_output_pools(&mut plan.host.inputs, &partition);
    plan.partitions.push(partition);
    for executor in &mut plan.executors {
        let partition = fill_executor(flow, executor)?;
        plan.partitions.push(partition);
    }
    Ok(())
}

fn fill_executor(
    flow: &CheckedFlow,
    executor: &mut ExecutorPlan,
) -> Result<PartitionPlan, PlanError> {
    let graph = flow.graph();
    let node = graph.nodes.position(&executor.node).unwrap_or(0);
    let outputs = 0..executor.outputs.len();
    let sources: Vec<_> = outputs.map(|output| Source::Node { node, output }).collect();
    let mut budget = Budget::new(flow, executor.slot, &executor.label);
    budget.outputs(&sources, &executor.outputs);
    let copies = executor.writable_inputs == WritableInputs::Copy;
    for input in &executor.inputs {
        budget.input(node, input, copies);
    }
    // A model has no message queues; answers without data come from these blocks first, too.
    let whose = if executor.is_process() { "responses" } else { "answers without data" };
    let mut what = format!("{whose}: depth {MESSAGE_QUEUE_DEPTH} + 2");
    // An aligned set has one of its inputs at least.
    let absent = executor.align.map_or(0, |_| executor.inputs.len().saturating_sub(1) as u64);
    if absent != 0 {
        what.push_str(&format!(" + {absent} for inputs that do not come"));
    }
    let control = Term { what, count: MESSAGE_QUEUE_DEPTH + WORKER_BLOCKS + absent };
    let partition = budget.finish(control)?;
    set_output_pools(&mut executor.outputs, &partition);
    for input in executor.inputs.iter_mut().filter(|_| copies) {
        input.copy_pool = partition.pool_for(input.max_bytes);
    }
    Ok(partition)
}

fn set_output_pools(outputs: &mut [OutputPlan], partition: &PartitionPlan) {
    for output in outputs {
        output.pool = partition.pool_for(output.max_bytes).unwrap_or(0);
    }
}

/// One partition under construction.
struct Budget<'a> {
    flow: &'a CheckedFlow,
    slot: u32,
    label: &'a str,
    pools: Pools,
    entries: Vec<Term>,
}

impl<'a> Budget<'a> {
    fn new(flow: &'a CheckedFlow, slot: u32, label: &'a str) -> Self {
        Self { flow, slot, label, pools: Pools::new(), entries: Vec::new() }
    }

    fn outputs(&mut self, sources: &[Source], outputs: &[OutputPlan]) {
        for (source, output) in sources.iter().zip(outputs) {
            let places = reach::places(self.flow, *source);
            self.entries.extend(places.iter().cloned());
            let pool = self.pools.entry(block_size(output.max_bytes)).or_default();
            pool.extend(places);
            let what = format!("being written for {}: 1 worker x {WORKER_BLOCKS}", output.name);
            pool.push(Term { what, count: WORKER_BLOCKS });
        }
    }

    fn input(&mut self, node: usize, input: &InputPlan, copies: bool) {
        let kept = u64::from(input.holds);
        let what = format!("references kept to {}: {kept} held + {WORKER_BLOCKS}", input.name);
        self.entries.push(Term { what, count: kept + WORKER_BLOCKS });
        if copies {
            let pool = self.pools.entry(block_size(input.max_bytes)).or_default();
            pool.extend(reach::places_of_copies(self.flow, node));
            let what = format!("copies of {}: {kept} held + {WORKER_BLOCKS}", input.name);
            pool.push(Term { what, count: kept + WORKER_BLOCKS });
        }
    }

    fn finish(mut self, control: Term) -> Result<PartitionPlan, PlanError> {
        while self.pools.len() >= MAX_POOLS {
            self.merge_smallest();
        }
        let mut pools = Vec::new();
        let wanted = std::mem::take(&mut self.pools).into_iter();
        let wanted = wanted.map(|(size, terms)| (size, reach::unique(terms)));
        for (block_size, terms) in [(CONTROL_BLOCK_BYTES, vec![control])].into_iter().chain(wanted)
        {
            if block_size > MAX_BLOCK_BYTES {
                return Err(message_too_large(self.flow, self.label, block_size));
            }
            let block_count = total(&terms);
            let Ok(block_count) = u32::try_from(block_count) else {
                let found = format!("{block_count} blocks");
                return Err(too_large(self.flow, self.label, found, "2^32 - 1 blocks"));
            };
            pools.push(PoolPlan { block_size, block_count, terms });
        }
        let blocks = pools.iter().fold(0_u64, |bytes, pool| {
            bytes.saturating_add(pool.block_size.saturating_mul(u64::from(pool.block_count)))
        });
        let entry_terms = reach::unique(self.entries);
        Ok(PartitionPlan {
            slot: self.slot,
            label: self.label.to_owned(),
            control_pool: 0,
            pools,
            extra_entries: u32::try_from(total(&entry_terms)).unwrap_or(u32::MAX),
            entry_terms,
            bytes: blocks.saturating_add(PAGE_BYTES),
        })
    }

    /// Makes the smallest class part of the next one: a partition has few pools.
    fn merge_smallest(&mut self) {
        let Some((_, terms)) = self.pools.pop_first() else { return };
        if let Some(mut next) = self.pools.first_entry() {
            next.get_mut().extend(terms);
        }
    }
}

fn total(terms: &[Term]) -> u64 {
    terms.iter().fold(0, |sum, term| sum.saturating_add(term.count))
}

fn place(flow: &CheckedFlow, label: &str) -> Place {
    let graph = flow.graph();
    let name = label.split('@').next().unwrap_or(label);
    let (what, ports): (_, Vec<_>) = match graph.nodes.get(name) {
        Some(node) => ("outputs", node.outputs.names().collect()),
        None => ("graph inputs", graph.inputs.names().collect()),
    };
    graph.place().node(label).port(format!("{what} {}", ports.join(", ")))
}

fn too_large(flow: &CheckedFlow, label: &str, found: String, limit: &str) -> PlanError {
    let hint = "lower `max_bytes` of the ports or the `depth` of the queues behind them";
    PlanError::Partition(Problem::new(place(flow, label), found, format!("at most {limit}"), hint))
}

fn message_too_large(flow: &CheckedFlow, label: &str, block_size: u64) -> PlanError {
    PlanError::Message(Problem::new(
        place(flow, label),
        format!("a block of {block_size} B with descriptor and slack"),
        format!("at most {}", bytes_text(MAX_BLOCK_BYTES)),
        "lower `max_bytes`, or send the data in several messages",
    ))
}

/// Refuses a plan that does not fit, with the arithmetic.
pub(super) fn check(
    flow: &CheckedFlow,
    plan: &DeployPlan,
    limits: &Limits,
) -> Result<(), PlanError> {
    for partition in &plan.partitions {
        if partition.bytes > limits.partition {
            let found = format!("{} = {}", bytes_text(partition.bytes), arithmetic(partition));
            let limit = bytes_text(limits.partition);
            return Err(too_large(flow, &partition.label, found, &limit));
        }
    }
    check_group(flow, plan)?;
    let mut limit = (limits.total, "the limit of a memory group");
    if let Some(machine) = limits.machine.filter(|machine| *machine < limit.0) {
        limit = (machine, "the memory of this machine or control group");
    }
    if let Some(config) = memory(flow)? {
        check_blocks(flow, plan, &config)?;
        if config.total() < limit.0 {
            limit = (config.total(), "session `memory`");
        }
    }
    let total = plan.partitions.iter().fold(0, |sum: u64, part| sum.saturating_add(part.bytes));
    if total <= limit.0 {
        return Ok(());
    }
    let parts = plan.partitions.iter();
    let parts = parts.map(|part| format!("{} {}", part.label, bytes_text(part.bytes)));
    let largest = plan.partitions.iter().max_by_key(|part| part.bytes);
    let label = largest.map_or("host", |part| part.label.as_str());
    let found = format!("{} in all = {}", bytes_text(total), parts.collect::<Vec<_>>().join(" + "));
    Err(PlanError::Total(Problem::new(
        flow.graph().place().node(label).port("the largest partition"),
        found,
        format!("at most {} ({})", bytes_text(limit.0), limit.1),
        "lower `max_bytes`, `depth` or `instances`; `dflow plan` shows each term",
    )))
}

/// What the control segment has room for.
fn check_group(flow: &CheckedFlow, plan: &DeployPlan) -> Result<(), PlanError> {
    let refuse = |label: &str, found: String, expected: String| {
        let hint = "lower the `depth` of the queues, `holds`, `max_cache` or `instances`";
        Err(PlanError::Group(Problem::new(place(flow, label), found, expected, hint)))
    };
    let entries: u64 = plan.partitions.iter().map(PartitionPlan::entries).sum();
    if entries > MAX_ENTRIES {
        let most = plan.partitions.iter().max_by_key(|part| part.entries());
        let label = most.map_or("host", |part| part.label.as_str());
        let found = format!("{entries} mbuf entries in all");
        return refuse(label, found, format!("at most {MAX_ENTRIES}"));
    }
    for partition in &plan.partitions {
        let lanes = plan.queues.iter().filter(|one| one.producer_slots.contains(&partition.slot));
        let words: u64 = lanes.map(|queue| u64::from(queue.depth)).sum();
        if words > MAX_RING_WORDS {
            let found = format!("queues of depth {words} together behind it");
            return refuse(&partition.label, found, format!("at most {MAX_RING_WORDS}"));
        }
    }
    Ok(())
}

fn arithmetic(partition: &PartitionPlan) -> String {
    let pools = partition
        .pools
        .iter()
        .map(|pool| format!("{} blocks x {}", pool.block_count, bytes_text(pool.block_size)));
    let pools: Vec<_> = pools.collect();
    format!("{} + {} slack", pools.join(" + "), bytes_text(PAGE_BYTES))
}

fn memory(flow: &CheckedFlow) -> Result<Option<MemoryConfig>, PlanError> {
    let Some(text) = flow.graph().session.memory.as_deref() else { return Ok(None) };
    MemoryConfig::parse(Some(text)).map(Some).map_err(|error| {
        PlanError::Memory(Problem::new(
            flow.graph().place().port("session `memory`"),
            format!("`{text}`: {error}"),
            "size[:limit][,size[:limit]]... in bytes, for example 10737418240",
            "correct `memory`, or leave it out",
        ))
    })
}

fn check_blocks(
    flow: &CheckedFlow,
    plan: &DeployPlan,
    config: &MemoryConfig,
) -> Result<(), PlanError> {
    let largest = config.largest_block();
    for partition in &plan.partitions {
        let Some(pool) = partition.pools.iter().find(|pool| pool.block_size > largest) else {
            continue;
        };
        return Err(PlanError::Block(Problem::new(
            flow.graph().place().node(&partition.label).port("session `memory`"),
            format!("blocks of {}", bytes_text(pool.block_size)),
            format!("blocks of at most {} (largest limit)", bytes_text(largest)),
            "raise a limit of `memory`, or lower `max_bytes`",
        )));
    }
    Ok(())
}
