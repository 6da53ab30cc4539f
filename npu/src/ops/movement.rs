//! Ops that move elements without looking at them: Identity, Reshape, Concat, Slice.

use crate::DataType;
use crate::tensor::{Fault, Inputs, Output};

/// Types that can be moved, and the opset since which.
pub(super) const ALL_TYPES: &[(DataType, u32)] =
    &[(DataType::FLOAT, 1), (DataType::INT32, 1), (DataType::INT64, 1)];

/// Copies input 0.
pub(super) fn copy(inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
    let from = inputs.bytes(0);
    if from.len() != output.bytes.len() {
        return Err(Fault::Memory);
    }
    output.bytes.copy_from_slice(from);
    Ok(())
}
