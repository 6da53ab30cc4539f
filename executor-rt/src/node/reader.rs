//! Collects one set of inputs: one message of each port, in port order, kept until all are there.
//!
//! It is not an aligner: messages pair by position. Every input is marked with port and set before
//! its dequeue commits, so that after a death the successor finds the set as it was
//! ([`mod@super::adopt`]).

use executor_core::error::{Code, DequeueError};
use executor_core::mbuf::Mbuf;
use executor_core::pool::Worker;
use executor_core::queue::Consumer;
use executor_core::wake::WakeSet;

use crate::waiter::ring;

/// Most messages that are dropped of one input when it is cleared.
const CLEAR_MAX: u32 = 1 << 16;

/// One input port.
#[derive(Debug)]
pub struct Input {
    /// Consumer end of its queue.
    pub consumer: Consumer<'static>,
    /// What was read and not given back yet.
    pub held: Option<Mbuf>,
}

/// Input ports in order.
#[derive(Debug)]
pub struct Reader {
    /// The ports.
    pub inputs: Box<[Input]>,
}

/// How far a set is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Collected {
    /// Every port holds its message.
    Ready,
    /// This port is empty.
    Missing(usize),
    /// Skipped an impossible entry of this port; call again.
    Fault(usize),
    /// This port's queue is gone.
    Failed(usize, Code),
}

impl Reader {
    /// Reads what is missing of set `set`, until a port is empty.
    pub fn collect(&mut self, worker: &mut Worker<'static>, set: u64) -> Collected {
        for (index, input) in self.inputs.iter_mut().enumerate() {
            if input.held.is_some() {
                continue;
            }
            let port = u32::try_from(index).unwrap_or(u32::MAX);
            match input.consumer.dequeue_input(worker, port, set) {
                Ok((mbuf, wakes)) => {
                    ring(&worker.memory, wakes);
                    input.held = Some(mbuf);
                }
                // Busy: the holder of a shared end moves on, or is repaired by the supervisor.
                Err(DequeueError::Empty | DequeueError::Busy) => return Collected::Missing(index),
                Err(DequeueError::Fault) => return Collected::Fault(index),
                Err(other) => return Collected::Failed(index, other.code()),
            }
        }
        Collected::Ready
    }

    /// True when `port` has a message now.
    pub fn has_message(&mut self, worker: &Worker<'static>, port: usize) -> bool {
        let input = self.inputs.get_mut(port);
        input.is_some_and(|input| input.consumer.has_message(&worker.memory))
    }

    /// The message whose head the outputs inherit: the first one held (udf §3.6).
    pub fn first(&self) -> Option<&Mbuf> {
        self.inputs.iter().find_map(|input| input.held.as_ref())
    }

    /// The first message held with this id.
    pub fn with_id(&self, worker: &Worker<'static>, trans_id: u64) -> Option<&Mbuf> {
        let mut held = self.inputs.iter().filter_map(|input| input.held.as_ref());
        held.find(|mbuf| worker.of(mbuf).msg_info().trans_id == trans_id)
    }

    /// Message of a port.
    pub fn get(&self, port: usize) -> Option<&Mbuf> {
        self.inputs.get(port)?.held.as_ref()
    }

    /// Smallest and largest trans_id of the messages held.
    pub fn id_range(&self, worker: &Worker<'static>) -> Option<(u64, u64)> {
        let mut held = self.inputs.iter().filter_map(|input| input.held.as_ref());
        let id = worker.of(held.next()?).msg_info().trans_id;
        Some(
            held.map(|mbuf| worker.of(mbuf).msg_info().trans_id)
                .fold((id, id), |(low, high), id| (low.min(id), high.max(id))),
        )
    }

    /// Moves every input that is not of `trans_id` to set `set`: it is not part of the present one.
    pub fn postpone_others(&self, worker: &Worker<'static>, trans_id: u64, set: u64) {
        for (port, input) in (0u32..).zip(&self.inputs) {
            let Some(mbuf) = &input.held else { continue };
            let mbuf = worker.of(mbuf);
            if mbuf.msg_info().trans_id != trans_id {
                mbuf.mark_input(Some(port), set);
            }
        }
    }

    /// Gives back every input that is held or queued now; how many that were. A queue that goes on
    /// being filled is left after as many messages as one queue can have.
    pub fn clear(&mut self, worker: &mut Worker<'static>) -> u64 {
        let mut dropped = 0;
        for input in &mut self.inputs {
            for _ in 0..CLEAR_MAX {
                let next = match input.held.take() {
                    Some(mbuf) => Some((mbuf, WakeSet::NONE)),
                    None => input.consumer.dequeue(worker).ok(),
                };
                let Some((mbuf, wakes)) = next else { break };
                ring(&worker.memory, wakes);
                let wakes = worker.free(mbuf);
                ring(&worker.memory, wakes);
                dropped += 1;
            }
        }
        dropped
    }

    /// Gives back the inputs of sets up to `set`.
    pub fn free_set(&mut self, worker: &mut Worker<'static>, set: u64) {
        for input in &mut self.inputs {
            if let Some(mbuf) = input.held.take_if(|mbuf| worker.of(mbuf).input_mark().1 <= set) {
                let wakes = worker.free(mbuf);
                ring(&worker.memory, wakes);
            }
        }
    }
}
