//! ArgMax and ArgMin: the index of the highest or lowest element along an axis.

use crate::DataType;
use crate::numbers::{Wide, with_wide};
use crate::ops::reduce::{Axes, no_number};
use crate::ops::{AttributeSpec, Imported, Node, Op, OpEntry, OpError, always, axis, since, types};
use crate::params::{ParamReader, ParamWriter};
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

const ATTRIBUTES: &[AttributeSpec] =
    &[always("axis"), always("keepdims"), since("select_last_index", 12)];

/// The line of ArgMax.
pub static ARG_MAX: OpEntry = OpEntry {
    name: "ArgMax",
    code: 101,
    versions: &[1, 11, 12, 13],
    attributes: ATTRIBUTES,
    types: &types::numbers(1, 1, 13),
    import: |node| Arg::import(true, node),
    decode: |from| Arg::decode(true, from),
    ..OpEntry::BASE
};

/// The line of ArgMin.
pub static ARG_MIN: OpEntry = OpEntry {
    name: "ArgMin",
    code: 102,
    versions: &[1, 11, 12, 13],
    attributes: ATTRIBUTES,
    types: &types::numbers(1, 1, 13),
    import: |node| Arg::import(false, node),
    decode: |from| Arg::decode(false, from),
    ..OpEntry::BASE
};

/// The index of the highest or lowest element; of a NaN, if there is one.
#[derive(Clone, Copy, Debug)]
pub struct Arg {
    highest: bool,
    /// Of equal ones the last, else the first.
    last: bool,
    axes: Axes,
}

impl Arg {
    fn import(highest: bool, node: &Node<'_>) -> Result<Imported, OpError> {
        let shape = node.input(0)?.info.shape;
        let axis = axis("axis", node.int("axis")?.unwrap_or(0), shape.rank())?;
        let axes = Axes::one(axis, shape.rank(), node.flag("keepdims", true)?);
        let last = node.flag("select_last_index", false)?;
        Ok(Imported::first(Self { highest, last, axes }))
    }

    fn decode(highest: bool, from: &mut ParamReader<'_>) -> Result<Box<dyn Op>, OpError> {
        Ok(Box::new(Self { highest, last: from.flag()?, axes: Axes::decode(from)? }))
    }

    fn compute<W: Wide>(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let lanes = self.axes.lanes(&inputs.info(0).shape);
        let better = |x: W, best: W| {
            if no_number(best) {
                return self.last && no_number(x);
            }
            let beats = if self.highest { x > best } else { x < best };
            beats || no_number(x) || (self.last && x == best)
        };
        let to = output.elements::<i64>()?;
        lanes.each_wide(inputs.numbers::<W>(0)?, &mut |place, lane| {
            let (at, ..) = lane.fold((0, None, 0), |(at, best, index), x| match best {
                Some(best) if !better(x, best) => (at, Some(best), index + 1),
                _ => (index, Some(x), index + 1),
            });
            to[place] = at;
        });
        Ok(())
    }
}

impl Op for Arg {
    fn code(&self) -> u16 {
        if self.highest { const { ARG_MAX.code } } else { const { ARG_MIN.code } }
    }

    fn encode(&self, into: &mut ParamWriter) {
        into.flag(self.last);
        self.axes.encode(into);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let (own, shape) = (inputs[0].shape, self.axes.shape(&inputs[0].shape)?);
        if own.elements() == 0 && shape.elements() > 0 {
            return Err(OpError::shape(format!("{own}: there is no highest and no lowest")));
        }
        Ok(TensorInfo::new(DataType::INT64, shape))
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        with_wide!(inputs.info(0).dtype, W => self.compute::<W>(inputs, output))
    }
}
