//! Processes with several slots: one status for all of them, each slot swept.

use std::sync::atomic::Ordering;

use executor_core::inspect::Usage;
use executor_core::owner::SlotState;
use executor_rt::plan::{RestartWhen, exit_kind, phase};
use sys::pidfd::Event;
use sys::signal::Signal;

use crate::support::{BOTH, Flow, device, plan};
use crate::sweeps::{hold_in, usage};

const FOREVER: &str = "exec sleep 100000";
/// A device with one model; the second place has no name.
const ALSO: [(u32, &str); 1] = [(2, "angle")];

fn states(flow: &Flow) -> [SlotState; 2] {
    [flow.state(1), flow.state(2)]
}

#[test]
fn all_slots_of_a_process_start_and_are_restarted_together() {
    for namespace in BOTH {
        let flow = Flow::start(plan(namespace, vec![device(1, &ALSO, FOREVER)]));
        let pid = flow.started(2, 1);
        assert_eq!((flow.pid(1), flow.generation(1)), (pid, 1));
        // A model's slot alone makes nobody ready.
        flow.process(2).state.store(3, Ordering::Release);
        assert_eq!(states(&flow), [SlotState::Starting; 2]);
        flow.running(1, 1);
        flow.until("running", |f| f.state(2) == SlotState::Running);
        hold_in(&flow, 1);
        hold_in(&flow, 2);
        flow.signal(1, Signal::KILL);
        flow.running(1, 2);
        flow.until("running", |f| states(f) == [SlotState::Running; 2]);
        assert_eq!((flow.generation(2), flow.pid(2)), (2, flow.pid(1)));
        assert_eq!(flow.exit(2), (exit_kind::SIGNALLED, 9));
        for slot in [1, 2] {
            assert_eq!(flow.status(slot).sweeps.load(Ordering::Acquire), 1, "slot {slot}");
            assert_eq!(flow.status(slot).restarts.load(Ordering::Acquire), 1, "slot {slot}");
        }
        let after = usage(&flow);
        assert_eq!((after.entries, after.adoptable), (2, 2), "one open input of each slot");
        let log = flow.log();
        let line = "slots 1, 2 (angle), process number 1: killed by SIGKILL";
        assert!(log.contains(line) && log.contains("freed 4 mbufs, kept 2 inputs"), "{log}");
    }
}

#[test]
fn a_stopped_process_is_shown_in_all_slots() {
    let flow = Flow::start(plan(true, vec![device(1, &ALSO, FOREVER)]));
    flow.running(1, 1);
    flow.signal(2, Signal::STOP);
    flow.until("stop", |f| states(f) == [SlotState::Stopped; 2]);
    flow.signal(2, Signal::CONT);
    flow.until("continue", |f| states(f) == [SlotState::Running; 2]);
}

#[test]
fn a_stall_in_any_slot_is_the_process_s() {
    let mut first = device(1, &ALSO, FOREVER);
    first.stall_ms = 50;
    let flow = Flow::start(plan(true, vec![first]));
    flow.running(1, 1);
    flow.process(2).set_delivered.store(1, Ordering::Release);
    flow.started(1, 2);
    assert_eq!(flow.exit(1), (exit_kind::STALLED, 9));
    assert_eq!(flow.exit(2), (exit_kind::STALLED, 9));
    assert!(flow.log().contains("no progress in the function of slot 2"), "{}", flow.log());
}

#[test]
fn without_a_restart_all_slots_have_failed_and_keep_nothing() {
    let mut first = device(1, &ALSO, FOREVER);
    first.restart.when = RestartWhen::Never;
    let flow = Flow::start(plan(true, vec![first]));
    flow.running(1, 1);
    hold_in(&flow, 1);
    hold_in(&flow, 2);
    flow.signal(1, Signal::KILL);
    flow.until("failure", |f| states(f) == [SlotState::Failed; 2]);
    flow.until("phase", |f| f.phase() == phase::FAILED);
    assert_eq!(usage(&flow), Usage::default());
    flow.stop();
    assert!(matches!(flow.gone(), Event::Exited(0)), "{}", flow.log());
}
