//! What the host tells the supervisor: one JSON document in a sealed memfd (`DFLOW_PLAN_FD`).
//!
//! Descriptor numbers in it are those of the supervisor's own table; executors inherit them under
//! the same numbers. Environment and arguments are complete: the supervisor adds only what differs
//! from start to start (`DFLOW_GENERATION`, `DFLOW_READY_FD`).

use serde::{Deserialize, Serialize};

/// Environment: descriptor of the control segment.
pub const ENV_CONTROL_FD: &str = "DFLOW_CONTROL_FD";
/// Environment: descriptor of the arena.
pub const ENV_ARENA_FD: &str = "DFLOW_ARENA_FD";
/// Environment: slot of the process.
pub const ENV_SLOT: &str = "DFLOW_SLOT";
/// Environment: further slots of the process, decimal numbers with commas; missing or empty when
/// there are none. The host sets it to the slots of [`NodePlan::also`], in their order.
pub const ENV_ALSO: &str = "DFLOW_ALSO_SLOTS";
/// Environment: generation of the process, counted by the supervisor from 1.
pub const ENV_GENERATION: &str = "DFLOW_GENERATION";
/// Environment: event counter that an executor rings once it is ready, and then closes. May be
/// missing; the supervisor looks by itself as well, only later.
pub const ENV_READY_FD: &str = "DFLOW_READY_FD";
/// Environment: node name for logs.
pub const ENV_NODE: &str = "DFLOW_NODE";
/// Environment: descriptor of this plan (supervisor and watcher).
pub const ENV_PLAN_FD: &str = "DFLOW_PLAN_FD";
/// Environment: descriptor of the host's pidfd (supervisor and watcher).
pub const ENV_HOST_PIDFD: &str = "DFLOW_HOST_PIDFD";
/// Environment: descriptor of the command socket (supervisor).
pub const ENV_COMMAND_FD: &str = "DFLOW_COMMAND_FD";

/// Name of the supervisor's process in `/proc/<pid>/comm`, by which tools find it (at most 15
/// bytes).
pub const SUPERVISOR_COMM: &str = "dflow-super";
/// Name of the watcher's process in `/proc/<pid>/comm`.
pub const WATCHER_COMM: &str = "dflow-watcher";
/// The one argument that makes the supervisor's program the watcher.
pub const WATCHER_ARGUMENT: &str = "--watcher";

/// When a process that ended is started again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RestartWhen {
    /// Never: its end is the node's failure.
    Never,
    /// After a failure: every end that was not asked for, exit code 0 included.
    OnFailure,
    /// After every end that was not asked for; today the same as `OnFailure`.
    Always,
}

/// Restart policy of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Restart {
    /// When.
    pub when: RestartWhen,
    /// Most restarts; the counter starts anew after `window_ms` without a death. 0 = no limit.
    pub max: u32,
    /// Wait before the first restart in a row, milliseconds; doubles with each further one.
    pub backoff_ms: u64,
    /// Longest wait, milliseconds.
    pub backoff_max_ms: u64,
    /// A process that lived this long is a fresh start for `max` and back-off, milliseconds. 0 =
    /// none is.
    pub window_ms: u64,
}

/// One executor.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodePlan {
    /// Its slot, 1..
    pub slot: u32,
    /// Node name, with `#instance` when there are several.
    pub name: String,
    /// Program: a path, or `/proc/self/fd/N`.
    pub program: String,
    /// Arguments after the program's name.
    pub args: Vec<String>,
    /// Environment, complete but for `DFLOW_GENERATION` and `DFLOW_READY_FD`.
    pub env: Vec<(String, String)>,
    /// Descriptors it inherits.
    pub inherit: Vec<i32>,
    /// Its stdout.
    pub stdout_fd: i32,
    /// Its stderr.
    pub stderr_fd: i32,
    /// Restart policy.
    pub restart: Restart,
    /// Longest time from spawn to ready, milliseconds; then it is killed. 0 = no limit.
    pub init_timeout_ms: u64,
    /// Longest time without progress while a set is in the function, or while it holds a queue's
    /// lock, milliseconds; then it is killed. 0 = no limit (locks:
    /// `SupervisorPlan::lock_stall_ms`).
    pub stall_ms: u64,
    /// Core to pin to, if any.
    pub cpu: Option<usize>,
    /// Further slots of the process. They live and die with it: same generation, status set
    /// together, each swept after its death. `stall_ms` applies to each of them; the process is
    /// ready when its own slot says so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<AlsoSlot>,
}

/// A further slot of an executor: one model of a device.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AlsoSlot {
    /// Its number; no other executor has it.
    pub slot: u32,
    /// Name of the graph's node for logs and tools; empty for a place that is kept for a model
    /// loaded later.
    pub name: String,
}

impl NodePlan {
    /// Every slot of the executor, its own first.
    pub fn slots(&self) -> impl Iterator<Item = u32> {
        [self.slot].into_iter().chain(self.also.iter().map(|also| also.slot))
    }
}

/// The whole document.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SupervisorPlan {
    /// Version of this document.
    pub version: u32,
    /// Flow name, shown by tools.
    pub flow: String,
    /// Executors, in start order.
    pub nodes: Vec<NodePlan>,
    /// A holder of a queue's lock without progress for this long is killed, milliseconds. 0 = no
    /// limit.
    pub lock_stall_ms: u64,
    /// Use a PID namespace where permitted.
    pub namespace: bool,
    /// Bytes that each log keeps. 0 = all of them.
    pub log_keep_bytes: u64,
    /// Log descriptors, kept open for tools and trimmed.
    pub log_fds: Vec<i32>,
    /// Switches off one repair: 0 none, 1 sweep, 2 wake-up after a sweep. The canary of the fault
    /// tests.
    #[serde(default)]
    pub sabotage: u32,
}

impl SupervisorPlan {
    /// Version this build writes and reads; it grows with the fields and with what an executor
    /// expects of its environment.
    pub const VERSION: u32 = 2;
}

/// Commands on the command socket: one byte a datagram.
pub mod command {
    /// End all executors (SIGTERM, then SIGKILL after 10 s) and exit.
    pub const STOP: u8 = 1;
}

/// `SlotStatus::exit_kind` values.
pub mod exit_kind {
    /// No process of this slot has ended.
    pub const NONE: u32 = 0;
    /// It exited; `exit_value` is its exit code, 127 when it could not be started.
    pub const EXITED: u32 = 1;
    /// A signal ended it; `exit_value` is the signal's number.
    pub const SIGNALLED: u32 = 2;
    /// The supervisor killed it because it made no progress.
    pub const STALLED: u32 = 3;
    /// The supervisor killed it because it was not ready in time.
    pub const LATE: u32 = 4;
}

/// `StatusCtl::phase` values.
pub mod phase {
    /// Executors run or are being started.
    pub const RUNNING: u32 = 0;
    /// Ending as asked.
    pub const ENDING: u32 = 1;
    /// A node failed for good; its number stands in its slot's state.
    pub const FAILED: u32 = 2;
}

/// `SlotCtl::state` numbers above the processor states of udf §3.5.
pub mod process_state {
    /// Ready: the init response was sent.
    pub const READY_MIN: u32 = 2;
    /// Start-up steps count from here; below is a processor state.
    pub const STARTING: u32 = 100;
}
