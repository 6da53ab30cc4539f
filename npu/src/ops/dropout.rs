//! Dropout when nothing is dropped: the input itself, and a mask that lets everything through.

use crate::DataType;
use crate::ops::movement::copy;
use crate::ops::{Imported, Node, Op, OpEntry, OpError, before, since, types};
use crate::params::{ParamReader, ParamWriter};
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

/// The line of the table.
pub static ENTRY: OpEntry = OpEntry {
    name: "Dropout",
    code: 116,
    versions: &[1, 6, 7, 10, 12, 13, 22],
    attributes: &[
        before("ratio", 12),
        before("is_test", 7),
        before("consumed_inputs", 6),
        since("seed", 12),
    ],
    inputs: (1, 3),
    outputs: 2,
    types: &types::floats(13),
    refused: "training with a `ratio` that is not 0: `training_mode` = 1, `is_test` = 0",
    import,
    decode,
    ..OpEntry::MOVES
};

/// The input itself.
#[derive(Clone, Copy, Debug)]
pub struct Dropout {
    /// There is a mask: bools, or ones of the input's type.
    mask: Option<bool>,
}

fn import(node: &Node<'_>) -> Result<Imported, OpError> {
    // Nothing is dropped at a ratio of 0.
    let none = node.has(1) && node.input(1)?.value.is_some_and(|own| own.iter().all(|x| *x == 0));
    if node.has(2) && !none {
        let known = node.input(2)?;
        let value = known.value.ok_or(OpError::NotConstant { input: 2, name: "training_mode" })?;
        if value.iter().any(|byte| *byte != 0) {
            if node.has(1) && node.input(1)?.value.is_none() {
                return Err(OpError::NotConstant { input: 1, name: "ratio" });
            }
            return Err(OpError::attribute("training_mode", 1, "0"));
        }
    }
    if node.opset < 7 && !node.flag("is_test", false)? {
        return Err(OpError::attribute("is_test", 0, "1"));
    }
    let mask = (node.outputs > 1).then_some(node.opset >= 10);
    Ok(Imported::first(Dropout { mask }))
}

fn decode(from: &mut ParamReader<'_>) -> Result<Box<dyn Op>, OpError> {
    let (has, bools) = (from.flag()?, from.flag()?);
    Ok(Box::new(Dropout { mask: has.then_some(bools) }))
}

impl Op for Dropout {
    fn code(&self) -> u16 {
        const { ENTRY.code }
    }

    fn encode(&self, into: &mut ParamWriter) {
        into.flag(self.mask.is_some());
        into.flag(self.mask == Some(true));
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        Ok(inputs[0])
    }

    fn further(&self, inputs: &[TensorInfo]) -> Result<Vec<TensorInfo>, OpError> {
        let own = |bools: bool| {
            let dtype = if bools { DataType::BOOL } else { inputs[0].dtype };
            TensorInfo { dtype, ..inputs[0] }
        };
        Ok(self.mask.map(own).into_iter().collect())
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        copy(inputs, output)?;
        match self.mask {
            None => {}
            Some(true) => output.further::<u8>(0)?.ok_or(Fault::Memory)?.fill(1),
            Some(false) => {
                let count = output.info.shape.elements();
                let mut to = output.further_numbers::<f64>(0)?.ok_or(Fault::Memory)?;
                (0..count).for_each(|index| to.set(index, 1.0));
            }
        }
        Ok(())
    }

    fn is_view(&self) -> bool {
        self.mask.is_none()
    }
}
