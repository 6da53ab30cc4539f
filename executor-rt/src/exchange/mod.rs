//! Exchange: the queue verbs of the specification for one thread of a process (executor-deployer
//! §4, device-runtime §2.3), over its [`Worker`] and its [`Waiter`].
//!
//! It is what the session, executors and the later C library have in common: timeouts 0 / n / −1,
//! ids, heads, gather and scatter, tensors, grants with waiting. It is *not* the hot loop of an
//! executor, which uses [`crate::port`] with queues it opened before seal.
//!
//! | file | verbs |
//! |---|---|
//! | `manage` | create, grant, attach, find, query, peek, reset, destroy |
//! | `enqueue` | bytes, size and fill, gather, ready mbuf |
//! | `dequeue` | mbuf, bytes, scatter |
//! | `tensor` | tensors, copied out or in place |
//! | `acl` | as the polling wrappers report it |
//! | [`members`] | who belongs to the group |
//!
//! A verb that waits sleeps on the exchange's own waiter until woken or until its exact deadline.
//! An end is opened at its first use, which allocates; later uses do not.
//!
//! Events: an exchange with a [`Scheduler`] tells it what it took and what it filled, so that the
//! scheduler's queue events follow every edge. Queues whose events the scheduler delivers ring the
//! scheduler's waiter, so they are drained without waiting here.

mod acl;
mod attr;
mod dequeue;
mod enqueue;
mod manage;
pub mod members;
mod refused;
mod tensor;
pub mod trans_id;

use std::sync::Arc;

use executor_core::abi::control::QueueCtl;
use executor_core::error::Code;
use executor_core::mbuf::Mbuf;
use executor_core::owner::{QueueId, SlotId};
use executor_core::pool::Worker;
use executor_core::primitive::Ordering;
use executor_core::queue::{Consumer, Producer, QueueFlags};
use executor_core::region::Memory;

use crate::esched::Scheduler;
use crate::waiter::{Waiter, ring};

pub use acl::{read_user_data, write_user_data};
pub(crate) use attr::Limit;
pub use attr::{ACL_DEPTH_DEFAULT, Buffer, ControlInfo, Deploy, IOVEC_MAX, QueueAttr, WorkMode};
pub use refused::{NotEnqueued, Refused, Result};
pub use tensor::{MbufTensor, Received, Tensor};

/// This process's ends of one queue.
#[derive(Debug, Default)]
struct Ends<'g> {
    producer: Option<Producer<'g>>,
    consumer: Option<Consumer<'g>>,
    last_id: u64,
    deploy: Deploy,
}

/// The verbs of one thread. Threads of one process have an exchange each, with a worker and a
/// waiter each; an end of a queue belongs to one of them.
#[derive(Debug)]
pub struct Exchange<'g> {
    worker: Worker<'g>,
    waiter: Waiter<'g>,
    events: Option<Arc<Scheduler<'g>>>,
    queues: Vec<Option<Box<Ends<'g>>>>,
    initialised: bool,
}

