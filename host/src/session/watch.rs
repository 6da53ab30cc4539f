//! Two threads of a session: one polls the watcher's pidfd, one sleeps on the supervisor's status word.
//!
//! After a sweep the second one looks for ids that nothing carries any more. Ids move while it looks, so an
//! id is answered only when it was absent in [`LOOKS`] scans in a row, [`PAUSE_MS`] apart; and never while
//! a stateful node lives that could hold it beyond its messages.

use std::collections::{HashMap, HashSet};
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

use super::{NodeCounts, Shared, lock};
use crate::plan::ExecutorPlan;

/// Scans without an id before it counts as lost.
const LOOKS: u32 = 3;
/// Milliseconds between scans.
const PAUSE_MS: u64 = 5;

pub(super) fn start(shared: &Arc<Shared>) -> Vec<JoinHandle<()>> {
    let processes = Arc::clone(shared);
    let status = Arc::clone(shared);
    let spawn = |name: &str, body: Box<dyn FnOnce() + Send>| {
        std::thread::Builder::new().name(name.to_owned()).spawn(body).ok()
    };
    let threads = [
        spawn("dflow-watch-pid", Box::new(move || watch_process(&processes))),
        spawn("dflow-watch", Box::new(move || watch_status(&status))),
    ];
    threads.into_iter().flatten().collect()
}

/// Wakes the status thread so that it sees `closing`.
pub(super) fn nudge(shared: &Shared) {
    futex::wake(&shared.attached.group.memory.status.sequence, u32::MAX);
}

fn watch_process(shared: &Shared) {
    loop {
        let mut fds = [
            PollFd::new(&shared.launched.watcher.pidfd, Events::IN),
            PollFd::new(&shared.stop, Events::IN),
        ];
        let _ = sys::poll::poll(&mut fds, None);
        if shared.closing.load(Ordering::Acquire) {
            return;
        }
        if shared.launched.watcher.pidfd.is_ready() {
            shared.end(Code::SUPERVISOR_DIED, "the supervisor died; every executor ended with it");
            return;
        }
    }
}

fn watch_status(shared: &Shared) {
    let status = shared.attached.group.memory.status;
    let mut sweeps = 0;
    let mut missing: HashMap<u64, u32> = HashMap::new();
    let mut looking = 0;
    while !shared.closing.load(Ordering::Acquire) {
        let sequence = status.sequence.load(Core::Acquire);
        shared.restarts.store(restarts(shared), Ordering::Relaxed);
        if status.phase.load(Core::Acquire) == phase::FAILED {
            let reason = failed_node(shared);
            shared.end(Code::NODE_FAILED, &reason);
            return;
        }
        let now = status.sweeps.load(Core::Acquire);
        if now != sweeps {
            sweeps = now;
            // Answers of the successor may need its restart first; look for a while.
            looking = 400;
        }
        let pause = (looking > 0).then(|| MonoTime::now().add_ms(PAUSE_MS));
        if looking > 0 {
            looking -= 1;
            look_for_lost(shared, &mut missing);
            if missing.is_empty() && looking < 390 {
                looking = 0;
            }
        }
        let _ = futex::wait(&status.sequence, sequence, pause);
    }
}

fn restarts(shared: &Shared) -> u64 {
    let status = shared.attached.group.memory.slot_status;
    status.iter().map(|slot| u64::from(slot.restarts.load(Core::Relaxed))).sum()
}

fn state_of(shared: &Shared, slot: u32) -> Option<SlotState> {
    let status = shared.attached.group.memory.slot_status.get(slot as usize)?;
    SlotState::try_from(status.state.load(Core::Acquire)).ok()
}

fn failed_node(shared: &Shared) -> String {
    let executors = shared.plan.executors.iter();
    let failed: Vec<String> = executors
        .filter(|e| state_of(shared, e.slot) == Some(SlotState::Failed))
        .map(|e| {
            let status = shared.attached.group.memory.slot_status.get(e.slot as usize);
            let kind = status.map_or(0, |s| s.exit_kind.load(Core::Relaxed));
            let value = status.map_or(0, |s| s.exit_value.load(Core::Relaxed));
            let how = match kind {
                2 => format!("signal {value}"),
                3 => "stalled".to_owned(),
                _ => format!("exit code {value}"),
            };
            let restarts = status.map_or(0, |s| s.restarts.load(Core::Relaxed));
            format!("node `{}` ended ({how}) after {restarts} restarts", e.label)
        })
        .collect();
    if failed.is_empty() { "a node failed".to_owned() } else { failed.join(", ") }
}

fn look_for_lost(shared: &Shared, missing: &mut HashMap<u64, u32>) {
    if shared.plan.executors.iter().any(|e| e.stateful && starts_or_runs(shared, e)) {
        missing.clear();
        return;
    }
    let open: HashSet<u64> = lock(&shared.ledger).open_ids().collect();
    let carried: HashSet<u64> = inspect::held(&shared.attached.group)
        .filter(|mbuf| !matches!(mbuf.owner, Owner::Free))
        .map(|mbuf| mbuf.info.trans_id)
        .collect();
    missing.retain(|id, _| open.contains(id) && !carried.contains(id));
    for id in open.difference(&carried) {
        *missing.entry(*id).or_insert(0) += 1;
    }
    let lost: Vec<u64> =
        missing.iter().filter(|(_, looks)| **looks >= LOOKS).map(|(id, _)| *id).collect();
    if lost.is_empty() {
        return;
    }
    // A feed that opened its id and has not enqueued yet holds this lock: wait for it, then look once more.
    let side = lock(&shared.feed);
    let carried: HashSet<u64> =
        inspect::held(&shared.attached.group).map(|mbuf| mbuf.info.trans_id).collect();
    drop(side);
    let mut ledger = lock(&shared.ledger);
    for id in lost.into_iter().filter(|id| !carried.contains(id)) {
        missing.remove(&id);
        if ledger.answer(
            id,
            Code::EXECUTOR_DIED,
            "an executor died and nothing carries this id any more",
        ) {
            ledger.counts.lost += 1;
        }
    }
    let answered = ledger.has_answer();
    drop(ledger);
    if answered {
        shared.wake();
    }
}

fn starts_or_runs(shared: &Shared, executor: &ExecutorPlan) -> bool {
    matches!(state_of(shared, executor.slot), Some(SlotState::Running | SlotState::Stopped))
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
