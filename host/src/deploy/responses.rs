//! The executors' answers to control messages.
//!
//! Each start of an executor sends an init response; its queue is short and a full one ends the
//! executor, so the host takes them out. What they say is in the node's log too, and readiness is
//! told by the supervisor.

use executor_core::error::{DequeueError, QueueError};
use executor_core::owner::QueueId;
use executor_core::pool::Worker;
use executor_core::queue::Consumer;
use executor_rt::port;
use executor_rt::waiter::ring;

use crate::plan::DeployPlan;

/// The consumer ends of all response queues.
#[derive(Debug)]
pub struct Responses {
    worker: Worker<'static>,
    queues: Vec<Consumer<'static>>,
}

impl Responses {
    /// Opens the response queues of `plan`.
    ///
    /// # Errors
    /// They are not the host's to read.
    pub fn open(plan: &DeployPlan, worker: Worker<'static>) -> Result<Responses, QueueError> {
        let open = |id| Consumer::open(&worker, QueueId(id));
        let queues = plan.processes().map(|executor| open(executor.response_queue));
        let queues = queues.collect::<Result<_, _>>()?;
        Ok(Responses { worker, queues })
    }

    /// Takes out what has come. Does not wait.
    pub fn drain(&mut self) {
        for queue in &mut self.queues {
            loop {
                match queue.dequeue(&mut self.worker) {
                    Ok((mbuf, wakes)) => {
                        ring(&self.worker.memory, wakes);
                        port::free(&mut self.worker, mbuf);
                    }
                    // The bad entry was skipped.
                    Err(DequeueError::Fault) => {}
                    Err(_) => break,
                }
            }
        }
    }
}
