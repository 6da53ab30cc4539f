//! Shape: the dims of a tensor, as numbers. In a compiled model they are constants, so the kernel
//! runs when the model is compiled.

use crate::DataType;
use crate::ops::types;
use crate::ops::{Imported, Node, Op, OpEntry, OpError, since};
use crate::params::{ParamReader, ParamWriter};
use crate::shape::{RANK_MAX, Shape as Dims};
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

/// The line of the table.
pub static ENTRY: OpEntry = OpEntry {
    name: "Shape",
    code: 13,
    versions: &[1, 13, 15, 19, 21, 23, 24, 25],
    attributes: &[since("start", 15), since("end", 15)],
    inputs: (1, 1),
    outputs: 1,
    operands: (1, 1),
    types: types::ALL,
    import,
    decode,
    ..OpEntry::BASE
};

/// Dims `start` to `end` of a tensor, as numbers.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// First dim.
    pub start: usize,
    /// First dim that is left out; not below `start`.
    pub end: usize,
}

fn import(node: &Node<'_>) -> Result<Imported, OpError> {
    let rank = i64::try_from(node.input(0)?.info.shape.rank()).unwrap_or(i64::MAX);
    // Both count from the end when negative, and are then clamped.
    let place = |name, default| -> Result<usize, OpError> {
        let given = node.int(name)?.unwrap_or(default);
        let at = if given < 0 { given.saturating_add(rank) } else { given };
        Ok(usize::try_from(at.clamp(0, rank)).unwrap_or(0))
    };
    let (start, end) = (place("start", 0)?, place("end", rank)?);
    Ok(Imported::first(Shape { start, end: end.max(start) }))
}

fn decode(from: &mut ParamReader<'_>) -> Result<Box<dyn Op>, OpError> {
    let [start, end] = from.sizes()?;
    if start > end || end > RANK_MAX {
        return Err(OpError::params(format!("dims {start} to {end}; at most {RANK_MAX} exist")));
    }
    Ok(Box::new(Shape { start, end }))
}

impl Op for Shape {
    fn code(&self) -> u16 {
        const { ENTRY.code }
    }

    fn encode(&self, into: &mut ParamWriter) {
        into.sizes(&[self.start, self.end]);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let shape = inputs[0].shape;
        if self.end > shape.rank() {
            return Err(OpError::shape(format!("dims to {} of {shape}", self.end)));
        }
        Ok(TensorInfo::new(DataType::INT64, Dims::new(&[self.end - self.start])?))
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let dims = &inputs.dims(0)[self.start..self.end];
        for (to, dim) in output.elements::<i64>()?.iter_mut().zip(dims) {
            *to = i64::try_from(*dim).unwrap_or(i64::MAX);
        }
        Ok(())
    }

    fn flops(&self, _inputs: &[TensorInfo], _output: &TensorInfo) -> u64 {
        0
    }

    fn reads_shape_only(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{Case, float, int64};

    fn of(opset: u32) -> Case {
        Case::new(&ENTRY, opset).data().input(float(&[2, 1, 3], &[0.0; 6]))
    }

    #[test]
    fn all_dims_or_some() {
        assert_eq!(of(1).run(), int64(&[3], &[2, 1, 3]));
        assert_eq!(of(15).int("start", 1).run(), int64(&[2], &[1, 3]));
        assert_eq!(of(15).int("start", -2).int("end", -1).run(), int64(&[1], &[1]));
        assert_eq!(of(15).int("start", -9).int("end", 9).run(), int64(&[3], &[2, 1, 3]));
        assert_eq!(of(15).int("start", 2).int("end", 1).run(), int64(&[0], &[]));
        assert_eq!(of(15).int("end", i64::MIN).run(), int64(&[0], &[]));
        let scalar = Case::new(&ENTRY, 13).input(int64(&[], &[7]));
        assert_eq!(scalar.run(), int64(&[0], &[]));
    }

    #[test]
    fn a_part_since_opset_15() {
        assert!(of(13).int("start", 1).refused().contains("`start`: exists from opset 15"));
    }
}
