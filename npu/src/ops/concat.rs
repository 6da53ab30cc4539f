//! Concat: tensors behind one another along an axis.

use crate::ops::{Imported, Node, Op, OpEntry, OpError, always, axis, types};
use crate::params::{ParamReader, ParamWriter};
use crate::shape::Shape;
use crate::tensor::{Fault, Inputs, Output, TensorInfo, element_size};

/// The line of the table.
pub static ENTRY: OpEntry = OpEntry {
    name: "Concat",
    code: 3,
    versions: &[1, 4, 11, 13],
    attributes: &[always("axis")],
    inputs: (1, usize::MAX),
    outputs: 1,
    operands: (1, usize::MAX),
    types: &types::all(4),
    import,
    decode,
    ..OpEntry::MOVES
};

/// Tensors behind one another.
#[derive(Clone, Copy, Debug)]
pub struct Concat {
    /// Index of the dim that grows.
    pub axis: usize,
}

fn import(node: &Node<'_>) -> Result<Imported, OpError> {
    if let Some(index) = node.inputs.iter().position(Option::is_none) {
        return Err(OpError::shape(format!("input {index} is left out; none is optional")));
    }
    let rank = node.input(0)?.info.shape.rank();
    let given = match node.int("axis")? {
        None if node.opset < 4 => 1,
        None => return Err(OpError::attribute("axis", "is not given", "a number")),
        Some(given) => given,
    };
    Ok(Imported::all(Concat { axis: axis("axis", given, rank)? }, node))
}

fn decode(from: &mut ParamReader<'_>) -> Result<Box<dyn Op>, OpError> {
    Ok(Box::new(Concat { axis: from.size()? }))
}

impl Op for Concat {
    fn code(&self) -> u16 {
        const { ENTRY.code }
    }

    fn encode(&self, into: &mut ParamWriter) {
        into.size(self.axis);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let first = inputs[0].shape;
        let mut sum = 0usize;
        for (index, input) in inputs.iter().enumerate() {
            let dims = input.shape.dims();
            let same = dims.len() == first.rank()
                && dims
                    .iter()
                    .zip(first.dims())
                    .enumerate()
                    .all(|(dim, (own, of_first))| dim == self.axis || own == of_first);
            if !same || self.axis >= dims.len() {
                let (found, axis) = (input.shape, self.axis);
                let what =
                    format!("input {index} is {found}; expected {first} but for axis {axis}");
                return Err(OpError::shape(what));
            }
            sum = sum.saturating_add(dims[self.axis]);
        }
        let mut dims = first.dims().to_vec();
        dims[self.axis] = sum;
        Ok(TensorInfo::new(inputs[0].dtype, Shape::new(&dims)?))
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let size = element_size(output.info.dtype).ok_or(Fault::Type(output.info.dtype))?;
        // Bytes that lie together, for each index of the dims before the axis.
        let run = |dims: &[usize]| dims[self.axis..].iter().product::<usize>() * size;
        let row = run(output.info.shape.dims());
        let mut at = 0;
        for index in 0..inputs.count() {
            let length = run(inputs.dims(index));
            if length == 0 {
                continue;
            }
            let rows = output.bytes.chunks_exact_mut(row);
            for (to, from) in rows.zip(inputs.bytes(index).chunks_exact(length)) {
                to[at..at + length].copy_from_slice(from);
            }
            at += length;
        }
        Ok(())
    }

    fn flops(&self, _inputs: &[TensorInfo], _output: &TensorInfo) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{Case, float, int64, ints, value_of};

    #[test]
    fn along_every_axis() {
        let (a, b) = (ints(&[2, 1], &[1, 2]), ints(&[2, 2], &[3, 4, 5, 6]));
        let rows = |axis| Case::new(&ENTRY, 13).int("axis", axis).input(a.clone()).input(b.clone());
        assert_eq!(rows(1).run(), ints(&[2, 3], &[1, 3, 4, 2, 5, 6]));
        assert_eq!(rows(-1).run(), rows(1).run());
        let below = Case::new(&ENTRY, 4).int("axis", 0);
        let below = below.input(int64(&[1], &[1])).input(int64(&[0], &[])).input(int64(&[1], &[3]));
        assert_eq!(below.run(), int64(&[2], &[1, 3]));
        let single = Case::new(&ENTRY, 11).int("axis", -1).input(float(&[1], &[1.0]));
        assert_eq!(single.run(), float(&[1], &[1.0]));
    }

    #[test]
    fn every_type() {
        for (dtype, since) in ENTRY.types {
            let value = |values: &[i32]| value_of(*dtype, &[values.len()], values);
            let joined = |opset| {
                let case = Case::new(&ENTRY, opset).int("axis", 0);
                case.input(value(&[1])).input(value(&[0, 1]))
            };
            assert_eq!(joined(25).run(), value(&[1, 0, 1]));
            if *since > 1 {
                assert!(joined(since - 1).refused().contains("input 0 is"), "{dtype:?}");
            }
        }
    }

    #[test]
    fn the_axis_is_1_in_opset_1() {
        let case = Case::new(&ENTRY, 1).input(float(&[1, 1], &[1.0])).input(float(&[1, 1], &[2.0]));
        assert_eq!(case.run(), float(&[1, 2], &[1.0, 2.0]));
    }

    #[test]
    fn what_is_refused() {
        let none = Case::new(&ENTRY, 13).input(float(&[1], &[1.0]));
        assert!(none.refused().contains("attribute `axis`: is not given"));
        let far = Case::new(&ENTRY, 13).int("axis", 1).input(float(&[1], &[1.0]));
        assert!(far.refused().contains("attribute `axis`: 1; supported: -1 to 1 exclusive"));
        let other = Case::new(&ENTRY, 13).int("axis", 0).input(float(&[1, 2], &[1.0; 2]));
        let other = other.input(float(&[1, 3], &[1.0; 3]));
        assert!(other.refused().contains("input 1 is [1, 3]; expected [1, 2] but for axis 0"));
        let hole = Case::new(&ENTRY, 13).int("axis", 0).input(float(&[1], &[1.0])).absent();
        assert!(hole.refused().contains("input 1 is left out"));
    }
}