impl<'g> Exchange<'g> {
    /// Over a worker and a waiter that nobody else uses.
    #[must_use]
    pub fn new(worker: Worker<'g>, waiter: Waiter<'g>) -> Exchange<'g> {
        let count = worker.memory.queues.len();
        let queues = core::iter::repeat_with(|| None).take(count).collect();
        Exchange { worker, waiter, events: None, queues, initialised: false }
    }

    /// Tells `scheduler` of every edge this exchange makes.
    pub fn link_events(&mut self, scheduler: Arc<Scheduler<'g>>) {
        self.events = Some(scheduler);
    }

    /// `rtMemQueueInit`: there is nothing to do, but a second call says so.
    ///
    /// # Errors
    /// `REPEATED_INIT`, an expected state.
    pub fn init(&mut self) -> Result<()> {
        if core::mem::replace(&mut self.initialised, true) {
            return Err(Refused::new(Code::REPEATED_INIT, None, "queues are initialised already"));
        }
        Ok(())
    }

    /// The memory of the group.
    #[must_use]
    pub fn memory(&self) -> Memory<'g> {
        self.worker.memory
    }

    /// Slot of this process.
    #[must_use]
    pub fn slot(&self) -> SlotId {
        self.worker.slot()
    }

    /// The worker, for verbs on mbufs.
    pub fn worker(&mut self) -> &mut Worker<'g> {
        &mut self.worker
    }

    /// Gives an mbuf back.
    pub fn free(&mut self, mbuf: Mbuf) {
        let wakes = self.worker.free(mbuf);
        ring(&self.worker.memory, wakes);
    }

    /// Says that this process reaches `queue` by the client path, or not.
    ///
    /// # Errors
    /// `INVALID_VALUE` for an id out of range.
    pub fn set_deploy(&mut self, queue: QueueId, deploy: Deploy) -> Result<()> {
        self.ends(queue)?.deploy = deploy;
        Ok(())
    }

    fn ends(&mut self, queue: QueueId) -> Result<&mut Ends<'g>> {
        let place = self.queues.get_mut(queue.0 as usize);
        let place = place.ok_or(Refused::of(Code::INVALID_VALUE, queue))?;
        Ok(place.get_or_insert_default())
    }

    /// Closes the ends of a queue that is gone; its ids go on.
    fn close(&mut self, queue: QueueId) {
        if let Ok(ends) = self.ends(queue) {
            ends.producer = None;
            ends.consumer = None;
        }
    }

    fn ctl(&self, queue: QueueId) -> Result<&'g QueueCtl> {
        let queues = self.worker.memory.queues;
        queues.get(queue.0 as usize).ok_or(Refused::of(Code::INVALID_VALUE, queue))
    }

    /// Worker, waiter and producer end of `queue`, opened if need be.
    fn producer(
        &mut self,
        queue: QueueId,
    ) -> Result<(&mut Worker<'g>, Waiter<'g>, &mut Producer<'g>)> {
        self.ends(queue)?;
        let Some(ends) = self.queues.get_mut(queue.0 as usize).and_then(Option::as_mut) else {
            return Err(Refused::of(Code::INVALID_VALUE, queue));
        };
        let producer = match &mut ends.producer {
            Some(producer) => producer,
            none => {
                let opened = Producer::open(&self.worker, queue, None);
                none.insert(opened.map_err(|e| Refused::of(e.code(), queue))?)
            }
        };
        Ok((&mut self.worker, self.waiter, producer))
    }

    /// Worker, waiter and consumer end of `queue`, opened if need be.
    fn consumer(
        &mut self,
        queue: QueueId,
    ) -> Result<(&mut Worker<'g>, Waiter<'g>, &mut Consumer<'g>)> {
        self.ends(queue)?;
        let Some(ends) = self.queues.get_mut(queue.0 as usize).and_then(Option::as_mut) else {
            return Err(Refused::of(Code::INVALID_VALUE, queue));
        };
        let consumer = match &mut ends.consumer {
            Some(consumer) => consumer,
            none => {
                let opened = Consumer::open(&self.worker, queue);
                none.insert(opened.map_err(|e| Refused::of(e.code(), queue))?)
            }
        };
        Ok((&mut self.worker, self.waiter, consumer))
    }

    /// Refuses to wait where no producer would ring.
    fn can_wait(&self, queue: QueueId, limit: Limit) -> Result<()> {
        if limit == Limit::Now {
            return Ok(());
        }
        let ctl = self.ctl(queue)?;
        let shared = ctl.queue_flags().intersects(QueueFlags::SHARED | QueueFlags::OVERWRITE);
        let mine = shared || ctl.consumer.load(Ordering::Relaxed) == self.slot().0;
        if mine && ctl.consumer_waiter.load(Ordering::Relaxed) == self.waiter.index() {
            return Ok(());
        }
        let why = "the queue rings another waiter: wait there, or use timeout 0";
        Err(Refused::new(Code::INVALID_VALUE, Some(queue), why))
    }
}
