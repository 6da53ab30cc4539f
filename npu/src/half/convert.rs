//! Many floats of 16 bits as floats of 32 bits, and back: in vectors, with the machine's own
//! instructions where it has them. The values are those of [`super`], bit by bit.

use super::{Bf16, F16};
use crate::isa::{self, LANES, Routine, Simd};

/// A type of 16 bits as vectors read and write it.
pub(crate) trait Half: Copy + Send + Sync + 'static {
    /// Zero.
    const NOTHING: Self;
    /// The values.
    fn load<S: Simd>(simd: S, from: &[Self; LANES]) -> S::V;
    /// Writes the nearest ones.
    fn store<S: Simd>(simd: S, v: S::V, to: &mut [Self; LANES]);
}

impl Half for F16 {
    const NOTHING: Self = Self(0);

    #[inline(always)]
    fn load<S: Simd>(simd: S, from: &[Self; LANES]) -> S::V {
        simd.halves(from)
    }

    #[inline(always)]
    fn store<S: Simd>(simd: S, v: S::V, to: &mut [Self; LANES]) {
        simd.store_halves(v, to);
    }
}

impl Half for Bf16 {
    const NOTHING: Self = Self(0);

    #[inline(always)]
    fn load<S: Simd>(simd: S, from: &[Self; LANES]) -> S::V {
        simd.load(&from.map(Self::to_f32))
    }

    #[inline(always)]
    fn store<S: Simd>(simd: S, v: S::V, to: &mut [Self; LANES]) {
        let mut lanes = [0f32; LANES];
        simd.store(v, &mut lanes);
        *to = lanes.map(Self::from_f32);
    }
}

/// Writes the values of `from`, of which there are as many.
pub(crate) fn widen<H: Half>(from: &[H], to: &mut [f32]) {
    isa::run(Widen { from, to });
}

/// Writes what is nearest to the values of `from`, of which there are as many.
pub(crate) fn narrow<H: Half>(from: &[f32], to: &mut [H]) {
    isa::run(Narrow { from, to });
}

struct Widen<'a, H> {
    from: &'a [H],
    to: &'a mut [f32],
}

impl<H: Half> Routine for Widen<'_, H> {
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let (from, rest) = self.from.as_chunks::<LANES>();
        let (to, to_rest) = self.to.as_chunks_mut::<LANES>();
        for (from, to) in from.iter().zip(to) {
            simd.store(H::load(simd, from), to);
        }
        if !rest.is_empty() {
            let mut last = [H::NOTHING; LANES];
            last[..rest.len()].copy_from_slice(rest);
            simd.store_part(H::load(simd, &last), to_rest);
        }
    }
}

struct Narrow<'a, H> {
    from: &'a [f32],
    to: &'a mut [H],
}

impl<H: Half> Routine for Narrow<'_, H> {
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let (from, rest) = self.from.as_chunks::<LANES>();
        let (to, to_rest) = self.to.as_chunks_mut::<LANES>();
        for (from, to) in from.iter().zip(to) {
            H::store(simd, simd.load(from), to);
        }
        if !rest.is_empty() {
            let mut last = [H::NOTHING; LANES];
            H::store(simd, simd.load_part(rest), &mut last);
            to_rest.copy_from_slice(&last[..to_rest.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::{Isa, at_most};

    /// Floats of every kind: each half, what lies between two, a little beside it, and noise.
    fn floats() -> Vec<f32> {
        let mut own = Vec::new();
        for half in 0..=u16::MAX {
            let values = [F16(half).to_f32(), Bf16(half).to_f32()];
            for bits in values.map(f32::to_bits) {
                let near = [bits, bits ^ 0x1000, bits ^ 0x0fff, bits ^ 0x1001, bits | 0x8000];
                own.extend(near.map(f32::from_bits));
            }
        }
        let mut bits = 12_345u32;
        for _ in 0..1 << 20 {
            bits = bits.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            own.push(f32::from_bits(bits.rotate_left(7)));
        }
        own
    }

    #[test]
    fn every_isa_has_the_bits_of_single_values() {
        let all: Vec<u16> = (0..=u16::MAX).collect();
        let (halves, brains): (Vec<F16>, Vec<Bf16>) =
            (all.iter().map(|x| F16(*x)).collect(), all.iter().map(|x| Bf16(*x)).collect());
        let floats = floats();
        for isa in Isa::ALL {
            let mut wide = vec![0f32; all.len()];
            at_most(isa, || widen(&halves, &mut wide));
            for (found, half) in wide.iter().zip(&halves) {
                assert_eq!(found.to_bits(), half.to_f32().to_bits(), "{isa:?} {half:?}");
            }
            at_most(isa, || widen(&brains, &mut wide));
            for (found, brain) in wide.iter().zip(&brains) {
                assert_eq!(found.to_bits(), brain.to_f32().to_bits(), "{isa:?} {brain:?}");
            }
            let (mut half, mut brain) = (vec![F16(0); floats.len()], vec![Bf16(0); floats.len()]);
            at_most(isa, || narrow(&floats, &mut half));
            at_most(isa, || narrow(&floats, &mut brain));
            for (x, (half, brain)) in floats.iter().zip(half.iter().zip(&brain)) {
                assert_eq!(half.0, F16::from_f32(*x).0, "{isa:?} {:x}", x.to_bits());
                assert_eq!(brain.0, Bf16::from_f32(*x).0, "{isa:?} {:x}", x.to_bits());
            }
        }
    }

    #[test]
    fn every_length() {
        for count in 0..=2 * LANES + 1 {
            let from: Vec<F16> = (0..count).map(|at| F16::from_f32(at as f32)).collect();
            let (mut wide, mut back) = (vec![-1f32; count], vec![F16(7); count]);
            widen(&from, &mut wide);
            narrow(&wide, &mut back);
            assert_eq!(back, from);
        }
    }
}
