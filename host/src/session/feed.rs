//! Feeding: checks, an id in the ledger, blocks in the host's partition, then all queues at once.
//!
//! Order matters: room in the ledger, blocks, room in every queue, and only then the enqueues,
//! which can't find a lane full any more because this side is its only producer. So a feed is all
//! or nothing (H2). Only a queue whose control words a peer destroyed can refuse then: its id is
//! answered PEER_FAULT. Every wait ends at the deadline or with the session, and not at a signal.

use std::sync::atomic::Ordering;

use executor_core::abi::{MsgInfo, RuntimeTensorDesc, TENSOR_DESC_SIZE, head};
use executor_core::error::{AllocError, Code, EnqueueError, QueueError};
use executor_core::mbuf::Mbuf;
use executor_core::owner::{QueueId, SlotId};
use executor_core::pool::{Head, Worker};
use executor_core::queue::Producer;
use executor_rt::waiter::{Waited, Waiter, ring};
use executor_rt::{payload, port};
use sys::clock::MonoTime;

use super::ledger::Refused;
use super::message::{Feed, Tensor};
use super::{Shared, lock};
use crate::deploy::group::WAITER_FEED;
use crate::plan::{DeployPlan, OutputPlan};

/// A feed that did not happen.
#[derive(Debug)]
pub struct FeedError {
    /// Everything comes back.
    pub feed: Box<Feed>,
    /// Why.
    pub reason: FeedReason,
}

/// Why a feed did not happen.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum FeedReason {
    /// Count, type, shape or size does not fit the graph; says input, found and expected.
    Invalid(String),
    /// The id is open, out of order, 0 or the largest number.
    TransId(u64),
    /// No room before the deadline; says what was full and who holds it.
    TimedOut(String),
    /// The session has ended.
    Ended(super::Ended),
}

impl FeedReason {
    /// The code.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            FeedReason::Invalid(_) | FeedReason::TransId(_) => Code::PARAM_INVALID,
            FeedReason::TimedOut(_) => Code::REPORT_TIMEOUT,
            FeedReason::Ended(ended) => ended.code,
        }
    }
}

impl std::fmt::Display for FeedReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FeedReason::Invalid(text) => f.write_str(text),
            FeedReason::TransId(id) => {
                write!(f, "trans_id {id}: expected one that is not open and not below the last one")
            }
            FeedReason::TimedOut(text) => write!(f, "no room before the deadline: {text}"),
            FeedReason::Ended(ended) => write!(f, "the session has ended: {}", ended.reason),
        }
    }
}

impl std::fmt::Display for FeedError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.reason.fmt(f)
    }
}

impl std::error::Error for FeedError {}

#[derive(Debug)]
struct Port {
    /// One list of instance producers a destination.
    destinations: Vec<Vec<Producer<'static>>>,
}

/// The feeding half of a session: one worker, one producer a queue.
#[derive(Debug)]
pub(super) struct FeedSide {
    worker: Worker<'static>,
    waiter: Waiter<'static>,
    ports: Vec<Port>,
}

impl FeedSide {
    pub(super) fn open(plan: &DeployPlan, worker: Worker<'static>) -> Result<FeedSide, QueueError> {
        let waiter = Waiter::new(&worker.memory, SlotId(0), WAITER_FEED);
        let waiter = waiter.ok_or(QueueError::Invalid)?;
        let open = |id: &u32| Producer::open(&worker, QueueId(*id), None);
        let port = |input: &OutputPlan| {
            let destinations = input.destinations.iter();
            let destinations = destinations.map(|d| d.queues.iter().map(open).collect());
            Ok(Port { destinations: destinations.collect::<Result<_, QueueError>>()? })
        };
        let ports = plan.host.inputs.iter().map(port).collect::<Result<_, QueueError>>()?;
        Ok(FeedSide { worker, waiter, ports })
    }
}

pub(super) fn feed(
    shared: &Shared,
    feed: Feed,
    deadline: Option<MonoTime>,
) -> Result<u64, FeedError> {
    match try_feed(shared, &feed, deadline) {
        Ok(id) => Ok(id),
        Err(reason) => Err(FeedError { feed: Box::new(feed), reason }),
    }
}

