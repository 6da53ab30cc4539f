//! GatherElements, GatherND, Scatter, ScatterElements and ScatterND: single elements, or slices, by
//! their indices. An index that is outside its dim is the nearest one that is inside.

use crate::numbers::{Wide, with_wide};
use crate::ops::movement;
use crate::ops::{AttributeSpec, Imported, Node, Op, OpEntry, OpError, always, axis, since, types};
use crate::params::{ParamReader, ParamWriter};
use crate::shape::{RANK_MAX, Shape};
use crate::tensor::{Fault, Indices, Inputs, Output, TensorInfo, element_size};

/// The line of GatherElements.
pub static GATHER: OpEntry = OpEntry {
    name: "GatherElements",
    code: 131,
    versions: &[11, 13],
    attributes: &[always("axis")],
    inputs: (2, 2),
    operands: (2, 2),
    mixed: &[(1, types::INDICES)],
    import: |node| {
        let rank = node.input(0)?.info.shape.rank();
        let axis = axis("axis", node.int("axis")?.unwrap_or(0), rank)?;
        Ok(Imported::all(GatherElements { axis }, node))
    },
    decode: |from| Ok(Box::new(GatherElements { axis: from.size()? })),
    ..OpEntry::MOVES
};

/// Elements by their index along one axis.
#[derive(Clone, Copy, Debug)]
pub struct GatherElements {
    axis: usize,
}

/// The place in a tensor of an element of another, at an index along an axis.
struct Along {
    strides: [usize; RANK_MAX],
    own: [usize; RANK_MAX],
    axis: usize,
    dim: usize,
}

impl Along {
    fn new(data: &Shape, indices: &Shape, axis: usize) -> Self {
        let (strides, own) = (data.strides(), indices.strides());
        Self { strides, own, axis, dim: data.dims()[axis] }
    }

    fn place(&self, flat: usize, dims: &[usize], indices: &Indices<'_>) -> usize {
        let place = |(dim, length): (usize, &usize)| {
            let index = if dim == self.axis {
                indices.at(flat, self.dim)
            } else {
                flat / self.own[dim] % length
            };
            index * self.strides[dim]
        };
        dims.iter().enumerate().map(place).sum()
    }

    /// Whether indices of this shape fit the data.
    fn fits(data: &Shape, indices: &Shape, axis: usize) -> Result<(), OpError> {
        let dims = data.dims().iter().zip(indices.dims()).enumerate();
        let fits = data.rank() == indices.rank()
            && axis < data.rank()
            && dims.into_iter().all(|(dim, (own, index))| dim == axis || index <= own)
            && (data.dims()[axis] > 0 || indices.elements() == 0);
        let what = || format!("indices {indices} for {data} along axis {axis}");
        if fits { Ok(()) } else { Err(OpError::shape(what())) }
    }
}

impl Op for GatherElements {
    fn code(&self) -> u16 {
        const { GATHER.code }
    }

    fn encode(&self, into: &mut ParamWriter) {
        into.size(self.axis);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        Along::fits(&inputs[0].shape, &inputs[1].shape, self.axis)?;
        Ok(TensorInfo::new(inputs[0].dtype, inputs[1].shape))
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let along = Along::new(&inputs.info(0).shape, &inputs.info(1).shape, self.axis);
        let (dims, indices) = (inputs.dims(1), inputs.indices(1)?);
        let size = element_size(output.info.dtype).ok_or(Fault::Type(output.info.dtype))?;
        let from = inputs.bytes(0);
        for (flat, to) in output.bytes.chunks_exact_mut(size).enumerate() {
            let at = along.place(flat, dims, &indices) * size;
            to.copy_from_slice(&from[at..at + size]);
        }
        Ok(())
    }
}

/// The line of GatherND.
pub static GATHER_ND: OpEntry = OpEntry {
    name: "GatherND",
    code: 132,
    versions: &[11, 12, 13],
    attributes: &[since("batch_dims", 12)],
    inputs: (2, 2),
    operands: (2, 2),
    mixed: &[(1, &[crate::DataType::INT64])],
    import: |node| {
        let given = node.int("batch_dims")?.unwrap_or(0);
        let batch = usize::try_from(given);
        let batch = batch.map_err(|_| OpError::attribute("batch_dims", given, "0 or more"))?;
        Ok(Imported::all(GatherNd { batch }, node))
    },
    decode: |from| Ok(Box::new(GatherNd { batch: from.size()? })),
    ..OpEntry::MOVES
};

