//! Deaths of executors: restart, back-off, maximum, timeouts, stops.

use std::sync::atomic::Ordering;

use executor_core::owner::SlotState;
use executor_rt::plan::{RestartWhen, exit_kind, phase};
use sys::clock::MonoTime;
use sys::signal::Signal;

use crate::support::{BOTH, Flow, node, plan};

const FOREVER: &str = "exec sleep 100000";

#[test]
fn a_killed_node_is_started_again_after_its_back_off() {
    for namespace in BOTH {
        let mut first = node(1, FOREVER);
        first.restart.backoff_ms = 30;
        let flow = Flow::start(plan(namespace, vec![first, node(2, FOREVER)]));
        let pid = flow.running(1, 1);
        let other = flow.running(2, 1);
        assert!(flow.processes().contains(&pid), "{pid} is not the number that the host sees");
        for (generation, wait_ms) in [(2, 30), (3, 60)] {
            let killed = MonoTime::now();
            flow.signal(1, Signal::KILL);
            flow.running(1, generation);
            let started = flow.status(1).started_ns.load(Ordering::Acquire);
            assert!(started >= killed.add_ms(wait_ms).as_ns(), "back-off of {wait_ms} ms");
            assert_eq!(flow.exit(1), (exit_kind::SIGNALLED, 9));
        }
        let status = flow.status(1);
        assert_eq!(status.restarts.load(Ordering::Acquire), 2);
        assert_eq!(status.sweeps.load(Ordering::Acquire), 2);
        assert_ne!(flow.pid(1), pid);
        assert_eq!((flow.generation(2), flow.pid(2)), (1, other), "the other one is left alone");
        assert_eq!(flow.phase(), phase::RUNNING);
        let log = flow.log();
        assert!(log.contains("killed by SIGKILL"), "{log}");
        assert!(log.contains("restart in 30 ms") && log.contains("restart in 60 ms"), "{log}");
    }
}

#[test]
fn after_the_maximum_a_node_has_failed_and_the_others_go_on() {
    let mut first = node(1, "exit 3");
    first.restart.max = 2;
    let flow = Flow::start(plan(true, vec![first, node(2, FOREVER)]));
    flow.until("failure", |f| f.phase() == phase::FAILED);
    assert_eq!(flow.state(1), SlotState::Failed);
    assert_eq!((flow.generation(1), flow.exit(1)), (3, (exit_kind::EXITED, 3)));
    assert_eq!(flow.pid(1), 0);
    flow.running(2, 1);
}

#[test]
fn generations_reach_the_process() {
    let mut flow =
        Flow::start(plan(false, vec![node(1, "echo $DFLOW_GENERATION; exec sleep 1e5")]));
    for generation in 1..4 {
        flow.started(1, generation);
        assert_eq!(flow.line(), generation.to_string());
        flow.signal(1, Signal::KILL);
    }
}

#[test]
fn a_clean_exit_that_nobody_asked_for_is_a_failure() {
    let mut first =
        node(1, "trap 'exit 0' TERM; echo up; while :; do sleep 100000 & wait $!; done");
    first.restart.max = 2;
    let mut never = node(2, FOREVER);
    never.restart.when = RestartWhen::Never;
    let mut flow = Flow::start(plan(false, vec![first, never]));
    for generation in 1..=3 {
        assert_eq!(flow.line(), "up");
        flow.started(1, generation);
        flow.signal(1, Signal::TERM);
    }
    flow.until("failure", |f| f.state(1) == SlotState::Failed);
    assert_eq!((flow.generation(1), flow.exit(1)), (3, (exit_kind::EXITED, 0)));
    let log = flow.log();
    assert_eq!(log.matches("exit code 0, which nobody asked for").count(), 3, "{log}");
    assert_eq!(log.matches("; restart in").count(), 2, "{log}");
    flow.started(2, 1);
    flow.signal(2, Signal::TERM);
    flow.until("failure", |f| f.state(2) == SlotState::Failed);
    assert_eq!(flow.exit(2), (exit_kind::SIGNALLED, 15));
}

#[test]
fn a_program_that_is_not_there_is_a_death_with_its_reason_in_the_log() {
    let mut first = node(1, "");
    first.program = "/nonexistent/executor".to_owned();
    first.restart.max = 1;
    let flow = Flow::start(plan(true, vec![first]));
    flow.until("failure", |f| f.state(1) == SlotState::Failed);
    assert_eq!((flow.generation(1), flow.exit(1)), (2, (exit_kind::EXITED, 127)));
    let log = flow.log();
    assert!(log.contains("could not start /nonexistent/executor: execve: ENOENT"), "{log}");
}

#[test]
fn a_node_that_does_not_get_ready_is_killed() {
    let mut first = node(1, FOREVER);
    first.init_timeout_ms = 50;
    first.restart.max = 1;
    let flow = Flow::start(plan(false, vec![first]));
    flow.until("failure", |f| f.state(1) == SlotState::Failed);
    assert_eq!((flow.generation(1), flow.exit(1)), (2, (exit_kind::LATE, 9)));
    assert!(flow.log().contains("not ready after 50 ms (`init_timeout_ms`)"), "{}", flow.log());
}

#[test]
fn a_stopped_node_is_shown_and_continues() {
    for namespace in BOTH {
        let flow = Flow::start(plan(namespace, vec![node(1, FOREVER)]));
        flow.running(1, 1);
        flow.signal(1, Signal::STOP);
        flow.until("stop", |f| f.state(1) == SlotState::Stopped);
        flow.signal(1, Signal::CONT);
        flow.until("continue", |f| f.state(1) == SlotState::Running);
        // The line follows the state: a second stop comes after both.
        flow.signal(1, Signal::STOP);
        flow.until("stop", |f| f.state(1) == SlotState::Stopped);
        flow.signal(1, Signal::KILL);
        flow.running(1, 2);
        let log = flow.log();
        assert_eq!(log.matches("stopped by a signal").count(), 2, "{log}");
        assert_eq!(log.matches(": continued").count(), 1, "{log}");
    }
}

#[test]
fn a_pinned_node_runs_on_its_core_and_the_next_one_on_all() {
    let cpus = sys::affinity::allowed().expect("cpus");
    let script = "grep Cpus_allowed_list /proc/self/status; exec sleep 100000";
    let mut first = node(1, script);
    first.cpu = cpus.last().copied();
    let mut flow = Flow::start(plan(false, vec![first, node(2, script)]));
    let mut lines = [flow.line(), flow.line()];
    lines.sort_by_key(String::len);
    let cpu = cpus.last().copied().unwrap_or(0).to_string();
    assert!(lines[0].ends_with(&cpu), "{lines:?}");
    assert_eq!(lines[0] == lines[1], cpus.len() == 1, "{lines:?}");
}
