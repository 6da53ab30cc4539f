//! Requests of the request queue, one after the other (executor-deployer §1.7).

use executor_core::error::Code;
use executor_core::mbuf::Mbuf;
use executor_core::model_state::ModelOp;
use executor_rt::control::unexpected;
use executor_rt::interpose::{self, late_setup};
use executor_rt::node::{self, End};
use executor_rt::proto::BatchLoadModelMessage;
use executor_rt::server::{
    Action, Clear, Failure, TEXT_LOAD_FAILED, TEXT_NO_MODEL_FOUND, TEXT_NO_SUCH_MODEL,
};
use executor_rt::{payload, report};

use crate::device::Device;
use crate::load;
use crate::place::{Answer, Order, RESTART};

type Outcome = Result<(), Failure>;

fn failed(text: impl Into<String>) -> Failure {
    Failure::new(Code::FAILED, text)
}

impl Device {
    /// Executes one request and answers it; `Some` when the process has to end.
    pub(crate) fn request(&mut self, mbuf: &Mbuf) -> Option<End> {
        let access = self.node.worker.of(mbuf);
        let kind = access.msg_info().msg_type.0;
        let outcome = match self.queues.server.receive(kind, payload::bytes(&access)) {
            Action::Finalize => return Some(End::Clean),
            Action::Reply(reply) => return self.finish(&reply),
            Action::Load(batch) => late_setup(|| self.load_batch(&batch)),
            Action::Unload(request) => self.unload_root(request.model_id),
            Action::Clear { model_id, clear } => self.clear(model_id, clear),
            Action::Exception(request) => self.exception(request.root_model_id),
            // Accepted and ignored (executor-deployer §10).
            Action::Profiling(_) | Action::SyncVar(_) => Ok(()),
        };
        let reply = self.queues.server.complete(outcome);
        self.finish(&reply.unwrap_or_else(|failure| unexpected(&failure)))
    }

    fn finish(&mut self, reply: &executor_rt::server::Reply) -> Option<End> {
        if !reply.detail.is_empty() {
            let text = format_args!("control message: {}", reply.detail);
            report::error(self.logger, None, text);
        }
        match self.reply(reply) {
            Ok(()) => reply.stop.then_some(End::Code(Code(reply.response.error_code))),
            Err(code) => {
                let text = format_args!("response queue: {code}; the process ends");
                report::error(self.logger, None, text);
                Some(End::Code(code))
            }
        }
    }

    /// Loads in order and stops at the first that fails; those before it stay.
    fn load_batch(&mut self, batch: &BatchLoadModelMessage) -> Outcome {
        let before = interpose::counts().late;
        for request in &batch.models {
            match self.load(request) {
                Ok(()) => {}
                Err(node::Failure::Clean) => {
                    return Err(failed(format!(
                        "{TEXT_LOAD_FAILED}: the process was asked to end"
                    )));
                }
                Err(node::Failure::Code(code, text)) => {
                    let name = load::name(request);
                    return Err(failed(format!("{TEXT_LOAD_FAILED}: {name}: {text}: {code}")));
                }
            }
        }
        let (count, calls) = (batch.models.len(), interpose::counts().late - before);
        let text = format_args!("loaded {count} models while others run, {calls} calls of malloc");
        report::info(self.logger, None, text);
        Ok(())
    }

    /// Keys of a root model's handles.
    fn keys(&self, root: u32) -> Vec<(u32, u32)> {
        self.handles.range((root, 0)..=(root, u32::MAX)).map(|(key, _)| *key).collect()
    }

    fn unload_root(&mut self, root: u32) -> Outcome {
        let keys = self.keys(root);
        if keys.is_empty() {
            return Err(failed(TEXT_NO_SUCH_MODEL));
        }
        let bad = self.unload(&keys);
        if bad.is_empty() {
            return Ok(());
        }
        let list: Vec<String> =
            bad.iter().map(|(model, code)| format!("{model} ({code})")).collect();
        Err(failed(format!("Failed to unload models: {}", list.join(", "))))
    }

    fn clear(&mut self, root: u32, clear: Clear) -> Outcome {
        let keys = self.keys(root);
        if keys.is_empty() {
            return Err(failed(format!("{TEXT_NO_SUCH_MODEL}: clear of root model {root}")));
        }
        let handles: Vec<_> =
            keys.iter().filter_map(|key| self.handles.get(key).cloned()).collect();
        let ops: &[ModelOp] = match clear {
            Clear::Stop => &[ModelOp::Stop],
            Clear::Restart => &RESTART,
        };
        // All of them or none.
        for handle in &handles {
            let Some(place) = self.places.get(handle.place) else { continue };
            place.desk.life.check(ops).map_err(|refused| {
                let text = format!("clear of {}: {refused}", handle.name);
                Failure::new(Code::AICPU_STATE, text)
            })?;
        }
        for handle in handles {
            let order = match clear {
                Clear::Stop => Order::Stop,
                Clear::Restart => Order::Restart,
            };
            match self.order(handle.place, order) {
                Ok(Answer::Dropped(inputs, outputs)) if inputs + outputs != 0 => {
                    let name = &handle.name;
                    let text = format_args!(
                        "clear of {name}: dropped {inputs} inputs and {outputs} outputs"
                    );
                    report::warn(self.logger, None, text);
                }
                Ok(_) => {}
                Err(code) => return Err(failed(format!("clear of {}: {code}", handle.name))),
            }
        }
        Ok(())
    }

    /// No model that catches exceptions is ever loaded, so every handle is skipped.
    fn exception(&self, root: u32) -> Outcome {
        if self.keys(root).is_empty() { Err(failed(TEXT_NO_MODEL_FOUND)) } else { Ok(()) }
    }
}
