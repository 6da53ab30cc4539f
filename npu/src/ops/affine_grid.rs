//! AffineGrid: places between -1 and 1 that GridSample takes, moved by a matrix for each image.

use crate::ops::sample::from_size;
use crate::ops::window::SPATIAL;
use crate::ops::{Imported, Node, Op, OpEntry, OpError, always, types};
use crate::params::{ParamReader, ParamWriter};
use crate::shape::Shape;
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

/// The line of the table.
pub static ENTRY: OpEntry = OpEntry {
    name: "AffineGrid",
    code: 174,
    versions: &[20],
    attributes: &[always("align_corners")],
    inputs: (2, 2),
    types: &types::floats(20),
    refused: "a `size` that is computed from data",
    import,
    decode,
    ..OpEntry::BASE
};

/// Places of an image's elements, by a matrix.
#[derive(Clone, Copy, Debug)]
pub struct AffineGrid {
    /// -1 and 1 are the middles of the elements at the ends, else their outer edges.
    corners: bool,
    /// Images, and their spatial dims: two or three.
    size: Shape,
}

fn import(node: &Node<'_>) -> Result<Imported, OpError> {
    let mut given = node.integers(1, "size")?;
    if !(4..=SPATIAL + 2).contains(&given.len()) {
        return Err(OpError::shape(format!(
            "`size` is {given:?}; [N, C, …] with 2 or 3 dims more"
        )));
    }
    given.remove(1);
    let size = Shape::from_i64(&given)?;
    Ok(Imported::first(AffineGrid { corners: node.flag("align_corners", false)?, size }))
}

fn decode(from: &mut ParamReader<'_>) -> Result<Box<dyn Op>, OpError> {
    let own = AffineGrid { corners: from.flag()?, size: from.shape()? };
    if !(3..=SPATIAL + 1).contains(&own.size.rank()) {
        return Err(OpError::params(format!("a grid of {}", own.size)));
    }
    Ok(Box::new(own))
}

impl Op for AffineGrid {
    fn code(&self) -> u16 {
        const { ENTRY.code }
    }

    fn encode(&self, into: &mut ParamWriter) {
        into.flag(self.corners);
        into.shape(&self.size);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let (theta, size) = (inputs[0].shape, self.size.dims());
        let rank = size.len() - 1;
        if theta.dims() != [size[0], rank, rank + 1] {
            return Err(OpError::shape(format!("matrices {theta} for a size of {}", self.size)));
        }
        let dims = [size, &[rank]].concat();
        Ok(TensorInfo::new(inputs[0].dtype, Shape::new(&dims)?))
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let (size, strides, theta) =
            (self.size.dims(), self.size.strides(), inputs.numbers::<f64>(0)?);
        let rank = size.len() - 1;
        let mut to = output.numbers::<f64>()?;
        for place in 0..self.size.elements() {
            // The last dim is the first coordinate.
            let mut point = [1.0; SPATIAL + 1];
            for (dim, own) in point[..rank].iter_mut().rev().enumerate() {
                let (length, index) = (size[dim + 1], place / strides[dim + 1] % size[dim + 1]);
                let (length, index) = (from_size(length), from_size(index));
                *own = if !self.corners {
                    (2.0 * index + 1.0) / length - 1.0
                } else if length > 1.0 {
                    2.0 * index / (length - 1.0) - 1.0
                } else {
                    -1.0
                };
            }
            let first = place / strides[0] * rank * (rank + 1);
            for row in 0..rank {
                let line = point[..=rank].iter().enumerate();
                let at = first + row * (rank + 1);
                to.set(place * rank + row, line.map(|(k, x)| theta.get(at + k) * x).sum());
            }
        }
        Ok(())
    }

    fn flops(&self, _inputs: &[TensorInfo], output: &TensorInfo) -> u64 {
        8 * output.shape.elements() as u64
    }
}
