//! Fetching: the session's answers first, then the output queues, port after port in turn.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use executor_core::error::{Code, DequeueError, QueueError};
use executor_core::owner::{QueueId, SlotId};
use executor_core::pool::Worker;
use executor_core::queue::Consumer;
use executor_rt::port;
use executor_rt::waiter::{Waiter, ring};
use sys::clock::MonoTime;

use super::ledger::{Answer, Settled};
use super::message::{Event, Failure, Output};
use super::{Ended, Shared, lock};
use crate::deploy::group::{WAITER_FEED, WAITER_FETCH};
use crate::plan::{DeployPlan, ExecutorPlan};

/// Why there is no event.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum FetchError {
    /// Nothing before the deadline.
    TimedOut,
    /// The session ended and everything was fetched.
    Ended(Ended),
}

impl FetchError {
    /// The code.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            FetchError::TimedOut => Code::QUEUE_EMPTY,
            FetchError::Ended(ended) => ended.code,
        }
    }
}

impl std::fmt::Display for FetchError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FetchError::TimedOut => f.write_str("no event before the deadline"),
            FetchError::Ended(ended) => write!(f, "the session has ended: {}", ended.reason),
        }
    }
}

impl std::error::Error for FetchError {}

/// The fetching half of a session: one worker, one consumer an output port.
#[derive(Debug)]
pub(super) struct FetchSide {
    worker: Worker<'static>,
    waiter: Waiter<'static>,
    ports: Vec<Consumer<'static>>,
    next: usize,
}

impl FetchSide {
    pub(super) fn open(
        plan: &DeployPlan,
        worker: Worker<'static>,
    ) -> Result<FetchSide, QueueError> {
        let waiter = Waiter::new(&worker.memory, SlotId(0), WAITER_FETCH);
        let waiter = waiter.ok_or(QueueError::Invalid)?;
        let ports = plan.host.outputs.iter();
        let ports = ports.map(|output| Consumer::open(&worker, QueueId(output.queue)));
        let ports = ports.collect::<Result<_, _>>()?;
        Ok(FetchSide { worker, waiter, ports, next: 0 })
    }
}

/// The host's waiters that feed and fetch sleep on.
pub(super) fn host_waiters(shared: &Shared) -> impl Iterator<Item = Waiter<'static>> + use<> {
    let memory = shared.attached.group.memory;
    [WAITER_FETCH, WAITER_FEED].into_iter().filter_map(move |i| Waiter::new(&memory, SlotId(0), i))
}

pub(super) fn fetch(shared: &Arc<Shared>, deadline: Option<MonoTime>) -> Result<Event, FetchError> {
    let mut side = shared.fetch.take(deadline).ok_or(FetchError::TimedOut)?;
    loop {
        // The clock first: what is found missing then was missing at the deadline.
        let now = MonoTime::now();
        let ended = lock(&shared.ended).clone();
        let answer = {
            let mut ledger = lock(&shared.ledger);
            ledger.expire(now);
            ledger.take_answer()
        };
        if let Some(answer) = answer {
            shared.tell_room();
            return Ok(answered(answer));
        }
        if let Some(event) = poll(shared, &mut side) {
            return Ok(event);
        }
        if let Some(ended) = ended
            && lock(&shared.ledger).is_empty()
        {
            return Err(FetchError::Ended(ended));
        }
        if deadline.is_some_and(|deadline| deadline.is_past(now)) {
            return Err(FetchError::TimedOut);
        }
        let next = lock(&shared.ledger).next_deadline();
        let until = [deadline, next].into_iter().flatten().min();
        let memory = side.worker.memory;
        let FetchSide { ports, waiter, .. } = &mut *side;
        // However it ends, the next round looks at everything, clock included.
        let _ = waiter.wait(
            until,
            || {},
            || {
                ports.iter_mut().any(|port| port.has_message(&memory))
                    || lock(&shared.ledger).has_news(next)
                    || lock(&shared.ended).is_some()
            },
        );
    }
}

fn answered(answer: Answer) -> Event {
    let failure = Failure { code: answer.code, node: None, reason: answer.reason };
    Event { trans_id: answer.trans_id, port: answer.port, micros: 0, outcome: Err(failure) }
}

/// The next terminal event in the queues; late messages and duplicates are dropped and counted.
fn poll(shared: &Arc<Shared>, side: &mut FetchSide) -> Option<Event> {
    let count = side.ports.len();
    for step in 0..count {
        let port_index = (side.next + step) % count;
        loop {
            let consumer = side.ports.get_mut(port_index)?;
            let mbuf = match consumer.dequeue(&mut side.worker) {
                Ok((mbuf, wakes)) => {
                    ring(&side.worker.memory, wakes);
                    mbuf
                }
                Err(DequeueError::Fault) => continue,
                // The lock of an overwriting queue; the caller looks at clock and session, and
                // comes again.
                Err(DequeueError::Busy) => {
                    std::thread::yield_now();
                    break;
                }
                Err(DequeueError::Empty) => break,
                Err(gone) => {
                    destroyed(shared, port_index, gone.code());
                    break;
                }
            };
            let info = side.worker.of(&mbuf).msg_info();
            let settled = lock(&shared.ledger).settle(info.trans_id, port_index, MonoTime::now());
            let Settled::Terminal(micros) = settled else {
                port::free(&mut side.worker, mbuf);
                continue;
            };
            side.next = port_index + 1;
            shared.tell_room();
            let trans_id = info.trans_id;
            let outcome = if info.ret_code == 0 {
                shared.outputs_out.fetch_add(1, Ordering::AcqRel);
                Ok(Output::new(Arc::clone(shared), mbuf, info))
            } else {
                port::free(&mut side.worker, mbuf);
                Err(coded(shared, &info))
            };
            return Some(Event { trans_id, port: port_index, micros, outcome });
        }
    }
    None
}

/// Nothing can come out of this port any more: a peer destroyed the words of its queue.
#[cold]
fn destroyed(shared: &Shared, port: usize, code: Code) {
    let output = shared.plan.host.outputs.get(port);
    let queue = output.and_then(|output| shared.plan.queues.get(output.queue as usize));
    let name = queue.map_or("?", |queue| queue.name.as_str());
    let reason = format!("queue `{name}`: a process of this flow wrote over its words ({code})");
    shared.end(Code::PEER_FAULT, &reason);
}

/// A ret_code that came through the flow; `worker_id` names the slot that set it, where a runtime
/// did.
fn coded(shared: &Shared, info: &executor_core::abi::MsgInfo) -> Failure {
    let code = Code::from_ret_code(info.ret_code);
    let slot = u32::try_from(info.worker_id).ok();
    let executor = slot.and_then(|slot| shared.plan.executor(slot));
    let reason = match (code.name(), executor) {
        (_, Some(executor)) if code == Code::STALLED => stalled(&shared.plan, executor),
        (Some(_), _) => code.text().to_owned(),
        (None, _) => "a code of the function".to_owned(),
    };
    Failure { code, node: executor.map(|executor| executor.label.clone()), reason }
}

/// What was not fast enough, and which number says so.
fn stalled(plan: &DeployPlan, executor: &ExecutorPlan) -> String {
    let device = plan.processes().find(|one| one.work.models().contains(&executor.slot));
    let limit = device.unwrap_or(executor).stall_ms;
    let what = match device {
        None => "its function was in one call",
        Some(_) => "a model of its device was in one task",
    };
    format!("killed: {what} for more than `stall_ms`, {limit} ms; raise it in the node")
}
