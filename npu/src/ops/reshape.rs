//! Reshape: the same elements under other dims.
//!
//! The shape is an attribute (opset 4 and before) or an input whose value is known when the model
//! is compiled; a program holds the resolved dims. 0 keeps a dim (unless `allowzero`), -1 takes
//! what is left.

use crate::ops::movement::copy;
use crate::ops::{Imported, Node, Op, OpEntry, OpError, before, since, types};
use crate::params::{ParamReader, ParamWriter};
use crate::shape::{RANK_MAX, Shape};
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

/// The line of the table.
pub static ENTRY: OpEntry = OpEntry {
    name: "Reshape",
    code: 12,
    versions: &[1, 5, 13, 14, 19, 21, 23, 24, 25],
    attributes: &[since("allowzero", 14), before("shape", 5), before("consumed_inputs", 5)],
    inputs: (1, 2),
    outputs: 1,
    operands: (1, 1),
    types: &types::all(5),
    refused: "a `shape` that is computed from data",
    import,
    decode,
    ..OpEntry::MOVES
};

/// The same elements under other dims.
#[derive(Clone, Copy, Debug)]
pub struct Reshape {
    /// The dims.
    pub shape: Shape,
}

fn import(node: &Node<'_>) -> Result<Imported, OpError> {
    let wanted = if node.opset >= 5 {
        node.integers(1, "shape")?
    } else if node.has(1) {
        let found = node.inputs.len();
        let supported = "1 before opset 5: the shape is an attribute".to_owned();
        return Err(OpError::Count { what: "inputs", found, supported });
    } else {
        let absent = || OpError::attribute("shape", "is not given", "a list of numbers");
        node.ints("shape")?.ok_or_else(absent)?.to_vec()
    };
    let keep_zeros = node.flag("allowzero", false)?;
    let shape = resolve(&node.input(0)?.info.shape, &wanted, keep_zeros)?;
    Ok(Imported::first(Reshape { shape }))
}

/// The dims that `wanted` means for a tensor of shape `from`.
fn resolve(from: &Shape, wanted: &[i64], allow_zero: bool) -> Result<Shape, OpError> {
    let refuse = |what: &str| OpError::shape(format!("{from} as {wanted:?}: {what}"));
    if wanted.len() > RANK_MAX {
        return Err(refuse(&format!("at most {RANK_MAX} dims are supported")));
    }
    let mut dims = [1; RANK_MAX];
    let dims = &mut dims[..wanted.len()];
    let mut rest = None;
    for (index, (to, dim)) in dims.iter_mut().zip(wanted).enumerate() {
        match dim {
            0 if !allow_zero => {
                let kept = from.dims().get(index);
                *to = *kept.ok_or_else(|| refuse("0 keeps a dim that is not there"))?;
            }
            -1 if rest.is_some() => return Err(refuse("more than one -1")),
            -1 => rest = Some(index),
            _ => *to = usize::try_from(*dim).map_err(|_| refuse("a dim below -1"))?,
        }
    }
    if allow_zero && rest.is_some() && wanted.contains(&0) {
        return Err(refuse("-1 beside 0 with `allowzero` = 1"));
    }
    // Also bounds the product of the dims.
    let others = Shape::new(dims)?.elements();
    if let Some(rest) = rest {
        if others == 0 || !from.elements().is_multiple_of(others) {
            return Err(refuse("-1 has no whole number to stand for"));
        }
        dims[rest] = from.elements() / others;
    }
    let shape = Shape::new(dims)?;
    if shape.elements() != from.elements() {
        let (have, want) = (from.elements(), shape.elements());
        return Err(refuse(&format!("{have} elements, expected {want}")));
    }
    Ok(shape)
}

fn decode(from: &mut ParamReader<'_>) -> Result<Box<dyn Op>, OpError> {
    let mut dims = [0; RANK_MAX];
    let rank = from.size()?;
    let dims = dims.get_mut(..rank).ok_or_else(|| OpError::params(format!("{rank} dims")))?;
    for dim in &mut *dims {
        *dim = from.size()?;
    }
    Ok(Box::new(Reshape { shape: Shape::new(dims)? }))
}

