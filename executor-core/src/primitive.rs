//! Atomics shim: `core` normally, loom's under `cfg(loom)`. Nothing else in this crate names an
//! atomic.
//!
//! Not a place for algorithms. `kill_point!` marks every store that another process could see as
//! the last act of a participant; it is empty except under loom, where the model vanishes there.

#[cfg(not(loom))]
#[allow(clippy::disallowed_types, reason = "this is the module that the ban points to")]
pub use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

#[cfg(loom)]
pub use loom::sync::atomic::{Ordering, fence};
#[cfg(loom)]
pub use modelled::{AtomicU32, AtomicU64, contended};

#[cfg(loom)]
mod modelled {
    //! Loom's atomics, each with a second one that every load touches.
    //!
    //! WHY: loom remembers only the last access to an object. "A loads, B loads, B stores" is
    //! compared as B with itself, and the order in which B comes first is never tried. The
    //! touch makes the two loads depend on each other, which brings that order back; it is
    //! relaxed and orders no memory.
    extern crate std;

    use core::cell::Cell;
    use loom::sync::atomic::Ordering;

    std::thread_local! {
        static CONTENDED: Cell<bool> = const { Cell::new(false) };
    }

    /// Says whether several threads of the model run now; while one runs alone, touches are left
    /// out.
    pub fn contended(on: bool) {
        CONTENDED.with(|cell| cell.set(on));
    }

    macro_rules! atomic {
        ($name:ident, $value:ty) => {
            /// See the module.
            #[derive(Debug, Default)]
            pub struct $name {
                word: loom::sync::atomic::$name,
                touched: loom::sync::atomic::AtomicU8,
            }

            #[allow(missing_docs, reason = "as core::sync::atomic")]
            impl $name {
                pub fn load(&self, order: Ordering) -> $value {
                    if CONTENDED.with(Cell::get) {
                        self.touched.fetch_add(0, Ordering::Relaxed);
                    }
                    self.word.load(order)
                }

                pub fn store(&self, value: $value, order: Ordering) {
                    self.word.store(value, order);
                }

                pub fn swap(&self, value: $value, order: Ordering) -> $value {
                    self.word.swap(value, order)
                }

                pub fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                    self.word.fetch_add(value, order)
                }

                pub fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                    self.word.fetch_sub(value, order)
                }

                pub fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                    self.word.fetch_or(value, order)
                }

                pub fn fetch_and(&self, value: $value, order: Ordering) -> $value {
                    self.word.fetch_and(value, order)
                }

                /// # Errors
                /// The value found, when it was not `current`.
                pub fn compare_exchange(
                    &self,
                    current: $value,
                    new: $value,
                    success: Ordering,
                    failure: Ordering,
                ) -> Result<$value, $value> {
                    self.word.compare_exchange(current, new, success, failure)
                }
            }
        };
    }
    atomic!(AtomicU32, u32);
    atomic!(AtomicU64, u64);
}

/// Spins once.
#[inline]
pub fn spin_hint() {
    #[cfg(not(loom))]
    core::hint::spin_loop();
    #[cfg(loom)]
    loom::thread::yield_now();
}

/// A place where a participant can vanish: after this point everything before it is visible.
macro_rules! kill_point {
    ($name:literal) => {
        #[cfg(loom)]
        $crate::kill::reached($name);
    };
}
pub(crate) use kill_point;
