//! Exponentials, logarithms, roots, and what is made of them.

use crate::element::Real;
use crate::isa::{self, Routine, Simd};
use crate::ops::unary::{Unary, functions};
use crate::ops::{AttributeSpec, OpEntry, OpError, always, before, types};

/// What elementwise ops had at first.
const CONSUMED: AttributeSpec = before("consumed_inputs", 6);
const ALPHA: AttributeSpec = always("alpha");
const GAMMA: AttributeSpec = always("gamma");

functions! {
    /// e to the power of x.
    EXP Exp = 37, [1, 6, 13], &types::floats(13), [CONSUMED], [], |x, _| x.exp();
    /// The natural logarithm.
    LOG Log = 38, [1, 6, 13], &types::floats(13), [CONSUMED], [], |x, _| x.ln();
    /// The square root.
    SQRT Sqrt = 39, [1, 6, 13], &types::floats(13), [CONSUMED], [], |x, _| x.sqrt();
    /// 1 by x.
    RECIPROCAL Reciprocal = 40, [1, 6, 13], &types::floats(13), [CONSUMED], [],
        |x, _| R::c(1.0) / x;
    /// 1 / (1 + exp(-x)).
    SIGMOID Sigmoid = 41, [1, 6, 13], &types::floats(13), [CONSUMED], [], |x, _| sigmoid(x),
        |x, to, _| logistic(x, to, 1.0, false);
    /// The hyperbolic tangent.
    TANH Tanh = 42, [1, 6, 13], &types::floats(13), [CONSUMED], [], |x, _| x.tanh();
    /// The error function.
    ERF Erf = 43, [9, 13], &types::floats(13), [], [], |x, _| erf(x);
    /// x, or alpha * (exp(x) - 1) below 0.
    ELU Elu = 44, [1, 6, 22], &types::floats(22), [ALPHA, CONSUMED], ["alpha" = 1.0],
        |x, [alpha, _]| if x < R::ZERO { alpha * x.exp_m1() } else { x };
    /// x, or alpha * (exp(x / alpha) - 1) below 0.
    CELU Celu = 45, [12, 28], &types::floats(28), [ALPHA], ["alpha" = 1.0],
        |x, [alpha, _]| if x < R::ZERO { alpha * (x / alpha).exp_m1() } else { x };
    /// ln(1 + exp(x)).
    SOFTPLUS Softplus = 46, [1, 22], &types::floats(22), [], [], |x, _| softplus(x);
    /// x / (1 + |x|).
    SOFTSIGN Softsign = 47, [1, 22], &types::floats(22), [], [], |x, _| x / (R::c(1.0) + x.abs());
    /// x * tanh(ln(1 + exp(x))).
    MISH Mish = 48, [18, 22], &types::floats(22), [], [], |x, _| x * softplus(x).tanh();
    /// x / (1 + exp(-alpha * x)).
    SWISH Swish = 49, [24], &types::floats(24), [ALPHA], ["alpha" = 1.0],
        |x, [alpha, _]| x * sigmoid(alpha * x),
        |x, to, [slope, _]| logistic(x, to, slope, true);
}

/// 1 / (1 + exp(-slope * x)), `times` x or not.
#[derive(Clone, Copy)]
struct Logistic {
    slope: f32,
    times: bool,
}

impl isa::Function for Logistic {
    #[inline(always)]
    fn of<S: Simd>(self, simd: S, x: S::V) -> S::V {
        let one = simd.splat(1.0);
        let part = isa::exp(simd, simd.mul(simd.splat(-self.slope), x));
        simd.div(if self.times { x } else { one }, simd.add(one, part))
    }
}

fn logistic(x: &[f32], to: &mut [f32], slope: f32, times: bool) {
    isa::run(Mapped { x, to, function: Logistic { slope, times } });
}

/// A function of each float of `x`.
struct Mapped<'a, F> {
    x: &'a [f32],
    to: &'a mut [f32],
    function: F,
}

impl<F: isa::Function> Routine for Mapped<'_, F> {
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        isa::map(simd, self.x, self.to, self.function);
    }
}

/// The line of Selu.
pub static SELU: OpEntry = OpEntry {
    import: |node| {
        let newest = node.opset >= 6;
        let alpha = node.float("alpha", if newest { 1.673_263_2 } else { 1.6732 })?;
        let gamma = node.float("gamma", if newest { 1.050_701 } else { 1.0507 })?;
        Ok(crate::ops::Imported::first(Unary::<Selu>::new([alpha, gamma])))
    },
    ..Unary::<Selu>::entry("Selu", 50, &[1, 6, 22], &types::floats(22), &[ALPHA, GAMMA, CONSUMED])
};

/// gamma * x, or gamma * alpha * (exp(x) - 1) below 0.
#[derive(Clone, Copy, Debug)]
pub struct Selu;

impl crate::ops::unary::Function for Selu {
    const ENTRY: &'static OpEntry = &SELU;
    const PARAMETERS: &'static [(&'static str, f32)] = &[];

    #[inline(always)]
    fn of<R: Real>(x: R, [alpha, gamma]: [R; 2]) -> R {
        gamma * if x > R::ZERO { x } else { alpha * x.exp_m1() }
    }
}

/// The line of Gelu.
pub static GELU: OpEntry = OpEntry {
    import: |node| {
        let tanh = match node.text("approximate")? {
            None | Some("none") => 0.0,
            Some("tanh") => 1.0,
            Some(other) => return Err(OpError::attribute("approximate", other, "none, tanh")),
        };
        Ok(crate::ops::Imported::first(Unary::<Gelu>::new([tanh, 0.0])))
    },
    ..Unary::<Gelu>::entry("Gelu", 51, &[20], &types::floats(20), &[always("approximate")])
};

/// x times the share of a normal distribution below x; or nearly so (`tanh`).
#[derive(Clone, Copy, Debug)]
pub struct Gelu;

impl crate::ops::unary::Function for Gelu {
    const ENTRY: &'static OpEntry = &GELU;
    const PARAMETERS: &'static [(&'static str, f32)] = &[];

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

/// 1 / (1 + exp(-x)).
#[inline(always)]
pub(super) fn sigmoid<R: Real>(x: R) -> R {
    R::c(1.0) / (R::c(1.0) + (-x).exp())
}

/// ln(1 + exp(x)), without an exponential that overflows.
#[inline(always)]
pub(super) fn softplus<R: Real>(x: R) -> R {
    x.most(R::ZERO) + (-x.abs()).exp().ln_1p()
}

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
    fn sigmoids_and_swishes_on_every_isa() {
        let values = [f32::NAN, f32::NEG_INFINITY, -200.0, -3.0, -0.5, 0.0, 0.25, 4.0, 200.0];
        let x: Vec<f32> = values.into_iter().cycle().take(41).collect();
        for (isa, slope) in Isa::ALL.into_iter().zip([1.0, 0.5, 2.0]) {
            for times in [false, true] {
                let mut found = vec![0.0; x.len()];
                isa::at_most(isa, || logistic(&x, &mut found, slope, times));
                for (x, found) in x.iter().zip(found) {
                    let expected = sigmoid(slope * x) * if times { *x } else { 1.0 };
                    let close = (found - expected).abs() < 1e-6 || (found - expected).is_nan();
                    assert!(close && found.is_nan() >= x.is_nan(), "{x}: {found}, {expected}");
                }
            }
        }
    }

    #[test]
    fn softplus_does_not_overflow() {
        assert!((softplus(1000f32) - 1000.0).abs() < 1e-3);
        assert_eq!(softplus(-1000f32), 0.0);
        assert!(softplus(f32::NAN).is_nan());
    }
}
