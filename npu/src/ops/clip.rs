//! Clip: each element within bounds, which are attributes or, from opset 11 on, inputs.

use crate::DataType;
use crate::element::Element;
use crate::numbers::{Wide, with_wide};
use crate::ops::unary::each;
use crate::ops::{Imported, Node, Op, OpEntry, OpError, before, types};
use crate::params::{ParamReader, ParamWriter};
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

/// The line of the table.
pub static ENTRY: OpEntry = OpEntry {
    name: "Clip",
    code: 87,
    versions: &[1, 6, 11, 12, 13],
    attributes: &[before("min", 11), before("max", 11), before("consumed_inputs", 6)],
    inputs: (1, 3),
    operands: (1, 3),
    types: &types::numbers(12, 12, 13),
    import,
    decode,
    ..OpEntry::BASE
};

/// A bound.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Bound {
    None,
    Given(f32),
    /// The next operand.
    Operand,
}

/// Each element within bounds; the upper one counts when it is below the lower.
#[derive(Clone, Copy, Debug)]
pub struct Clip {
    low: Bound,
    high: Bound,
}

fn import(node: &Node<'_>) -> Result<Imported, OpError> {
    let bound = |name: &str, index: usize| -> Result<Bound, OpError> {
        Ok(match (node.find_float(name)?, node.has(index)) {
            (Some(given), _) => Bound::Given(given),
            (None, true) => Bound::Operand,
            (None, false) => Bound::None,
        })
    };
    if node.opset < 11 && node.inputs.len() > 1 {
        let (found, supported) = (node.inputs.len(), "1".to_owned());
        return Err(OpError::Count { what: "inputs", found, supported });
    }
    let (low, high) = (bound("min", 1)?, bound("max", 2)?);
    Ok(Imported::all(Clip { low, high }, node))
}

fn decode(from: &mut ParamReader<'_>) -> Result<Box<dyn Op>, OpError> {
    let mut bound = || match (from.u32()?, from.f32()?) {
        (0, _) => Ok(Bound::None),
        (1, given) => Ok(Bound::Given(given)),
        (2, _) => Ok(Bound::Operand),
        (kind, _) => Err(OpError::params(format!("bound {kind}; expected 0 to 2"))),
    };
    Ok(Box::new(Clip { low: bound()?, high: bound()? }))
}

impl Clip {
    /// With these bounds.
    #[must_use]
    pub fn given(low: f32, high: f32) -> Self {
        Self { low: Bound::Given(low), high: Bound::Given(high) }
    }

    /// The bounds, where each is known; `of` knows some operands.
    #[must_use]
    pub fn known_bounds(&self, of: impl Fn(usize) -> Option<f32>) -> Option<(f32, f32)> {
        let mut next = 1;
        let mut value = |bound: Bound, none: f32| match bound {
            Bound::None => Some(none),
            Bound::Given(given) => Some(given),
            Bound::Operand => {
                next += 1;
                of(next - 1)
            }
        };
        let low = value(self.low, f32::NEG_INFINITY)?;
        Some((low, value(self.high, f32::INFINITY)?))
    }

    /// The bounds.
    fn bounds<W: Wide>(&self, dtype: DataType, inputs: &dyn Inputs) -> Result<(W, W), Fault> {
        let mut next = 1;
        let mut value = |bound: Bound, none: W| -> Result<W, Fault> {
            match bound {
                Bound::None => Ok(none),
                Bound::Given(given) => Ok(W::of_f64(f64::from(given))),
                Bound::Operand => {
                    next += 1;
                    Ok(inputs.numbers::<W>(next - 1)?.get(0))
                }
            }
        };
        let (low, high) = W::ends(dtype);
        Ok((value(self.low, low)?, value(self.high, high)?))
    }
}

/// A NaN stays one.
#[inline(always)]
fn within<T: Element>(x: T, low: T, high: T) -> T {
    let above = if x < low { low } else { x };
    if above > high { high } else { above }
}

impl Op for Clip {
    fn code(&self) -> u16 {
        const { ENTRY.code }
    }

    fn encode(&self, into: &mut ParamWriter) {
        for bound in [self.low, self.high] {
            let (kind, given) = match bound {
                Bound::None => (0, 0.0),
                Bound::Given(given) => (1, given),
                Bound::Operand => (2, 0.0),
            };
            into.u32(kind);
            into.f32(given);
        }
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let bounds = [self.low, self.high].iter().filter(|own| **own == Bound::Operand).count();
        if inputs.len() != 1 + bounds {
            let supported = (1 + bounds).to_string();
            return Err(OpError::Count { what: "operands", found: inputs.len(), supported });
        }
        if let Some(bound) = inputs[1..].iter().find(|bound| bound.shape.elements() != 1) {
            return Err(OpError::shape(format!("a bound is {}; expected one number", bound.shape)));
        }
        Ok(inputs[0])
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        if output.info.dtype == DataType::FLOAT {
            let (low, high) = self.bounds::<f64>(DataType::FLOAT, inputs)?;
            let (low, high) = (f32::of_f64(low), f32::of_f64(high));
            let pairs = output.elements::<f32>()?.iter_mut().zip(inputs.elements::<f32>(0)?);
            pairs.for_each(|(to, x)| *to = within(*x, low, high));
            return Ok(());
        }
        with_wide!(output.info.dtype, W => {
            let (low, high) = self.bounds::<W>(output.info.dtype, inputs)?;
            each::<W>(inputs, output, &|x| within(x, low, high))
        })
    }

    fn flops(&self, _inputs: &[TensorInfo], output: &TensorInfo) -> u64 {
        output.shape.elements() as u64
    }

    fn is_elementwise(&self) -> bool {
        ![self.low, self.high].contains(&Bound::Operand)
    }
}