fn try_feed(shared: &Shared, feed: &Feed, deadline: Option<MonoTime>) -> Result<u64, FeedReason> {
    check(&shared.plan, feed)?;
    let turn = shared.feed.take(deadline);
    let mut side =
        turn.ok_or_else(|| FeedReason::TimedOut("another thread is feeding".to_owned()))?;
    let id = open_id(shared, feed, deadline)?;
    match send(shared, &mut side, feed, id, deadline) {
        Ok(refused) => {
            commit(shared, id, refused);
            Ok(id)
        }
        Err(reason) => {
            lock(&shared.ledger).withdraw(id);
            shared.tell_room();
            Err(reason)
        }
    }
}

/// The messages are queued, except for the queue that `refused` its one: from now on the id can be
/// answered.
fn commit(shared: &Shared, id: u64, refused: Option<u32>) {
    let mut ledger = lock(&shared.ledger);
    let next = ledger.next_deadline();
    ledger.sent(id);
    if let Some(queue) = refused {
        let name = shared.plan.queues.get(queue as usize).map_or("?", |q| q.name.as_str());
        ledger.answer(id, Code::PEER_FAULT, &format!("queue `{name}` refused the message"));
    } else if let Some(ended) = lock(&shared.ended).clone() {
        // It ended meanwhile, and its last answers did not include this id.
        ledger.answer(id, ended.code, &ended.reason);
    }
    // A sleeping fetch knows neither this answer nor this deadline.
    let news = ledger.has_answer() || ledger.next_deadline() != next;
    drop(ledger);
    if news {
        shared.wake();
    }
}

fn check(plan: &DeployPlan, feed: &Feed) -> Result<(), FeedReason> {
    let inputs = &plan.host.inputs;
    if feed.tensors.len() != inputs.len() {
        return Err(FeedReason::Invalid(format!(
            "flow `{}`: found {} tensors, expected {} (one for each graph input)",
            plan.name,
            feed.tensors.len(),
            inputs.len()
        )));
    }
    if feed.user_data.len() > head::USER_DATA_SIZE {
        return Err(FeedReason::Invalid(format!(
            "found {} bytes of user data, expected at most {}",
            feed.user_data.len(),
            head::USER_DATA_SIZE
        )));
    }
    inputs.iter().zip(&feed.tensors).try_for_each(|(input, tensor)| check_tensor(input, tensor))
}

fn check_tensor(input: &OutputPlan, tensor: &Tensor) -> Result<(), FeedReason> {
    let wrong = |what: &str, found: String, expected: String| {
        let name = &input.name;
        Err(FeedReason::Invalid(format!(
            "input `{name}`: {what}: found {found}, expected {expected}"
        )))
    };
    if tensor.dtype != input.dtype {
        return wrong("element type", tensor.dtype.to_string(), input.dtype.to_string());
    }
    let shape = crate::graph::Shape(tensor.shape.clone());
    if !input.shape.matches(&shape) {
        return wrong("shape", shape.to_string(), input.shape.to_string());
    }
    let bytes = tensor.bytes.len() as u64;
    if shape.payload_bytes(tensor.dtype) != Some(bytes) {
        let wanted = shape.payload_bytes(tensor.dtype);
        let wanted = wanted.map_or("a shape without open dimensions".to_owned(), |n| n.to_string());
        return wrong("bytes", bytes.to_string(), format!("{wanted} for shape {shape}"));
    }
    if bytes > input.max_bytes {
        return wrong(
            "bytes",
            bytes.to_string(),
            format!("at most {}, the `max_bytes` of the input", input.max_bytes),
        );
    }
    Ok(())
}

