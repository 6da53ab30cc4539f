//! The cores of the device (adr/0015): a model computes only while it holds one.
//!
//! [`executor_core::gate`] decides who is next; here are its lock and its bells. With a free core
//! and nobody waiting, going in and out is one atomic step each. Who waits sleeps where it always
//! sleeps, so orders and signals reach it; who sleeps for anything holds no core ([`Seat::leave`]
//! by `Control::rest`).

use std::sync::{Mutex, MutexGuard, PoisonError};

use executor_core::abi::control::MAX_SLOTS;
use executor_core::gate::{Gate, Level, Line, PLACES};
use executor_rt::waiter::Waiter;

const _: () = assert!(MAX_SLOTS <= PLACES, "every slot can be a place");

/// See the module. It lives for ever.
#[derive(Debug)]
pub(crate) struct Cores {
    gate: Gate,
    line: Mutex<Line>,
    /// Where each place's thread sleeps.
    bells: Box<[Waiter<'static>]>,
}

impl Cores {
    /// So many cores for the places whose threads sleep there.
    pub(crate) fn new(cores: u32, bells: Vec<Waiter<'static>>) -> &'static Cores {
        let (gate, line) = (Gate::new(cores), Mutex::new(Line::default()));
        Box::leak(Box::new(Cores { gate, line, bells: bells.into() }))
    }

    /// No state is half done under this lock.
    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cold]
    fn hand_over(&self) {
        let handed = self.gate.leave(&mut self.line());
        if let Some(bell) = handed.and_then(|place| self.bells.get(usize::from(place))) {
            bell.kick();
        }
    }
}

/// What a model has of the cores. It gives back what it holds when it goes.
#[derive(Debug)]
pub(crate) struct Seat {
    cores: &'static Cores,
    place: u8,
    level: Level,
    /// Cores held: one, and one for each thread that helps.
    held: u32,
}

impl Seat {
    /// The seat of a place.
    pub(crate) fn new(cores: &'static Cores, place: usize, level: Level) -> Seat {
        Seat { cores, place: u8::try_from(place).unwrap_or(u8::MAX), level, held: 0 }
    }

    /// True when it holds a core. Else it waits in the line now: sleep until [`Seat::is_handed`],
    /// then [`Seat::take`] it or [`Seat::withdraw`].
    #[inline]
    pub(crate) fn enter(&mut self) -> bool {
        let Cores { gate, .. } = self.cores;
        let entered = self.held != 0
            || gate.try_enter(1)
            || gate.enter(&mut self.cores.line(), self.place, self.level);
        self.held = self.held.max(u32::from(entered));
        entered
    }

    /// Whether a core was handed over.
    pub(crate) fn is_handed(&self) -> bool {
        self.cores.gate.is_handed(self.place)
    }

    /// Takes the core that was handed over.
    pub(crate) fn take(&mut self) -> bool {
        let taken = self.cores.gate.take(self.place);
        self.held += u32::from(taken);
        taken
    }

    /// Waits no more.
    pub(crate) fn withdraw(&mut self) {
        let handed = self.cores.gate.withdraw(&mut self.cores.line(), self.place);
        self.held += u32::from(handed);
        self.leave();
    }

    /// Takes so many cores more for threads that help, if all of them are free.
    pub(crate) fn enter_with(&mut self, helpers: u32) -> bool {
        let entered = self.cores.gate.try_enter(helpers);
        self.held += if entered { helpers } else { 0 };
        entered
    }

    /// Gives back what it holds.
    #[inline]
    pub(crate) fn leave(&mut self) {
        let held = core::mem::take(&mut self.held);
        if held != 0 && !self.cores.gate.try_leave(held) {
            for _ in 0..held {
                self.cores.hand_over();
            }
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.leave();
    }
}
