//! TopK: the highest or lowest elements along an axis, and where they are.

use std::cmp::Ordering;

use crate::DataType;
use crate::cast::elements_mut;
use crate::numbers::{NumbersMut, Wide, with_wide};
use crate::ops::reduce::no_number;
use crate::ops::{Imported, Node, Op, OpEntry, OpError, always, axis, before, since, types};
use crate::params::{ParamReader, ParamWriter};
use crate::shape::Shape;
use crate::tensor::{Fault, Inputs, Output, Part, TensorInfo};

/// The line of the table.
pub static TOP_K: OpEntry = OpEntry {
    name: "TopK",
    code: 136,
    versions: &[1, 10, 11, 24],
    attributes: &[always("axis"), before("k", 10), since("largest", 11), since("sorted", 11)],
    inputs: (1, 2),
    outputs: 2,
    types: &types::numbers(11, 11, 24),
    refused: "a `K` that is computed from data",
    import,
    decode,
    ..OpEntry::BASE
};

/// The highest or lowest elements, in order; of equal ones the first.
#[derive(Clone, Copy, Debug)]
pub struct TopK {
    axis: usize,
    count: usize,
    largest: bool,
    /// Where they are is an output.
    indices: bool,
}

fn import(node: &Node<'_>) -> Result<Imported, OpError> {
    let rank = node.input(0)?.info.shape.rank();
    let axis = axis("axis", node.int("axis")?.unwrap_or(-1), rank)?;
    let given = match node.list("k", 10, 1) {
        // One number, not a list, in the attribute.
        Err(_) if node.opset < 10 => node.int("k")?.map(|k| vec![k]),
        other => other?,
    };
    let given = given.and_then(|list| list.first().copied());
    let given = given.ok_or_else(|| OpError::attribute("k", "is not given", "a number"))?;
    let count = usize::try_from(given);
    let count = count.map_err(|_| OpError::attribute("k", given, "0 or more"))?;
    let largest = node.flag("largest", true)?;
    // Sorted does as unsorted.
    node.flag("sorted", true)?;
    Ok(Imported::first(TopK { axis, count, largest, indices: node.outputs > 1 }))
}

fn decode(from: &mut ParamReader<'_>) -> Result<Box<dyn Op>, OpError> {
    let [axis, count] = from.sizes()?;
    Ok(Box::new(TopK { axis, count, largest: from.flag()?, indices: from.flag()? }))
}

impl TopK {
    fn compute<W: Wide>(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let (dims, from) = (inputs.dims(0), inputs.numbers::<W>(0)?);
        let (dim, inner) = (dims[self.axis], dims[self.axis + 1..].iter().product::<usize>());
        let (lane, order) =
            output.scratch.split_at_mut_checked(dim * size_of::<W>()).ok_or(Fault::Memory)?;
        let lane = elements_mut::<W>(lane).ok_or(Fault::Memory)?;
        let order = elements_mut::<usize>(order).ok_or(Fault::Memory)?;
        let order = order.get_mut(..dim).ok_or(Fault::Memory)?;
        let mut values = NumbersMut::<W>::new(output.info.dtype, output.bytes)?;
        let places = match output.more.first_mut() {
            Some(Some(Part { bytes, .. })) => elements_mut::<i64>(bytes).ok_or(Fault::Memory)?,
            _ => &mut [],
        };
        let lanes = output.info.shape.elements() / self.count.max(1);
        for own in 0..lanes {
            let (outer, inner_at) = (own / inner, own % inner);
            from.read(outer * dim * inner + inner_at, inner, lane);
            sort(order, &|a, b| {
                let (x, y) = (lane[a], lane[b]);
                // A NaN is above all.
                let own = x.partial_cmp(&y).unwrap_or_else(|| no_number(x).cmp(&no_number(y)));
                if self.largest { own.reverse() } else { own }
            });
            for (rank, index) in order[..self.count].iter().enumerate() {
                let at = (outer * self.count + rank) * inner + inner_at;
                values.set(at, lane[*index]);
                if let Some(to) = places.get_mut(at) {
                    *to = i64::try_from(*index).unwrap_or(i64::MAX);
                }
            }
        }
        Ok(())
    }
}

/// Sorts the indices of a list; of equal ones the first comes first.
#[inline(never)]
fn sort(order: &mut [usize], of: &dyn Fn(usize, usize) -> Ordering) {
    order.iter_mut().enumerate().for_each(|(index, to)| *to = index);
    order.sort_unstable_by(|a, b| of(*a, *b).then(a.cmp(b)));
}

impl Op for TopK {
    fn code(&self) -> u16 {
        const { TOP_K.code }
    }

    fn encode(&self, into: &mut ParamWriter) {
        into.sizes(&[self.axis, self.count]);
        into.flag(self.largest);
        into.flag(self.indices);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let mut dims = inputs[0].shape.dims().to_vec();
        match dims.get_mut(self.axis) {
            Some(dim) if *dim >= self.count => *dim = self.count,
            _ => {
                let (count, axis, shape) = (self.count, self.axis, inputs[0].shape);
                return Err(OpError::shape(format!("{count} of {shape} along axis {axis}")));
            }
        }
        Ok(TensorInfo::new(inputs[0].dtype, Shape::new(&dims)?))
    }

    fn further(&self, inputs: &[TensorInfo]) -> Result<Vec<TensorInfo>, OpError> {
        let info = TensorInfo { dtype: DataType::INT64, ..self.infer(inputs)? };
        Ok(if self.indices { vec![info] } else { Vec::new() })
    }

    fn scratch_bytes(&self, inputs: &[TensorInfo], _output: &TensorInfo) -> usize {
        inputs[0].shape.dims()[self.axis].saturating_mul(size_of::<i128>() + size_of::<usize>())
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        with_wide!(inputs.info(0).dtype, W => self.compute::<W>(inputs, output))
    }
}
