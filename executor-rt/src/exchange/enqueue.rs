//! The enqueue family: bytes, size and fill, gather, a ready mbuf.
//!
//! Order of a data enqueue: id (not yet counted) → alloc → fill → head → enqueue → id counted.
//! Whatever fails, the exchange frees what it allocated, and a retry starts from the same id.

use executor_core::abi::MsgInfo;
use executor_core::abi::head::{HEAD_SIZE, USER_DATA_SIZE};
use executor_core::error::{AllocError, Code, EnqueueError};
use executor_core::mbuf::Mbuf;
use executor_core::owner::QueueId;
use executor_core::pool::Head;

use super::trans_id::{self, Source};
use super::{
    Buffer, ControlInfo, Deploy, Exchange, IOVEC_MAX, Limit, NotEnqueued, Refused, Result,
};
use crate::waiter::ring;
use crate::{payload, port};

/// Bytes of a head below which nothing can be put into it: user data or `MsgInfo` (§0.3).
const HEAD_SIZE_MIN: usize = 64;

impl Exchange<'_> {
    /// Copies `data` into a new mbuf and enqueues it; its trans_id (0 without message information).
    ///
    /// # Errors
    /// `QUEUE_FULL` at the time limit; see [`trans_id`] for ids; `NO_MBUF` or `TOO_LARGE` when the
    /// partition has no block; `OPER_NOT_PERMITTED` without the right to write.
    pub fn enqueue(&mut self, queue: QueueId, data: &[u8], control: &ControlInfo) -> Result<u64> {
        self.enqueue_with(queue, data.len() as u64, control, |buffer| {
            buffer.copy_from_slice(data);
            Ok(())
        })
    }

    /// Allocates `size` bytes, has `fill` write them in place, and enqueues.
    ///
    /// # Errors
    /// As [`Exchange::enqueue`]; the code of `fill`.
    pub fn enqueue_with(
        &mut self,
        queue: QueueId,
        size: u64,
        control: &ControlInfo,
        fill: impl FnOnce(&mut [u8]) -> core::result::Result<(), Code>,
    ) -> Result<u64> {
        self.send(queue, size, control, Source::Local, fill)
    }

    /// Puts several buffers together in one new mbuf and enqueues it (executor-deployer §4.3).
    ///
    /// # Errors
    /// As [`Exchange::enqueue`]; `FAILED` when there is no byte in them; `PARAM_INVALID` for a null
    /// address with a length.
    pub fn enqueue_gather(
        &mut self,
        queue: QueueId,
        buffers: &[Buffer<'_>],
        control: &ControlInfo,
    ) -> Result<u64> {
        let refused = |code, why| Refused::new(code, Some(queue), why);
        let total = total(buffers).map_err(|why| refused(Code::PARAM_INVALID, why))?;
        if total == 0 {
            return Err(refused(Code::FAILED, "all buffers are empty"));
        }
        let source = match self.ends(queue)?.deploy {
            Deploy::Local => Source::Local,
            Deploy::Client => Source::ClientGather,
        };
        self.send(queue, total, control, source, |to| gather(to, buffers))
    }

    /// `rtMemQueueEnQueueBuff`: `context` becomes the head, `count` buffers become one data area.
    /// An empty context leaves the head zero.
    ///
    /// # Errors
    /// `FAILED` for a context of 1 to 63 bytes; `INVALID_VALUE` for one above 256, a count without
    /// buffers, a null address with a length, or more than 128 buffers without a byte; `QUEUE_FULL`
    /// at the limit.
    pub fn enqueue_buff(
        &mut self,
        queue: QueueId,
        context: &[u8],
        count: u32,
        buffers: Option<&[Buffer<'_>]>,
        timeout_ms: i32,
    ) -> Result<()> {
        let refused = |code, why| Refused::new(code, Some(queue), why);
        match context.len() {
            0 | HEAD_SIZE_MIN..=HEAD_SIZE => {}
            1..HEAD_SIZE_MIN => return Err(refused(Code::FAILED, "a head has at least 64 bytes")),
            _ => return Err(refused(Code::INVALID_VALUE, "a head has at most 256 bytes")),
        }
        let buffers = buffers.unwrap_or(&[]).get(..count as usize);
        let buffers = buffers.ok_or(refused(Code::INVALID_VALUE, "fewer buffers than counted"))?;
        let total = total(buffers).map_err(|why| refused(Code::INVALID_VALUE, why))?;
        if count > IOVEC_MAX && total == 0 {
            return Err(refused(Code::INVALID_VALUE, "more than 128 buffers, all empty"));
        }
        let limit = Limit::from_ms(timeout_ms);
        let mbuf = self.filled(queue, total, limit, |to| gather(to, buffers))?;
        self.worker.of(&mbuf).write_head(0, context);
        self.put_or_free(queue, mbuf, limit)
    }

    /// Enqueues a ready mbuf with the head it has.
    ///
    /// # Errors
    /// [`NotEnqueued`] gives the mbuf back.
    pub fn enqueue_mbuf(
        &mut self,
        queue: QueueId,
        mbuf: Mbuf,
        timeout_ms: i32,
    ) -> core::result::Result<(), NotEnqueued> {
        self.put(queue, mbuf, Limit::from_ms(timeout_ms))
    }

    /// An mbuf with room for `size` bytes and a zero head, waiting for one up to the timeout.
    ///
    /// # Errors
    /// `NO_MBUF` at the limit, `TOO_LARGE` at once.
    pub fn alloc(&mut self, size: u64, timeout_ms: i32) -> Result<Mbuf> {
        self.alloc_until(size, Limit::from_ms(timeout_ms))
    }

    fn alloc_until(&mut self, size: u64, limit: Limit) -> Result<Mbuf> {
        loop {
            let deadline = limit.deadline();
            let got = match limit {
                Limit::Now => self.worker.alloc(size, Head::Zeroed),
                _ => port::alloc(&mut self.worker, &self.waiter, size, Head::Zeroed, deadline),
            };
            match got {
                Ok(mbuf) => return Ok(mbuf),
                Err(AllocError::Exhausted) if !limit.is_over() => {}
                Err(e) => return Err(Refused::new(e.code(), None, e.code().text())),
            }
        }
    }

    /// A new mbuf with `size` bytes that `fill` wrote.
    fn filled(
        &mut self,
        queue: QueueId,
        size: u64,
        limit: Limit,
        fill: impl FnOnce(&mut [u8]) -> core::result::Result<(), Code>,
    ) -> Result<Mbuf> {
        // Without the right to write there is no point in filling anything.
        self.producer(queue)?;
        let mut mbuf =
            self.alloc_until(size, limit).map_err(|e| Refused { queue: Some(queue), ..e })?;
        let filled = payload::buffer_mut(&self.worker, &mut mbuf).map(fill);
        if let Some(Ok(())) = filled {
            self.worker.of(&mbuf).set_data_len(size);
            return Ok(mbuf);
        }
        self.free(mbuf);
        let code = filled.and_then(core::result::Result::err).unwrap_or(Code::FAILED);
        Err(Refused::new(code, Some(queue), "the buffer was not filled"))
    }

    fn send(
        &mut self,
        queue: QueueId,
        size: u64,
        control: &ControlInfo,
        source: Source,
        fill: impl FnOnce(&mut [u8]) -> core::result::Result<(), Code>,
    ) -> Result<u64> {
        let limit = Limit::from_ms(control.timeout_ms);
        let last = self.ends(queue)?.last_id;
        let info = match &control.msg_info {
            None => MsgInfo::default(),
            Some(info) => {
                let id = trans_id::next(last, info, source);
                let id = id.map_err(|(code, why)| Refused::new(code, Some(queue), why))?;
                MsgInfo { trans_id: id, ..*info }
            }
        };
        let mbuf = self.filled(queue, size, limit, fill)?;
        let head = self.worker.of(&mbuf);
        head.set_msg_info(&info);
        if control.user_data != [0; USER_DATA_SIZE] {
            head.write_head(0, &control.user_data);
        }
        self.put_or_free(queue, mbuf, limit)?;
        if control.msg_info.is_some() {
            self.ends(queue)?.last_id = info.trans_id;
        }
        Ok(info.trans_id)
    }

    fn put_or_free(&mut self, queue: QueueId, mbuf: Mbuf, limit: Limit) -> Result<()> {
        self.put(queue, mbuf, limit).map_err(|NotEnqueued { mbuf, refused }| {
            self.free(mbuf);
            refused
        })
    }

    fn put(
        &mut self,
        queue: QueueId,
        mbuf: Mbuf,
        limit: Limit,
    ) -> core::result::Result<(), NotEnqueued> {
        let fills = self.events.is_some() && self.fills_lane(queue);
        let (memory, mut tries) = (self.worker.memory, super::manage::LOCK_TRIES);
        let (worker, waiter, producer) = match self.producer(queue) {
            Ok(parts) => parts,
            Err(refused) => return Err(NotEnqueued { mbuf, refused }),
        };
        let mut mbuf = mbuf;
        let reason = loop {
            let result = match limit {
                Limit::Now => producer.enqueue(worker, mbuf).map(|wakes| ring(&memory, wakes)),
                _ => port::enqueue(worker, producer, &waiter, mbuf, limit.deadline()),
            };
            let Err(rejected) = result else { break None };
            mbuf = rejected.mbuf;
            if rejected.reason == EnqueueError::Busy && tries != 0 {
                tries -= 1;
                std::thread::yield_now();
            } else if rejected.reason != EnqueueError::Full || limit.is_over() {
                break Some((mbuf, rejected.reason));
            }
        };
        if fills || matches!(reason, Some((_, EnqueueError::Full))) {
            self.note_full(queue);
        }
        let Some((mbuf, reason)) = reason else { return Ok(()) };
        if reason == EnqueueError::NotPermitted {
            self.close(queue);
        }
        Err(NotEnqueued { mbuf, refused: Refused::of(reason.code(), queue) })
    }

    /// True when one more message fills this process's lane.
    fn fills_lane(&self, queue: QueueId) -> bool {
        let lane = self.worker.memory.query_lane(queue, self.slot());
        lane.is_ok_and(|lane| lane.size + 1 >= lane.depth)
    }

    fn note_full(&self, queue: QueueId) {
        if let Some(events) = &self.events {
            events.note_full(queue);
        }
    }
}

/// Bytes of all buffers; why not when one is impossible.
fn total(buffers: &[Buffer<'_>]) -> core::result::Result<u64, &'static str> {
    buffers.iter().try_fold(0u64, |sum, buffer| {
        let bytes = buffer.bytes().ok_or("a buffer has a length and no (or fewer) bytes")?;
        sum.checked_add(bytes.len() as u64).ok_or("the buffers together exceed 2^64 bytes")
    })
}

/// One plain copy, whatever the size (docs/compat.md says why).
fn gather(to: &mut [u8], buffers: &[Buffer<'_>]) -> core::result::Result<(), Code> {
    let mut rest = to;
    for bytes in buffers.iter().filter_map(Buffer::bytes) {
        let (here, later) = rest.split_at_mut_checked(bytes.len()).ok_or(Code::INVALID_VALUE)?;
        here.copy_from_slice(bytes);
        rest = later;
    }
    Ok(())
}