fn open_id(shared: &Shared, feed: &Feed, deadline: Option<MonoTime>) -> Result<u64, FeedReason> {
    let mut ledger = lock(&shared.ledger);
    loop {
        if let Some(ended) = lock(&shared.ended).clone() {
            return Err(FeedReason::Ended(ended));
        }
        let now = MonoTime::now();
        let limit = feed.deadline_ms.or(shared.plan.session.deadline_ms);
        let until = limit.map(|ms| now.add_ms(u64::from(ms)));
        match ledger.open(feed.trans_id, now, until) {
            Ok(id) => return Ok(id),
            Err(Refused::Open | Refused::Order) => {
                return Err(FeedReason::TransId(feed.trans_id.unwrap_or(u64::MAX)));
            }
            Err(Refused::Full) => {}
        }
        if deadline.is_some_and(|deadline| deadline <= now) {
            let open = ledger.open_count();
            let text = format!(
                "{open} ids are open (session max_open) or have events to fetch; fetch them"
            );
            return Err(FeedReason::TimedOut(text));
        }
        let slice =
            deadline.map_or(std::time::Duration::from_secs(3600), |d| d.saturating_since(now));
        shared.feeders.fetch_add(1, Ordering::Relaxed);
        let waited = shared.room.wait_timeout(ledger, slice);
        ledger = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
        shared.feeders.fetch_sub(1, Ordering::Relaxed);
    }
}

fn send(
    shared: &Shared,
    side: &mut FeedSide,
    feed: &Feed,
    id: u64,
    deadline: Option<MonoTime>,
) -> Result<Option<u32>, FeedReason> {
    let mut messages: Vec<Vec<Mbuf>> = Vec::with_capacity(feed.tensors.len());
    let mut refused = None;
    let filled = fill(shared, side, feed, id, deadline, &mut messages);
    let ready = filled.and_then(|()| wait_for_room(shared, side, id, deadline));
    if let Err(reason) = ready {
        messages.into_iter().flatten().for_each(|mbuf| port::free(&mut side.worker, mbuf));
        return Err(reason);
    }
    for (input, copies) in side.ports.iter_mut().zip(messages) {
        for (instances, mbuf) in input.destinations.iter_mut().zip(copies) {
            let Some(producer) = instance_of(instances, id) else { continue };
            if !put(shared, &mut side.worker, producer, mbuf) {
                refused = Some(producer.id().0);
            }
        }
    }
    Ok(refused)
}

/// Enqueues where there is room; false when the queue can't be used any more.
fn put(
    shared: &Shared,
    worker: &mut Worker<'static>,
    producer: &mut Producer<'static>,
    mut mbuf: Mbuf,
) -> bool {
    loop {
        match producer.enqueue(worker, mbuf) {
            Ok(wakes) => {
                ring(&worker.memory, wakes);
                return true;
            }
            // The lock of an overwriting queue: its holder goes on, or the supervisor breaks it.
            Err(rejected)
                if rejected.reason == EnqueueError::Busy && lock(&shared.ended).is_none() =>
            {
                mbuf = rejected.mbuf;
                std::thread::yield_now();
            }
            Err(rejected) => {
                port::free(worker, rejected.mbuf);
                return false;
            }
        }
    }
}

fn instance_of<'a>(
    instances: &'a mut [Producer<'static>],
    id: u64,
) -> Option<&'a mut Producer<'static>> {
    let count = u64::try_from(instances.len()).ok().filter(|n| *n > 0)?;
    instances.get_mut(usize::try_from(id % count).ok()?)
}

fn fill(
    shared: &Shared,
    side: &mut FeedSide,
    feed: &Feed,
    id: u64,
    deadline: Option<MonoTime>,
    messages: &mut Vec<Vec<Mbuf>>,
) -> Result<(), FeedReason> {
    for (index, tensor) in feed.tensors.iter().enumerate() {
        let size = tensor.bytes.len() as u64 + TENSOR_DESC_SIZE as u64;
        let alloc = |worker: &mut Worker<'static>| worker.alloc(size, Head::Zeroed);
        let mut first = wait_for_mbuf(shared, side, index, deadline, alloc)?;
        let written = write(&side.worker, &mut first, feed, tensor, id);
        let wanted = side.ports.get(index).map_or(0, |port| port.destinations.len());
        let mut copies = Vec::with_capacity(wanted.max(1));
        let mut copied = Ok(());
        while written && copied.is_ok() && copies.len() + 1 < wanted {
            let copy = |worker: &mut Worker<'static>| worker.copy_ref(&first);
            copied = wait_for_mbuf(shared, side, index, deadline, copy).map(|c| copies.push(c));
        }
        copies.push(first);
        messages.push(copies);
        copied?;
        if !written {
            let name = &tensor.shape;
            return Err(FeedReason::Invalid(format!(
                "a tensor of shape {name:?} has no descriptor"
            )));
        }
    }
    Ok(())
}

