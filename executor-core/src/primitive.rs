//! Atomics shim: `core` normally, loom's under `cfg(loom)`. Nothing else in this crate names an atomic.
//!
//! Not a place for algorithms. [`kill_point!`] marks every store that another process could see as
//! the last act of a participant; it is empty except under loom, where the model vanishes there.

#[cfg(not(loom))]
#[allow(clippy::disallowed_types, reason = "this is the module that the ban points to")]
pub use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// Spins once.
#[inline]
pub fn spin_hint() {
    #[cfg(not(loom))]
    core::hint::spin_loop();
    #[cfg(loom)]
    loom::thread::yield_now();
}

/// Brings the line at `address` into this core for writing, where the CPU has an instruction for it.
#[inline]
pub(crate) fn prefetch_write(word: &AtomicU64) {
    #[cfg(all(not(loom), target_arch = "x86_64"))]
    {
        crate::region::prefetch(core::ptr::from_ref(word).cast());
    }
    #[cfg(any(loom, not(target_arch = "x86_64")))]
    {
        let _ = word;
    }
}

/// A place where a participant can vanish: after this point everything before it is visible.
macro_rules! kill_point {
    ($name:literal) => {
        #[cfg(loom)]
        $crate::kill::reached($name);
    };
}
pub(crate) use kill_point;
