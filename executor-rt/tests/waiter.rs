//! A sleep whose wake-up a broken peer destroyed.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::atomic::{AtomicBool, Ordering};

use executor_core::owner::SlotId;
use executor_rt::waiter::{Waited, Waiter};
use support::{SMALL, rig_with};
use sys::clock::MonoTime;

#[test]
fn a_lost_wake_up_is_late_and_no_hang() {
    let rig = rig_with(2, &[SMALL]);
    let memory = rig.attach(1).group.memory;
    let waiter = Waiter::new(&memory, SlotId(1), 0).unwrap();
    let ready = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| waiter.wait(None, || {}, || ready.load(Ordering::Acquire)));
        // It sleeps or is about to; nobody will ring it.
        while waiter.ctl().parked.load(executor_core::primitive::Ordering::Acquire) == 0 {
            std::thread::yield_now();
        }
        waiter.ctl().parked.store(0, executor_core::primitive::Ordering::Release);
        ready.store(true, Ordering::Release);
        assert_eq!(sleeper.join().unwrap(), Waited::Ready);
    });
}

#[test]
fn a_deadline_between_two_looks_is_kept() {
    let rig = rig_with(2, &[SMALL]);
    let memory = rig.attach(1).group.memory;
    let waiter = Waiter::new(&memory, SlotId(1), 0).unwrap();
    for ms in [0, 20, 1_010] {
        let deadline = MonoTime::now().add_ms(ms);
        assert_eq!(waiter.wait(Some(deadline), || {}, || false), Waited::TimedOut);
        assert!(MonoTime::now() >= deadline);
    }
}
