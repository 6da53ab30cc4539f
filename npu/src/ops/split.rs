//! Split: a tensor cut along an axis into several.

use crate::ops::{Imported, Node, Op, OpEntry, OpError, always, axis, before, since, types};
use crate::params::{ParamReader, ParamWriter};
use crate::shape::Shape;
use crate::tensor::{Fault, Inputs, OUTPUTS_MAX, Output, TensorInfo, element_size};

/// The line of the table.
pub static ENTRY: OpEntry = OpEntry {
    name: "Split",
    code: 21,
    versions: &[1, 2, 11, 13, 18],
    attributes: &[always("axis"), before("split", 13), since("num_outputs", 18)],
    inputs: (1, 2),
    outputs: OUTPUTS_MAX,
    operands: (1, 1),
    types: &types::all(2),
    refused: "a `split` that is computed from data, more than 32 outputs",
    import,
    decode,
    ..OpEntry::MOVES
};

/// A tensor in parts.
#[derive(Clone, Debug)]
pub struct Split {
    axis: usize,
    /// Length of each part; one at least.
    parts: Vec<usize>,
}

fn import(node: &Node<'_>) -> Result<Imported, OpError> {
    let shape = node.input(0)?.info.shape;
    let axis = axis("axis", node.int("axis")?.unwrap_or(0), shape.rank())?;
    let dim = shape.dims()[axis];
    let given = match node.ints("split")? {
        Some(given) => Some(given.to_vec()),
        None if node.has(1) => Some(node.integers(1, "split")?),
        None => None,
    };
    let parts: Vec<usize> = if let Some(given) = given {
        let sizes = given.iter().map(|part| usize::try_from(*part).unwrap_or(usize::MAX));
        let sizes: Vec<usize> = sizes.collect();
        let sum = sizes.iter().fold(0usize, |sum, part| sum.saturating_add(*part));
        if sum != dim || sizes.len() != node.outputs {
            let outputs = node.outputs;
            let supported = format!("{outputs} parts of {dim}, one an output");
            return Err(OpError::attribute("split", format!("{given:?}"), supported));
        }
        sizes
    } else {
        let count = node.outputs;
        if let Some(wanted) = node.int("num_outputs")?
            && usize::try_from(wanted) != Ok(count)
        {
            let supported = format!("{count}, as many as there are outputs");
            return Err(OpError::attribute("num_outputs", wanted, supported));
        }
        if node.opset < 18 && !dim.is_multiple_of(count) {
            return Err(OpError::shape(format!("{dim} elements in {count} equal parts")));
        }
        let each = dim.div_ceil(count);
        (0..count).map(|part| each.min(dim.saturating_sub(part * each))).collect()
    };
    Ok(Imported::first(Split { axis, parts }))
}

fn decode(from: &mut ParamReader<'_>) -> Result<Box<dyn Op>, OpError> {
    let [axis, count] = from.sizes()?;
    if !(1..=OUTPUTS_MAX).contains(&count) {
        return Err(OpError::params(format!("{count} parts; 1 to {OUTPUTS_MAX} are supported")));
    }
    let parts = (0..count).map(|_| from.size()).collect::<Result<_, _>>()?;
    Ok(Box::new(Split { axis, parts }))
}

impl Split {
    fn part(&self, input: &TensorInfo, length: usize) -> Result<TensorInfo, OpError> {
        let mut dims = input.shape.dims().to_vec();
        let sum = self.parts.iter().fold(0usize, |sum, part| sum.saturating_add(*part));
        match dims.get_mut(self.axis) {
            Some(dim) if *dim == sum => *dim = length,
            _ => {
                let (shape, axis, parts) = (input.shape, self.axis, &self.parts);
                return Err(OpError::shape(format!("{shape} in {parts:?} along axis {axis}")));
            }
        }
        Ok(TensorInfo::new(input.dtype, Shape::new(&dims)?))
    }
}

impl Op for Split {
    fn code(&self) -> u16 {
        const { ENTRY.code }
    }

    fn encode(&self, into: &mut ParamWriter) {
        into.sizes(&[self.axis, self.parts.len()]);
        into.sizes(&self.parts);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        self.part(&inputs[0], self.parts[0])
    }

    fn further(&self, inputs: &[TensorInfo]) -> Result<Vec<TensorInfo>, OpError> {
        self.parts[1..].iter().map(|length| self.part(&inputs[0], *length)).collect()
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let size = element_size(output.info.dtype).ok_or(Fault::Type(output.info.dtype))?;
        let dims = inputs.dims(0);
        let inner = dims[self.axis + 1..].iter().product::<usize>() * size;
        let row = dims[self.axis] * inner;
        let mut at = 0;
        for (index, part) in self.parts.iter().enumerate() {
            let length = part * inner;
            let to = match index {
                0 => &mut *output.bytes,
                _ => output.further::<u8>(index - 1)?.ok_or(Fault::Memory)?,
            };
            if length > 0 {
                let rows = inputs.bytes(0).chunks_exact(row);
                for (to, from) in to.chunks_exact_mut(length).zip(rows) {
                    to.copy_from_slice(&from[at..at + length]);
                }
            }
            at += length;
        }
        Ok(())
    }

    fn flops(&self, _inputs: &[TensorInfo], _output: &TensorInfo) -> u64 {
        0
    }
}
