//! Squeeze, Unsqueeze and Flatten: other dims, the same elements in the same order.

use crate::ops::movement::copy;
use crate::ops::{
    AttributeSpec, Imported, Node, Op, OpEntry, OpError, always, axis, before, types,
};
use crate::params::{ParamReader, ParamWriter};
use crate::shape::Shape;
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

/// A line of the table.
const fn entry(
    name: &'static str,
    code: u16,
    versions: &'static [u32],
    attributes: &'static [AttributeSpec],
    inputs: (usize, usize),
    import: fn(&Node<'_>) -> Result<Imported, OpError>,
    decode: fn(&mut ParamReader<'_>) -> Result<Box<dyn Op>, OpError>,
) -> OpEntry {
    OpEntry {
        name,
        code,
        versions,
        attributes,
        inputs,
        outputs: 1,
        operands: (1, 1),
        types: types::ALL,
        refused: if inputs.1 > 1 { "`axes` that are computed from data" } else { "" },
        import,
        decode,
        ..OpEntry::MOVES
    }
}

/// The line of Squeeze.
pub static SQUEEZE: OpEntry = entry(
    "Squeeze",
    23,
    &[1, 11, 13, 21, 23, 24, 25],
    &[before("axes", 13)],
    (1, 2),
    squeeze,
    |from| View::decode(const { SQUEEZE.code }, from),
);

/// The line of Unsqueeze.
pub static UNSQUEEZE: OpEntry = entry(
    "Unsqueeze",
    24,
    &[1, 11, 13, 21, 23, 24, 25],
    &[before("axes", 13)],
    (1, 2),
    unsqueeze,
    |from| View::decode(const { UNSQUEEZE.code }, from),
);

/// The line of Flatten.
pub static FLATTEN: OpEntry = entry(
    "Flatten",
    25,
    &[1, 9, 11, 13, 21, 23, 24, 25],
    &[always("axis")],
    (1, 1),
    flatten,
    |from| View::decode(const { FLATTEN.code }, from),
);

/// The same elements with other dims.
#[derive(Clone, Copy, Debug)]
pub struct View {
    code: u16,
    shape: Shape,
}

fn squeeze(node: &Node<'_>) -> Result<Imported, OpError> {
    let shape = node.input(0)?.info.shape;
    let drop: Vec<usize> = match node.list("axes", 13, 1)? {
        None => (0..shape.rank()).filter(|dim| shape.dims()[*dim] == 1).collect(),
        Some(given) => given
            .iter()
            .map(|given| axis("axes", *given, shape.rank()))
            .collect::<Result<_, _>>()?,
    };
    if let Some(dim) = drop.iter().find(|dim| shape.dims()[**dim] != 1) {
        return Err(OpError::shape(format!("dim {dim} of {shape} is not 1")));
    }
    let kept = (0..shape.rank()).filter(|dim| !drop.contains(dim));
    let dims: Vec<usize> = kept.map(|dim| shape.dims()[dim]).collect();
    Ok(Imported::first(View { code: SQUEEZE.code, shape: Shape::new(&dims)? }))
}

fn unsqueeze(node: &Node<'_>) -> Result<Imported, OpError> {
    let shape = node.input(0)?.info.shape;
    let given = node.list("axes", 13, 1)?;
    let given = given.ok_or_else(|| OpError::attribute("axes", "is not given", "numbers"))?;
    let rank = shape.rank() + given.len();
    let mut own = vec![false; rank];
    for given in &given {
        if std::mem::replace(&mut own[axis("axes", *given, rank)?], true) {
            return Err(OpError::attribute("axes", given, "each axis once"));
        }
    }
    let mut rest = shape.dims().iter().copied();
    let dims: Vec<usize> =
        own.into_iter().map(|own| if own { 1 } else { rest.next().unwrap_or(1) }).collect();
    Ok(Imported::first(View { code: UNSQUEEZE.code, shape: Shape::new(&dims)? }))
}

fn flatten(node: &Node<'_>) -> Result<Imported, OpError> {
    let shape = node.input(0)?.info.shape;
    let given = node.int("axis")?.unwrap_or(1);
    let rank = i64::try_from(shape.rank()).unwrap_or(i64::MAX);
    let at = if given < 0 { given.saturating_add(rank) } else { given };
    let at = usize::try_from(at).ok().filter(|at| *at <= shape.rank());
    let supported = || OpError::attribute("axis", given, format!("-{rank} to {rank}"));
    let (outer, inner) = shape.dims().split_at(at.ok_or_else(supported)?);
    let dims = [outer.iter().product(), inner.iter().product()];
    Ok(Imported::first(View { code: FLATTEN.code, shape: Shape::new(&dims)? }))
}

impl View {
    fn decode(code: u16, from: &mut ParamReader<'_>) -> Result<Box<dyn Op>, OpError> {
        Ok(Box::new(Self { code, shape: from.shape()? }))
    }
}

impl Op for View {
    fn code(&self) -> u16 {
        self.code
    }

    fn encode(&self, into: &mut ParamWriter) {
        into.shape(&self.shape);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let (own, shape) = (inputs[0].shape, self.shape);
        if own.elements() != shape.elements() {
            return Err(OpError::shape(format!("{own} as {shape}")));
        }
        Ok(TensorInfo::new(inputs[0].dtype, shape))
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        copy(inputs, output)
    }

    fn flops(&self, _inputs: &[TensorInfo], _output: &TensorInfo) -> u64 {
        0
    }

    fn is_view(&self) -> bool {
        true
    }
}
