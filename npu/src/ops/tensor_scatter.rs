//! TensorScatter: a cache with new rows at a place of each batch.

use crate::DataType;
use crate::ops::{Imported, Node, Op, OpEntry, OpError, always, axis, movement, types};
use crate::params::ParamWriter;
use crate::tensor::{Fault, Inputs, Output, TensorInfo, element_size};

/// The line of the table.
pub static ENTRY: OpEntry = OpEntry {
    name: "TensorScatter",
    code: 177,
    versions: &[24],
    attributes: &[always("axis"), always("mode")],
    inputs: (2, 3),
    operands: (2, 3),
    types: types::ALL,
    mixed: &[(2, &[DataType::INT64])],
    import,
    decode: |from| Ok(Box::new(TensorScatter { axis: from.size()?, circular: from.flag()? })),
    ..OpEntry::MOVES
};

/// A cache with new rows; what is outside of it is not written.
#[derive(Clone, Copy, Debug)]
pub struct TensorScatter {
    axis: usize,
    /// What is outside begins anew.
    circular: bool,
}

fn import(node: &Node<'_>) -> Result<Imported, OpError> {
    let rank = node.input(0)?.info.shape.rank();
    let axis = axis("axis", node.int("axis")?.unwrap_or(-2), rank)?;
    let circular = match node.text("mode")?.unwrap_or("linear") {
        "linear" => false,
        "circular" => true,
        other => return Err(OpError::attribute("mode", other, "linear, circular")),
    };
    Ok(Imported::all(TensorScatter { axis, circular }, node))
}

impl Op for TensorScatter {
    fn code(&self) -> u16 {
        const { ENTRY.code }
    }

    fn encode(&self, into: &mut ParamWriter) {
        into.size(self.axis);
        into.flag(self.circular);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let (cache, update) = (inputs[0].shape, inputs[1].shape);
        let mut dims = cache.dims().iter().zip(update.dims()).enumerate();
        let fits = cache.rank() == update.rank()
            && (1..cache.rank()).contains(&self.axis)
            && dims.all(|(dim, (own, new))| own == new || (dim == self.axis && new < own))
            && inputs.get(2).is_none_or(|at| at.shape.dims() == &cache.dims()[..1]);
        if !fits {
            let axis = self.axis;
            let what = format!("rows {update} of a cache {cache} along {axis}, places a batch");
            return Err(OpError::shape(what));
        }
        Ok(inputs[0])
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        movement::copy(inputs, output)?;
        let size = element_size(output.info.dtype).ok_or(Fault::Type(output.info.dtype))?;
        let (dims, rows) = (inputs.dims(0), inputs.dims(1)[self.axis]);
        let (length, row) =
            (dims[self.axis], size * dims[self.axis + 1..].iter().product::<usize>());
        let between = dims[1..self.axis].iter().product::<usize>();
        let (from, given) = (inputs.bytes(1), inputs.optional::<i64>(2)?);
        let (whole, count) = (i64::try_from(length).unwrap_or(i64::MAX), dims[0] * between);
        for prefix in 0..count {
            let first = given.map_or(0, |own| own[prefix / between]);
            for index in 0..rows {
                let at = first.saturating_add(i64::try_from(index).unwrap_or(i64::MAX));
                let at = if self.circular { at.rem_euclid(whole) } else { at };
                let Some(at) = usize::try_from(at).ok().filter(|at| *at < length) else { continue };
                let new = &from[(prefix * rows + index) * row..][..row];
                output.bytes[(prefix * length + at) * row..][..row].copy_from_slice(new);
            }
        }
        Ok(())
    }
}
