//! Compress and ReverseSequence: slices that a condition picks; slices in the other order.

use crate::DataType;
use crate::ops::{Imported, Node, Op, OpEntry, OpError, always, axis};
use crate::params::{ParamReader, ParamWriter};
use crate::shape::Shape;
use crate::tensor::{Fault, Inputs, Output, TensorInfo, element_size};

/// The line of Compress.
pub static COMPRESS: OpEntry = OpEntry {
    name: "Compress",
    code: 147,
    versions: &[9, 11, 28],
    attributes: &[always("axis")],
    inputs: (2, 2),
    refused: "a `condition` that is computed from data",
    import: compress,
    decode: |from| {
        let axis = if from.flag()? { Some(from.size()?) } else { None };
        let count = from.size()?;
        let mut picked = Vec::new();
        for _ in 0..count {
            picked.push(from.size()?);
        }
        Ok(Box::new(Compress { axis, picked }))
    },
    ..OpEntry::MOVES
};

/// Some slices along an axis, or some elements.
#[derive(Clone, Debug)]
pub struct Compress {
    axis: Option<usize>,
    picked: Vec<usize>,
}

fn compress(node: &Node<'_>) -> Result<Imported, OpError> {
    let known = node.input(1)?;
    if known.info.dtype != DataType::BOOL || known.info.shape.rank() != 1 {
        return Err(OpError::types(1, known.info.dtype, &[DataType::BOOL]));
    }
    let bytes = known.value.ok_or(OpError::NotConstant { input: 1, name: "condition" })?;
    let rank = node.input(0)?.info.shape.rank();
    let axis = node.int("axis")?.map(|given| axis("axis", given, rank)).transpose()?;
    let picked = bytes.iter().enumerate().filter(|(_, own)| **own != 0);
    let picked = picked.map(|(index, _)| index).collect();
    Ok(Imported::first(Compress { axis, picked }))
}

impl Compress {
    /// Elements before, along and behind the axis.
    fn parts(&self, shape: &Shape) -> Option<(usize, usize, usize)> {
        let Some(axis) = self.axis else { return Some((1, shape.elements(), 1)) };
        let (outer, rest) = shape.dims().split_at_checked(axis)?;
        let (dim, inner) = rest.split_first()?;
        Some((outer.iter().product(), *dim, inner.iter().product()))
    }
}

impl Op for Compress {
    fn code(&self) -> u16 {
        const { COMPRESS.code }
    }

    fn encode(&self, into: &mut ParamWriter) {
        into.flag(self.axis.is_some());
        self.axis.iter().for_each(|axis| into.size(*axis));
        into.size(self.picked.len());
        into.sizes(&self.picked);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let shape = inputs[0].shape;
        let refuse =
            || OpError::shape(format!("{:?} of {shape} along {:?}", self.picked, self.axis));
        let (_, length, _) = self.parts(&shape).ok_or_else(refuse)?;
        if self.picked.iter().any(|index| *index >= length) {
            return Err(refuse());
        }
        let mut dims = shape.dims().to_vec();
        match self.axis {
            Some(axis) => dims[axis] = self.picked.len(),
            None => dims = vec![self.picked.len()],
        }
        Ok(TensorInfo::new(inputs[0].dtype, Shape::new(&dims)?))
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let size = element_size(output.info.dtype).ok_or(Fault::Type(output.info.dtype))?;
        let (_, length, inner) = self.parts(&inputs.info(0).shape).ok_or(Fault::Memory)?;
        let slice = inner * size;
        for (index, to) in output.bytes.chunks_exact_mut(slice).enumerate() {
            let (outer, own) = (index / self.picked.len(), index % self.picked.len());
            let at = (outer * length + self.picked[own]) * slice;
            to.copy_from_slice(&inputs.bytes(0)[at..at + slice]);
        }
        Ok(())
    }
}

/// The line of ReverseSequence.
pub static REVERSE: OpEntry = OpEntry {
    name: "ReverseSequence",
    code: 148,
    versions: &[10, 28],
    attributes: &[always("batch_axis"), always("time_axis")],
    inputs: (2, 2),
    operands: (2, 2),
    mixed: &[(1, &[DataType::INT64])],
    import: |node| {
        let (batch, time) =
            (node.int("batch_axis")?.unwrap_or(1), node.int("time_axis")?.unwrap_or(0));
        if (batch, time) != (0, 1) && (batch, time) != (1, 0) {
            return Err(OpError::attribute("time_axis", time, "0 and 1, each once"));
        }
        Ok(Imported::all(Reverse { batch_first: batch == 0 }, node))
    },
    decode: |from: &mut ParamReader<'_>| Ok(Box::new(Reverse { batch_first: from.flag()? })),
    ..OpEntry::MOVES
};

/// The first slices of each batch in the other order; how many is said for each.
#[derive(Clone, Copy, Debug)]
pub struct Reverse {
    batch_first: bool,
}

impl Op for Reverse {
    fn code(&self) -> u16 {
        const { REVERSE.code }
    }

    fn encode(&self, into: &mut ParamWriter) {
        into.flag(self.batch_first);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let (x, lengths) = (inputs[0].shape, inputs[1].shape);
        let batches = x.dims().get(usize::from(!self.batch_first));
        if x.rank() < 2 || batches.map(std::slice::from_ref) != Some(lengths.dims()) {
            return Err(OpError::shape(format!("lengths {lengths} for {x}")));
        }
        Ok(inputs[0])
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let size = element_size(output.info.dtype).ok_or(Fault::Type(output.info.dtype))?;
        let (dims, lengths) = (inputs.dims(0), inputs.elements::<i64>(1)?);
        let slice = dims[2..].iter().product::<usize>() * size;
        for (index, to) in output.bytes.chunks_exact_mut(slice).enumerate() {
            let (first, second) = (index / dims[1], index % dims[1]);
            let (batch, time) = if self.batch_first { (first, second) } else { (second, first) };
            let steps = dims[usize::from(self.batch_first)];
            let length = usize::try_from(lengths[batch]).unwrap_or(0).min(steps);
            let from = if time < length { length - 1 - time } else { time };
            let (first, second) = if self.batch_first { (batch, from) } else { (from, batch) };
            let at = (first * dims[1] + second) * slice;
            to.copy_from_slice(&inputs.bytes(0)[at..at + slice]);
        }
        Ok(())
    }
}
