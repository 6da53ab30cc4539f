//! Control messages: the request queue, served between sets and during every wait.

use executor_core::error::Code;
use executor_core::mbuf::Mbuf;
use executor_core::pool::Worker;
use executor_rt::control::{MessageQueues, Received, unexpected};
use executor_rt::interpose::exempt;
use executor_rt::log::Logger;
use executor_rt::node::{self, End};
use executor_rt::server::{Action, Failure};
use executor_rt::waiter::ring;
use executor_rt::{payload, report};

/// The message queues of this process.
#[derive(Debug)]
pub(crate) struct Control {
    pub(crate) queues: MessageQueues,
}

impl node::Control for Control {
    fn is_waiting(&mut self, worker: &Worker<'static>) -> bool {
        self.queues.has_message(worker)
    }

    /// Executes every request that waits. `Some` when the process has to end; what came behind is
    /// still answered, with a code.
    fn serve(&mut self, worker: &mut Worker<'static>, logger: &Logger) -> Option<End> {
        let mut end = None;
        loop {
            match self.queues.receive(worker, logger) {
                Received::Request(mbuf) => {
                    let asked = exempt(|| self.handle(worker, &mbuf, logger));
                    end = end.or(asked);
                    let wakes = worker.free(mbuf);
                    ring(&worker.memory, wakes);
                }
                Received::Nothing => return end,
                Received::Gone(code) => return end.or(Some(End::Code(code))),
            }
        }
    }
}

impl Control {
    fn handle(
        &mut self,
        worker: &mut Worker<'static>,
        mbuf: &Mbuf,
        logger: &Logger,
    ) -> Option<End> {
        let queues = &mut self.queues;
        let access = worker.of(mbuf);
        let action = queues.server.receive(access.msg_info().msg_type.0, payload::bytes(&access));
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
                queues.server.complete(Err(Failure::new(Code::FLOW_FUNC_NOT_SUPPORT, text)))
            }
        };
        let reply = reply.unwrap_or_else(|failure| unexpected(&failure));
        let code = Code(reply.response.error_code);
        if !reply.detail.is_empty() {
            report::error(logger, None, format_args!("control message: {}", reply.detail));
        }
        let sent = queues.send(worker, &reply);
        if let Err(code) = sent {
            report::error(logger, None, format_args!("response queue: {code}; the process ends"));
            return Some(End::Code(code));
        }
        reply.stop.then_some(End::Code(code))
    }
}
