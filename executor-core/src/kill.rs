//! Kill points of the loom models: a participant vanishes at the n-th point it reaches.
//!
//! Only compiled under `cfg(loom)`. A model arms the current thread with [`arm`]; the n-th
//! [`reached`] unwinds with [`Vanished`], which the model catches. No handle of this crate has a
//! `Drop`, so nothing runs on the way out: exactly what SIGKILL leaves behind.

extern crate std;

use core::cell::Cell;

/// Payload of the unwind.
#[derive(Debug)]
pub struct Vanished(
    /// Name of the kill point.
    pub &'static str,
);

loom::thread_local! {
    static LEFT: Cell<u32> = Cell::new(u32::MAX);
}

/// The current thread vanishes at the kill point number `nth` (0 = the first it reaches).
pub fn arm(nth: u32) {
    LEFT.with(|left| left.set(nth));
}

/// The current thread lives on.
pub fn disarm() {
    LEFT.with(|left| left.set(u32::MAX));
}

/// Called by `kill_point!`.
pub fn reached(name: &'static str) {
    LEFT.with(|left| match left.get() {
        u32::MAX => {}
        0 => {
            left.set(u32::MAX);
            std::panic::resume_unwind(std::boxed::Box::new(Vanished(name)));
        }
        n => left.set(n - 1),
    });
}
