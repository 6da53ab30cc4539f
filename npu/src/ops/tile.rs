//! Tile: a tensor repeated along each dim.

use crate::ops::movement::Strided;
use crate::ops::{Imported, Node, Op, OpEntry, OpError, types};
use crate::params::ParamWriter;
use crate::shape::Shape;
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

/// The line of the table.
pub static ENTRY: OpEntry = OpEntry {
    name: "Tile",
    code: 18,
    versions: &[6, 13],
    attributes: &[],
    inputs: (2, 2),
    outputs: 1,
    operands: (1, 1),
    types: types::ALL,
    refused: "`repeats` that are computed from data",
    import,
    decode: |from| Ok(Box::new(Tile { repeats: from.shape()? })),
    ..OpEntry::MOVES
};

/// A tensor that is repeated.
#[derive(Clone, Copy, Debug)]
pub struct Tile {
    /// How often, for each dim.
    pub repeats: Shape,
}

fn import(node: &Node<'_>) -> Result<Imported, OpError> {
    let repeats = Shape::from_i64(&node.integers(1, "repeats")?)?;
    Ok(Imported::first(Tile { repeats }))
}

impl Op for Tile {
    fn code(&self) -> u16 {
        const { ENTRY.code }
    }

    fn encode(&self, into: &mut ParamWriter) {
        into.shape(&self.repeats);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let (own, repeats) = (inputs[0].shape, self.repeats.dims());
        if own.rank() != repeats.len() {
            return Err(OpError::shape(format!("`repeats` {repeats:?} for {own}: one a dim")));
        }
        let pairs = own.dims().iter().zip(repeats);
        let dims: Vec<usize> = pairs.map(|(dim, times)| dim.saturating_mul(*times)).collect();
        Ok(TensorInfo::new(inputs[0].dtype, Shape::new(&dims)?))
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let (dims, strides) = (inputs.dims(0), inputs.info(0).shape.strides());
        let mut walk = Strided::new();
        for (dim, times) in self.repeats.dims().iter().enumerate() {
            walk.push(*times, 0);
            walk.push(dims[dim], strides[dim]);
        }
        walk.copy(0, inputs, output)
    }

    fn flops(&self, _inputs: &[TensorInfo], _output: &TensorInfo) -> u64 {
        0
    }
}
