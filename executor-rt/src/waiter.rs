//! Waiting and ringing: the futex half of the wake protocol (`executor_core::wake`).
//!
//! A [`Waiter`] is one sleeping place of this process; only one thread uses it at a time. [`ring`]
//! wakes the waiters that a verb named. No allocation, one system call a sleep, one a ring.

use executor_core::abi::control::WaiterCtl;
use executor_core::owner::SlotId;
use executor_core::primitive::{Ordering, spin_hint};
use executor_core::region::Memory;
use executor_core::wake::{self, WakeSet};
use sys::clock::MonoTime;
use sys::futex;

/// Longest sleep between two looks, milliseconds. No wake-up is lost (`executor_core::wake`) unless
/// a peer destroys the words that it depends on; then it is this late at most. Under a supervisor
/// that wakes sleepers as often ([`nudge_all`]) a sleep needs no timer of its own.
pub const LOOK_MS: u64 = 1000;

/// How a wait ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waited {
    /// The condition holds.
    Ready,
    /// The deadline passed first.
    TimedOut,
    /// A signal arrived; look at your flags.
    Interrupted,
}

/// Futex-wakes every waiter of `wakes`.
#[inline(always)]
pub fn ring(memory: &Memory<'_>, wakes: WakeSet) {
    if !wakes.is_empty() {
        ring_named(memory, wakes);
    }
}

#[inline(never)]
fn ring_named(memory: &Memory<'_>, wakes: WakeSet) {
    for id in wakes.iter() {
        if let Some(waiter) = memory.waiter(id) {
            futex::wake(&waiter.sequence, 1);
        }
    }
}

/// Futex-wakes everybody, parked or not: after a sweep.
pub fn ring_all(memory: &Memory<'_>) {
    for waiter in memory.wake_all() {
        futex::wake(&waiter.sequence, u32::MAX);
    }
}

/// Has everybody who sleeps look again; changes no word. What a supervisor does every [`LOOK_MS`].
pub fn nudge_all(memory: &Memory<'_>) {
    for waiter in memory.waiters() {
        futex::wake(&waiter.sequence, u32::MAX);
    }
}

/// One sleeping place.
#[derive(Clone, Copy, Debug)]
pub struct Waiter<'g> {
    ctl: &'g WaiterCtl,
    slot: SlotId,
    index: u32,
    /// Rounds of looking before the first sleep. 0 parks at once: right on one core, and where
    /// more workers are awake than cores.
    pub spin: u32,
    /// A supervisor nudges sleepers ([`nudge_all`]): sleeps without a deadline set no timer.
    pub nudged: bool,
}

impl<'g> Waiter<'g> {
    /// Waiter `index` of `slot`, `None` when out of range.
    #[must_use]
    pub fn new(memory: &Memory<'g>, slot: SlotId, index: u32) -> Option<Waiter<'g>> {
        let waiters = executor_core::abi::control::WAITERS;
        let id = executor_core::owner::WaiterId(slot.0.checked_mul(waiters)?.checked_add(index)?);
        (index < waiters).then_some(())?;
        Some(Waiter { ctl: memory.waiter(id)?, slot, index, spin: 0, nudged: false })
    }

    /// The words of this waiter.
    #[must_use]
    pub fn ctl(&self) -> &'g WaiterCtl {
        self.ctl
    }

    /// Number of this waiter in its slot.
    #[must_use]
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Slot of this waiter.
    #[must_use]
    pub fn slot(&self) -> SlotId {
        self.slot
    }

    /// Sleeps until `ready` holds. `register` announces what is waited for (a full lane, a pool)
    /// and is called before every look, after `parked` is set; for messages nothing needs
    /// registering.
    pub fn wait(
        &self,
        deadline: Option<MonoTime>,
        mut register: impl FnMut(),
        mut ready: impl FnMut() -> bool,
    ) -> Waited {
        for _ in 0..self.spin {
            if ready() {
                return Waited::Ready;
            }
            spin_hint();
        }
        loop {
            let parking = wake::begin_park(self.ctl);
            register();
            wake::recheck();
            if ready() {
                wake::end_park(self.ctl);
                return Waited::Ready;
            }
            let until = if self.nudged {
                deadline
            } else {
                let look = MonoTime::now().add_ms(LOOK_MS);
                Some(deadline.map_or(look, |deadline| deadline.min(look)))
            };
            let outcome = futex::wait(&self.ctl.sequence, parking.expected, until);
            wake::end_park(self.ctl);
            if ready() {
                return Waited::Ready;
            }
            match outcome {
                futex::WaitOutcome::TimedOut if deadline == until => return Waited::TimedOut,
                futex::WaitOutcome::Interrupted => return Waited::Interrupted,
                _ => {}
            }
        }
    }

    /// Wakes whoever sleeps here, from another thread of this process.
    pub fn kick(&self) {
        self.ctl.parked.store(0, Ordering::Release);
        self.ctl.sequence.fetch_add(1, Ordering::AcqRel);
        futex::wake(&self.ctl.sequence, u32::MAX);
    }
}
