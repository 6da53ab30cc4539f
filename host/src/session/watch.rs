//! Two threads of a session: one polls the watcher's pidfd and the supervisor's socket, one sleeps
//! on the supervisor's status word.
//!
//! The second one takes init responses out, sees failed nodes and looks for lost ids ([`Lost`]).
//! Neither takes a lock that a feed or a fetch holds while it waits.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use executor_core::error::Code;
use executor_core::inspect;
use executor_core::owner::{Owner, SlotState};
use executor_core::primitive::Ordering as Core;
use executor_rt::plan::phase;
use sys::clock::MonoTime;
use sys::futex;
use sys::poll::{Events, PollFd};

use super::lost::Lost;
use super::{NodeCounts, Shared};
use crate::deploy::responses::Responses;
use crate::deploy::tail::tail;
use crate::notice;
use crate::plan::ExecutorPlan;
use crate::tools::group::end_text;

/// Starts both threads.
///
/// # Errors
/// The system refuses a thread; one that was started ends when the session is shut down.
pub(super) fn start(
    shared: &Arc<Shared>,
    mut responses: Responses,
) -> std::io::Result<Vec<JoinHandle<()>>> {
    let status = Arc::clone(shared);
    let builder = std::thread::Builder::new().name("dflow-watch".to_owned());
    let first = builder.spawn(move || watch_status(&status, &mut responses))?;
    let processes = Arc::clone(shared);
    let builder = std::thread::Builder::new().name("dflow-watch-pid".to_owned());
    let second = builder.spawn(move || watch_process(&processes))?;
    Ok(vec![first, second])
}

/// Wakes the status thread so that it sees `closing`.
pub(super) fn nudge(shared: &Shared) {
    futex::wake(&shared.attached.group.memory.status.sequence, u32::MAX);
}

/// All processes are looked at this often, whether one is stopped: nothing tells that.
const STOPS_MS: u64 = 2_000;

fn watch_process(shared: &Shared) {
    let launched = &shared.launched;
    let (mut stopped, mut nodes) = (Vec::new(), Vec::new());
    loop {
        let mut fds = [
            PollFd::new(&launched.keepers.watcher().pidfd, Events::IN),
            // The supervisor has the other end, so this hangs up when it dies, also while the
            // watcher is stopped and does not end. One that was stopped very early has it too.
            PollFd::new(&launched.command, Events::empty()),
            PollFd::new(&shared.stop, Events::IN),
        ];
        let _ = sys::poll::poll(&mut fds, Some(MonoTime::now().add_ms(STOPS_MS)));
        if shared.closing.load(Ordering::Acquire) {
            return;
        }
        if fds[0].is_ready() || fds[1].is_ready() || launched.lost_supervisor() {
            let died = launched.keepers.obituary();
            shared.end(Code::SUPERVISOR_DIED, &format!("{died}; every executor ended with it"));
            launched.keepers.end_after_death();
            return;
        }
        launched.keepers.warn_of_stops(&mut stopped);
        warn_of_stopped_nodes(shared, &mut nodes);
    }
}

/// One line about each executor that a signal stopped and that was not said to be; `said`
/// remembers. One inside a set is replaced after its `stall_ms`; one between two sets only waits.
fn warn_of_stopped_nodes(shared: &Shared, said: &mut Vec<u32>) {
    let status = shared.attached.group.memory.slot_status;
    for executor in shared.plan.processes() {
        let Some(slot) = status.get(executor.slot as usize) else { continue };
        let pid = slot.pid.load(Core::Relaxed);
        let stopped = pid != 0 && state_of(shared, executor.slot) == Some(SlotState::Stopped);
        match (stopped, said.contains(&pid)) {
            (true, false) => {
                said.push(pid);
                notice::say(&format!(
                    "warning: flow `{}`: node {} (process {pid}) is stopped by a signal; its \
                     messages wait until `kill -CONT {pid}`",
                    shared.plan.name,
                    shared.plan.title(executor)
                ));
            }
            (false, true) => said.retain(|known| *known != pid),
            _ => {}
        }
    }
}

/// Executors that live, in words.
pub(super) fn living(shared: &Shared) -> Vec<String> {
    let status = shared.attached.group.memory.slot_status;
    let executors = shared.plan.processes().filter_map(|executor| {
        let pid = status.get(executor.slot as usize)?.pid.load(Core::Relaxed);
        let state = sys::procfs::state(pid).filter(|state| pid != 0 && !matches!(state, 'Z' | 'X'));
        state.map(|_| format!("node {} (process {pid})", shared.plan.title(executor)))
    });
    executors.collect()
}

