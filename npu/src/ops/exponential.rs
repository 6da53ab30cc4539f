//! Exponentials, logarithms, roots, and what is made of them.

use crate::element::Real;
use crate::isa::{self, Routine, Simd};
use crate::ops::gelu::erf;
use crate::ops::unary::{Unary, functions};
use crate::ops::{AttributeSpec, OpEntry, always, before, types};

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
pub(super) struct Mapped<'a, F> {
    pub(super) x: &'a [f32],
    pub(super) to: &'a mut [f32],
    pub(super) function: F,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::Isa;

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
    fn a_sigmoid_far_below_is_nothing_on_every_isa() {
        let x = [-88.8, -100.0, -1e30, f32::MIN, f32::NEG_INFINITY];
        for isa in Isa::ALL {
            let mut found = [7.0; 5];
            isa::at_most(isa, || logistic(&x, &mut found, 1.0, false));
            assert_eq!(found, [0.0; 5], "{isa:?}");
        }
    }

    #[test]
    fn softplus_does_not_overflow() {
        assert!((softplus(1000f32) - 1000.0).abs() < 1e-3);
        assert_eq!(softplus(-1000f32), 0.0);
        assert!(softplus(f32::NAN).is_nan());
    }
}
