//! Functions of one element: the ops Relu, HardSigmoid and HardSwish, and what a Conv applies to
//! its result when the compiler has fused one into it.

use std::fmt;

use crate::isa::{LANES, Simd};
use crate::ops::{Op, OpEntry, OpError};
use crate::params::{ParamReader, ParamWriter};
use crate::team;
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

/// An op that is nothing but a function of one element. Its line has one input and its float kernel
/// is the function's.
pub trait Elementwise: fmt::Debug + Send + Sync + 'static {
    /// The line of the table.
    const ENTRY: &'static OpEntry;

    /// The function.
    fn function(&self) -> Activation;

    /// As [`Op::encode`].
    fn encode(&self, _into: &mut ParamWriter) {}

    /// As [`Op::run`]; an op of other types than float32 has kernels for them.
    ///
    /// # Errors
    /// As [`Op::run`].
    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        self.function().run(inputs, output)
    }
}

impl<E: Elementwise> Op for E {
    fn code(&self) -> u16 {
        const { E::ENTRY.code }
    }

    fn encode(&self, into: &mut ParamWriter) {
        Elementwise::encode(self, into);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        Ok(inputs[0])
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        Elementwise::run(self, inputs, output)
    }

    fn flops(&self, _inputs: &[TensorInfo], output: &TensorInfo) -> u64 {
        self.function().flops() * output.shape.elements() as u64
    }

    fn activation(&self) -> Option<Activation> {
        Some(self.function())
    }
}

/// A function of one element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Activation {
    /// The element itself.
    None,
    /// max(0, x).
    Relu,
    /// max(0, min(1, alpha * x + beta)).
    HardSigmoid {
        /// Slope.
        alpha: f32,
        /// Offset.
        beta: f32,
    },
    /// x * max(0, min(1, x / 6 + 0.5)).
    HardSwish,
    /// The same times a factor, plus an offset.
    ScaledHardSwish {
        /// Factor.
        factor: f32,
        /// Offset.
        offset: f32,
    },
}

impl Activation {
    /// The value for `x`.
    #[inline(always)]
    #[must_use]
    pub fn of(self, x: f32) -> f32 {
        match self {
            Self::None => x,
            Self::Relu => relu(x),
            Self::HardSigmoid { alpha, beta } => hard_sigmoid(x, alpha, beta),
            Self::HardSwish => hard_swish(x),
            Self::ScaledHardSwish { factor, offset } => factor * hard_swish(x) + offset,
        }
    }

    /// Replaces each value by the function's.
    #[inline(always)]
    pub fn apply(self, values: &mut [f32]) {
        match self {
            Self::None => {}
            Self::Relu => values.iter_mut().for_each(|x| *x = relu(*x)),
            Self::HardSigmoid { alpha, beta } => {
                values.iter_mut().for_each(|x| *x = hard_sigmoid(*x, alpha, beta));
            }
            Self::HardSwish => values.iter_mut().for_each(|x| *x = hard_swish(*x)),
            Self::ScaledHardSwish { factor, offset } => {
                values.iter_mut().for_each(|x| *x = factor * hard_swish(*x) + offset);
            }
        }
    }

    /// The values for a vector.
    #[inline(always)]
    pub(crate) fn of_vector<S: Simd>(self, simd: S, x: S::V) -> S::V {
        match self {
            Self::None => x,
            Self::Relu => simd.max(simd.splat(0.0), x),
            Self::HardSigmoid { alpha, beta } => {
                unit_vector(simd, simd.mul_add(simd.splat(alpha), x, simd.splat(beta)))
            }
            Self::HardSwish => hard_swish_vector(simd, x),
            Self::ScaledHardSwish { factor, offset } => {
                let own = hard_swish_vector(simd, x);
                simd.mul_add(own, simd.splat(factor), simd.splat(offset))
            }
        }
    }

    /// Replaces each value by the function's.
    #[inline(always)]
    pub(crate) fn apply_vectors<S: Simd>(self, simd: S, values: &mut [[f32; LANES]]) {
        if self != Self::None {
            for value in values {
                simd.store(self.of_vector(simd, simd.load(value)), value);
            }
        }
    }

    /// This function, then a factor, then an offset, as one.
    #[must_use]
    pub fn scaled(self, scale: f32, add: f32) -> Option<Self> {
        let (factor, offset) = match self {
            Self::HardSwish => (scale, add),
            Self::ScaledHardSwish { factor, offset } => (factor * scale, offset * scale + add),
            _ => return None,
        };
        Some(Self::ScaledHardSwish { factor, offset })
    }

    /// Floating-point operations an element.
    #[must_use]
    pub fn flops(self) -> u64 {
        match self {
            Self::None => 0,
            Self::Relu => 1,
            Self::HardSigmoid { .. } => 4,
            Self::HardSwish => 5,
            Self::ScaledHardSwish { .. } => 7,
        }
    }