fn watch_status(shared: &Shared, responses: &mut Responses) {
    let status = shared.attached.group.memory.status;
    let mut lost = Lost::new(shared);
    while !shared.closing.load(Ordering::Acquire) {
        let sequence = status.sequence.load(Core::Acquire);
        shared.restarts.store(restarts(shared), Ordering::Relaxed);
        responses.drain();
        if status.phase.load(Core::Acquire) == phase::FAILED {
            let (reason, log) = failed_nodes(shared);
            shared.end_with_log(Code::NODE_FAILED, &reason, log);
            return;
        }
        lost.look(shared);
        let pause = lost.pause_ms().map(|ms| MonoTime::now().add_ms(ms));
        let _ = futex::wait(&status.sequence, sequence, pause);
    }
}

fn restarts(shared: &Shared) -> u64 {
    let status = shared.attached.group.memory.slot_status;
    let processes = shared.plan.processes().filter_map(|one| status.get(one.slot as usize));
    processes.map(|slot| u64::from(slot.restarts.load(Core::Relaxed))).sum()
}

pub(super) fn state_of(shared: &Shared, slot: u32) -> Option<SlotState> {
    let status = shared.attached.group.memory.slot_status.get(slot as usize)?;
    SlotState::try_from(status.state.load(Core::Acquire)).ok()
}

/// Which nodes failed and how; the ends of their logs.
fn failed_nodes(shared: &Shared) -> (String, String) {
    let (mut reasons, mut logs) = (Vec::new(), String::new());
    let executors = shared.plan.executors.iter().zip(&shared.launched.files);
    for (executor, files) in executors.filter(|(executor, _)| executor.is_process()) {
        if state_of(shared, executor.slot) != Some(SlotState::Failed) {
            continue;
        }
        let status = shared.attached.group.memory.slot_status.get(executor.slot as usize);
        let kind = status.map_or(0, |s| s.exit_kind.load(Core::Relaxed));
        let value = status.map_or(0, |s| s.exit_value.load(Core::Relaxed));
        let how = end_text(kind, value).unwrap_or_else(|| "not started".to_owned());
        let restarts = status.map_or(0, |s| s.restarts.load(Core::Relaxed));
        let title = shared.plan.title(executor);
        reasons.push(format!("node {title} ended ({how}) after {restarts} restarts"));
        let tail = tail(&files.stderr);
        if !tail.is_empty() {
            logs.push_str(&format!("  the log of node {title} ends:\n{tail}"));
        }
    }
    let reason = if reasons.is_empty() { "a node failed".to_owned() } else { reasons.join(", ") };
    (reason, logs)
}

pub(super) fn node_counts(shared: &Shared, executor: &ExecutorPlan) -> Option<NodeCounts> {
    let memory = shared.attached.group.memory;
    let part = memory.private(executor.slot)?.ctl;
    let status = memory.slot_status.get(executor.slot as usize)?;
    let get = |word: &executor_core::primitive::AtomicU64| word.load(Core::Relaxed);
    Some(NodeCounts {
        label: executor.label.clone(),
        node: executor.node.clone(),
        pid: status.pid.load(Core::Relaxed),
        restarts: status.restarts.load(Core::Relaxed),
        processed: get(&part.processed),
        user_ns: get(&part.user_ns),
        allocations: (
            get(&part.setup_allocations),
            get(&part.runtime_allocations),
            get(&part.user_allocations),
        ),
        bytes_copied: get(&part.bytes_copied),
        coded: get(&part.coded),
        late: get(&part.late),
    })
}

/// Who holds mbufs of the host's partition, in words.
pub(super) fn holders(shared: &Shared) -> String {
    let mut counts: HashMap<String, u32> = HashMap::new();
    let label = |slot: u32| match shared.plan.executor(slot) {
        Some(executor) => executor.label.clone(),
        None => "host".to_owned(),
    };
    for mbuf in inspect::holders(&shared.attached.group, executor_core::owner::SlotId(0)) {
        let who = match mbuf.owner {
            Owner::Worker { slot, .. } | Owner::Adopt { slot, .. } => format!("`{}`", label(slot)),
            Owner::Queue { queue, .. } => {
                let name = shared.plan.queues.get(queue as usize).map_or("?", |q| q.name.as_str());
                format!("queue `{name}`")
            }
            _ => continue,
        };
        *counts.entry(who).or_insert(0) += 1;
    }
    let mut texts: Vec<String> = counts.iter().map(|(who, n)| format!("{who} {n}")).collect();
    texts.sort();
    if texts.is_empty() { "nobody".to_owned() } else { texts.join(", ") }
}
