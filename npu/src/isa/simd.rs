//! Vectors of 16 floats, as kernels see them, and the form of them for every machine.

use std::fmt::Debug;

/// Floats of a vector.
pub(crate) const LANES: usize = 16;

/// Instructions on vectors of 16 floats. A value of such a type is there only where its
/// instructions are.
pub(crate) trait Simd: Copy + Debug {
    /// 16 floats.
    type V: Copy;
    /// Vectors that fit into registers.
    const REGISTERS: usize;

    /// The same float everywhere.
    fn splat(self, x: f32) -> Self::V;
    /// Those floats.
    fn load(self, from: &[f32; LANES]) -> Self::V;
    /// At most 16 floats; zeros behind them.
    fn load_part(self, from: &[f32]) -> Self::V;
    /// Writes them.
    fn store(self, v: Self::V, to: &mut [f32; LANES]);
    /// `a + b`
    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a * b`
    fn mul(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a * b + c`, rounded once where the machine can.
    fn mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// `a / b`
    fn div(self, a: Self::V, b: Self::V) -> Self::V;
    /// 2 to the power of a whole number from -126 to 127; anything of others.
    fn pow2(self, n: Self::V) -> Self::V;
    /// `a` where it is greater than `b`, else `b`: of a NaN in `b`, that NaN.
    fn max(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a` where it is less than `b`, else `b`: of a NaN in `b`, that NaN.
    fn min(self, a: Self::V, b: Self::V) -> Self::V;

    /// Writes the first ones, as many as there is room for.
    #[inline(always)]
    fn store_part(self, v: Self::V, to: &mut [f32]) {
        if let Ok(to) = to.try_into() {
            self.store(v, to);
            return;
        }
        let mut whole = [0f32; LANES];
        self.store(v, &mut whole);
        let count = to.len().min(LANES);
        to[..count].copy_from_slice(&whole[..count]);
    }

    /// The sum of them, in pairs.
    #[inline(always)]
    fn sum(self, v: Self::V) -> f32 {
        let mut lanes = [0f32; LANES];
        self.store(v, &mut lanes);
        let mut half = LANES / 2;
        while half > 0 {
            for lane in 0..half {
                lanes[lane] += lanes[lane + half];
            }
            half /= 2;
        }
        lanes[0]
    }
}

/// For every machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Portable;

#[inline(always)]
fn each(of: impl Fn(usize) -> f32) -> [f32; LANES] {
    let mut own = [0f32; LANES];
    for (lane, to) in own.iter_mut().enumerate() {
        *to = of(lane);
    }
    own
}

impl Simd for Portable {
    type V = [f32; LANES];
    const REGISTERS: usize = 4;

    #[inline(always)]
    fn splat(self, x: f32) -> Self::V {
        [x; LANES]
    }

    #[inline(always)]
    fn load(self, from: &[f32; LANES]) -> Self::V {
        *from
    }

    #[inline(always)]
    fn load_part(self, from: &[f32]) -> Self::V {
        let mut own = [0f32; LANES];
        let count = from.len().min(LANES);
        own[..count].copy_from_slice(&from[..count]);
        own
    }

    #[inline(always)]
    fn store(self, v: Self::V, to: &mut [f32; LANES]) {
        *to = v;
    }

    #[inline(always)]
    fn add(self, a: Self::V, b: Self::V) -> Self::V {
        each(|lane| a[lane] + b[lane])
    }

    #[inline(always)]
    fn mul(self, a: Self::V, b: Self::V) -> Self::V {
        each(|lane| a[lane] * b[lane])
    }

    #[inline(always)]
    fn mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        // Where the target has no such instruction, it would be a call.
        if cfg!(any(target_arch = "aarch64", target_feature = "fma")) {
            each(|lane| a[lane].mul_add(b[lane], c[lane]))
        } else {
            each(|lane| a[lane] * b[lane] + c[lane])
        }
    }

    #[inline(always)]
    fn div(self, a: Self::V, b: Self::V) -> Self::V {
        each(|lane| a[lane] / b[lane])
    }

    #[inline(always)]
    fn pow2(self, n: Self::V) -> Self::V {
        // What is added puts the number with the exponent's bias into the low bits.
        each(|lane| f32::from_bits((n[lane] + 12_583_039.0).to_bits() << 23))
    }

    #[inline(always)]
    fn max(self, a: Self::V, b: Self::V) -> Self::V {
        each(|lane| if a[lane] > b[lane] { a[lane] } else { b[lane] })
    }

    #[inline(always)]
    fn min(self, a: Self::V, b: Self::V) -> Self::V {
        each(|lane| if a[lane] < b[lane] { a[lane] } else { b[lane] })
    }
}
