//! Opening the ends of queues; a grant that has not come yet is waited for.

use std::collections::VecDeque;

use executor_core::error::{Code, QueueError};
use executor_core::owner::QueueId;
use executor_core::pool::Worker;
use executor_core::queue::{Consumer, Producer};
use executor_rt::log::Logger;
use sys::clock::MonoTime;

use super::{ATTACH_MS, Failure, Model};
use crate::node::Node;
use crate::reader::{Input, Reader};
use crate::writer::{Destination, Writer};

/// Wait between two looks at a grant, milliseconds.
const LOOK_MS: u64 = 1;
/// Most destinations: bits of `SlotCtl::committed`.
const DESTINATIONS_MAX: usize = 64;

fn granted<T>(
    node: &mut Node,
    queue: u32,
    what: &str,
    logger: &Logger,
    open: impl Fn(&Worker<'static>) -> Result<T, QueueError>,
) -> Result<T, Failure> {
    let limit = MonoTime::now().add_ms(ATTACH_MS);
    loop {
        let error = match open(&node.worker) {
            Ok(end) => return Ok(end),
            Err(error) => error,
        };
        let now = MonoTime::now();
        if error != QueueError::NotPermitted || limit.is_past(now) {
            let text = format!("{what}, queue {queue}: {error} (waited up to {ATTACH_MS} ms)");
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
/// No grant within ten seconds, or no such queue.
pub(crate) fn consumer(
    node: &mut Node,
    queue: u32,
    what: &str,
    logger: &Logger,
) -> Result<Consumer<'static>, Failure> {
    granted(node, queue, what, logger, |worker| Consumer::open(worker, QueueId(queue)))
}

/// The producer end of a queue; `destination` is noted in journals, for sweeps.
///
/// # Errors
/// As [`consumer`].
pub(crate) fn producer(
    node: &mut Node,
    queue: u32,
    destination: Option<usize>,
    what: &str,
    logger: &Logger,
) -> Result<Producer<'static>, Failure> {
    let out = destination.and_then(|index| u32::try_from(index).ok());
    granted(node, queue, what, logger, |worker| Producer::open(worker, QueueId(queue), out))
}

/// Opens every port of the model.
///
/// # Errors
/// A queue is missing, or there are too many destinations.
pub(crate) fn open(node: &mut Node, model: &Model, logger: &Logger) -> Result<(), Failure> {
    let mut inputs = Vec::with_capacity(model.inputs.len());
    for (port, queue) in model.inputs.iter().enumerate() {
        let what = format!("input {port} of {}", model.node);
        inputs.push(Input { consumer: consumer(node, *queue, &what, logger)?, held: None });
    }
    node.reader = Reader { inputs: inputs.into() };
    let mut destinations = Vec::new();
    let mut ports = Vec::with_capacity(model.outputs.len());
    for (port, output) in model.outputs.iter().enumerate() {
        let first = destinations.len();
        for group in &output.groups {
            let what = format!("output {port} of {}", model.node);
            if let Some(to) =
                destination(node, &group.queue_ids, destinations.len(), &what, logger)?
            {
                destinations.push(to);
            }
        }
        ports.push(first..destinations.len());
    }
    let found = destinations.len();
    if found > DESTINATIONS_MAX {
        let text = format!("{}: {found} destinations, at most {DESTINATIONS_MAX}", model.node);
        return Err(Failure::new(Code::OVER_LIMIT, text));
    }
    node.writer = Writer::new(ports.into(), destinations.into());
    Ok(())
}

/// One consumer group; `None` when nobody reads it.
fn destination(
    node: &mut Node,
    queues: &[u32],
    index: usize,
    what: &str,
    logger: &Logger,
) -> Result<Option<Destination>, Failure> {
    let mut lanes = Vec::with_capacity(queues.len());
    for queue in queues.iter().filter(|queue| **queue != QueueId::DUMMY.0) {
        lanes.push(producer(node, *queue, Some(index), what, logger)?);
    }
    if lanes.is_empty() {
        return Ok(None);
    }
    let desc = node.worker.memory.slot_descs.get(node.worker.slot().0 as usize);
    let entries = desc.map_or(0, |desc| desc.block_count as usize + desc.extra_count as usize);
    Ok(Some(Destination { lanes: lanes.into(), cache: VecDeque::with_capacity(entries) }))
}
