//! Output side: destinations, their order, and what waits for room (udf §3.7).
//!
//! A *destination* is one consumer group of one output port; its instances are chosen by trans_id
//! and route_label (0 unless a function sets it): what has the same two goes to the same instance.
//! An enqueue that finds no room goes to the destination's cache, and everything after it too, so
//! each destination keeps its order. Caches hold mbufs out of the own quota of entries only, so
//! their capacity, that quota, can't be exceeded; it is allocated before seal and never grows.
//!
//! `given` has a bit for each destination that got a message of the present set, enqueued or
//! cached; `SlotCtl::committed` has one for each whose message was enqueued, which survives a
//! death.
//!
//! | killed after | state seen | repaired by |
//! |---|---|---|
//! | enqueue, before its ring word | bit clear | successor: not sent, the destination is answered |
//! | ring word, before the journal closes | journal open | sweep: sets the bit |
//! | journal closed | bit set (`Producer::enqueue` does it before) | nothing |

use core::ops::Range;
use std::collections::VecDeque;

use crate::waiter::ring;
use executor_core::abi::MsgInfo;
use executor_core::error::{Code, EnqueueError};
use executor_core::mbuf::Mbuf;
use executor_core::pool::Worker;
use executor_core::queue::{Producer, Rejected};

/// One consumer group of an output port.
#[derive(Debug)]
pub struct Destination {
    /// Instances, chosen by `instance`.
    pub lanes: Box<[Producer<'static>]>,
    /// Messages that found no room, oldest first.
    pub cache: VecDeque<Mbuf>,
}

/// All outputs of the node.
#[derive(Debug)]
pub struct Writer {
    /// Destinations of each output port.
    pub ports: Box<[Range<usize>]>,
    /// All destinations; the index is the bit in `given` and `committed`.
    pub destinations: Box<[Destination]>,
    /// Destinations that got a message of the present set.
    pub given: u64,
    /// Messages in caches.
    cached: usize,
    /// An enqueue failed for another reason than a full queue.
    failure: Option<Code>,
}

/// What a flush left behind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flush {
    /// Nothing.
    Empty,
    /// Messages that wait for room.
    Full,
    /// A queue is gone.
    Failed(Code),
}

/// Which of `count` instances a message goes to.
fn instance(info: &MsgInfo, count: usize) -> usize {
    let key = info.trans_id.wrapping_add(u64::from(info.route_label));
    usize::try_from(key % count as u64).unwrap_or(0)
}

impl Writer {
    /// A writer without messages.
    pub fn new(ports: Box<[Range<usize>]>, destinations: Box<[Destination]>) -> Writer {
        Writer { ports, destinations, given: 0, cached: 0, failure: None }
    }

    /// Bits of all destinations.
    pub fn all(&self) -> u64 {
        match self.destinations.len() {
            0 => 0,
            n => u64::MAX >> (64 - n.min(64)),
        }
    }

    /// True when no message waits for room.
    pub fn is_flushed(&self) -> bool {
        self.cached == 0 && self.failure.is_none()
    }

    /// Sends `mbuf` to a destination, or keeps it until there is room.
    pub fn push(&mut self, worker: &mut Worker<'static>, destination: usize, mbuf: Mbuf) {
        self.given |= 1 << destination;
        let empty = self.destinations.get(destination).is_some_and(|d| d.cache.is_empty());
        let left = if empty { self.send(worker, destination, mbuf) } else { Some(mbuf) };
        let (Some(mbuf), Some(to)) = (left, self.destinations.get_mut(destination)) else { return };
        if to.cache.len() < to.cache.capacity() {
            to.cache.push_back(mbuf);
            self.cached += 1;
            return;
        }
        // More messages than the own entries: a peer freed entries that are not its.
        self.failure = Some(Code::PEER_FAULT);
        let wakes = worker.free(mbuf);
        ring(&worker.memory, wakes);
    }

    /// One enqueue; the mbuf comes back when the queue is full.
    fn send(&mut self, worker: &mut Worker<'static>, index: usize, mbuf: Mbuf) -> Option<Mbuf> {
        let destination = self.destinations.get_mut(index)?;
        let at = match destination.lanes.len() {
            0 | 1 => 0,
            count => instance(&worker.of(&mbuf).msg_info(), count),
        };
        match destination.lanes.get_mut(at)?.enqueue(worker, mbuf) {
            Ok(wakes) => {
                ring(&worker.memory, wakes);
                None
            }
            Err(Rejected { mbuf, reason: EnqueueError::Full }) => Some(mbuf),
            Err(Rejected { mbuf, reason: EnqueueError::Busy }) => {
                // The holder of the queue's lock moves on, or is repaired by the supervisor.
                std::thread::yield_now();
                Some(mbuf)
            }
            Err(Rejected { mbuf, reason }) => {
                self.failure = Some(reason.code());
                let wakes = worker.free(mbuf);
                ring(&worker.memory, wakes);
                None
            }
        }
    }

    /// Sends what waits for room, each destination in its order.
    pub fn flush(&mut self, worker: &mut Worker<'static>) -> Flush {
        if self.cached != 0 {
            for index in 0..self.destinations.len() {
                self.flush_destination(worker, index);
            }
        }
        match self.failure {
            Some(code) => Flush::Failed(code),
            None if self.cached == 0 => Flush::Empty,
            None => Flush::Full,
        }
    }

    fn flush_destination(&mut self, worker: &mut Worker<'static>, index: usize) {
        while let Some(mbuf) = self.destinations.get_mut(index).and_then(|d| d.cache.pop_front()) {
            match self.send(worker, index, mbuf) {
                None => self.cached -= 1,
                Some(mbuf) => {
                    if let Some(destination) = self.destinations.get_mut(index) {
                        destination.cache.push_front(mbuf);
                    }
                    return;
                }
            }
        }
    }

    /// Gives back what waits for room and forgets a failure: the set under way is given up. Returns
    /// how many messages that were.
    pub fn clear(&mut self, worker: &mut Worker<'static>) -> u64 {
        let mut dropped = 0;
        for mbuf in self.destinations.iter_mut().flat_map(|to| to.cache.drain(..)) {
            let wakes = worker.free(mbuf);
            ring(&worker.memory, wakes);
            dropped += 1;
        }
        (self.cached, self.failure, self.given) = (0, None, 0);
        dropped
    }

    /// The queues that the oldest cached messages wait for.
    fn blocked(
        &mut self,
        worker: &Worker<'static>,
    ) -> impl Iterator<Item = &mut Producer<'static>> {
        let memory = worker.memory;
        self.destinations.iter_mut().filter_map(move |destination| {
            let info = memory.mbuf(destination.cache.front()?)?.msg_info();
            let at = instance(&info, destination.lanes.len().max(1));
            destination.lanes.get_mut(at)
        })
    }

    /// Asks for a wake-up when there is room again.
    pub fn register(&mut self, worker: &Worker<'static>) {
        self.blocked(worker).for_each(|lane| lane.register_full_wait());
    }

    /// Withdraws [`Writer::register`].
    pub fn withdraw(&mut self) {
        let lanes = self.destinations.iter_mut().flat_map(|destination| &mut destination.lanes);
        lanes.for_each(|lane| lane.withdraw_full_wait());
    }

    /// Counts a wait for room.
    pub fn count_full_wait(&mut self, worker: &Worker<'static>) {
        self.blocked(worker).for_each(|lane| lane.count_full_wait());
    }

    /// True when a flush would send something.
    pub fn has_room(&mut self, worker: &Worker<'static>) -> bool {
        self.blocked(worker).any(|lane| lane.has_room())
    }
}
