//! Gelu and the error function behind it.
//!
//! In vectors, with `r` as one minus the error function of `|x| / sqrt(2)`:
//! `max(x, 0) - |x| * r / 2` needs no case; and `x / (1 + exp(-2 u))` where `(1 + tanh(u)) / 2` is
//! the share.

use crate::element::Real;
use crate::isa::{self, Simd};
use crate::ops::exponential::Mapped;
use crate::ops::unary::{Floats, Function, Unary};
use crate::ops::{Imported, OpEntry, OpError, always, types};

/// The line of Gelu.
pub static GELU: OpEntry = OpEntry {
    import: |node| {
        let tanh = match node.text("approximate")? {
            None | Some("none") => false,
            Some("tanh") => true,
            Some(other) => return Err(OpError::attribute("approximate", other, "none, tanh")),
        };
        Ok(Imported::first(Gelu::op(tanh)))
    },
    ..Unary::<Gelu>::entry("Gelu", 51, &[20], &types::floats(20), &[always("approximate")])
};

/// x times the share of a normal distribution below x; or nearly so (`tanh`).
#[derive(Clone, Copy, Debug)]
pub struct Gelu;

impl Gelu {
    /// The op, exact or `nearly` so.
    #[must_use]
    pub fn op(nearly: bool) -> Unary<Gelu> {
        Unary::<Gelu>::new([if nearly { 1.0 } else { 0.0 }, 0.0])
    }
}

impl Function for Gelu {
    const ENTRY: &'static OpEntry = &GELU;
    const PARAMETERS: &'static [(&'static str, f32)] = &[];

    const FLOATS: Option<Floats> = Some(|x, to, [tanh, _]| {
        if tanh == 0.0 {
            isa::run(Mapped { x, to, function: Exact });
        } else {
            isa::run(Mapped { x, to, function: Nearly });
        }
    });

    #[inline(always)]
    fn of<R: Real>(x: R, [tanh, _]: [R; 2]) -> R {
        let share = if tanh == R::ZERO {
            erf(x * R::c(std::f64::consts::FRAC_1_SQRT_2))
        } else {
            let inner = x + R::c(0.044_715) * x * x * x;
            (R::c((2.0 / std::f64::consts::PI).sqrt()) * inner).tanh()
        };
        R::c(0.5) * x * (R::c(1.0) + share)
    }
}

/// Farther from 0 the share is 0 or 1; an infinity would make a NaN of it.
const FAR: f32 = 100.0;

/// Vectors of the exact one.
#[derive(Clone, Copy)]
struct Exact;

impl isa::Function for Exact {
    #[inline(always)]
    fn of<S: Simd>(self, simd: S, x: S::V) -> S::V {
        // The operand order keeps a NaN.
        let size = simd.max(simd.mul(x, simd.splat(-1.0)), x);
        let size = simd.min(simd.splat(FAR), size);
        let z = simd.mul(size, simd.splat(std::f32::consts::FRAC_1_SQRT_2));
        let one = simd.splat(1.0);
        let t = simd.div(one, simd.mul_add(z, simd.splat(0.5), one));
        let mut sum = simd.splat(0.0);
        for term in REST.iter().rev() {
            #[expect(clippy::cast_possible_truncation, reason = "a constant with nine digits")]
            let term = simd.splat(*term as f32);
            sum = simd.mul_add(sum, t, term);
        }
        let power = simd.mul_add(simd.mul(z, simd.splat(-1.0)), z, sum);
        let rest = simd.mul(t, isa::exp(simd, power));
        let below = simd.mul(simd.mul(size, simd.splat(-0.5)), rest);
        simd.add(simd.max(simd.splat(0.0), x), below)
    }
}

/// Vectors of the one that is nearly so.
#[derive(Clone, Copy)]
struct Nearly;

impl isa::Function for Nearly {
    #[inline(always)]
    fn of<S: Simd>(self, simd: S, x: S::V) -> S::V {
        let x = simd.max(simd.splat(-FAR), x);
        let cubic = simd.mul_add(simd.mul(simd.mul(x, x), x), simd.splat(0.044_715), x);
        let twice = simd.mul(cubic, simd.splat(-2.0 * 0.797_884_6));
        simd.div(x, simd.add(simd.splat(1.0), isa::exp(simd, twice)))
    }
}

/// Chebyshev's fit of the logarithm of what one minus the error function is a `t`-th of.
const REST: [f64; 10] = [
    -1.265_512_23,
    1.000_023_68,
    0.374_091_96,
    0.096_784_18,
    -0.186_288_06,
    0.278_868_07,
    -1.135_203_98,
    1.488_515_87,
    -0.822_152_23,
    0.170_872_77,
];

/// The error function: its series near 0, else one minus Chebyshev's fit of the rest (Numerical
/// Recipes, 6.2), which is off by 1.2e-7 of the rest at most.
#[inline(always)]
pub(super) fn erf<R: Real>(x: R) -> R {
    const SERIES: [f64; 9] = [
        1.0,
        -1.0 / 3.0,
        0.1,
        -1.0 / 42.0,
        1.0 / 216.0,
        -1.0 / 1320.0,
        1.0 / 9360.0,
        -1.0 / 75_600.0,
        1.0 / 685_440.0,
    ];
    let sum = |terms: &[f64], x: R| terms.iter().rev().fold(R::ZERO, |sum, c| sum * x + R::c(*c));
    let size = x.abs();
    if size < R::c(0.75) {
        return R::c(std::f64::consts::FRAC_2_SQRT_PI) * x * sum(&SERIES, x * x);
    }
    let t = R::c(1.0) / (R::c(1.0) + R::c(0.5) * size);
    let rest = t * (sum(&REST, t) - x * x).exp();
    let own = R::c(1.0) - rest;
    if x < R::ZERO { -own } else { own }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::Isa;

    #[test]
    fn the_error_function_on_both_sides_of_the_seam() {
        let known = [
            (0.0, 0.0),
            (0.1, 0.112_462_916_018_284_9),
            (0.7, 0.677_801_193_837_418_5),
            (0.8, 0.742_100_964_707_660_5),
            (1.0, 0.842_700_792_949_714_9),
            (2.0, 0.995_322_265_018_952_7),
            (6.0, 1.0),
        ];
        for (x, expected) in known {
            assert!((erf(x) - expected).abs() < 2e-7, "{x}: {}", erf(x));
            assert!((erf(-x) + expected).abs() < 2e-7, "-{x}");
        }
        assert!(erf(f64::NAN).is_nan());
    }

    #[test]
    fn gelus_on_every_isa() {
        let ends = [f32::NAN, f32::INFINITY, -1000.0, -0.0, 0.0, 1e-20, -1e-6, 1000.0];
        let values = (-60_i16..60).map(|x| f32::from(x) / 8.0).chain(ends);
        let x: Vec<f32> = values.collect();
        for isa in Isa::ALL {
            for nearly in [0.0, 1.0] {
                let mut found = vec![0.0; x.len()];
                let floats = Gelu::FLOATS.expect("a kernel");
                isa::at_most(isa, || floats(&x, &mut found, [nearly, 0.0]));
                for (x, found) in x.iter().zip(found) {
                    let expected = Gelu::of(f64::from(*x), [f64::from(nearly), 0.0]);
                    let off = (f64::from(found) - expected).abs();
                    let close = off < 4e-7 * expected.abs().max(1.0);
                    let close = close || f64::from(found) == expected;
                    assert!(close || found.is_nan() && x.is_nan(), "{x}: {found}, {expected}");
                }
            }
        }
    }
}
