//! What a dead process leaves in the memory group, and processes that hold it up.

use std::sync::atomic::{AtomicU64, Ordering};

use executor_core::group::Group;
use executor_core::inspect::{self, Usage};
use executor_core::owner::{Owner, SlotId, SlotState};
use executor_core::pool::Head;
use executor_rt::plan::exit_kind;
use executor_rt::waiter::Waiter;
use sys::signal::Signal;

use crate::support::{BOTH, Flow, node, plan};

const FOREVER: &str = "exec sleep 100000";

pub(crate) fn usage(flow: &Flow) -> Usage {
    inspect::usage(&Group { memory: flow.memory })
}

/// Three mbufs as the process of slot 1 would hold them: one of its own, one input answered, one
/// not.
fn hold(flow: &Flow) {
    hold_in(flow, 1);
}

/// As [`hold`], in any slot.
pub(crate) fn hold_in(flow: &Flow, slot: u32) {
    let mut worker = flow.worker(slot, 1);
    for input in [None, Some(1), Some(2)] {
        let mbuf = worker.alloc(64, Head::Zeroed).expect("mbuf");
        if let Some(set) = input {
            worker.of(&mbuf).mark_input(Some(0), set);
        }
        // Left as a dead process leaves it.
        let _entry = mbuf.into_entry();
    }
    flow.process(slot).set_done.store(1, Ordering::Release);
}

#[test]
fn mbufs_of_a_dead_process_are_freed_and_open_inputs_wait_for_the_successor() {
    for namespace in BOTH {
        let mut first = node(1, FOREVER);
        first.restart.max = 1;
        let flow = Flow::start(plan(namespace, vec![first]));
        flow.running(1, 1);
        hold(&flow);
        assert_eq!(usage(&flow).held, 3);
        flow.signal(1, Signal::KILL);
        flow.running(1, 2);
        let after = usage(&flow);
        assert_eq!((after.entries, after.adoptable, after.blocks), (1, 1, 1));
        assert_eq!(flow.memory.status.swept.load(Ordering::Acquire), 2);
        flow.signal(1, Signal::KILL);
        flow.until("failure", |f| f.state(1) == SlotState::Failed);
        assert_eq!(usage(&flow), Usage::default(), "without a successor they are freed");
    }
}

#[test]
fn a_supervisor_without_repairs_is_found_out() {
    let mut plan = plan(true, vec![node(1, FOREVER)]);
    plan.sabotage = 1;
    let flow = Flow::start(plan);
    flow.running(1, 1);
    hold(&flow);
    flow.signal(1, Signal::KILL);
    flow.running(1, 2);
    assert_eq!(usage(&flow).held, 3, "the canary lives");
}

#[test]
fn inputs_kept_for_a_successor_are_freed_when_the_flow_ends() {
    let mut first = node(1, FOREVER);
    (first.restart.backoff_ms, first.restart.backoff_max_ms) = (1_000_000, 1_000_000);
    let flow = Flow::start(plan(false, vec![first]));
    flow.running(1, 1);
    hold(&flow);
    flow.signal(1, Signal::KILL);
    flow.until("back-off", |f| f.state(1) == SlotState::BackOff);
    assert_eq!(usage(&flow).adoptable, 1);
    flow.stop();
    flow.gone();
    assert_eq!(usage(&flow), Usage::default());
}

#[test]
fn a_sweep_rings_everybody_unless_sabotaged() {
    for (sabotage, rung) in [(0, 1), (2, 0)] {
        let mut plan = plan(false, vec![node(1, FOREVER)]);
        plan.sabotage = sabotage;
        let flow = Flow::start(plan);
        flow.running(1, 1);
        let waiter = Waiter::new(&flow.memory, SlotId(2), 1).expect("waiter");
        assert_eq!(waiter.slot(), SlotId(2));
        let word = &flow.memory.waiters[9].sequence;
        let before = word.load(Ordering::Acquire);
        flow.signal(1, Signal::KILL);
        flow.running(1, 2);
        assert_eq!(word.load(Ordering::Acquire), before + rung);
    }
}

