//! Softmax: exp(x) by its sum. From opset 13 on along one axis; before, over all dims from the axis
//! on, taken together.

use crate::DataType;
use crate::ops::{Imported, Node, Op, OpEntry, OpError, always, axis};
use crate::params::{ParamReader, ParamWriter};
use crate::shape::RANK_MAX;
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

/// The line of the table.
pub static ENTRY: OpEntry = OpEntry {
    name: "Softmax",
    code: 15,
    versions: &[1, 11, 13],
    attributes: &[always("axis")],
    inputs: (1, 1),
    outputs: 1,
    operands: (1, 1),
    types: &[(DataType::FLOAT, 1)],
    mixed: &[],
    refused: "",
    import,
    decode,
};

/// exp(x) by its sum over the dims `from` to `to`.
#[derive(Clone, Copy, Debug)]
pub struct Softmax {
    /// First dim of the sum.
    pub from: usize,
    /// First dim after it.
    pub to: usize,
}

fn import(node: &Node<'_>) -> Result<Imported, OpError> {
    let rank = node.input(0)?.info.shape.rank();
    let default = if node.opset < 13 { 1 } else { -1 };
    let given = node.int("axis")?.unwrap_or(default);
    let end = i64::try_from(rank).unwrap_or(i64::MAX);
    if node.opset < 13 && given == end {
        // Each element on its own, as the old definition has it.
        return Ok(Imported::first(Softmax { from: rank, to: rank }));
    }
    let from = axis("axis", given, rank)?;
    let to = if node.opset < 13 { rank } else { from + 1 };
    Ok(Imported::first(Softmax { from, to }))
}

fn decode(from: &mut ParamReader<'_>) -> Result<Box<dyn Op>, OpError> {
    let [from, to] = from.sizes()?;
    if from > to || to > RANK_MAX {
        return Err(OpError::params(format!("dims {from} to {to}; at most {RANK_MAX} exist")));
    }
    Ok(Box::new(Softmax { from, to }))
}

impl Op for Softmax {
    fn entry(&self) -> &'static OpEntry {
        &ENTRY
    }

    fn encode(&self, into: &mut ParamWriter) {
        into.sizes(&[self.from, self.to]);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        if self.to > inputs[0].shape.rank() {
            let (from, to, shape) = (self.from, self.to, inputs[0].shape);
            return Err(OpError::shape(format!("dims {from} to {to} of {shape}")));
        }
        Ok(inputs[0])
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let dims = inputs.dims(0);
        let count = dims[self.from..self.to].iter().product::<usize>();
        let inner = dims[self.to..].iter().product::<usize>();
        let input = inputs.elements::<f32>(0)?;
        let blocks = output.elements::<f32>()?.chunks_exact_mut(count * inner);
        for (to, from) in blocks.zip(input.chunks_exact(count * inner)) {
            for lane in 0..inner {
                let places = (lane..).step_by(inner).take(count);
                // The greatest is taken off first, so that no exponential overflows.
                let greatest = places.clone().fold(f32::NEG_INFINITY, |max, at| max.max(from[at]));
                let mut sum = 0f32;
                for at in places.clone() {
                    to[at] = (from[at] - greatest).exp();
                    sum += to[at];
                }
                places.for_each(|at| to[at] /= sum);
            }
        }
        Ok(())
    }

    fn flops(&self, _inputs: &[TensorInfo], output: &TensorInfo) -> u64 {
        4 * output.shape.elements() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{Case, assert_close, float};

    #[test]
    fn along_the_last_axis_since_opset_13() {
        let case = Case::new(&ENTRY, 13).input(float(&[2, 2], &[0.0, 0.0, 1000.0, 0.0]));
        assert_close(&case.run(), &float(&[2, 2], &[0.5, 0.5, 1.0, 0.0]), 1e-6);
    }

    #[test]
    fn along_an_axis_in_between() {
        let case = Case::new(&ENTRY, 13).int("axis", -2);
        let case = case.input(float(&[1, 2, 2], &[0.0, 5.0, 0.0, -5.0]));
        let (high, low) = (0.999_954_6, 0.000_045_397_87);
        assert_close(&case.run(), &float(&[1, 2, 2], &[0.5, high, 0.5, low]), 1e-6);
    }

    #[test]
    fn over_all_dims_from_the_axis_on_before() {
        let input = float(&[1, 2, 2], &[0.0; 4]);
        let whole = Case::new(&ENTRY, 11).input(input.clone());
        assert_close(&whole.run(), &float(&[1, 2, 2], &[0.25; 4]), 1e-6);
        let last = Case::new(&ENTRY, 1).int("axis", 2).input(input.clone());
        assert_close(&last.run(), &float(&[1, 2, 2], &[0.5; 4]), 1e-6);
        let none = Case::new(&ENTRY, 1).int("axis", 3).input(input);
        assert_close(&none.run(), &float(&[1, 2, 2], &[1.0; 4]), 1e-6);
    }

    #[test]
    fn an_axis_that_is_not_there_is_refused() {
        let case = Case::new(&ENTRY, 13).int("axis", 2).input(float(&[1, 2], &[0.0; 2]));
        assert!(case.refused().contains("attribute `axis`: 2; supported: -2 to 2 exclusive"));
    }
}
