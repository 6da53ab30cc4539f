//! CumSum and CumProd: sums and products of all elements up to each.

use crate::numbers::{BLOCK, Wide, with_wide};
use crate::ops::{AttributeSpec, Imported, Node, Op, OpEntry, OpError, always, axis, types};
use crate::params::{ParamReader, ParamWriter};
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

const ATTRIBUTES: &[AttributeSpec] = &[always("exclusive"), always("reverse")];

/// The line of CumSum.
pub static SUM: OpEntry = OpEntry {
    name: "CumSum",
    code: 137,
    versions: &[11, 14],
    attributes: ATTRIBUTES,
    inputs: (2, 2),
    types: &types::whole(1, 14),
    refused: "an `axis` that is computed from data",
    import: |node| Running::import(false, node),
    decode: |from| Running::decode(false, from),
    ..OpEntry::BASE
};

/// The line of CumProd.
pub static PRODUCT: OpEntry = OpEntry {
    name: "CumProd",
    code: 138,
    versions: &[26],
    attributes: ATTRIBUTES,
    inputs: (2, 2),
    types: &types::whole(1, 1),
    refused: "an `axis` that is computed from data",
    import: |node| Running::import(true, node),
    decode: |from| Running::decode(true, from),
    ..OpEntry::BASE
};

/// Sums or products of all elements up to each, along an axis.
#[derive(Clone, Copy, Debug)]
pub struct Running {
    product: bool,
    axis: usize,
    /// Without the element itself.
    exclusive: bool,
    /// From the end.
    reverse: bool,
}

impl Running {
    fn import(product: bool, node: &Node<'_>) -> Result<Imported, OpError> {
        let rank = node.input(0)?.info.shape.rank();
        let given = node.integers(1, "axis")?;
        let [given] = given[..] else { return Err(OpError::shape("`axis` is one number")) };
        let axis = axis("axis", given, rank)?;
        let (exclusive, reverse) = (node.flag("exclusive", false)?, node.flag("reverse", false)?);
        Ok(Imported::first(Self { product, axis, exclusive, reverse }))
    }

    fn decode(product: bool, from: &mut ParamReader<'_>) -> Result<Box<dyn Op>, OpError> {
        let (axis, exclusive, reverse) = (from.size()?, from.flag()?, from.flag()?);
        Ok(Box::new(Self { product, axis, exclusive, reverse }))
    }

    fn compute<W: Wide>(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let (dims, from) = (inputs.dims(0), inputs.numbers::<W>(0)?);
        let (dim, inner) = (dims[self.axis], dims[self.axis + 1..].iter().product::<usize>());
        let of = if self.product { W::times } else { W::plus };
        let elements = output.info.shape.elements();
        let (mut to, mut block) = (output.numbers::<W>()?, [W::ZERO; BLOCK]);
        for lane in 0..elements / dim.max(1) {
            let begin = lane / inner * dim * inner + lane % inner;
            let mut sum = if self.product { W::ONE } else { W::ZERO };
            for step in (0..dim).step_by(BLOCK) {
                let own = &mut block[..BLOCK.min(dim - step)];
                let first = if self.reverse { dim - step - own.len() } else { step };
                from.read(begin + first * inner, inner, own);
                let mut next = |x: &mut W| {
                    let with = of(sum, *x);
                    *x = if self.exclusive { sum } else { with };
                    sum = with;
                };
                match self.reverse {
                    true => own.iter_mut().rev().for_each(&mut next),
                    false => own.iter_mut().for_each(&mut next),
                }
                to.write_every(begin + first * inner, inner, own);
            }
        }
        Ok(())
    }
}

impl Op for Running {
    fn code(&self) -> u16 {
        if self.product { const { PRODUCT.code } } else { const { SUM.code } }
    }

    fn encode(&self, into: &mut ParamWriter) {
        into.size(self.axis);
        into.flag(self.exclusive);
        into.flag(self.reverse);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        if self.axis >= inputs[0].shape.rank() {
            return Err(OpError::shape(format!("{} has no axis {}", inputs[0].shape, self.axis)));
        }
        Ok(inputs[0])
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        with_wide!(output.info.dtype, W => self.compute::<W>(inputs, output))
    }

    fn flops(&self, _inputs: &[TensorInfo], output: &TensorInfo) -> u64 {
        output.shape.elements() as u64
    }
}
