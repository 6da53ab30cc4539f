//! Feeding: checks, an id in the ledger, blocks in the host's partition, then all queues at once.
//!
//! Order matters: room in the ledger, blocks, room in every queue, and only then the enqueues, which can't
//! fail any more because this side is each lane's only producer. So a feed is all or nothing (H2).

use executor_core::abi::{MsgInfo, RuntimeTensorDesc, TENSOR_DESC_SIZE, head};
use executor_core::error::{AllocError, Code, QueueError};
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

struct Port {
    /// One list of instance producers a destination.
    destinations: Vec<Vec<Producer<'static>>>,
}

/// The feeding half of a session: one worker, one producer a queue.
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
    let mut side = lock(&shared.feed);
    let id = open_id(shared, feed, deadline)?;
    let result = send(shared, &mut side, feed, id, deadline);
    if result.is_err() {
        lock(&shared.ledger).withdraw(id);
        shared.room.notify_one();
    }
    result.map(|()| id)
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
            format!("at most {} (max_bytes)", input.max_bytes),
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
            let text = format!("{open} ids are open (session max_open); fetch their events");
            return Err(FeedReason::TimedOut(text));
        }
        let slice =
            deadline.map_or(std::time::Duration::from_secs(3600), |d| d.saturating_since(now));
        let waited = shared.room.wait_timeout(ledger, slice);
        ledger = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
    }
}

fn send(
    shared: &Shared,
    side: &mut FeedSide,
    feed: &Feed,
    id: u64,
    deadline: Option<MonoTime>,
) -> Result<(), FeedReason> {
    let mut messages: Vec<Vec<Mbuf>> = Vec::with_capacity(feed.tensors.len());
    let filled = fill(shared, side, feed, id, deadline, &mut messages);
    let ready = filled.and_then(|()| wait_for_room(shared, side, id, deadline));
    if let Err(reason) = ready {
        messages.into_iter().flatten().for_each(|mbuf| port::free(&mut side.worker, mbuf));
        return Err(reason);
    }
    for (input, copies) in side.ports.iter_mut().zip(messages) {
        for (instances, mbuf) in input.destinations.iter_mut().zip(copies) {
            let Some(producer) = instance_of(instances, id) else { continue };
            match producer.enqueue(&mut side.worker, mbuf) {
                Ok(wakes) => ring(&side.worker.memory, wakes),
                // Room was checked and this is the lane's only producer: only a destroyed queue is left.
                Err(rejected) => port::free(&mut side.worker, rejected.mbuf),
            }
        }
    }
    Ok(())
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
        let mbuf = port::alloc(&mut side.worker, &side.waiter, size, Head::Zeroed, deadline)
            .map_err(|error| alloc_reason(shared, index, error))?;
        let mut copies = vec![mbuf];
        let first = copies.first_mut();
        let written = first.is_some_and(|mbuf| write(&side.worker, mbuf, feed, tensor, id));
        let wanted = side.ports.get(index).map_or(0, |port| port.destinations.len());
        while written && copies.len() < wanted {
            let copy = copies.first().map(|first| side.worker.copy_ref(first));
            match copy {
                Some(Ok(copy)) => copies.push(copy),
                _ => break,
            }
        }
        let enough = copies.len() >= wanted;
        messages.push(copies);
        if !written || !enough {
            return Err(FeedReason::TimedOut("the host has no free mbuf entry".to_owned()));
        }
    }
    Ok(())
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
            if producer.has_room() {
                continue;
            }
            producer.count_full_wait();
            let cell = std::cell::RefCell::new(&mut *producer);
            let ended = || lock(&shared.ended).is_some();
            let waited = side.waiter.wait(
                deadline,
                || cell.borrow().register_full_wait(),
                || cell.borrow_mut().has_room() || ended(),
            );
            producer.withdraw_full_wait();
            if let Some(ended) = lock(&shared.ended).clone() {
                return Err(FeedReason::Ended(ended));
            }
            if waited == Waited::TimedOut || !producer.has_room() {
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
