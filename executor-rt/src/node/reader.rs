//! Collects one set of inputs: one message of each port, in port order, kept until all are there.
//!
//! Messages pair by position, or by key or time where the node aligns its inputs ([`super::align`],
//! [`super::by_time`]). Every
//! input is marked with port and set before its dequeue commits, so that after a death the
//! successor finds the set as it was ([`mod@super::adopt`]). What the aligner caches is of no set
//! yet: its mark counts on from [`CACHED`], which no set reaches, so that it outlives every set and
//! keeps its order; it is marked anew when it becomes part of one.

use executor_core::error::{Code, DequeueError};
use executor_core::mbuf::Mbuf;
use executor_core::pool::Worker;
use executor_core::queue::Consumer;
use executor_core::wake::WakeSet;

use sys::clock::MonoTime;

use super::add;
use super::align::{Aligner, Key, Lack, Settings};
use super::by_time::{self, ByTime, Codes};
use crate::waiter::ring;

/// First number of marks of cached messages.
pub const CACHED: u64 = 1 << 62;
/// What a predecessor had put together but not delivered is older than all it had cached.
const FIRST_ARRIVAL: u64 = 1 << 40;

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
#[derive(Debug, Default)]
pub struct Reader {
    /// The ports.
    pub inputs: Box<[Input]>,
    align: Option<Box<Align>>,
    time: Option<Box<ByTime>>,
}

/// What a node has that aligns its inputs.
#[derive(Debug)]
struct Align {
    aligner: Aligner<Mbuf>,
    /// Code of an input that did not come.
    code: Code,
    /// Mark of the next message.
    arrival: u64,
    /// The ports hold a set that was not given back yet.
    formed: Option<Formed>,
}

/// A set as the aligner gave it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Formed {
    /// Of each input a message.
    Whole,
    /// Of some inputs; the others get a message with this code.
    Partial(Code, Lack),
    /// Of some inputs; it is answered with this code.
    Dropped(Code, Lack),
}

/// How far a set is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Collected {
    /// Every port holds its message.
    Ready,
    /// This port is empty.
    Missing(usize),
    /// Read, and not yet enough; call again.
    Again,
    /// Dropped a message of this port that has no time; call again.
    Timeless(usize),
    /// Skipped an impossible entry of this port; call again.
    Fault(usize),
    /// This port's queue is gone.
    Failed(usize, Code),
}

impl Align {
    /// Now, if it matters.
    fn now(&self) -> Option<MonoTime> {
        let limited = self.aligner.settings().timeout_ms.is_some();
        limited.then(MonoTime::now)
    }

    /// The next set, if there is one.
    fn next(&self) -> Option<(Key, Formed)> {
        if self.aligner.is_empty() {
            return None;
        }
        if let Some(key) = self.aligner.complete() {
            return Some((key, Formed::Whole));
        }
        let (key, lack) = self.aligner.given_up(self.now())?;
        let drop = self.aligner.settings().drop;
        let formed = if drop { Formed::Dropped } else { Formed::Partial };
        Some((key, formed(self.code, lack)))
    }

    fn push(&mut self, worker: &mut Worker<'static>, port: usize, mbuf: Mbuf) {
        let info = worker.of(&mbuf).msg_info();
        let key = Key { trans_id: info.trans_id, label: info.data_label };
        if self.aligner.is_late(port, key) {
            // Its id was answered without it.
            add(&worker.private.ctl.late, 1);
            let wakes = worker.free(mbuf);
            ring(&worker.memory, wakes);
            return;
        }
        if let Err(mbuf) = self.aligner.push(port, key, self.now(), mbuf) {
            // More than a predecessor can have had: a peer wrote over marks.
            let wakes = worker.free(mbuf);
            ring(&worker.memory, wakes);
        }
    }

    fn collect(
        &mut self,
        inputs: &mut [Input],
        worker: &mut Worker<'static>,
        set: u64,
    ) -> Collected {
        if self.formed.is_some() {
            return Collected::Ready;
        }
        let mut empty = None;
        for _ in 0..=2 * inputs.len() {
            if let Some((key, formed)) = self.next() {
                self.aligner.take(key, |port, mbuf| {
                    worker.of(&mbuf).mark_input(u32::try_from(port).ok(), set);
                    if let Some(input) = inputs.get_mut(port) {
                        input.held = Some(mbuf);
                    }
                });
                self.formed = Some(formed);
                return Collected::Ready;
            }
            let Some(port) = self.aligner.next_after(empty) else { return Collected::Missing(0) };
            let Some(input) = inputs.get_mut(port) else { return Collected::Missing(port) };
            let number = u32::try_from(port).unwrap_or(u32::MAX);
            match input.consumer.dequeue_input(worker, number, self.arrival) {
                Ok((mbuf, wakes)) => {
                    ring(&worker.memory, wakes);
                    self.arrival += 1;
                    self.push(worker, port, mbuf);
                    empty = None;
                }
                Err(DequeueError::Empty | DequeueError::Busy) => empty = Some(port),
                Err(DequeueError::Fault) => return Collected::Fault(port),
                Err(other) => return Collected::Failed(port, other.code()),
            }
        }
        Collected::Again
    }
}

impl Reader {
    /// A reader of these ports.
    #[must_use]
    pub fn new(inputs: Box<[Input]>) -> Reader {
        Reader { inputs, align: None, time: None }
    }