/// Tries to get an mbuf of the host's partition until the deadline or the session's end.
fn wait_for_mbuf(
    shared: &Shared,
    side: &mut FeedSide,
    input: usize,
    deadline: Option<MonoTime>,
    mut attempt: impl FnMut(&mut Worker<'static>) -> Result<Mbuf, AllocError>,
) -> Result<Mbuf, FeedReason> {
    let FeedSide { worker, waiter, .. } = side;
    let (memory, slot, index) = (worker.memory, worker.slot(), waiter.index());
    let mut got = attempt(worker);
    while got == Err(AllocError::Exhausted) {
        let ended = || lock(&shared.ended).is_some();
        let waited = waiter.wait(
            deadline,
            || memory.register_pool_wait(slot, index),
            || {
                got = attempt(worker);
                got != Err(AllocError::Exhausted) || ended()
            },
        );
        memory.withdraw_pool_wait(slot, index);
        if let (Err(_), Some(ended)) = (&got, lock(&shared.ended).clone()) {
            return Err(FeedReason::Ended(ended));
        }
        if waited == Waited::TimedOut {
            break;
        }
    }
    got.map_err(|error| alloc_reason(shared, input, error))
}

fn write(worker: &Worker<'_>, mbuf: &mut Mbuf, feed: &Feed, tensor: &Tensor, id: u64) -> bool {
    let dtype = executor_core::abi::DataType(tensor.dtype.code());
    let Some(desc) = RuntimeTensorDesc::new(dtype, &tensor.shape) else { return false };
    let total = TENSOR_DESC_SIZE + tensor.bytes.len();
    let Some(buffer) = payload::buffer_mut(worker, mbuf) else { return false };
    let Some(to) = buffer.get_mut(TENSOR_DESC_SIZE..total) else { return false };
    to.copy_from_slice(&tensor.bytes);
    let access = worker.of(mbuf);
    access.set_msg_info(&MsgInfo {
        trans_id: id,
        flags: feed.flags,
        data_flag: if feed.trans_id.is_some() { 2 } else { 0 },
        start_time: feed.times.0,
        end_time: feed.times.1,
        ..MsgInfo::default()
    });
    if !feed.user_data.is_empty() {
        access.write_head(0, &feed.user_data);
    }
    access.set_eos(feed.end_of_sequence);
    payload::set_tensor_desc(worker, mbuf, &desc) && access.set_data_len(total as u64)
}

fn alloc_reason(shared: &Shared, input: usize, error: AllocError) -> FeedReason {
    let name = shared.plan.host.inputs.get(input).map_or("", |input| input.name.as_str());
    FeedReason::TimedOut(format!(
        "input `{name}`: {error}; held by: {}",
        super::watch::holders(shared)
    ))
}

fn wait_for_room(
    shared: &Shared,
    side: &mut FeedSide,
    id: u64,
    deadline: Option<MonoTime>,
) -> Result<(), FeedReason> {
    for (index, input) in side.ports.iter_mut().enumerate() {
        for instances in &mut input.destinations {
            let Some(producer) = instance_of(instances, id) else { continue };
            if producer.overwrites() || producer.has_room() {
                continue;
            }
            producer.count_full_wait();
            let cell = std::cell::RefCell::new(&mut *producer);
            let ended = || lock(&shared.ended).is_some();
            let wait = || {
                side.waiter.wait(
                    deadline,
                    || cell.borrow().register_full_wait(),
                    || cell.borrow_mut().has_room() || ended(),
                )
            };
            let waited = std::iter::repeat_with(wait).find(|end| *end != Waited::Interrupted);
            producer.withdraw_full_wait();
            if let Some(ended) = lock(&shared.ended).clone() {
                return Err(FeedReason::Ended(ended));
            }
            if waited == Some(Waited::TimedOut) && !producer.has_room() {
                let input = shared.plan.host.inputs.get(index).map_or("", |i| i.name.as_str());
                let queue = producer.id().0;
                let name = shared.plan.queues.get(queue as usize).map_or("", |q| q.name.as_str());
                return Err(FeedReason::TimedOut(format!(
                    "input `{input}`: queue `{name}` is full"
                )));
            }
        }
    }
    Ok(())
}
