//! Trilu: the part of matrices above or below a diagonal.

use crate::DataType;
use crate::element::with_bits;
use crate::ops::{Imported, Op, OpEntry, OpError, always};
use crate::params::ParamWriter;
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

/// The line of the table.
pub static ENTRY: OpEntry = OpEntry {
    name: "Trilu",
    code: 140,
    versions: &[14],
    attributes: &[always("upper")],
    inputs: (1, 2),
    operands: (1, 2),
    mixed: &[(1, &[DataType::INT64])],
    import: |node| Ok(Imported::all(Triangle { upper: node.flag("upper", true)? }, node)),
    decode: |from| Ok(Box::new(Triangle { upper: from.flag()? })),
    ..OpEntry::MOVES
};

/// The part of matrices on one side of a diagonal, with the diagonal; zeros elsewhere.
#[derive(Clone, Copy, Debug)]
pub struct Triangle {
    upper: bool,
}

impl Op for Triangle {
    fn code(&self) -> u16 {
        const { ENTRY.code }
    }

    fn encode(&self, into: &mut ParamWriter) {
        into.flag(self.upper);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        if inputs[0].shape.rank() < 2 {
            return Err(OpError::shape(format!("{} is no matrix", inputs[0].shape)));
        }
        if inputs.get(1).is_some_and(|k| k.shape.elements() != 1) {
            return Err(OpError::shape("`k` is not one number"));
        }
        Ok(inputs[0])
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let [.., rows, columns] = *inputs.dims(0) else { return Err(Fault::Memory) };
        let k = inputs.optional::<i64>(1)?.and_then(|own| own.first().copied()).unwrap_or(0);
        with_bits!(output.info.dtype, T => {
            let from = inputs.elements::<T>(0)?;
            for (flat, (to, x)) in output.elements::<T>()?.iter_mut().zip(from).enumerate() {
                let at = |index: usize| i64::try_from(index).unwrap_or(i64::MAX);
                let above = at(flat % columns) - at(flat / columns % rows);
                let keep = if self.upper { above >= k } else { above <= k };
                *to = if keep { *x } else { 0 };
            }
            Ok(())
        })
    }
}
