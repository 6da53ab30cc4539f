//! Creating, granting, attaching, finding, querying, peeking, resetting and destroying queues.

use executor_core::abi::control::QUEUE_NAME_MAX;
use executor_core::error::{Code, DequeueError, QueueError};
use executor_core::owner::{QueueId, SlotId};
use executor_core::queue::{Consumer, QueueConfig, QueueFlags, QueueInfo, Rights};
use executor_core::region::Memory;

use super::{Exchange, Limit, QueueAttr, Refused, Result, WorkMode};
use crate::waiter::{Waited, Waiter, ring};

/// Tries for a lock that another process holds for a few instructions.
pub(super) const LOCK_TRIES: usize = 1000;

/// Wakes every waiter of `slot`: something it may wait for was written.
pub(super) fn kick_slot(memory: &Memory<'_>, slot: SlotId) {
    (0..).map_while(|index| Waiter::new(memory, slot, index)).for_each(|waiter| waiter.kick());
}

/// Repeats `verb` while another process holds the lock it needs.
fn while_busy<T>(mut verb: impl FnMut() -> core::result::Result<T, QueueError>) -> QueueResult<T> {
    for _ in 0..LOCK_TRIES {
        match verb() {
            Err(QueueError::Busy) => std::thread::yield_now(),
            other => return other,
        }
    }
    Err(QueueError::Busy)
}

type QueueResult<T> = core::result::Result<T, QueueError>;

