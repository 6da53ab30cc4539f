//! Kill any one process: nothing is left, grandchildren included. Stop the host: nothing changes.

use std::sync::atomic::Ordering;

use executor_rt::plan::{SUPERVISOR_COMM, WATCHER_COMM};
use sys::pidfd::{Event, PidFd};
use sys::signal::Signal;

use crate::support::{BOTH, Flow, all_gone, node, open_all, plan};

/// An executor whose user code made a child in another session and an orphan in a third one.
const FAMILY: &str = "setsid sleep 100001 & (setsid sleep 100002 &); echo up; exec sleep 100003";

fn family(namespace: bool) -> Flow {
    let mut flow = Flow::start(plan(namespace, vec![node(1, FAMILY), node(2, FAMILY)]));
    assert_eq!([flow.line(), flow.line()], ["up", "up"]);
    flow.running(1, 1);
    flow.running(2, 1);
    let status = format!("/proc/{}/status", flow.named(SUPERVISOR_COMM));
    let status = std::fs::read_to_string(status).expect("status");
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:")).expect("NSpid");
    assert_eq!(numbers.split_whitespace().last() == Some("1"), namespace, "{numbers}");
    flow
}

fn kill(pid: u32) {
    PidFd::open(pid).expect("open").signal(Signal::KILL).expect("kill");
}

/// Kills one process by name; everything ends.
fn kill_one(comm: &str) {
    for namespace in BOTH {
        let flow = family(namespace);
        let before = flow.processes();
        assert!(before.len() >= 8, "watcher, supervisor, two times three: {before:?}");
        let victim = flow.named(comm);
        kill(victim);
        let event = flow.gone();
        let killed = matches!(event, Event::Signalled { signal: Signal::KILL, .. });
        let expected = if comm == WATCHER_COMM { killed } else { event == Event::Exited(128 + 9) };
        assert!(expected, "namespace {namespace}: {event:?}");
    }
}

#[test]
fn a_killed_supervisor_leaves_nothing() {
    kill_one(SUPERVISOR_COMM);
}

#[test]
fn a_killed_watcher_leaves_nothing() {
    kill_one(WATCHER_COMM);
}

#[test]
fn a_killed_host_leaves_nothing() {
    for namespace in BOTH {
        let flow = family(namespace);
        flow.host.pidfd.signal(Signal::KILL).expect("kill");
        flow.gone();
    }
}

#[test]
fn a_watcher_that_is_asked_to_end_leaves_nothing() {
    for namespace in BOTH {
        let flow = family(namespace);
        flow.watcher.pidfd.signal(Signal::TERM).expect("term");
        flow.gone();
    }
}

#[test]
fn a_killed_node_leaves_no_descendant() {
    for namespace in BOTH {
        let mut flow = family(namespace);
        let two = flow.pid(2);
        let roles = [flow.named(SUPERVISOR_COMM), flow.named(WATCHER_COMM), two];
        // The orphans of node 2 can't be told from those of node 1; its child can.
        let doomed: Vec<u32> = flow
            .processes()
            .into_iter()
            .filter(|pid| !roles.contains(pid) && sys::procfs::parent(*pid) != Some(two))
            .collect();
        assert!(doomed.len() >= 3, "{doomed:?}");
        let doomed = open_all(&doomed);
        kill(flow.pid(1));
        all_gone(&doomed);
        assert_eq!(flow.line(), "up", "the successor");
        flow.running(1, 2);
        assert_eq!(flow.pid(2), two);
    }
}

#[test]
fn a_stopped_host_changes_nothing() {
    for namespace in BOTH {
        let flow = family(namespace);
        flow.host.pidfd.signal(Signal::STOP).expect("stop");
        assert_eq!(flow.host.pidfd.wait(), Ok(Some(Event::Stopped)));
        for generation in 2..5 {
            kill(flow.pid(1));
            flow.running(1, generation);
        }
        assert_eq!(flow.memory.status.sweeps.load(Ordering::Acquire), 3);
        flow.host.pidfd.signal(Signal::KILL).expect("kill");
        flow.gone();
    }
}
