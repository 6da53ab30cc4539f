//! Blocking verbs: alloc, enqueue and dequeue with a deadline, for threads of a member process.
//!
//! Each tries first and sleeps only on Exhausted, Full or Empty; a `None` deadline waits for ever,
//! a passed one makes a single try. What a verb woke is rung before it returns.

use executor_core::error::{AllocError, DequeueError, EnqueueError};
use executor_core::mbuf::Mbuf;
use executor_core::pool::{Head, Worker};
use executor_core::queue::{Consumer, Producer, Rejected};
use sys::clock::MonoTime;

use crate::waiter::{Waited, Waiter, ring};

/// True once `deadline` has passed: whoever holds a lock then may be stopped, so nobody spins on it
/// any more.
fn is_over(deadline: Option<MonoTime>) -> bool {
    deadline.is_some_and(|deadline| deadline.is_past(MonoTime::now()))
}

/// Allocates, waiting for a free mbuf until `deadline`.
///
/// # Errors
/// [`AllocError::Exhausted`] at the deadline (or after a signal), [`AllocError::TooLarge`] at once.
pub fn alloc(
    worker: &mut Worker<'_>,
    waiter: &Waiter<'_>,
    size: u64,
    head: Head<'_>,
    deadline: Option<MonoTime>,
) -> Result<Mbuf, AllocError> {
    let first = worker.alloc(size, head);
    if first != Err(AllocError::Exhausted) {
        return first;
    }
    let (memory, slot, index) = (worker.memory, worker.slot(), waiter.index());
    let mut got = first;
    let counters = worker.private.ctl;
    let waits = counters.pool_waits.load(executor_core::primitive::Ordering::Relaxed);
    counters.pool_waits.store(waits + 1, executor_core::primitive::Ordering::Relaxed);
    waiter.wait(
        deadline,
        || memory.register_pool_wait(slot, index),
        || {
            got = worker.alloc(size, head);
            got != Err(AllocError::Exhausted)
        },
    );
    memory.withdraw_pool_wait(slot, index);
    got
}

/// Enqueues, waiting for room until `deadline`.
///
/// # Errors
/// [`Rejected`] gives the mbuf back: full at the deadline, or no right to enqueue.
pub fn enqueue<'g>(
    worker: &mut Worker<'g>,
    producer: &mut Producer<'g>,
    waiter: &Waiter<'g>,
    mbuf: Mbuf,
    deadline: Option<MonoTime>,
) -> Result<(), Rejected> {
    let memory = worker.memory;
    let mut mbuf = mbuf;
    loop {
        match producer.enqueue(worker, mbuf) {
            Ok(wakes) => {
                ring(&memory, wakes);
                return Ok(());
            }
            Err(rejected) => match rejected.reason {
                EnqueueError::Full => mbuf = rejected.mbuf,
                EnqueueError::Busy if !is_over(deadline) => {
                    mbuf = rejected.mbuf;
                    std::thread::yield_now();
                    continue;
                }
                _ => return Err(rejected),
            },
        }
        producer.count_full_wait();
        let place = core::cell::RefCell::new(&mut *producer);
        let waited = waiter.wait(
            deadline,
            || place.borrow().register_full_wait(),
            || place.borrow_mut().has_room(),
        );
        producer.withdraw_full_wait();
        if waited != Waited::Ready {
            return Err(Rejected { mbuf, reason: EnqueueError::Full });
        }
    }
}

/// Dequeues, waiting for a message until `deadline`.
///
/// # Errors
/// [`DequeueError::Empty`] at the deadline; `Fault` when an impossible entry was skipped.
pub fn dequeue<'g>(
    worker: &mut Worker<'g>,
    consumer: &mut Consumer<'g>,
    waiter: &Waiter<'g>,
    deadline: Option<MonoTime>,
) -> Result<Mbuf, DequeueError> {
    let memory = worker.memory;
    loop {
        match consumer.dequeue(worker) {
            Ok((mbuf, wakes)) => {
                ring(&memory, wakes);
                return Ok(mbuf);
            }
            Err(DequeueError::Empty) => {}
            Err(DequeueError::Busy) if !is_over(deadline) => {
                std::thread::yield_now();
                continue;
            }
            Err(other) => return Err(other),
        }
        if waiter.wait(deadline, || {}, || consumer.has_message(&memory)) != Waited::Ready {
            return Err(DequeueError::Empty);
        }
    }
}

/// Frees and rings.
pub fn free(worker: &mut Worker<'_>, mbuf: Mbuf) {
    let wakes = worker.free(mbuf);
    ring(&worker.memory, wakes);
}
