//! Functions of vectors of floats.

use super::simd::{LANES, Simd};

/// e to the power of x, within 2 units of the last place; 0 from -87.69 down, infinite from 88.38
/// up. Of a NaN, a NaN.
#[inline(always)]
pub(crate) fn exp<S: Simd>(simd: S, x: S::V) -> S::V {
    // The operand order keeps a NaN. At both ends `n` is one beyond what a float's exponent can
    // be, and its bits are those of 0 and of infinity.
    let x = simd.min(simd.splat(88.7), simd.max(simd.splat(-88.0), x));
    // x = n * ln 2 + r; what is added and taken off rounds to a whole number.
    let round = 12_582_912.0;
    let n = simd.mul_add(x, simd.splat(std::f32::consts::LOG2_E), simd.splat(round));
    let n = simd.add(n, simd.splat(-round));
    let r = simd.mul_add(n, simd.splat(-0.693_359_4), x);
    let r = simd.mul_add(n, simd.splat(2.121_944_4e-4), r);
    // Cephes' polynomial for the rest.
    let terms = [1.398_2e-3, 8.333_452e-3, 4.166_579_6e-2, 0.166_666_65, 0.5];
    let mut sum = simd.splat(1.987_569_1e-4);
    for term in terms {
        sum = simd.mul_add(sum, r, simd.splat(term));
    }
    let near = simd.add(simd.mul_add(sum, simd.mul(r, r), r), simd.splat(1.0));
    simd.mul(near, simd.pow2(n))
}

/// A function of vectors. A closure would not be compiled for the instructions of who calls it.
pub(crate) trait Function: Copy {
    /// The values for a vector.
    fn of<S: Simd>(self, simd: S, x: S::V) -> S::V;
}

/// Writes the values for each vector of `from`, the last one filled up with zeros.
#[inline(always)]
pub(crate) fn map<S: Simd>(simd: S, from: &[f32], to: &mut [f32], function: impl Function) {
    let (from, rest) = from.as_chunks::<LANES>();
    let (to, to_rest) = to.as_chunks_mut::<LANES>();
    for (from, to) in from.iter().zip(to) {
        simd.store(function.of(simd, simd.load(from)), to);
    }
    if !rest.is_empty() {
        simd.store_part(function.of(simd, simd.load_part(rest)), to_rest);
    }
}
