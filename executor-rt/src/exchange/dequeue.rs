//! The dequeue family: an mbuf, bytes, scattered bytes.
//!
//! Checks of [`Exchange::dequeue`], in this order (executor-deployer §4.4): end of sequence →
//! success, nothing copied; user data and `MsgInfo` out; `ret_code` not 0 → that code; data longer
//! than `skip_size`; copy. The mbuf is freed whatever the outcome.

use executor_core::abi::head::{HEAD_SIZE, USER_DATA_SIZE};
use executor_core::error::{Code, DequeueError};
use executor_core::mbuf::Mbuf;
use executor_core::owner::QueueId;
use executor_core::pool::Worker;

use super::{ControlInfo, Exchange, Limit, Refused, Result};
use crate::waiter::ring;
use crate::{payload, port};

impl Exchange<'_> {
    /// Takes the next message as it is.
    ///
    /// # Errors
    /// `QUEUE_EMPTY` at the time limit, `OPER_NOT_PERMITTED` without the consumer end, `PEER_FAULT`
    /// after an impossible entry was skipped, `INVALID_VALUE` for waiting on a queue that rings
    /// another waiter.
    pub fn dequeue_mbuf(&mut self, queue: QueueId, timeout_ms: i32) -> Result<Mbuf> {
        let limit = Limit::from_ms(timeout_ms);
        self.can_wait(queue, limit)?;
        let last = self.events.is_some()
            && self.worker.memory.query_queue(queue).is_ok_and(|info| info.size <= 1);
        let (worker, waiter, consumer) = self.consumer(queue)?;
        let (memory, mut tries) = (worker.memory, super::manage::LOCK_TRIES);
        let result = loop {
            let result = match limit {
                Limit::Now => consumer.dequeue(worker).map(|(mbuf, wakes)| {
                    ring(&memory, wakes);
                    mbuf
                }),
                _ => port::dequeue(worker, consumer, &waiter, limit.deadline()),
            };
            if result == Err(DequeueError::Busy) && tries != 0 {
                tries -= 1;
                std::thread::yield_now();
            } else if result != Err(DequeueError::Empty) || limit.is_over() {
                break result;
            }
        };
        if last || result == Err(DequeueError::Empty) {
            self.note_drained(queue);
        }
        result.map_err(|e| {
            if e == DequeueError::NotPermitted {
                self.close(queue);
            }
            Refused::of(e.code(), queue)
        })
    }

    /// Takes the next message and copies its data, from `skip_size` on, into `data`; the bytes
    /// copied.
    /// `control` is filled from the head.
    ///
    /// # Errors
    /// As [`Exchange::dequeue_mbuf`]; the message's `ret_code`; `PARAM_INVALID` when it has not
    /// more than
    /// `skip_size` bytes.
    pub fn dequeue(
        &mut self,
        queue: QueueId,
        data: &mut [u8],
        control: &mut ControlInfo,
    ) -> Result<usize> {
        let mbuf = self.dequeue_mbuf(queue, control.timeout_ms)?;
        let result = self.open_message(queue, &mbuf, control).and_then(|open| match open {
            Opened::EndOfSequence => Ok(0),
            Opened::Data => copy_out(&self.worker, &mbuf, control.skip_size, data).ok_or({
                let why = "the message has not more bytes than are to be skipped";
                Refused::new(Code::PARAM_INVALID, Some(queue), why)
            }),
        });
        self.free(mbuf);
        result
    }

    /// `rtMemQueueDeQueueBuff`: the start of the head to `context`, the data scattered over
    /// `buffers`; the bytes copied. A message that does not fit stays where it is.
    ///
    /// # Errors
    /// As [`Exchange::dequeue_mbuf`]; `INVALID_VALUE` for a context above 256 bytes or too small
    /// buffers.
    pub fn dequeue_buff(
        &mut self,
        queue: QueueId,
        context: &mut [u8],
        buffers: &mut [&mut [u8]],
        timeout_ms: i32,
    ) -> Result<usize> {
        let refused = |why| Refused::new(Code::INVALID_VALUE, Some(queue), why);
        if context.len() > HEAD_SIZE {
            return Err(refused("a head has at most 256 bytes"));
        }
        let room: usize = buffers.iter().map(|buffer| buffer.len()).sum();
        if self.peek(queue, timeout_ms)? > room as u64 {
            return Err(refused("the message is larger than the buffers"));
        }
        let mbuf = self.dequeue_mbuf(queue, 0)?;
        let head = self.worker.of(&mbuf).head_bytes();
        context.copy_from_slice(head.get(..context.len()).unwrap_or(&[]));
        let mut done = 0;
        for buffer in buffers {
            done += copy_out(&self.worker, &mbuf, done, buffer).unwrap_or(0);
        }
        self.free(mbuf);
        Ok(done)
    }

    /// The first checks of a data dequeue: end of sequence, head out, `ret_code`.
    pub(super) fn open_message(
        &self,
        queue: QueueId,
        mbuf: &Mbuf,
        control: &mut ControlInfo,
    ) -> Result<Opened> {
        let message = self.worker.of(mbuf);
        control.end_of_sequence = message.is_eos();
        if control.end_of_sequence {
            return Ok(Opened::EndOfSequence);
        }
        let info = message.msg_info();
        let head = message.head_bytes();
        control.user_data.copy_from_slice(head.get(..USER_DATA_SIZE).unwrap_or(&[]));
        control.msg_info = Some(info);
        match info.ret_code {
            0 => Ok(Opened::Data),
            code => Err(Refused::of(Code::from_ret_code(code), queue)),
        }
    }

    pub(super) fn note_drained(&self, queue: QueueId) {
        if let Some(events) = &self.events {
            events.note_drained(queue);
        }
    }
}

/// What a message is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Opened {
    EndOfSequence,
    Data,
}

/// Copies the data of a message (a chain in order) from `skip` on; `None` when nothing is behind
/// `skip`.
fn copy_out(worker: &Worker<'_>, mbuf: &Mbuf, skip: usize, out: &mut [u8]) -> Option<usize> {
    let (mut at, mut done) = (0usize, 0usize);
    for part in (0..).map_while(|index| worker.chain_get(mbuf, index)) {
        let bytes = payload::bytes(&part);
        if let Some(from) = bytes.get(skip.saturating_sub(at)..) {
            let room = out.get_mut(done..).unwrap_or(&mut []);
            let count = from.len().min(room.len());
            if let (Some(to), Some(from)) = (room.get_mut(..count), from.get(..count)) {
                to.copy_from_slice(from);
            }
            done += count;
        }
        at += bytes.len();
    }
    (at > skip).then_some(done)
}
