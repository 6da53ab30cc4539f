//! One process's end of a pair of queues: send a message, receive one, spinning or parked.

use std::hint::black_box;

use executor_core::abi::MsgInfo;
use executor_core::error::DequeueError;
use executor_core::mbuf::Mbuf;
use executor_core::owner::QueueId;
use executor_core::pool::{Head, Worker};
use executor_core::queue::{Consumer, Producer};
use executor_rt::waiter::{Waiter, ring};
use executor_rt::{payload, port};

use crate::Failure;
use crate::spin::spin_until;

/// Bytes of a descriptor; the payload follows.
pub const DESCRIPTOR: usize = 1024;

/// Bytes of the smallest payload area: the 8-byte case reads two lines too.
pub const PAYLOAD_MIN: usize = 128;

/// How an end waits for a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Spins on the ring.
    Spin,
    /// Sleeps in the kernel at once.
    Park,
}

/// Worker, outgoing and incoming queue of a process.
#[derive(Debug)]
pub struct End {
    worker: Worker<'static>,
    out: Producer<'static>,
    input: Consumer<'static>,
    waiter: Waiter<'static>,
    wait: Wait,
    /// Bytes of the payload, and of the buffer.
    size: u64,
    len: usize,
}

impl End {
    /// Opens both queues. `size` is the payload's size in bytes.
    ///
    /// # Errors
    /// The queues do not exist or the slot may not use them.
    pub fn open(
        worker: Worker<'static>,
        out: QueueId,
        input: QueueId,
        wait: Wait,
        size: usize,
    ) -> Result<Self, Failure> {
        let producer = Producer::open(&worker, out, None)
            .map_err(|error| format!("producer end: {error:?}"))?;
        let consumer =
            Consumer::open(&worker, input).map_err(|error| format!("consumer end: {error:?}"))?;
        let waiter =
            Waiter::new(&worker.memory, worker.slot(), 0).ok_or("a slot without waiter")?;
        let len = DESCRIPTOR + size.max(PAYLOAD_MIN);
        Ok(Self { worker, out: producer, input: consumer, waiter, wait, size: size as u64, len })
    }

    /// Allocates, writes `MsgInfo` and the descriptor's fields in use, enqueues, rings.
    ///
    /// # Errors
    /// No mbuf is free, or the queue is full.
    #[inline]
    pub fn send(&mut self, trans_id: u64) -> Result<(), Failure> {
        let len = self.len as u64;
        let mut mbuf = self
            .worker
            .alloc(len, Head::Unset)
            .map_err(|error| format!("alloc of {len} bytes: {error:?}"))?;
        let buffer = payload::buffer_mut(&self.worker, &mut mbuf)
            .and_then(|buffer| buffer.first_chunk_mut::<DESCRIPTOR>())
            .ok_or("a fresh mbuf is not writable")?;
        // Address, offset, dtype, rank and two dims; the original shape; format and size.
        put(buffer, 0, [0, 0, 3, 2, 1, self.size]);
        put(buffer, 288, [2, 1, self.size]);
        put(buffer, 552, [2, 0, self.size]);
        let view = self.worker.of(&mbuf);
        view.set_data_len(len);
        view.set_msg_info(&MsgInfo { trans_id, ..MsgInfo::default() });
        let wakes = self
            .out
            .enqueue(&mut self.worker, mbuf)
            .map_err(|rejected| format!("enqueue: {:?}", rejected.reason))?;
        ring(&self.worker.memory, wakes);
        // The peer is being waited for now anyway.
        self.worker.prepare_next();
        Ok(())
    }

    /// Waits, dequeues, reads what [`End::send`] wrote and two payload lines, frees; the trans_id.
    ///
    /// # Errors
    /// The peer does not answer, or the message is damaged.
    #[inline]
    pub fn receive(&mut self) -> Result<u64, Failure> {
        let mbuf = self.next()?;
        let view = self.worker.of(&mbuf);
        let info = view.msg_info();
        let bytes = payload::bytes(&view);
        let (Some((descriptor, data)), Some(last)) =
            (bytes.split_first_chunk::<DESCRIPTOR>(), bytes.last_chunk::<64>())
        else {
            return Err(format!("a message of {} bytes", bytes.len()).into());
        };
        let first = data.first_chunk::<64>().ok_or("a message without payload")?;
        black_box((
            sum::<6>(descriptor, 0),
            sum::<3>(descriptor, 288),
            sum::<3>(descriptor, 552),
            sum::<8>(first, 0),
            sum::<8>(last, 0),
            info,
        ));
        port::free(&mut self.worker, mbuf);
        Ok(info.trans_id)
    }

    #[inline]
    fn next(&mut self) -> Result<Mbuf, Failure> {
        let Self { worker, input, waiter, .. } = self;
        if self.wait == Wait::Park {
            return port::dequeue(worker, input, waiter, None)
                .map_err(|error| format!("dequeue: {error:?}").into());
        }
        loop {
            match input.dequeue(worker) {
                Ok((mbuf, wakes)) => {
                    ring(&worker.memory, wakes);
                    return Ok(mbuf);
                }
                Err(DequeueError::Empty) => spin_until(|| input.has_message(&worker.memory))?,
                Err(error) => return Err(format!("dequeue: {error:?}").into()),
            }
        }
    }
}

/// Writes words at a byte offset.
#[inline]
fn put<const N: usize>(bytes: &mut [u8; DESCRIPTOR], offset: usize, words: [u64; N]) {
    for (at, word) in words.into_iter().enumerate() {
        let from = offset + 8 * at;
        bytes[from..from + 8].copy_from_slice(&word.to_le_bytes());
    }
}

/// Sum of `N` words at a byte offset.
#[inline]
fn sum<const N: usize>(bytes: &[u8], offset: usize) -> u64 {
    let words = bytes[offset..offset + 8 * N].chunks_exact(8);
    words.fold(0u64, |sum, word| {
        let word = word.first_chunk::<8>().map_or(0, |word| u64::from_le_bytes(*word));
        sum.wrapping_add(word)
    })
}
