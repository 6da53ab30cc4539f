//! Gather: slices of a tensor along an axis, by their indices.

use crate::ops::{Imported, Op, OpEntry, OpError, always, axis, types};
use crate::params::ParamWriter;
use crate::shape::Shape;
use crate::tensor::{Fault, Inputs, Output, TensorInfo, element_size};

/// The line of the table.
pub static ENTRY: OpEntry = OpEntry {
    name: "Gather",
    code: 22,
    versions: &[1, 11, 13],
    attributes: &[always("axis")],
    inputs: (2, 2),
    outputs: 1,
    operands: (2, 2),
    types: types::ALL,
    mixed: &[(1, types::INDICES)],
    import: |node| {
        let rank = node.input(0)?.info.shape.rank();
        let axis = axis("axis", node.int("axis")?.unwrap_or(0), rank)?;
        Ok(Imported::all(Gather { axis }, node))
    },
    decode: |from| Ok(Box::new(Gather { axis: from.size()? })),
    ..OpEntry::MOVES
};

/// Slices by their indices. An index that is outside its dim is the nearest one that is inside.
#[derive(Clone, Copy, Debug)]
pub struct Gather {
    /// The dim that indices belong to.
    pub axis: usize,
}

impl Op for Gather {
    fn code(&self) -> u16 {
        const { ENTRY.code }
    }

    fn encode(&self, into: &mut ParamWriter) {
        into.size(self.axis);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let (data, indices) = (inputs[0].shape, inputs[1].shape);
        let refuse = |what: &str| OpError::shape(format!("{data} along {}: {what}", self.axis));
        let (outer, rest) = data.dims().split_at_checked(self.axis).unwrap_or_default();
        let (dim, inner) = rest.split_first().ok_or_else(|| refuse("no such axis"))?;
        let shape = Shape::new(&[outer, indices.dims(), inner].concat())?;
        if *dim == 0 && shape.elements() > 0 {
            return Err(refuse("there is nothing to take"));
        }
        Ok(TensorInfo::new(inputs[0].dtype, shape))
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let size = element_size(output.info.dtype).ok_or(Fault::Type(output.info.dtype))?;
        let (from, indices) = (inputs.bytes(0), inputs.indices(1)?);
        let dims = inputs.dims(0);
        let (dim, inner) = (dims[self.axis], dims[self.axis + 1..].iter().product::<usize>());
        let length = inner * size;
        let count = indices.len();
        for (index, to) in output.bytes.chunks_exact_mut(length).enumerate() {
            let at = index / count * dim + indices.at(index % count, dim);
            to.copy_from_slice(&from[at * length..][..length]);
        }
        Ok(())
    }

    fn flops(&self, _inputs: &[TensorInfo], _output: &TensorInfo) -> u64 {
        0
    }
}