/// Slices by indices of several dims.
#[derive(Clone, Copy, Debug)]
pub struct GatherNd {
    /// Dims that data and indices share.
    batch: usize,
}

/// How slices lie in a tensor: dims that an index goes through, and elements of a slice.
fn slices(data: &Shape, indices: &Shape, batch: usize) -> Result<(usize, usize), OpError> {
    let refuse = || OpError::shape(format!("indices {indices} for {data}, {batch} dims shared"));
    let depth = *indices.dims().last().ok_or_else(refuse)?;
    let end = batch.checked_add(depth).filter(|end| *end <= data.rank()).ok_or_else(refuse)?;
    let own = &data.dims()[batch..end];
    if batch >= indices.rank()
        || data.dims()[..batch] != indices.dims()[..batch]
        || (own.contains(&0) && indices.dims()[..indices.rank() - 1].iter().all(|dim| *dim > 0))
    {
        return Err(refuse());
    }
    Ok((depth, data.dims()[end..].iter().product()))
}

/// Place of a slice, in slices, by the index at a place of a list.
fn place(own: &[usize], indices: &Indices<'_>, first: usize) -> usize {
    own.iter()
        .enumerate()
        .fold(0, |place, (dim, length)| place * length + indices.at(first + dim, *length))
}

impl Op for GatherNd {
    fn code(&self) -> u16 {
        const { GATHER_ND.code }
    }

    fn encode(&self, into: &mut ParamWriter) {
        into.size(self.batch);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let (data, indices) = (inputs[0].shape, inputs[1].shape);
        let (depth, _) = slices(&data, &indices, self.batch)?;
        let outer = &indices.dims()[..indices.rank() - 1];
        let dims = [outer, &data.dims()[self.batch + depth..]].concat();
        Ok(TensorInfo::new(inputs[0].dtype, Shape::new(&dims)?))
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let size = element_size(output.info.dtype).ok_or(Fault::Type(output.info.dtype))?;
        let (data, shape) = (inputs.info(0).shape, inputs.info(1).shape);
        let (depth, slice) = slices(&data, &shape, self.batch).map_err(|_| Fault::Memory)?;
        let (from, indices, length) = (inputs.bytes(0), inputs.indices(1)?, slice * size);
        let own = &data.dims()[self.batch..self.batch + depth];
        let per_batch = shape.dims()[self.batch..shape.rank() - 1].iter().product::<usize>();
        let area = own.iter().product::<usize>();
        for (index, to) in output.bytes.chunks_exact_mut(length).enumerate() {
            let at = index / per_batch * area + place(own, &indices, index * depth);
            to.copy_from_slice(&from[at * length..][..length]);
        }
        Ok(())
    }
}

const REDUCTION: &[AttributeSpec] = &[always("axis"), since("reduction", 16)];

/// The line of ScatterElements.
pub static SCATTER: OpEntry = OpEntry {
    name: "ScatterElements",
    code: 133,
    versions: &[11, 13, 16, 18],
    attributes: REDUCTION,
    inputs: (3, 3),
    operands: (3, 3),
    mixed: &[(1, types::INDICES)],
    import: |node| Scatter::import(&SCATTER, true, node),
    decode: |from| Scatter::decode(const { SCATTER.code }, true, from),
    ..OpEntry::MOVES
};

/// The line of Scatter.
pub static SCATTER_OLD: OpEntry = OpEntry {
    name: "Scatter",
    code: 134,
    versions: &[9, 11],
    attributes: &[always("axis")],
    inputs: (3, 3),
    operands: (3, 3),
    mixed: &[(1, types::INDICES)],
    import: |node| Scatter::import(&SCATTER_OLD, true, node),
    decode: |from| Scatter::decode(const { SCATTER_OLD.code }, true, from),
    ..OpEntry::MOVES
};

/// The line of ScatterND.
pub static SCATTER_ND: OpEntry = OpEntry {
    name: "ScatterND",
    code: 135,
    versions: &[11, 13, 16, 18],
    attributes: &[since("reduction", 16)],
    inputs: (3, 3),
    operands: (3, 3),
    mixed: &[(1, &[crate::DataType::INT64])],
    import: |node| Scatter::import(&SCATTER_ND, false, node),
    decode: |from| Scatter::decode(const { SCATTER_ND.code }, false, from),
    ..OpEntry::MOVES
};

/// What becomes of an element and an update.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Update {
    None,
    Add,
    Mul,
    Max,
    Min,
}

const UPDATES: [(&str, Update, u32); 5] = [
    ("none", Update::None, 16),
    ("add", Update::Add, 16),
    ("mul", Update::Mul, 16),
    ("max", Update::Max, 18),
    ("min", Update::Min, 18),
];

