//! Which instructions a kernel is compiled for: the same source once for every machine, once for
//! AVX2 with FMA and once for AVX-512, chosen when it runs.
//!
//! A kernel is written with vectors of 16 floats (`Simd`), so what it reads and writes lies the
//! same way in memory for all of them; only registers and tile sizes differ. Results differ by
//! rounding: the wide forms fuse a multiply and an add (docs/adr/0011).
#![allow(unsafe_code, reason = "a function compiled for an ISA is called after it was found")]

mod math;
mod simd;
#[cfg(target_arch = "x86_64")]
mod x86;

use std::cell::Cell;

pub(crate) use math::{Function, exp, map};
pub(crate) use simd::{LANES, Simd};

/// Instructions that kernels are compiled for, from few to many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isa {
    /// What every machine of the target has.
    Portable,
    /// AVX2 and FMA.
    Avx2,
    /// AVX-512 F, BW, DQ and VL.
    Avx512,
}

impl Isa {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Portable, Self::Avx2, Self::Avx512];
}

/// The most that this machine has.
#[must_use]
pub fn best() -> Isa {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::is_x86_feature_detected as has;
        if has!("avx2") && has!("fma") {
            let wide = has!("avx512f") && has!("avx512bw") && has!("avx512dq");
            return if wide && has!("avx512vl") { Isa::Avx512 } else { Isa::Avx2 };
        }
    }
    Isa::Portable
}

thread_local! {
    static LIMIT: Cell<Isa> = const { Cell::new(Isa::Avx512) };
}

/// Calls `of`; kernels that it runs on this thread use no more than `limit`.
pub fn at_most<R>(limit: Isa, of: impl FnOnce() -> R) -> R {
    let before = LIMIT.replace(limit);
    let result = of();
    LIMIT.set(before);
    result
}

/// The limit of this thread: what its helpers are limited to.
pub(crate) fn limit() -> Isa {
    LIMIT.get()
}

/// A kernel's inner part. `run` and everything it calls in a loop is `#[inline(always)]`, so that
/// it is compiled for the instructions of its caller.
pub(crate) trait Routine {
    /// Runs with these instructions.
    fn run<S: Simd>(self, simd: S);
}

/// Runs in the best form for this machine.
pub(crate) fn run<R: Routine>(routine: R) {
    match best().min(LIMIT.get()) {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => {
            // SAFETY: the function and the token need what `best` has found on this machine.
            unsafe { with_avx512(routine) }
        }
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => {
            // SAFETY: as above.
            unsafe { with_avx2(routine) }
        }
        _ => routine.run(simd::Portable),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")]
fn with_avx512<R: Routine>(routine: R) {
    // SAFETY: this function runs where the instructions are.
    routine.run(unsafe { x86::Avx512::new() });
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn with_avx2<R: Routine>(routine: R) {
    // SAFETY: this function runs where the instructions are.
    routine.run(unsafe { x86::Avx2::new() });
}

#[cfg(test)]
mod tests;
