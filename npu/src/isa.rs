//! Which instructions a kernel is compiled for: the same source once for every machine and once for
//! AVX2, chosen when it runs.
//!
//! A routine has no instructions of its own kind in it and the wide form fuses nothing (no FMA), so
//! both forms compute the same bits; only the tile sizes, which a routine takes from `WIDE`, and
//! the registers differ.
#![allow(unsafe_code, reason = "a function compiled for AVX2 is called after AVX2 was found")]

/// A kernel's inner part. `run` and everything it calls in a loop is `#[inline(always)]`, so that
/// it is compiled for the instructions of its caller.
pub(crate) trait Routine {
    /// Runs; `WIDE` says that vectors have 256 bits.
    fn run<const WIDE: bool>(self);
}

/// Runs in the best form for this machine.
pub(crate) fn run<R: Routine>(routine: R) {
    #[cfg(test)]
    if testing::PORTABLE.get() {
        routine.run::<false>();
        return;
    }
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the only requirement of `with_avx2` is AVX2, and it was found just now.
        unsafe { with_avx2(routine) };
        return;
    }
    routine.run::<false>();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn with_avx2<R: Routine>(routine: R) {
    routine.run::<true>();
}

#[cfg(test)]
pub(crate) use testing::portable;

#[cfg(test)]
mod testing {
    use std::cell::Cell;

    thread_local! {
        pub(super) static PORTABLE: Cell<bool> = const { Cell::new(false) };
    }

    /// Calls `of` with the form for every machine.
    pub(crate) fn portable<R>(of: impl FnOnce() -> R) -> R {
        PORTABLE.set(true);
        let result = of();
        PORTABLE.set(false);
        result
    }
}
