//! Vectors of 16 floats, as kernels see them, and the form of them for every machine.

use std::fmt::Debug;

use crate::half::F16;

/// Floats of a vector.
pub(crate) const LANES: usize = 16;

/// Instructions on vectors of 16 floats. A value of such a type is there only where its
/// instructions are.
pub(crate) trait Simd: Copy + Debug {
    /// 16 floats.
    type V: Copy;
    /// 16 whole numbers of 32 bits, or as many pairs of numbers of 16, or fours of bytes.
    type I: Copy;
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
    /// `a - b`
    fn sub(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a * b`
    fn mul(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a * b + c`, rounded once where the machine can.
    fn mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// `a / b`
    fn div(self, a: Self::V, b: Self::V) -> Self::V;
    /// 2 to the power of a whole number from -126 to 127; 0 of -127, infinity of 128, anything of
    /// others.
    fn pow2(self, n: Self::V) -> Self::V;
    /// `a` where it is greater than `b`, else `b`: of a NaN in `b`, that NaN.
    fn max(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a` where it is less than `b`, else `b`: of a NaN in `b`, that NaN.
    fn min(self, a: Self::V, b: Self::V) -> Self::V;

    /// Those numbers.
    fn whole(self, from: &[i32; LANES]) -> Self::I;
    /// Writes them.
    fn store_whole(self, v: Self::I, to: &mut [i32; LANES]);
    /// The same word everywhere: a number, a pair or four bytes, the first in the low bits.
    fn word(self, of: i32) -> Self::I;
    /// The products of both numbers of each pair, added to the sums. Sums wrap around.
    fn dot(self, a: Self::I, b: Self::I, sums: Self::I) -> Self::I;
    /// The nearest floats.
    fn floats(self, v: Self::I) -> Self::V;

    /// Numbers up to 2^22 as whole ones, halves to the even one, and a number added.
    fn round(self, v: Self::V, add: i32) -> Self::I;
    /// The values of floats of 16 bits.
    fn halves(self, from: &[F16; LANES]) -> Self::V;
    /// Writes the nearest floats of 16 bits, to even from the middle.
    fn store_halves(self, v: Self::V, to: &mut [F16; LANES]);

    /// Writes the low byte of numbers from -2^15 on and below 2^15.
    fn store_bytes(self, v: Self::I, to: &mut [u8; LANES]);

    /// The products of all bytes of each word, of `a` without a sign and of `b` with one, added to
    /// the sums. Sums wrap around.
    #[inline(always)]
    fn dot_fours(self, a: Self::I, b: Self::I, sums: Self::I) -> Self::I {
        dot_fours(self, a, b, sums)
    }

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

#[inline(always)]
fn each_whole(of: impl Fn(usize) -> i32) -> [i32; LANES] {
    let mut own = [0; LANES];
    for (lane, to) in own.iter_mut().enumerate() {
        *to = of(lane);
    }
    own
}

/// As [`Simd::dot_fours`], word by word.
#[inline(always)]
pub(super) fn dot_fours<S: Simd>(simd: S, a: S::I, b: S::I, sums: S::I) -> S::I {
    let mut words = [[0; LANES]; 3];
    for (to, v) in words.iter_mut().zip([a, b, sums]) {
        simd.store_whole(v, to);
    }
    let [a, b, sums] = words;
    simd.whole(&each_whole(|lane| {
        let bytes = a[lane].to_le_bytes().into_iter().zip(b[lane].to_le_bytes());
        let products = bytes.map(|(a, b)| i32::from(a) * i32::from(b.cast_signed()));
        products.fold(sums[lane], i32::wrapping_add)
    }))
}

/// Both numbers of a pair.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the low half is meant")]
fn both(pair: i32) -> [i32; 2] {
    [i32::from(pair as i16), pair >> 16]
}

impl Simd for Portable {
    type V = [f32; LANES];
    type I = [i32; LANES];
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
    fn sub(self, a: Self::V, b: Self::V) -> Self::V {
        each(|lane| a[lane] - b[lane])
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

    #[inline(always)]
    fn whole(self, from: &[i32; LANES]) -> Self::I {
        *from
    }

    #[inline(always)]
    fn store_whole(self, v: Self::I, to: &mut [i32; LANES]) {
        *to = v;
    }

    #[inline(always)]
    fn word(self, of: i32) -> Self::I {
        [of; LANES]
    }

    #[inline(always)]
    fn dot(self, a: Self::I, b: Self::I, sums: Self::I) -> Self::I {
        each_whole(|lane| {
            let ([a, c], [b, d]) = (both(a[lane]), both(b[lane]));
            sums[lane].wrapping_add(a * b).wrapping_add(c * d)
        })
    }

    #[inline(always)]
    #[expect(clippy::cast_precision_loss, reason = "the nearest float is meant")]
    fn floats(self, v: Self::I) -> Self::V {
        each(|lane| v[lane] as f32)
    }

    #[inline(always)]
    fn round(self, v: Self::V, add: i32) -> Self::I {
        // The low bits of a sum with 1.5 * 2^23 are those of the other number, rounded.
        each_whole(|lane| {
            let bits = (v[lane] + 12_582_912.0).to_bits().cast_signed();
            bits.wrapping_sub(0x4b40_0000).wrapping_add(add)
        })
    }

    #[inline(always)]
    fn halves(self, from: &[F16; LANES]) -> Self::V {
        each(|lane| from[lane].to_f32())
    }

    #[inline(always)]
    fn store_halves(self, v: Self::V, to: &mut [F16; LANES]) {
        for (to, x) in to.iter_mut().zip(v) {
            *to = F16::from_f32(x);
        }
    }

    #[inline(always)]
    fn store_bytes(self, v: Self::I, to: &mut [u8; LANES]) {
        for (to, x) in to.iter_mut().zip(v) {
            *to = x.to_le_bytes()[0];
        }
    }
}
