//! Deploying on this machine: a [`DeployPlan`] becomes processes, shared memory and a [`Session`].
//!
//! | step | what | on failure |
//! |---|---|---|
//! | 1 | memory group and its queues ([`group`]) | nothing was started |
//! | 2 | load messages, logs, the supervisor's document ([`files`], [`launch`]) | nothing was started |
//! | 3 | watcher → supervisor → executors | the watcher ends everything |
//! | 4 | wait until every executor is ready | error with the node's log; everything is ended |
//! | 5 | the session takes over | |

pub mod binaries;
pub mod files;
pub mod group;
pub mod launch;

use executor_core::owner::SlotId;
use executor_rt::attach::{self, Role};
use std::os::fd::AsFd;

use crate::error::DeployError;
use crate::plan::DeployPlan;
use crate::session::Session;

/// How to deploy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeployOptions {
    /// Touch all partition pages now rather than in the first messages.
    pub populate: bool,
    /// Run the executors in a PID namespace where permitted.
    pub namespace: bool,
    /// Measure the time inside functions (two clock reads a message).
    pub timing: bool,
    /// Rounds that executors look before they sleep; 0 parks at once.
    pub spin: u32,
    /// Switches off one repair (fault tests only), see `executor_rt::plan`.
    pub sabotage: u32,
}

impl Default for DeployOptions {
    fn default() -> Self {
        DeployOptions { populate: true, namespace: true, timing: false, spin: 0, sabotage: 0 }
    }
}

impl DeployPlan {
    /// Deploys on this machine.
    ///
    /// # Errors
    /// [`DeployError`]; no process is left then.
    pub fn deploy(self, options: &DeployOptions) -> Result<Session, DeployError> {
        let created = group::create(&self, options.populate)?;
        let role = Role::Member(SlotId(0));
        let attached = attach::attach(created.control.as_fd(), created.arena.as_fd(), role)
            .map_err(|failure| group::group_error(&self, failure))?;
        let slot_error = |e| group::group_error(&self, attach::Failure::Attach(e));
        let control = attached.worker(2, 1).map_err(slot_error)?;
        group::create_queues(&self, &control)?;
        let launched = launch::launch(&self, &created, options)?;
        let ready = launch::wait_ready(&self, &attached.group.memory, &launched);
        if let Err(error) = ready {
            launch::kill(&launched);
            let _ = attached.retire();
            return Err(error);
        }
        Session::new(self, attached, control, launched)
    }
}
