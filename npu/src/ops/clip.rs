//! Clip: each element within bounds, which are attributes or, from opset 11 on, inputs.

use crate::element::{Element, with_element};
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
    fn compute<T: Element>(
        &self,
        inputs: &dyn Inputs,
        output: &mut Output<'_>,
    ) -> Result<(), Fault> {
        let mut next = 1;
        let mut value = |bound: Bound, none: T| -> Result<T, Fault> {
            match bound {
                Bound::None => Ok(none),
                Bound::Given(given) => Ok(T::of_f64(f64::from(given))),
                Bound::Operand => {
                    next += 1;
                    inputs.elements::<T>(next - 1)?.first().copied().ok_or(Fault::Memory)
                }
            }
        };
        let (low, high) = (value(self.low, T::LOWEST)?, value(self.high, T::HIGHEST)?);
        let pairs = output.elements::<T>()?.iter_mut().zip(inputs.elements::<T>(0)?);
        for (to, x) in pairs {
            let above = if *x < low { low } else { *x };
            *to = if above > high { high } else { above };
        }
        Ok(())
    }
}

impl Op for Clip {
    fn entry(&self) -> &'static OpEntry {
        &ENTRY
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
        with_element!(output.info.dtype, T => self.compute::<T>(inputs, output))
    }

    fn flops(&self, _inputs: &[TensorInfo], output: &TensorInfo) -> u64 {
        output.shape.elements() as u64
    }
}