impl Exchange<'_> {
    /// Creates a queue. This slot may manage it; the consumer may read.
    ///
    /// # Errors
    /// `PARAM_INVALID` for a name longer than 127 bytes, `INVALID_VALUE` for depth below 2 or an
    /// empty name,
    /// `REPEATED_INIT` for a name in use, `OVER_LIMIT` when all queues of the group are used.
    pub fn create_queue(&mut self, name: &str, attr: &QueueAttr) -> Result<QueueId> {
        if name.len() > QUEUE_NAME_MAX {
            let why = "queue name is longer than 127 bytes";
            return Err(Refused::new(Code::PARAM_INVALID, None, why));
        }
        let mut flags = QueueFlags::empty();
        flags.set(QueueFlags::OVERWRITE, attr.overwrite);
        flags.set(QueueFlags::SHARED, attr.shared);
        flags.set(QueueFlags::PUSH, attr.work_mode == WorkMode::Push);
        let config = QueueConfig {
            name,
            depth: attr.depth,
            flags,
            consumer: attr.consumer.unwrap_or(self.slot()),
            consumer_waiter: attr.waiter.unwrap_or(self.waiter.index()),
            ready_bit: 0,
        };
        let created = self.worker.memory.create_queue(&self.worker, &config);
        let queue = created.map_err(|e| Refused::new(e.code(), None, text(e)))?;
        self.close(queue);
        let ends = self.ends(queue)?;
        ends.last_id = 0;
        ends.deploy = attr.deploy;
        Ok(queue)
    }

    /// Grants `rights` to the process of `slot` and wakes it if it waits in [`Exchange::attach`].
    ///
    /// # Errors
    /// `OPER_NOT_PERMITTED` unless this slot may manage; `OVER_LIMIT` when the slot has no lane
    /// left.
    pub fn grant(&mut self, queue: QueueId, slot: SlotId, rights: Rights) -> Result<()> {
        let memory = self.worker.memory;
        while_busy(|| memory.grant_queue(&self.worker, queue, slot, rights))
            .map_err(|e| Refused::new(e.code(), Some(queue), text(e)))?;
        kick_slot(&memory, slot);
        Ok(())
    }

    /// Waits until this slot has a right on `queue`; the rights.
    ///
    /// # Errors
    /// `REPORT_TIMEOUT` when nothing was granted in time.
    pub fn attach(&mut self, queue: QueueId, timeout_ms: i32) -> Result<Rights> {
        let (memory, slot) = (self.worker.memory, self.slot());
        let ctl = self.ctl(queue)?;
        let limit = Limit::from_ms(timeout_ms);
        let granted = || !ctl.rights(slot).is_empty() && memory.query_queue(queue).is_ok();
        if self.wait_until(limit, granted) {
            self.close(queue);
            return Ok(ctl.rights(slot));
        }
        let why = "nothing was granted to this process in time";
        Err(Refused::new(Code::REPORT_TIMEOUT, Some(queue), why))
    }

    /// Sleeps until `ready` or the limit; a signal does not end it.
    fn wait_until(&self, limit: Limit, mut ready: impl FnMut() -> bool) -> bool {
        if ready() || limit == Limit::Now {
            return ready();
        }
        loop {
            match self.waiter.wait(limit.deadline(), || {}, &mut ready) {
                Waited::Ready => return true,
                Waited::Interrupted if !limit.is_over() => {}
                _ => return false,
            }
        }
    }

    /// The queue of that name.
    ///
    /// # Errors
    /// `INVALID_VALUE` when there is none.
    pub fn find_queue(&self, name: &str) -> Result<QueueId> {
        let found = self.worker.memory.find_queue(name);
        found.ok_or(Refused::new(Code::INVALID_VALUE, None, "no queue has this name"))
    }

    /// Messages queued, capacity, status 0 normal, 1 empty, 2 full, and counters.
    ///
    /// # Errors
    /// `INVALID_VALUE` for an unknown queue.
    pub fn query(&self, queue: QueueId) -> Result<QueueInfo> {
        let info = self.worker.memory.query_queue(queue);
        info.map_err(|e| Refused::new(e.code(), Some(queue), text(e)))
    }

    /// Bytes of the front message, a chain's sum, without taking it.
    ///
    /// # Errors
    /// `QUEUE_EMPTY` when none came in time; `OPER_NOT_PERMITTED` without the consumer end.
    pub fn peek(&mut self, queue: QueueId, timeout_ms: i32) -> Result<u64> {
        let limit = Limit::from_ms(timeout_ms);
        self.can_wait(queue, limit)?;
        let (worker, waiter, consumer) = self.consumer(queue)?;
        let memory = worker.memory;
        loop {
            match consumer.peek(&memory) {
                Ok(front) => return Ok(front.len),
                Err(DequeueError::Empty) if limit.is_over() => {
                    return Err(Refused::of(Code::QUEUE_EMPTY, queue));
                }
                Err(DequeueError::Empty) => {
                    waiter.wait(limit.deadline(), || {}, || consumer.has_message(&memory));
                }
                Err(other) => return Err(Refused::of(other.code(), queue)),
            }
        }
    }

    /// `rtMemQueueReset`: frees every queued message and counts it as dropped.
    ///
    /// # Errors
    /// `OPER_NOT_PERMITTED` without the right to manage or the consumer end.
    pub fn reset(&mut self, queue: QueueId) -> Result<()> {
        let (worker, _, consumer) = self.consumer(queue)?;
        let memory = worker.memory;
        let reset = while_busy(|| memory.reset_queue(worker, consumer));
        let wakes = reset.map_err(|e| Refused::new(e.code(), Some(queue), text(e)))?;
        ring(&memory, wakes);
        self.note_drained(queue);
        Ok(())
    }

    /// `ResetQueueInfo`: the ids of this queue start again.
    ///
    /// # Errors
    /// `INVALID_VALUE` for an id out of range.
    pub fn reset_queue_info(&mut self, queue: QueueId) -> Result<()> {
        self.ends(queue)?.last_id = 0;
        Ok(())
    }

    /// Destroys a queue whose consumer end is here (or shared); queued messages are freed, whoever
    /// waits for it is woken and told.
    ///
    /// # Errors
    /// `OPER_NOT_PERMITTED` without the right to manage or the consumer end.
    pub fn destroy_queue(&mut self, queue: QueueId) -> Result<()> {
        self.consumer(queue)?;
        let ctl = self.ctl(queue)?;
        let slots = 0..self.worker.memory.layout.counts.slots;
        let holders: Vec<SlotId> =
            slots.map(SlotId).filter(|slot| !ctl.rights(*slot).is_empty()).collect();
        self.ends(queue)?.consumer = None;
        let (memory, worker) = (self.worker.memory, &mut self.worker);
        let wakes = while_busy(|| memory.destroy_queue(worker, Consumer::open(worker, queue)?));
        let wakes = wakes.map_err(|e| Refused::new(e.code(), Some(queue), text(e)))?;
        ring(&memory, wakes);
        self.close(queue);
        self.reset_queue_info(queue)?;
        if let Some(events) = &self.events {
            events.forget_queue(queue);
        }
        holders.into_iter().for_each(|slot| kick_slot(&memory, slot));
        Ok(())
    }
}

/// What was expected.
fn text(error: QueueError) -> &'static str {
    match error {
        QueueError::Invalid => "expected depth 2 to 2^20, a name of 1 to 127 bytes, known slots",
        QueueError::OverLimit => "no free queue, lane or ring space: plan a larger group",
        QueueError::NotPermitted => "no right to manage, or the consumer end is elsewhere",
        QueueError::Exists => "the name is in use",
        _ => "another process holds the queue's lock",
    }
}