impl Op for Reshape {
    fn code(&self) -> u16 {
        const { ENTRY.code }
    }

    fn encode(&self, into: &mut ParamWriter) {
        into.size(self.shape.rank());
        into.sizes(self.shape.dims());
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let from = inputs[0].shape;
        if from.elements() != self.shape.elements() {
            let what = format!("{from} does not have the elements of {}", self.shape);
            return Err(OpError::shape(what));
        }
        Ok(TensorInfo::new(inputs[0].dtype, self.shape))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{Case, float, int64, ints, value_of};

    fn to(opset: u32, shape: &[i64]) -> Case {
        let six = float(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        Case::new(&ENTRY, opset).input(six).input(int64(&[shape.len()], shape))
    }

    #[test]
    fn zero_keeps_and_minus_one_takes_the_rest() {
        let values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        assert_eq!(to(5, &[3, 2]).run(), float(&[3, 2], &values));
        assert_eq!(to(13, &[0, -1, 1]).run(), float(&[2, 3, 1], &values));
        assert_eq!(to(25, &[-1]).run(), float(&[6], &values));
        let scalar = Case::new(&ENTRY, 14).input(ints(&[1, 1], &[9])).input(int64(&[0], &[]));
        assert_eq!(scalar.run(), ints(&[], &[9]));
    }

    #[test]
    fn every_type() {
        for (dtype, _) in ENTRY.types {
            let case = Case::new(&ENTRY, 25).input(value_of(*dtype, &[2, 1], &[0, 1]));
            let case = case.input(int64(&[1], &[-1]));
            assert_eq!(case.run(), value_of(*dtype, &[2], &[0, 1]));
        }
    }

    #[test]
    fn a_zero_that_is_meant() {
        let empty = || Case::new(&ENTRY, 14).input(float(&[0, 3], &[])).int("allowzero", 1);
        assert_eq!(empty().input(int64(&[2], &[3, 0])).run(), float(&[3, 0], &[]));
        assert!(empty().input(int64(&[2], &[-1, 0])).refused().contains("-1 beside 0"));
        let kept = Case::new(&ENTRY, 14).input(float(&[0, 3], &[])).input(int64(&[2], &[0, 3]));
        assert_eq!(kept.run(), float(&[0, 3], &[]));
        let rest = Case::new(&ENTRY, 14).input(float(&[0, 3], &[])).input(int64(&[2], &[0, -1]));
        assert!(rest.refused().contains("-1 has no whole number"));
    }

    #[test]
    fn the_attribute_of_opset_1() {
        let case = Case::new(&ENTRY, 1).ints("shape", &[-1, 1]).input(float(&[2], &[1.0, 2.0]));
        assert_eq!(case.run(), float(&[2, 1], &[1.0, 2.0]));
        let none = Case::new(&ENTRY, 1).input(float(&[2], &[1.0, 2.0]));
        assert!(none.refused().contains("attribute `shape`: is not given"));
        let both = Case::new(&ENTRY, 1).ints("shape", &[2]).input(float(&[2], &[1.0, 2.0]));
        assert!(both.input(int64(&[1], &[2])).refused().contains("the shape is an attribute"));
    }

    #[test]
    fn what_is_refused() {
        for (shape, why) in [
            (&[4, 2][..], "6 elements, expected 8"),
            (&[-1, -1], "more than one -1"),
            (&[-2, 3], "a dim below -1"),
            (&[-1, 4], "-1 has no whole number"),
            (&[6, 1, 0], "0 keeps a dim that is not there"),
            (&[1; 9], "at most 8 dims"),
            (&[i64::MAX, i64::MAX], "more than"),
        ] {
            let refused = to(14, shape).refused();
            assert!(refused.contains(why), "{shape:?}: {refused}");
        }
        let unknown = to(14, &[6]).data().refused();
        assert!(unknown.contains("input 1 `shape` is computed from data"), "{unknown}");
        assert!(to(13, &[6]).int("allowzero", 1).refused().contains("exists from opset 14"));
        let floats = Case::new(&ENTRY, 14).input(float(&[1], &[1.0])).input(float(&[1], &[1.0]));
        assert!(floats.refused().contains("input 1 is float32; supported: int64, int32"));
    }
}
