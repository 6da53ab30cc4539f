//! The memory group of a running flow, read only: states of nodes, and who holds which mbuf.

use std::os::fd::AsFd;

use executor_core::inspect;
use executor_core::model_state::ModelState;
use executor_core::owner::{Owner, SlotState};
use executor_core::primitive::Ordering;
use executor_rt::attach::{Attached, Role, attach};
use executor_rt::plan::NodePlan;
use sys::clock::MonoTime;

use super::{Flow, ToolError};

/// A flow's group, attached as a reader. The mapping stays until this process ends.
#[derive(Debug)]
pub struct GroupView {
    flow: Flow,
    attached: &'static Attached,
}

/// One process of a flow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeState {
    /// Slot.
    pub slot: u32,
    /// Label.
    pub label: String,
    /// State as the supervisor sees it; a number this build does not know as itself.
    pub state: Result<SlotState, u32>,
    /// Process number; 0 while none lives.
    pub pid: u32,
    /// Restarts.
    pub restarts: u32,
    /// How the last process ended, if one did.
    pub last_end: Option<String>,
    /// Milliseconds since the last start.
    pub up_ms: u64,
    /// Input sets done.
    pub processed: u64,
    /// Answers with a code.
    pub coded: u64,
    /// Messages that came after their id was given up.
    pub late: u64,
    /// State of a model; `None` for what has none.
    pub model: Option<ModelState>,
    /// trans_id of the set that is in the function.
    pub busy_with: Option<u64>,
}

/// One live mbuf.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeldMbuf {
    /// Entry index.
    pub entry: u32,
    /// Label of the node whose partition it belongs to.
    pub home: String,
    /// Node or queue that holds it, in words.
    pub holder: String,
    /// Id it carries.
    pub trans_id: u64,
    /// Its `ret_code`.
    pub ret_code: i32,
    /// Bytes in use, the tensor's descriptor included.
    pub bytes: u64,
}

/// How a process ended, from the status words.
#[must_use]
pub fn end_text(kind: u32, value: u32) -> Option<String> {
    use executor_rt::plan::exit_kind;
    match kind {
        exit_kind::NONE => None,
        exit_kind::EXITED => Some(format!("exit code {value}")),
        exit_kind::SIGNALLED => {
            let signal = i32::try_from(value).ok().and_then(sys::signal::Signal::from_raw);
            let name = signal.and_then(sys::signal::Signal::name);
            Some(name.map_or_else(|| format!("signal {value}"), str::to_owned))
        }
        exit_kind::STALLED => Some("killed: no progress within `stall_ms`".to_owned()),
        exit_kind::LATE => Some("killed: not ready within `init_timeout_ms`".to_owned()),
        other => Some(format!("end {other}, {value}")),
    }
}

impl GroupView {
    /// Attaches to the group of `flow`.
    ///
    /// # Errors
    /// [`ToolError::Unreadable`]: the flow has ended, or was started by another version.
    pub fn open(flow: Flow) -> Result<GroupView, ToolError> {
        let control = flow.open("dflow-control")?;
        let arena = flow.open("dflow-arena")?;
        let attached = attach(control.as_fd(), arena.as_fd(), Role::Reader).map_err(|failure| {
            ToolError::Unreadable {
                what: format!("the memory group of flow {}", flow.title()),
                why: failure.to_string(),
            }
        })?;
        Ok(GroupView { flow, attached })
    }

    /// The flow.
    #[must_use]
    pub fn flow(&self) -> &Flow {
        &self.flow
    }

    /// States of all nodes, in slot order.
    #[must_use]
    pub fn nodes(&self) -> Vec<NodeState> {
        let now = MonoTime::now().as_ns();
        let mut slots: Vec<u32> = self.flow.plan.nodes.iter().flat_map(NodePlan::slots).collect();
        slots.sort_unstable();
        slots.into_iter().filter_map(|slot| self.node(slot, now)).collect()
    }

    fn node(&self, slot: u32, now_ns: u64) -> Option<NodeState> {
        let memory = self.attached.group.memory;
        let status = memory.slot_status.get(slot as usize)?;
        let part = memory.private(slot)?.ctl;
        let get = Ordering::Relaxed;
        let (kind, value) = (status.exit_kind.load(get), status.exit_value.load(get));
        let (delivered, done) = (part.set_delivered.load(get), part.set_done.load(get));
        let started = status.started_ns.load(get);
        Some(NodeState {
            slot,
            label: self.flow.label(slot).to_owned(),
            state: SlotState::try_from(status.state.load(Ordering::Acquire)),
            pid: status.pid.load(get),
            restarts: status.restarts.load(get),
            last_end: end_text(kind, value),
            up_ms: now_ns.saturating_sub(started) / 1_000_000,
            processed: part.processed.load(get),
            coded: part.coded.load(get),
            late: part.late.load(get),
            model: ModelState::from_word(part.model.load(get))
                .filter(|model| *model != ModelState::Uninit),
            busy_with: (delivered > done).then(|| part.trans_id.load(get)),
        })
    }

    /// Every live mbuf, as a snapshot of a moving thing: each line by itself is true, all together
    /// need not be.
    #[must_use]
    pub fn held(&self) -> Vec<HeldMbuf> {
        let held = inspect::held(&self.attached.group);
        let mut all: Vec<HeldMbuf> = held.map(|mbuf| self.line(&mbuf)).collect();
        all.sort_by_key(|mbuf| (mbuf.trans_id, mbuf.entry));
        all
    }

    fn line(&self, mbuf: &inspect::Held) -> HeldMbuf {
        HeldMbuf {
            entry: mbuf.entry,
            home: self.flow.label(mbuf.home.0).to_owned(),
            holder: self.holder(mbuf.owner),
            trans_id: mbuf.info.trans_id,
            ret_code: mbuf.info.ret_code,
            bytes: mbuf.data_len,
        }
    }

    fn holder(&self, owner: Owner) -> String {
        match owner {
            Owner::Free => "nobody".to_owned(),
            Owner::Worker { slot, .. } => format!("node `{}`", self.flow.label(slot)),
            Owner::Queue { queue, .. } => format!("queue `{}`", self.queue(queue)),
            Owner::Chained { head, .. } => format!("chain of mbuf {head}"),
            Owner::Adopt { slot, .. } => {
                format!("kept for the next process of node `{}`", self.flow.label(slot))
            }
            Owner::Unknown(word) => format!("impossible owner {word:#x}"),
        }
    }

    fn queue(&self, queue: u32) -> String {
        match self.attached.group.memory.queues.get(queue as usize) {
            Some(ctl) => String::from_utf8_lossy(&ctl.name_bytes()).into_owned(),
            None => queue.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::end_text;

    #[test]
    fn ends_in_words() {
        assert_eq!(end_text(0, 0), None);
        assert_eq!(end_text(1, 3).as_deref(), Some("exit code 3"));
        assert_eq!(end_text(2, 9).as_deref(), Some("SIGKILL"));
        assert_eq!(end_text(3, 9).as_deref(), Some("killed: no progress within `stall_ms`"));
    }
}
