//! Expand: a tensor repeated so that it has another shape, by numpy's rule.

use crate::ops::movement::Strided;
use crate::ops::{Imported, Node, Op, OpEntry, OpError, types};
use crate::params::ParamWriter;
use crate::shape::Shape;
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

/// The line of the table.
pub static ENTRY: OpEntry = OpEntry {
    name: "Expand",
    code: 17,
    versions: &[8, 13],
    attributes: &[],
    inputs: (2, 2),
    outputs: 1,
    operands: (1, 1),
    types: types::ALL,
    refused: "a `shape` that is computed from data",
    import,
    decode: |from| Ok(Box::new(Expand { shape: from.shape()? })),
    ..OpEntry::MOVES
};

/// A tensor that is repeated.
#[derive(Clone, Copy, Debug)]
pub struct Expand {
    /// What it is broadcast with.
    pub shape: Shape,
}

fn import(node: &Node<'_>) -> Result<Imported, OpError> {
    let shape = Shape::from_i64(&node.integers(1, "shape")?)?;
    Ok(Imported::first(Expand { shape }))
}

impl Op for Expand {
    fn code(&self) -> u16 {
        const { ENTRY.code }
    }

    fn encode(&self, into: &mut ParamWriter) {
        into.shape(&self.shape);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let (own, shape) = (inputs[0].shape, self.shape);
        let what = || OpError::shape(format!("{own} and {shape} do not broadcast"));
        Ok(TensorInfo::new(inputs[0].dtype, own.broadcast(&shape).ok_or_else(what)?))
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let (own, shape) = (inputs.info(0).shape, output.info.shape);
        let (offset, strides) = (shape.rank() - own.rank(), own.strides());
        let mut walk = Strided::new();
        for (index, dim) in shape.dims().iter().enumerate() {
            let at = index.checked_sub(offset).filter(|at| own.dims()[*at] != 1);
            walk.push(*dim, at.map_or(0, |at| strides[at]));
        }
        walk.copy(0, inputs, output)
    }

    fn flops(&self, _inputs: &[TensorInfo], _output: &TensorInfo) -> u64 {
        0
    }
}