    /// Name as in the model; empty for none.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Relu => "Relu",
            Self::HardSigmoid { .. } => "HardSigmoid",
            Self::HardSwish => "HardSwish",
            Self::ScaledHardSwish { .. } => "ScaledHardSwish",
        }
    }

    /// The kernel of an op that is nothing but this function.
    pub(crate) fn run(self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let (x, team) = (inputs.elements::<f32>(0)?, output.team);
        team::deal(team, output.elements::<f32>()?, (1, team::moved(1)), |first, to| {
            to.copy_from_slice(&x[first..][..to.len()]);
            self.apply(to);
        });
        Ok(())
    }

    pub(crate) fn encode(self, into: &mut ParamWriter) {
        let (kind, alpha, beta) = match self {
            Self::None => (0, 0.0, 0.0),
            Self::Relu => (1, 0.0, 0.0),
            Self::HardSigmoid { alpha, beta } => (2, alpha, beta),
            Self::HardSwish => (3, 0.0, 0.0),
            Self::ScaledHardSwish { factor, offset } => (4, factor, offset),
        };
        into.u32(kind);
        into.f32(alpha);
        into.f32(beta);
    }

    pub(crate) fn decode(from: &mut ParamReader<'_>) -> Result<Self, OpError> {
        let (kind, alpha, beta) = (from.u32()?, from.f32()?, from.f32()?);
        match kind {
            0 => Ok(Self::None),
            1 => Ok(Self::Relu),
            2 => Ok(Self::HardSigmoid { alpha, beta }),
            3 => Ok(Self::HardSwish),
            4 => Ok(Self::ScaledHardSwish { factor: alpha, offset: beta }),
            _ => Err(OpError::params(format!("activation {kind}; expected 0 to 4"))),
        }
    }
}

// A NaN stays one: it must not look like a result. `f32::max` would drop it.
#[inline(always)]
fn relu(x: f32) -> f32 {
    if x < 0.0 { 0.0 } else { x }
}

#[inline(always)]
fn unit(x: f32) -> f32 {
    x.clamp(0.0, 1.0)
}

#[inline(always)]
fn hard_sigmoid(x: f32, alpha: f32, beta: f32) -> f32 {
    unit(alpha * x + beta)
}

#[inline(always)]
fn hard_swish(x: f32) -> f32 {
    x * unit(x * (1.0 / 6.0) + 0.5)
}

#[inline(always)]
fn unit_vector<S: Simd>(simd: S, x: S::V) -> S::V {
    // The operand order keeps a NaN.
    simd.min(simd.splat(1.0), simd.max(simd.splat(0.0), x))
}

#[inline(always)]
fn hard_swish_vector<S: Simd>(simd: S, x: S::V) -> S::V {
    let part = simd.mul_add(x, simd.splat(1.0 / 6.0), simd.splat(0.5));
    simd.mul(x, unit_vector(simd, part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::{self, Isa, Routine};
    use crate::ops::testing::noise;

    const ALL: [Activation; 5] = [
        Activation::None,
        Activation::Relu,
        Activation::HardSigmoid { alpha: 0.2, beta: 0.5 },
        Activation::HardSwish,
        Activation::ScaledHardSwish { factor: 1.5, offset: -0.25 },
    ];

    #[test]
    fn values_on_both_sides_of_each_bend() {
        let [none, relu, sigmoid, swish, scaled] = ALL;
        assert_eq!((none.of(-1.0), relu.of(-1.0), relu.of(2.0)), (-1.0, 0.0, 2.0));
        assert_eq!((sigmoid.of(-3.0), sigmoid.of(0.0), sigmoid.of(3.0)), (0.0, 0.5, 1.0));
        assert_eq!((swish.of(-3.0), swish.of(0.0), swish.of(4.0)), (0.0, 0.0, 4.0));
        assert!((swish.of(1.0) - 2.0 / 3.0).abs() < 1e-6);
        assert!((scaled.of(1.0) - 0.75).abs() < 1e-6);
    }

    #[test]
    fn a_nan_stays_one() {
        assert!(ALL.iter().all(|activation| activation.of(f32::NAN).is_nan()));
    }

    #[test]
    fn slices_get_the_same_values() {
        for activation in ALL {
            let mut values = [-4.0, -0.5, 0.0, 0.25, 8.0];
            let expected = values.map(|x| activation.of(x));
            activation.apply(&mut values);
            assert_eq!(values, expected);
        }
    }

    struct Vectors<'a> {
        activation: Activation,
        values: &'a mut [f32; LANES],
    }

    impl Routine for Vectors<'_> {
        #[inline(always)]
        fn run<S: Simd>(self, simd: S) {
            let x = simd.load(self.values);
            simd.store(self.activation.of_vector(simd, x), self.values);
        }
    }

    #[test]
    fn vectors_get_the_same_values_on_every_isa() {
        for (activation, isa) in ALL.into_iter().flat_map(|own| Isa::ALL.map(|isa| (own, isa))) {
            let mut values = [f32::NAN; LANES];
            values[1..].copy_from_slice(&noise(LANES - 1, 4));
            values[1..].iter_mut().for_each(|value| *value *= 8.0);
            let expected = values.map(|x| activation.of(x));
            isa::at_most(isa, || isa::run(Vectors { activation, values: &mut values }));
            for (found, expected) in values.iter().zip(expected) {
                let close = (found - expected).abs() <= 1e-6 * expected.abs().max(1.0);
                assert!(close || (found.is_nan() && expected.is_nan()), "{found}, {expected}");
            }
        }
    }

    #[test]
    fn bytes_round_trip_and_an_unknown_one_is_refused() {
        for activation in ALL {
            let mut writer = ParamWriter::default();
            activation.encode(&mut writer);
            let bytes = writer.into_bytes();
            assert_eq!(Activation::decode(&mut ParamReader::new(&bytes)), Ok(activation));
        }
        let error = Activation::decode(&mut ParamReader::new(&[9; 12])).unwrap_err();
        assert!(error.to_string().contains("expected 0 to 4"), "{error}");
    }
}