    /// Has it align its inputs, if there are several; one that does not come has `code`. Allocates.
    pub fn align(&mut self, settings: Option<Settings>, code: Code) {
        let count = self.inputs.len();
        self.align = settings.filter(|_| count > 1).map(|settings| {
            let aligner = Aligner::new(count, settings);
            Box::new(Align { aligner, code, arrival: CACHED + FIRST_ARRIVAL, formed: None })
        });
    }

    /// Has it align its inputs by time, if there are several. Allocates.
    pub fn align_by_time(&mut self, settings: Option<by_time::Settings>, codes: Codes) {
        let several = self.inputs.len() > 1;
        self.time = settings.filter(|_| several).map(|own| Box::new(ByTime::new(own, codes)));
    }

    /// Takes back a message that a dead process held: true when it is cached now, in the order of
    /// these calls for one port and key. `mark` is what it had, `delivered` the last set that was.
    pub(super) fn take_back(
        &mut self,
        worker: &mut Worker<'static>,
        (port, mark, delivered): (u32, u64, u64),
        mbuf: Mbuf,
    ) -> Result<(), Mbuf> {
        let Some(align) = self.align.as_mut().filter(|_| mark > delivered) else {
            return Err(mbuf);
        };
        if mark < CACHED {
            // Put together but not delivered: older than what is cached, and again of no set.
            let first = CACHED + mark.min(FIRST_ARRIVAL - 1);
            worker.of(&mbuf).mark_input(Some(port), first);
        } else {
            align.arrival = align.arrival.max(mark.saturating_add(1));
        }
        align.push(worker, port as usize, mbuf);
        Ok(())
    }

    /// How the set that the ports hold was put together.
    #[must_use]
    pub fn formed(&self) -> Formed {
        let by_id = self.align.as_ref().and_then(|align| align.formed);
        let by_time = self.time.as_ref().and_then(|time| time.formed);
        by_id.or(by_time).unwrap_or(Formed::Whole)
    }

    /// When a message was cached for too long.
    #[must_use]
    pub fn next_due(&self) -> Option<MonoTime> {
        let by_id = self.align.as_ref().and_then(|align| align.aligner.next_due());
        by_id.or_else(|| self.time.as_ref()?.due())
    }

    /// Reads what is missing of set `set`, until a port is empty.
    pub fn collect(&mut self, worker: &mut Worker<'static>, set: u64) -> Collected {
        if let Some(align) = &mut self.align {
            return align.collect(&mut self.inputs, worker, set);
        }
        let Some(time) = &mut self.time else { return self.fill(worker, set) };
        if time.formed.is_some() {
            return Collected::Ready;
        }
        let filled = self.fill(worker, set);
        let missing = match filled {
            Collected::Ready => None,
            Collected::Missing(port) => Some(port),
            other => return other,
        };
        let Reader { inputs, time: Some(time), .. } = self else { return filled };
        time.form(inputs, worker, (set, missing))
    }

    /// Reads a message of each port that holds none, until one is empty.
    fn fill(&mut self, worker: &mut Worker<'static>, set: u64) -> Collected {
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

    /// True when there is a message now of `port`, which was missing, or of any input that can be
    /// read instead.
    pub fn has_message(&mut self, worker: &Worker<'static>, port: usize) -> bool {
        if let Some(align) = &self.align {
            let ports = std::iter::successors(align.aligner.next_after(None), |port| {
                align.aligner.next_after(Some(*port))
            });
            return ports.into_iter().any(|port| {
                let input = self.inputs.get_mut(port);
                input.is_some_and(|input| input.consumer.has_message(&worker.memory))
            });
        }
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

    /// Whether a message of the set that this id names ends a sequence.
    pub fn ends_sequence(&self, worker: &Worker<'static>, trans_id: u64) -> bool {
        let mut held = self.inputs.iter().filter_map(|input| input.held.as_ref());
        // By time other ids are of the set, too, unless they wait for the next one.
        let set = self.first().map(|mbuf| worker.of(mbuf).input_mark().1);
        held.any(|mbuf| {
            let access = worker.of(mbuf);
            let of_set = match self.time {
                None => access.msg_info().trans_id == trans_id,
                Some(_) => Some(access.input_mark().1) == set,
            };
            access.is_eos() && of_set
        })
    }

    /// Message of a port.
    pub fn get(&self, port: usize) -> Option<&Mbuf> {
        self.inputs.get(port)?.held.as_ref()
    }

    /// Smallest and largest trans_id of the messages held; by time twice the first input's, which
    /// names the set.
    pub fn id_range(&self, worker: &Worker<'static>) -> Option<(u64, u64)> {
        let mut held = self.inputs.iter().filter_map(|input| input.held.as_ref());
        let id = worker.of(held.next()?).msg_info().trans_id;
        if self.time.is_some() {
            return Some((id, id));
        }
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
        if let Some(time) = &mut self.time {
            time.begin();
        }
        if let Some(align) = &mut self.align {
            align.formed = None;
            align.aligner.clear(|mbuf| {
                let wakes = worker.free(mbuf);
                ring(&worker.memory, wakes);
                dropped += 1;
            });
        }
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
        if let Some(align) = &mut self.align {
            align.formed = None;
        }
        if let Some(time) = &mut self.time {
            time.begin();
        }
        for input in &mut self.inputs {
            if let Some(mbuf) = input.held.take_if(|mbuf| worker.of(mbuf).input_mark().1 <= set) {
                let wakes = worker.free(mbuf);
                ring(&worker.memory, wakes);
            }
        }
    }
}
