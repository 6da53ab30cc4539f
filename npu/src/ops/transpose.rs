//! Transpose: the dims in another order.

use crate::ops::movement::Strided;
use crate::ops::{Imported, Node, Op, OpEntry, OpError, always, types};
use crate::params::{ParamReader, ParamWriter};
use crate::shape::{RANK_MAX, Shape};
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

/// The line of the table.
pub static ENTRY: OpEntry = OpEntry {
    name: "Transpose",
    code: 16,
    versions: &[1, 13, 21, 23, 24, 25],
    attributes: &[always("perm")],
    inputs: (1, 1),
    outputs: 1,
    operands: (1, 1),
    types: types::ALL,
    import,
    decode,
    ..OpEntry::MOVES
};

/// The dims in another order.
#[derive(Clone, Copy, Debug)]
pub struct Transpose {
    rank: usize,
    /// For each dim of the output the one of the input.
    order: [usize; RANK_MAX],
}

fn import(node: &Node<'_>) -> Result<Imported, OpError> {
    let rank = node.input(0)?.info.shape.rank();
    let mut order = [0; RANK_MAX];
    match node.ints("perm")? {
        None => (0..rank).for_each(|dim| order[dim] = rank - 1 - dim),
        Some(given) => {
            let dims = given.iter().map(|dim| usize::try_from(*dim).unwrap_or(usize::MAX));
            let dims: Vec<usize> = dims.collect();
            if dims.len() != rank || (0..rank).any(|dim| !dims.contains(&dim)) {
                let all = format!("each of 0 to {rank} exclusive once");
                return Err(OpError::attribute("perm", format!("{given:?}"), all));
            }
            order[..rank].copy_from_slice(&dims);
        }
    }
    Ok(Imported::first(Transpose { rank, order }))
}

fn decode(from: &mut ParamReader<'_>) -> Result<Box<dyn Op>, OpError> {
    let rank = from.size()?;
    let mut order = [0; RANK_MAX];
    let dims = order.get_mut(..rank).ok_or_else(|| OpError::params(format!("{rank} dims")))?;
    for dim in dims {
        *dim = from.size()?;
    }
    if (0..rank).any(|dim| !order[..rank].contains(&dim)) {
        return Err(OpError::params(format!("{:?} is no order", &order[..rank])));
    }
    Ok(Box::new(Transpose { rank, order }))
}

impl Transpose {
    /// The dims in this order, if it is one: each of them once.
    #[must_use]
    pub fn of(dims: &[usize]) -> Option<Self> {
        let rank = dims.len();
        let mut order = [0; RANK_MAX];
        order.get_mut(..rank)?.copy_from_slice(dims);
        (0..rank).all(|dim| dims.contains(&dim)).then_some(Self { rank, order })
    }

    /// For each dim of the output the one of the input.
    #[must_use]
    pub fn order(&self) -> &[usize] {
        &self.order[..self.rank]
    }
}

impl Op for Transpose {
    fn code(&self) -> u16 {
        const { ENTRY.code }
    }

    fn encode(&self, into: &mut ParamWriter) {
        into.size(self.rank);
        into.sizes(&self.order[..self.rank]);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let shape = inputs[0].shape;
        if shape.rank() != self.rank {
            return Err(OpError::shape(format!("{shape} has not {} dims", self.rank)));
        }
        let mut dims = [0; RANK_MAX];
        (0..self.rank).for_each(|dim| dims[dim] = shape.dims()[self.order[dim]]);
        Ok(TensorInfo::new(inputs[0].dtype, Shape::new(&dims[..self.rank])?))
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let (dims, strides) = (inputs.dims(0), inputs.info(0).shape.strides());
        let mut walk = Strided::new();
        for dim in &self.order[..self.rank] {
            walk.push(dims[*dim], strides[*dim]);
        }
        walk.copy(0, inputs, output)
    }

    fn flops(&self, _inputs: &[TensorInfo], _output: &TensorInfo) -> u64 {
        0
    }
}
