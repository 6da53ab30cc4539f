//! Where: elements of one tensor or of another, by a condition; all three broadcast.

use crate::DataType;
use crate::element::with_bits;
use crate::ops::broadcast::Walk;
use crate::ops::{Imported, Op, OpEntry, OpError};
use crate::shape::Shape;
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

/// The line of the table.
pub static ENTRY: OpEntry = OpEntry {
    name: "Where",
    code: 82,
    versions: &[9, 16],
    inputs: (3, 3),
    operands: (3, 3),
    mixed: &[(0, &[DataType::BOOL])],
    import: |node| Ok(Imported::all(Where, node)),
    decode: |_| Ok(Box::new(Where)),
    ..OpEntry::MOVES
};

/// One element or another.
#[derive(Clone, Copy, Debug)]
pub struct Where;

impl Op for Where {
    fn code(&self) -> u16 {
        const { ENTRY.code }
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let shapes: Vec<Shape> = inputs.iter().map(|input| input.shape).collect();
        let shape = shapes[0].broadcast(&shapes[1]).and_then(|both| both.broadcast(&shapes[2]));
        let what = || OpError::shape(format!("{shapes:?} do not broadcast"));
        Ok(TensorInfo::new(inputs[1].dtype, shape.ok_or_else(what)?))
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let shape = |index: usize| &inputs.info(index).shape;
        let walk = Walk::new(&output.info.shape, [shape(0), shape(1), shape(2)]);
        let condition = inputs.bytes(0);
        with_bits!(output.info.dtype, T => {
            let (x, y) = (inputs.elements::<T>(1)?, inputs.elements::<T>(2)?);
            walk.rows(output.elements::<T>()?, |row, at, strides| {
                for (index, to) in row.iter_mut().enumerate() {
                    let place = |operand: usize| at[operand] + index * strides[operand];
                    *to = if condition[place(0)] != 0 { x[place(1)] } else { y[place(2)] };
                }
            });
            Ok(())
        })
    }
}