/// A tensor with some elements, or slices, updated in order.
#[derive(Clone, Copy, Debug)]
pub struct Scatter {
    code: u16,
    /// The axis of the indices; slices by indices of several dims have none.
    axis: Option<usize>,
    update: Update,
}

impl Scatter {
    fn import(entry: &'static OpEntry, single: bool, node: &Node<'_>) -> Result<Imported, OpError> {
        let rank = node.input(0)?.info.shape.rank();
        let given = node.text("reduction")?.unwrap_or("none");
        let found = UPDATES.iter().find(|(name, _, since)| *name == given && node.opset >= *since);
        let found = found.or(UPDATES.first().filter(|(name, ..)| *name == given));
        let (_, update, _) = found
            .ok_or_else(|| OpError::attribute("reduction", given, "none, add, mul, max, min"))?;
        let axis = match single {
            true => Some(axis("axis", node.int("axis")?.unwrap_or(0), rank)?),
            false => None,
        };
        Ok(Imported::all(Self { code: entry.code, axis, update: *update }, node))
    }

    fn decode(code: u16, single: bool, from: &mut ParamReader<'_>) -> Result<Box<dyn Op>, OpError> {
        let (axis, update) = (from.size()?, from.size()?);
        let update = UPDATES.get(update).ok_or_else(|| OpError::params("no such reduction"))?.1;
        Ok(Box::new(Self { code, axis: single.then_some(axis), update }))
    }

    /// Calls `of` with the place of each element that is updated, and of its update, in order.
    fn each(&self, inputs: &dyn Inputs, of: &mut dyn FnMut(usize, usize)) -> Result<(), Fault> {
        let (data, shape) = (inputs.info(0).shape, inputs.info(1).shape);
        let (indices, updates) = (inputs.indices(1)?, inputs.info(2).shape.elements());
        if let Some(axis) = self.axis {
            let along = Along::new(&data, &shape, axis);
            for flat in 0..updates {
                of(along.place(flat, shape.dims(), &indices), flat);
            }
            return Ok(());
        }
        let (depth, slice) = slices(&data, &shape, 0).map_err(|_| Fault::Memory)?;
        let own = &data.dims()[..depth];
        for flat in 0..updates {
            of(place(own, &indices, flat / slice * depth) * slice + flat % slice, flat);
        }
        Ok(())
    }

    fn compute<W: Wide>(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let (updates, mut to) = (inputs.numbers::<W>(2)?, output.numbers::<W>()?);
        self.each(inputs, &mut |at, from| {
            let (x, update) = (to.get(at), updates.get(from));
            to.set(
                at,
                match self.update {
                    Update::Add => x.plus(update),
                    Update::Mul => x.times(update),
                    Update::Max => {
                        if update > x {
                            update
                        } else {
                            x
                        }
                    }
                    Update::Min => {
                        if update < x {
                            update
                        } else {
                            x
                        }
                    }
                    Update::None => update,
                },
            );
        })
    }
}

impl Op for Scatter {
    fn code(&self) -> u16 {
        self.code
    }

    fn encode(&self, into: &mut ParamWriter) {
        into.size(self.axis.unwrap_or(0));
        into.size(UPDATES.iter().position(|(_, own, _)| *own == self.update).unwrap_or(0));
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let (data, indices, updates) = (inputs[0].shape, inputs[1].shape, inputs[2].shape);
        let wanted = if let Some(axis) = self.axis {
            Along::fits(&data, &indices, axis)?;
            indices.dims().to_vec()
        } else {
            let (depth, _) = slices(&data, &indices, 0)?;
            [&indices.dims()[..indices.rank() - 1], &data.dims()[depth..]].concat()
        };
        if updates.dims() != wanted {
            return Err(OpError::shape(format!("updates are {updates}; expected {wanted:?}")));
        }
        if self.update != Update::None && inputs[0].dtype == crate::DataType::BOOL {
            return Err(OpError::types(0, inputs[0].dtype, &[crate::DataType::FLOAT]));
        }
        Ok(inputs[0])
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        movement::copy(inputs, output)?;
        let dtype = output.info.dtype;
        if self.update != Update::None {
            return with_wide!(dtype, W => self.compute::<W>(inputs, output));
        }
        let (size, updates) = (element_size(dtype).ok_or(Fault::Type(dtype))?, inputs.bytes(2));
        self.each(inputs, &mut |at, from| {
            output.bytes[at * size..][..size].copy_from_slice(&updates[from * size..][..size]);
        })
    }
}
