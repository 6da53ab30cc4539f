//! Det: determinants of square matrices.

use crate::ops::{Imported, Op, OpEntry, OpError, types};
use crate::shape::Shape;
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

/// The line of the table.
pub static ENTRY: OpEntry = OpEntry {
    name: "Det",
    code: 175,
    versions: &[11, 22],
    types: &types::floats(22),
    import: |_| Ok(Imported::first(Determinant)),
    decode: |_| Ok(Box::new(Determinant)),
    ..OpEntry::BASE
};

/// The determinant of each matrix.
#[derive(Clone, Copy, Debug)]
pub struct Determinant;

/// By elimination, with the largest element of a column first.
fn determinant(matrix: &mut [f64], order: usize) -> f64 {
    let mut product = 1.0;
    for column in 0..order {
        let size = |row: &usize| matrix[row * order + column].abs();
        let Some(pivot) = (column..order).max_by(|a, b| size(a).total_cmp(&size(b))) else { break };
        let value = matrix[pivot * order + column];
        if value == 0.0 {
            return 0.0;
        }
        product *= value;
        if pivot != column {
            product = -product;
            for k in column..order {
                matrix.swap(pivot * order + k, column * order + k);
            }
        }
        for row in column + 1..order {
            let factor = matrix[row * order + column] / value;
            for k in column..order {
                matrix[row * order + k] -= factor * matrix[column * order + k];
            }
        }
    }
    product
}

impl Op for Determinant {
    fn code(&self) -> u16 {
        const { ENTRY.code }
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        match inputs[0].shape.dims() {
            [outer @ .., rows, columns] if rows == columns => {
                Ok(TensorInfo::new(inputs[0].dtype, Shape::new(outer)?))
            }
            _ => Err(OpError::shape(format!("{}: no square matrices", inputs[0].shape))),
        }
    }

    fn scratch_bytes(&self, inputs: &[TensorInfo], _output: &TensorInfo) -> usize {
        let order = inputs[0].shape.dims().last().copied().unwrap_or(0);
        order.saturating_mul(order).saturating_mul(8)
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let order = inputs.dims(0).last().copied().ok_or(Fault::Memory)?;
        let (from, count) = (inputs.numbers::<f64>(0)?, output.info.shape.elements());
        let scratch = crate::cast::elements_mut::<f64>(output.scratch).ok_or(Fault::Memory)?;
        let matrix = scratch.get_mut(..order * order).ok_or(Fault::Memory)?;
        let dtype = output.info.dtype;
        let mut to = crate::numbers::NumbersMut::<f64>::new(dtype, output.bytes)?;
        for index in 0..count {
            from.read(index * order * order, 1, matrix);
            to.set(index, determinant(matrix, order));
        }
        Ok(())
    }

    fn flops(&self, inputs: &[TensorInfo], _output: &TensorInfo) -> u64 {
        let order = inputs[0].shape.dims().last().copied().unwrap_or(0) as u64;
        order.saturating_mul(inputs[0].shape.elements() as u64)
    }
}
