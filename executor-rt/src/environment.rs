//! Attaching: what the parent announces in `DFLOW_*` variables becomes a mapped group and a worker.

use std::os::fd::{AsFd, OwnedFd};

use executor_core::error::Code;
use executor_core::owner::SlotId;
use executor_core::pool::Worker;
use executor_core::primitive::Ordering;
use sys::doorbell::EventFd;
use sys::signal::{self, Signal};

use crate::attach::{Attached, Role, attach_all};
use crate::log::{Level, Logger};
use crate::node::{Control, Failure, Node, step};
use crate::plan::{
    ENV_ALSO, ENV_ARENA_FD, ENV_CONTROL_FD, ENV_GENERATION, ENV_NODE, ENV_READY_FD, ENV_SLOT,
};
use crate::server::Dialect;

/// This process in its group.
#[derive(Debug)]
pub struct Environment {
    /// The mappings; they live as long as the process.
    pub attached: &'static Attached,
    /// Worker 0 of the process's slot.
    pub worker: Worker<'static>,
    /// Generation of this process, in all its slots.
    pub generation: u32,
    /// What the parent wants to be rung by once this process is ready.
    pub bell: Option<EventFd>,
    dialect: Dialect,
}

fn number<T: core::str::FromStr>(code: Code, name: &str) -> Result<T, Failure> {
    let text = std::env::var(name).map_err(|_| {
        Failure::new(code, format!("environment {name}: missing, set by the parent"))
    })?;
    text.parse().map_err(|_| {
        Failure::new(code, format!("environment {name}: found {text:?}, expected a number"))
    })
}

fn descriptor(code: Code, name: &str) -> Result<OwnedFd, Failure> {
    let raw: i32 = number(code, name)?;
    sys::inherited::take(raw).map_err(|e| {
        let text = format!("environment {name}={raw}: no inherited descriptor: {e}");
        Failure::new(code, text)
    })
}

/// Slots as `DFLOW_ALSO` lists them: decimal numbers with commas; nothing for a missing or empty
/// text, `None` for anything else.
#[must_use]
pub fn parse_slots(text: &str) -> Option<Vec<SlotId>> {
    if text.is_empty() {
        return Some(Vec::new());
    }
    text.split(',').map(|number| number.parse().ok().map(SlotId)).collect()
}

fn also(code: Code) -> Result<Vec<SlotId>, Failure> {
    let text = std::env::var(ENV_ALSO).unwrap_or_default();
    parse_slots(&text).ok_or_else(|| {
        let what = format!("environment {ENV_ALSO}: found {text:?}, expected numbers with commas");
        Failure::new(code, what)
    })
}

impl Environment {
    /// Attaches with every slot of the process and says so in each; the descriptors are closed
    /// again.
    ///
    /// # Errors
    /// A variable is missing or no number, or the group is not one of this version.
    pub fn attach(dialect: Dialect) -> Result<Environment, Failure> {
        let code = dialect.invalid();
        let slot = SlotId(number(code, ENV_SLOT)?);
        let generation = number(code, ENV_GENERATION)?;
        let also = also(code)?;
        let (control, arena) = (descriptor(code, ENV_CONTROL_FD)?, descriptor(code, ENV_ARENA_FD)?);
        let attached = attach_all(control.as_fd(), arena.as_fd(), Role::Member(slot), &also)
            .map_err(|e| Failure::new(e.code(), format!("attach of slot {}: {e}", slot.0)))?;
        let worker = attached.worker(0, generation);
        let worker = worker.map_err(|e| Failure::new(e.code(), format!("slot {}: {e}", slot.0)))?;
        let bell =
            std::env::var_os(ENV_READY_FD).map(|_| descriptor(code, ENV_READY_FD)).transpose()?;
        let bell = bell.map(EventFd::from_owned);
        for slot in attached.slots() {
            let Some(part) = attached.group.memory.private(slot.0) else { continue };
            part.ctl.pid.store(sys::process::pid(), Ordering::Relaxed);
            part.ctl.generation.store(generation, Ordering::Relaxed);
            part.ctl.state.store(step::ATTACH, Ordering::Release);
        }
        Ok(Environment { attached, worker, generation, bell, dialect })
    }

    /// The node of the process's slot, without ports. SIGTERM wakes it.
    ///
    /// # Errors
    /// The slot has no worker or no waiter.
    pub fn node<C: Control>(&self, control: C) -> Result<Node<C>, Failure> {
        let worker = self.attached.worker(0, self.generation);
        let worker = worker.map_err(|e| Failure::new(e.code(), e.to_string()))?;
        let node = Node::new(self.attached.group, worker, control);
        let mut node =
            node.ok_or_else(|| Failure::new(Code::OVER_LIMIT, "the slot has no waiter"))?;
        signal::wake_on(Signal::TERM, &node.waiter.ctl().sequence)
            .map_err(|e| Failure::new(self.dialect.failed(), e.to_string()))?;
        node.waiter.nudged = self.bell.is_some();
        Ok(node)
    }

    /// Mbuf entries of the process's slot.
    #[must_use]
    pub fn entries(&self) -> usize {
        let slot = self.worker.slot().0 as usize;
        let desc = self.attached.group.memory.slot_descs.get(slot);
        desc.map_or(0, |desc| desc.block_count as usize + desc.extra_count as usize)
    }
}

/// The log of this process: named after the node or `name`, level from `ASCEND_GLOBAL_LOG_LEVEL`.
/// It lives for ever.
#[must_use]
pub fn logger(name: &str) -> &'static Logger {
    let node = std::env::var(ENV_NODE);
    Box::leak(Box::new(Logger::new(node.as_deref().unwrap_or(name), level())))
}

/// The level of `ASCEND_GLOBAL_LOG_LEVEL`, or info.
#[must_use]
pub fn level() -> Level {
    let level = std::env::var("ASCEND_GLOBAL_LOG_LEVEL").ok().and_then(|text| text.parse().ok());
    level.and_then(Level::from_number).unwrap_or(Level::Info)
}

#[cfg(test)]
mod tests {
    use super::{SlotId, parse_slots};

    #[test]
    fn slots_are_numbers_with_commas() {
        assert_eq!(parse_slots(""), Some(Vec::new()));
        assert_eq!(parse_slots("2,13"), Some(vec![SlotId(2), SlotId(13)]));
        for bad in [",", "2,", "a", "2 ,3", "-1", "4294967296"] {
            assert_eq!(parse_slots(bad), None, "{bad:?}");
        }
    }
}
