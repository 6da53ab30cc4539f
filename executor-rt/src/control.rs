//! Message queues of an executor: requests in, responses out.
//!
//! Decoding and replying allocate: an exempt path, since control messages are rare. One mbuf is
//! kept ready for the next reply, so that a full partition can't silence a process.
//!
//! It is not what a request means: [`crate::server`] says that, and the executor does it.

use executor_core::error::{Code, DequeueError};
use executor_core::mbuf::Mbuf;
use executor_core::pool::{Head, Worker};
use executor_core::queue::{Consumer, Producer, Rejected};
use prost::Message;

use crate::log::Logger;
use crate::payload;
use crate::report;
use crate::server::{Failure, MessageServer, Reply};
use crate::waiter::ring;

/// Bytes of the mbuf that is kept for replies; a longer text is cut.
const REPLY_BYTES: u64 = 512;
/// What a cut text has: less than a reply by more than its numbers need.
const TEXT_BYTES: usize = 480;

/// Both ends of the message queues.
#[derive(Debug)]
pub struct MessageQueues {
    /// The protocol.
    pub server: MessageServer,
    /// Request queue, when the process was given one.
    pub requests: Option<Consumer<'static>>,
    /// Response queue, when the process was given one; without it replies are skipped (udf §4.2).
    pub responses: Option<Producer<'static>>,
    /// For the next reply.
    pub spare: Option<Mbuf>,
}

/// What the request queue had.
#[derive(Debug)]
pub enum Received {
    /// A request; the caller frees it.
    Request(Mbuf),
    /// Nothing now.
    Nothing,
    /// The queue is gone.
    Gone(Code),
}

impl MessageQueues {
    /// Without queues.
    #[must_use]
    pub const fn new(server: MessageServer) -> MessageQueues {
        MessageQueues { server, requests: None, responses: None, spare: None }
    }

    /// True when a request waits.
    pub fn has_message(&mut self, worker: &Worker<'static>) -> bool {
        self.requests.as_mut().is_some_and(|requests| requests.has_message(&worker.memory))
    }

    /// The next request; impossible entries are skipped with a line.
    pub fn receive(&mut self, worker: &mut Worker<'static>, logger: &Logger) -> Received {
        loop {
            let Some(requests) = &mut self.requests else { return Received::Nothing };
            match requests.dequeue(worker) {
                Ok((mbuf, wakes)) => {
                    ring(&worker.memory, wakes);
                    return Received::Request(mbuf);
                }
                Err(DequeueError::Fault) => {
                    let text = format_args!("request queue: an impossible entry");
                    report::error(logger, None, text);
                }
                Err(DequeueError::Empty | DequeueError::Busy) => return Received::Nothing,
                Err(gone) => {
                    let text = format_args!("request queue: {}; it is gone", gone.code());
                    report::error(logger, None, text);
                    return Received::Gone(gone.code());
                }
            }
        }
    }

    /// Takes the mbuf for the next reply out of the pool.
    pub fn restock(&mut self, worker: &mut Worker<'static>) {
        if self.spare.is_none() && self.responses.is_some() {
            self.spare = worker.alloc(REPLY_BYTES, Head::Zeroed).ok();
        }
    }

    /// Sends a reply; it does not wait (udf §4.2: a full response queue is an error).
    ///
    /// # Errors
    /// The queue is full or gone, or there is no mbuf.
    pub fn send(&mut self, worker: &mut Worker<'static>, reply: &Reply) -> Result<(), Code> {
        self.restock(worker);
        let Some(responses) = &mut self.responses else { return Ok(()) };
        let mut mbuf = self.spare.take().ok_or(Code::NO_MBUF)?;
        let mut bytes = reply.response.encode_to_vec();
        if bytes.len() as u64 > REPLY_BYTES {
            let mut short = reply.response.clone();
            short.error_message = cut(&short.error_message).to_owned();
            bytes = short.encode_to_vec();
        }
        if !payload::write(worker, &mut mbuf, &bytes) {
            let wakes = worker.free(mbuf);
            ring(&worker.memory, wakes);
            return Err(Code::FLOW_FUNC_MEM_BUF_ERROR);
        }
        match responses.enqueue(worker, mbuf) {
            Ok(wakes) => {
                ring(&worker.memory, wakes);
                self.restock(worker);
                Ok(())
            }
            Err(Rejected { mbuf, reason }) => {
                self.spare = Some(mbuf);
                Err(reason.code())
            }
        }
    }
}

/// As much of a text as fits a reply.
fn cut(text: &str) -> &str {
    text.get(..text.floor_char_boundary(TEXT_BYTES)).unwrap_or("")
}

/// The server refused to close a request that it had opened; can't happen, and is answered all the
/// same.
#[must_use]
pub fn unexpected(failure: &Failure) -> Reply {
    let response = crate::proto::ExecutorResponse {
        message_id: 0,
        error_code: failure.code.0,
        error_message: failure.text.clone(),
    };
    Reply { response, stop: true, detail: failure.text.clone() }
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::{REPLY_BYTES, cut};

    #[test]
    fn a_long_text_is_cut_to_fit() {
        let long = "ä".repeat(400);
        let response = crate::proto::ExecutorResponse {
            message_id: u64::MAX,
            error_code: u32::MAX,
            error_message: cut(&long).to_owned(),
        };
        assert!(response.error_message.len() >= 479);
        assert!(response.encode_to_vec().len() as u64 <= REPLY_BYTES);
        assert_eq!(cut("short"), "short");
    }
}
