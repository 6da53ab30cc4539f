//! Attaching: what the parent announces in `DFLOW_*` variables becomes a mapped group and a worker.

use std::os::fd::{AsFd, OwnedFd};

use executor_core::error::Code;
use executor_core::owner::SlotId;
use executor_core::pool::Worker;
use executor_rt::attach::{Attached, Role, attach};
use executor_rt::plan::{ENV_ARENA_FD, ENV_CONTROL_FD, ENV_GENERATION, ENV_READY_FD, ENV_SLOT};
use sys::doorbell::EventFd;

use super::Failure;

/// This process in its group.
#[derive(Debug)]
pub(crate) struct Environment {
    /// The mappings; they live as long as the process.
    pub(crate) attached: &'static Attached,
    /// Worker 0, the only one.
    pub(crate) worker: Worker<'static>,
    /// Generation of this process.
    pub(crate) generation: u32,
    /// What the parent wants to be rung by once this process is ready.
    pub(crate) bell: Option<EventFd>,
}

fn number<T: core::str::FromStr>(name: &str) -> Result<T, Failure> {
    let code = Code::FLOW_FUNC_PARAM_INVALID;
    let text = std::env::var(name).map_err(|_| {
        Failure::new(code, format!("environment {name}: missing, set by the parent"))
    })?;
    text.parse().map_err(|_| {
        Failure::new(code, format!("environment {name}: found {text:?}, expected a number"))
    })
}

fn descriptor(name: &str) -> Result<OwnedFd, Failure> {
    let raw: i32 = number(name)?;
    sys::inherited::take(raw).map_err(|e| {
        let text = format!("environment {name}={raw}: no inherited descriptor: {e}");
        Failure::new(Code::FLOW_FUNC_PARAM_INVALID, text)
    })
}

impl Environment {
    /// Attaches; the descriptors are closed again.
    ///
    /// # Errors
    /// A variable is missing or no number, or the group is not one of this version.
    pub(crate) fn attach() -> Result<Environment, Failure> {
        let slot = SlotId(number(ENV_SLOT)?);
        let generation = number(ENV_GENERATION)?;
        let (control, arena) = (descriptor(ENV_CONTROL_FD)?, descriptor(ENV_ARENA_FD)?);
        let attached = attach(control.as_fd(), arena.as_fd(), Role::Member(slot))
            .map_err(|e| Failure::new(e.code(), format!("attach of slot {}: {e}", slot.0)))?;
        let worker = attached.worker(0, generation);
        let worker = worker.map_err(|e| Failure::new(e.code(), format!("slot {}: {e}", slot.0)))?;
        let bell = std::env::var_os(ENV_READY_FD).map(|_| descriptor(ENV_READY_FD)).transpose()?;
        let bell = bell.map(EventFd::from_owned);
        Ok(Environment { attached, worker, generation, bell })
    }

    /// Mbuf entries of this slot.
    pub(crate) fn entries(&self) -> usize {
        let slot = self.worker.slot().0 as usize;
        let desc = self.attached.group.memory.slot_descs.get(slot);
        desc.map_or(0, |desc| desc.block_count as usize + desc.extra_count as usize)
    }
}
