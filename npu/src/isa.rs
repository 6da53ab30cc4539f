//! Which instructions a kernel is compiled for: the same source once for every machine, once for
//! AVX2 with FMA and once for AVX-512, chosen when it runs.
//!
//! A kernel is written with vectors of 16 floats (`Simd`), so what it reads and writes lies the
//! same way in memory for all of them; only registers and tile sizes differ. Results differ by
//! rounding: the wide forms fuse a multiply and an add (docs/adr/0011).
//!
//! Sums of products of bytes have two more forms, for machines with VNNI beside AVX2 or AVX-512
//! (docs/adr/0019); every form of them gives the same bits.
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
    /// AVX2, FMA and F16C.
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
        if has!("avx2") && has!("fma") && has!("f16c") {
            let wide = has!("avx512f") && has!("avx512bw") && has!("avx512dq");
            return if wide && has!("avx512vl") { Isa::Avx512 } else { Isa::Avx2 };
        }
    }
    Isa::Portable
}

/// Whether this machine has VNNI beside an ISA: products of fours of bytes, and of pairs, that are
/// added to sums at once.
#[must_use]
pub fn has_vnni(isa: Isa) -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::is_x86_feature_detected as has;
        isa <= best()
            && match isa {
                Isa::Portable => false,
                Isa::Avx2 => has!("avxvnni"),
                Isa::Avx512 => has!("avx512vnni"),
            }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _none_has_it = isa;
        false
    }
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

/// As [`run`], with VNNI where the machine has it: for sums of products of pairs.
pub(crate) fn run_pairs<R: Routine>(routine: R) {
    with_vnni_or(routine, run);
}

/// As [`run_pairs`], of fours. Without VNNI nobody packs them but who asks for them: for those
/// there is the portable form, so that executables have no form that is never used; tests have all.
pub(crate) fn run_fours<R: Routine>(routine: R) {
    with_vnni_or(
        routine,
        |routine| {
            if cfg!(test) { run(routine) } else { routine.run(simd::Portable) }
        },
    );
}

fn with_vnni_or<R: Routine>(routine: R, otherwise: impl FnOnce(R)) {
    match best().min(LIMIT.get()) {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 if has_vnni(Isa::Avx512) => {
            // SAFETY: the function and the token need what was found on this machine.
            unsafe { with_avx512_vnni(routine) }
        }
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 if has_vnni(Isa::Avx2) => {
            // SAFETY: as above.
            unsafe { with_avx2_vnni(routine) }
        }
        _ => otherwise(routine),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn with_avx512_vnni<R: Routine>(routine: R) {
    // SAFETY: this function runs where the instructions are.
    routine.run(unsafe { x86::Avx512::<true>::new() });
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,avxvnni")]
fn with_avx2_vnni<R: Routine>(routine: R) {
    // SAFETY: this function runs where the instructions are.
    routine.run(unsafe { x86::Avx2::<true>::new() });
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
fn with_avx512<R: Routine>(routine: R) {
    // SAFETY: this function runs where the instructions are.
    routine.run(unsafe { x86::Avx512::<false>::new() });
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
fn with_avx2<R: Routine>(routine: R) {
    // SAFETY: this function runs where the instructions are.
    routine.run(unsafe { x86::Avx2::<false>::new() });
}

#[cfg(test)]
mod tests;
