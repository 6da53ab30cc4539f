//! Deploying on this machine: a [`DeployPlan`] becomes processes, shared memory and a [`Session`].
//!
//! | step | what | on failure |
//! |---|---|---|
//! | 0 | libraries of projects ([`crate::build`]), programs of models | nothing was started |
//! | 1 | memory group and its queues ([`group`]) | nothing was started |
//! | 2 | load messages, logs, the supervisor's plan ([`files`], [`launch`]) | nothing was started |
//! | 3 | watcher → supervisor → executors | the watcher ends everything |
//! | 4 | wait until every executor is ready | error with the node's log; everything is ended |
//! | 5 | the session takes over | |
//!
//! ```no_run
//! use dflow::{DeployOptions, Limits, graph_file};
//!
//! let plan = graph_file::read("pages.yaml".as_ref())?.check()?.plan(&Limits::of_machine())?;
//! let session = plan.deploy(&DeployOptions { timing: true, ..DeployOptions::default() })?;
//! for node in session.nodes() {
//!     println!("{} is process {}", node.label, node.pid);
//! }
//! session.close();
//! # Ok::<(), dflow::Error>(())
//! ```

pub mod binaries;
pub mod end;
pub mod files;
pub mod group;
pub mod launch;
pub mod responses;
pub mod tail;

use executor_core::owner::SlotId;
use executor_rt::attach::{self, Attached, Created, Role};
use std::os::fd::AsFd;
use std::sync::atomic::AtomicBool;

use crate::check::machine;
use crate::error::{DeployError, Place};
use crate::plan::DeployPlan;
use crate::session::{Ends, Session};
use launch::Launched;

/// How to deploy.
#[derive(Clone, Copy, Debug)]
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
    /// Gives up the start with [`DeployError::Stopped`] once this is true.
    pub stop: Option<&'static AtomicBool>,
}

impl Default for DeployOptions {
    fn default() -> Self {
        DeployOptions {
            populate: true,
            namespace: true,
            timing: false,
            spin: 0,
            sabotage: 0,
            stop: None,
        }
    }
}

impl DeployPlan {
    /// Deploys on this machine.
    ///
    /// # Errors
    /// [`DeployError`]; no process is left then.
    pub fn deploy(mut self, options: &DeployOptions) -> Result<Session, DeployError> {
        self.check_cores()?;
        crate::build::projects(&mut self, options.stop)?;
        crate::model::programs(&mut self)?;
        let created = group::create(&self, options.populate)?;
        let role = Role::Member(SlotId(0));
        let attached = attach::attach(created.control.as_fd(), created.arena.as_fd(), role)
            .map_err(|failure| group::group_error(&self, failure))?;
        let begun = self.begin(&created, attached, options);
        let (ends, launched) = begun.inspect_err(|_| {
            // Nothing runs any more and nothing else points into the group.
            let _ = attached.retire();
        })?;
        drop(created);
        Session::new(self, attached, ends, launched)
    }

    /// A plan may come from another machine, or from a graph that was only looked at.
    fn check_cores(&self) -> Result<(), DeployError> {
        let allowed = sys::affinity::allowed().unwrap_or_default();
        for executor in &self.executors {
            let place = Place::graph(&self.name).node(&executor.node);
            let cores = executor.cpu.as_slice();
            if let Some(problem) = machine::cores(place, cores, &allowed) {
                return Err(DeployError::Start(problem));
            }
        }
        Ok(())
    }

    /// Steps 1 (queues) to 4.
    fn begin(
        &self,
        created: &Created,
        attached: &'static Attached,
        options: &DeployOptions,
    ) -> Result<(Ends, Launched), DeployError> {
        let slot_error = |e| group::group_error(self, attach::Failure::Attach(e));
        let control = attached.worker(2, 1).map_err(slot_error)?;
        group::create_queues(self, &control)?;
        let mut ends = Ends::open(self, attached, control)?;
        let launched = launch::launch(self, created, options)?;
        let memory = &attached.group.memory;
        launch::wait_ready(self, memory, &launched, options, &mut ends.responses)
            .inspect_err(|_| launched.keepers.end(0, &Vec::new))?;
        launched.keepers.find_supervisor();
        Ok((ends, launched))
    }
}