#[test]
fn sleepers_are_nudged_without_a_word_changed() {
    let flow = Flow::start(plan(false, vec![node(1, FOREVER)]));
    flow.running(1, 1);
    let word = &flow.memory.waiters[9].sequence;
    let before = word.load(Ordering::Acquire);
    let deadline = Some(sys::clock::MonoTime::now().add_ms(60_000));
    let outcome = sys::futex::wait(word, before, deadline);
    assert_eq!(outcome, sys::futex::WaitOutcome::Woken);
    assert_eq!(word.load(Ordering::Acquire), before);
}

#[test]
fn a_lock_without_progress_costs_its_holder_the_life() {
    let mut plan = plan(true, vec![node(1, FOREVER), node(2, FOREVER)]);
    plan.lock_stall_ms = 40;
    let flow = Flow::start(plan);
    flow.running(1, 1);
    flow.running(2, 1);
    let lock = &flow.memory.queues[0].lock;
    let held = Owner::Worker { slot: 1, worker: 0, generation: 1 };
    lock.store(held.word(), Ordering::Release);
    flow.running(1, 2);
    assert_eq!(flow.exit(1), (exit_kind::STALLED, 9));
    assert_eq!(lock.load(Ordering::Acquire), 0, "the sweep broke it");
    assert_eq!(flow.generation(2), 1);
    assert!(flow.log().contains("holds the lock of queue 0"), "{}", flow.log());
    // The host's is left, whatever it does; one that names nobody alive is broken.
    let host = Owner::Worker { slot: 0, worker: 0, generation: 1 }.word();
    lock.store(host, Ordering::Release);
    let lane = &flow.memory.slot_shared[1].lane_lock;
    let earlier = Owner::Worker { slot: 1, worker: 0, generation: 1 };
    let no_host = Owner::Worker { slot: 0, worker: 0, generation: 0 };
    let no_slot = Owner::Worker { slot: 50, worker: 0, generation: 1 };
    for word in [u64::MAX, earlier.word(), no_host.word(), no_slot.word()] {
        broken(&flow, lane, word);
    }
    assert_eq!(lock.load(Ordering::Acquire), host);
    assert_eq!((flow.generation(1), flow.generation(2)), (2, 1));
}

/// Writes the word of a lock and waits until it is broken; whoever breaks it rings everybody.
fn broken(flow: &Flow, lock: &AtomicU64, word: u64) {
    lock.store(word, Ordering::Release);
    let waiter = &flow.memory.waiters[4];
    let mut seen = waiter.sequence.load(Ordering::Acquire);
    while lock.load(Ordering::Acquire) != 0 {
        let deadline = Some(sys::clock::MonoTime::now().add_ms(30_000));
        assert_ne!(
            sys::futex::wait(&waiter.sequence, seen, deadline),
            sys::futex::WaitOutcome::TimedOut
        );
        seen = waiter.sequence.load(Ordering::Acquire);
    }
}

#[test]
fn a_function_without_progress_is_killed_also_when_it_is_stopped() {
    let mut first = node(1, FOREVER);
    first.stall_ms = 40;
    let flow = Flow::start(plan(false, vec![first, node(2, FOREVER)]));
    for generation in 1..3 {
        flow.running(1, generation);
        if generation == 2 {
            flow.signal(1, Signal::STOP);
            flow.until("stop", |f| f.state(1) == SlotState::Stopped);
        }
        flow.process(1).set_delivered.store(u64::from(generation), Ordering::Release);
        flow.until("kill", |f| f.generation(1) == generation + 1);
        assert_eq!(flow.exit(1), (exit_kind::STALLED, 9));
        flow.process(1).set_done.store(u64::from(generation), Ordering::Release);
    }
    assert!(flow.log().contains("no progress in the function"), "{}", flow.log());
}
