//! Control messages: the request queue, served between sets and during every wait; the response
//! queue.
//!
//! Decoding and replying allocate: an exempt path, since control messages are rare. One mbuf is
//! kept ready for the next reply, so that a full partition can't silence a process.

use executor_core::error::{Code, DequeueError};
use executor_core::mbuf::Mbuf;
use executor_core::pool::{Head, Worker};
use executor_core::queue::{Consumer, Producer, Rejected};
use executor_rt::interpose::exempt;
use executor_rt::log::Logger;
use executor_rt::payload;
use executor_rt::server::{Action, Failure, MessageServer, Reply};
use executor_rt::waiter::ring;
use prost::Message;

use crate::node::{End, Node};
use crate::report;

/// Bytes of the mbuf that is kept for replies; a longer text is cut.
const REPLY_BYTES: u64 = 512;

/// Both ends of the message queues.
#[derive(Debug)]
pub(crate) struct Control {
    /// The protocol.
    pub(crate) server: MessageServer,
    /// Request queue, when the process was given one.
    pub(crate) requests: Option<Consumer<'static>>,
    /// Response queue, when the process was given one; without it replies are skipped (udf §4.2).
    pub(crate) responses: Option<Producer<'static>>,
    /// For the next reply.
    pub(crate) spare: Option<Mbuf>,
}

impl Control {
    /// True when a request waits.
    pub(crate) fn has_message(&mut self, worker: &Worker<'static>) -> bool {
        self.requests.as_mut().is_some_and(|requests| requests.has_message(&worker.memory))
    }

    /// Takes the mbuf for the next reply out of the pool.
    pub(crate) fn restock(&mut self, worker: &mut Worker<'static>) {
        if self.spare.is_none() && self.responses.is_some() {
            self.spare = worker.alloc(REPLY_BYTES, Head::Zeroed).ok();
        }
    }

    /// Sends a reply; it does not wait (udf §4.2: a full response queue is an error).
    pub(crate) fn send(&mut self, worker: &mut Worker<'static>, reply: &Reply) -> Result<(), Code> {
        self.restock(worker);
        let Some(responses) = &mut self.responses else { return Ok(()) };
        let mut mbuf = self.spare.take().ok_or(Code::NO_MBUF)?;
        let mut bytes = reply.response.encode_to_vec();
        if bytes.len() as u64 > REPLY_BYTES {
            let mut short = reply.response.clone();
            short.error_message.clear();
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

/// Executes every request that waits. `Some` when the process has to end; what came behind is still
/// answered, with a code.
pub(crate) fn serve(node: &mut Node, logger: &Logger) -> Option<End> {
    let mut end = None;
    while node.control.has_message(&node.worker) {
        let Some(requests) = &mut node.control.requests else { break };
        match requests.dequeue(&mut node.worker) {
            Ok((mbuf, wakes)) => {
                ring(&node.worker.memory, wakes);
                let asked = exempt(|| handle(node, &mbuf, logger));
                end = end.or(asked);
                node.free(mbuf);
            }
            Err(DequeueError::Fault) => {
                report::error(logger, None, format_args!("request queue: an impossible entry"));
            }
            Err(DequeueError::Empty | DequeueError::Busy) => break,
            Err(gone) => {
                report::error(
                    logger,
                    None,
                    format_args!("request queue: {}; it is gone", gone.code()),
                );
                return end.or(Some(End::Code(gone.code())));
            }
        }
    }
    end
}

fn handle(node: &mut Node, mbuf: &Mbuf, logger: &Logger) -> Option<End> {
    let Node { worker, control, .. } = node;
    let access = worker.of(mbuf);
    let action = control.server.receive(access.msg_info().msg_type.0, payload::bytes(&access));
    let reply = match action {
        Action::Finalize => return Some(End::Clean),
        Action::Reply(reply) => Ok(reply),
        other => {
            let what = match other {
                Action::Clear { .. } => "suspend and recover",
                Action::Exception(_) => "exceptions by trans_id",
                _ => "this request",
            };
            let text = format!("{what} is not supported by this version");
            control.server.complete(Err(Failure::new(Code::FLOW_FUNC_NOT_SUPPORT, text)))
        }
    };
    let reply = reply.unwrap_or_else(|failure| unexpected(&failure));
    let code = Code(reply.response.error_code);
    if !reply.detail.is_empty() {
        report::error(logger, None, format_args!("control message: {}", reply.detail));
    }
    let sent = control.send(worker, &reply);
    if let Err(code) = sent {
        report::error(logger, None, format_args!("response queue: {code}; the process ends"));
        return Some(End::Code(code));
    }
    reply.stop.then_some(End::Code(code))
}

/// The server refused to close a request that it had opened; can't happen, and is answered all the
/// same.
fn unexpected(failure: &Failure) -> Reply {
    let response = executor_rt::proto::ExecutorResponse {
        message_id: 0,
        error_code: failure.code.0,
        error_message: failure.text.clone(),
    };
    Reply { response, stop: true, detail: failure.text.clone() }
}
