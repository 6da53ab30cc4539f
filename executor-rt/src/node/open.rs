//! Opening the ends of queues; a grant that has not come yet is waited for.

use std::collections::VecDeque;

use executor_core::error::{Code, QueueError};
use executor_core::owner::QueueId;
use executor_core::pool::Worker;
use executor_core::queue::{Consumer, Producer};
use sys::clock::MonoTime;

use super::reader::{Input, Reader};
use super::writer::{Destination, Writer};
use super::{Control, Failure, Node};
use crate::log::Logger;
use crate::proto::OutputDestinations;

/// Wait between two looks at a grant, milliseconds.
const LOOK_MS: u64 = 1;
/// Most destinations: bits of `SlotCtl::committed`.
pub const DESTINATIONS_MAX: usize = 64;

fn granted<C: Control, T>(
    node: &mut Node<C>,
    queue: u32,
    limit_ms: u64,
    what: &str,
    logger: &Logger,
    open: impl Fn(&Worker<'static>) -> Result<T, QueueError>,
) -> Result<T, Failure> {
    let limit = MonoTime::now().add_ms(limit_ms);
    loop {
        let error = match open(&node.worker) {
            Ok(end) => return Ok(end),
            Err(error) => error,
        };
        let now = MonoTime::now();
        if error != QueueError::NotPermitted || limit.is_past(now) {
            let text = format!("{what}, queue {queue}: {error} (waited up to {limit_ms} ms)");
            return Err(Failure::new(error.code(), text));
        }
        node.park(Some(now.add_ms(LOOK_MS)), false, |_| false);
        if let Some(end) = node.serve(logger) {
            return Err(end.into());
        }
    }
}

/// The consumer end of a queue.
///
/// # Errors
/// No grant within `limit_ms`, or no such queue.
pub fn consumer<C: Control>(
    node: &mut Node<C>,
    queue: u32,
    limit_ms: u64,
    what: &str,
    logger: &Logger,
) -> Result<Consumer<'static>, Failure> {
    granted(node, queue, limit_ms, what, logger, |worker| Consumer::open(worker, QueueId(queue)))
}

/// The producer end of a queue; `destination` is noted in journals, for sweeps.
///
/// # Errors
/// As [`consumer`].
pub fn producer<C: Control>(
    node: &mut Node<C>,
    queue: u32,
    destination: Option<usize>,
    limit_ms: u64,
    what: &str,
    logger: &Logger,
) -> Result<Producer<'static>, Failure> {
    let out = destination.and_then(|index| u32::try_from(index).ok());
    granted(node, queue, limit_ms, what, logger, |worker| {
        Producer::open(worker, QueueId(queue), out)
    })
}

/// Queues of a node, and how long their grants are waited for.
#[derive(Clone, Copy, Debug)]
pub struct Ports<'p> {
    /// The node's name, for texts.
    pub name: &'p str,
    /// Queue of each input port.
    pub inputs: &'p [u32],
    /// Consumer groups of each output port.
    pub outputs: &'p [OutputDestinations],
    /// Longest wait for the grant of one queue, milliseconds.
    pub limit_ms: u64,
}

/// Opens every port: fills the node's reader and writer.
///
/// # Errors
/// A queue is missing, or there are too many destinations.
pub fn ports<C: Control>(
    node: &mut Node<C>,
    ports: Ports<'_>,
    logger: &Logger,
) -> Result<(), Failure> {
    let Ports { name, limit_ms, .. } = ports;
    let mut inputs = Vec::with_capacity(ports.inputs.len());
    for (port, queue) in ports.inputs.iter().enumerate() {
        let what = format!("input {port} of {name}");
        let consumer = consumer(node, *queue, limit_ms, &what, logger)?;
        inputs.push(Input { consumer, held: None });
    }
    node.reader = Reader::new(inputs.into());
    let mut destinations = Vec::new();
    let mut ranges = Vec::with_capacity(ports.outputs.len());
    for (port, output) in ports.outputs.iter().enumerate() {
        let first = destinations.len();
        for group in &output.groups {
            let what = format!("output {port} of {name}");
            let index = destinations.len();
            destinations.extend(destination(
                node,
                &group.queue_ids,
                index,
                limit_ms,
                &what,
                logger,
            )?);
        }
        ranges.push(first..destinations.len());
    }
    let found = destinations.len();
    if found > DESTINATIONS_MAX {
        let text = format!("{name}: {found} destinations, at most {DESTINATIONS_MAX}");
        return Err(Failure::new(Code::OVER_LIMIT, text));
    }
    node.writer = Writer::new(ranges.into(), destinations.into());
    Ok(())
}

/// One consumer group; `None` when nobody reads it.
fn destination<C: Control>(
    node: &mut Node<C>,
    queues: &[u32],
    index: usize,
    limit_ms: u64,
    what: &str,
    logger: &Logger,
) -> Result<Option<Destination>, Failure> {
    let mut lanes = Vec::with_capacity(queues.len());
    for queue in queues.iter().filter(|queue| **queue != QueueId::DUMMY.0) {
        lanes.push(producer(node, *queue, Some(index), limit_ms, what, logger)?);
    }
    if lanes.is_empty() {
        return Ok(None);
    }
    let desc = node.worker.memory.slot_descs.get(node.worker.slot().0 as usize);
    let entries = desc.map_or(0, |desc| desc.block_count as usize + desc.extra_count as usize);
    Ok(Some(Destination { lanes: lanes.into(), cache: VecDeque::with_capacity(entries) }))
}
