//! Add: the sum of two tensors, element by element, with broadcasting.

use std::any::Any;

use crate::DataType;
use crate::ops::broadcast::Broadcast;
use crate::ops::{Op, OpEntry, OpError, before};
use crate::params::ParamWriter;
use crate::tensor::{Element, Fault, Inputs, Output, TensorInfo, with_element};

/// The line of the table.
pub static ENTRY: OpEntry = OpEntry {
    name: "Add",
    code: 1,
    versions: &[1, 6, 7, 13, 14],
    attributes: &[before("broadcast", 7), before("axis", 7), before("consumed_inputs", 6)],
    inputs: (2, 2),
    operands: (2, 2),
    types: &[(DataType::FLOAT, 1), (DataType::INT32, 6), (DataType::INT64, 6)],
    refused: "",
    import: |node| Broadcast::imported(node, |broadcast| Box::new(Add { broadcast })),
    decode: |from| Ok(Box::new(Add { broadcast: Broadcast::decode(from)? })),
};

/// The sum of two tensors.
#[derive(Clone, Copy, Debug)]
pub struct Add {
    /// How the second meets the first.
    pub broadcast: Broadcast,
}

impl Op for Add {
    fn entry(&self) -> &'static OpEntry {
        &ENTRY
    }

    fn encode(&self, into: &mut ParamWriter) {
        self.broadcast.encode(into);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        self.broadcast.infer(inputs)
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        with_element!(output.info.dtype, T => {
            self.broadcast.run::<T>(inputs, output, <T as Element>::plus)
        })
    }

    fn flops(&self, _inputs: &[TensorInfo], output: &TensorInfo) -> u64 {
        output.shape.elements() as u64
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{Case, float, ints, int64};

    #[test]
    fn numpy_broadcasting_of_every_type() {
        let sum = Case::new(&ENTRY, 14)
            .input(float(&[2, 2], &[1.0, 2.0, 3.0, 4.0]))
            .input(float(&[2], &[10.0, 20.0]));
        assert_eq!(sum.run(), float(&[2, 2], &[11.0, 22.0, 13.0, 24.0]));
        let wraps = Case::new(&ENTRY, 14).input(int64(&[1], &[i64::MAX])).input(int64(&[], &[1]));
        assert_eq!(wraps.run(), int64(&[1], &[i64::MIN]));
    }

    #[test]
    fn the_attributes_of_opset_6() {
        let case = Case::new(&ENTRY, 6)
            .int("broadcast", 1)
            .int("axis", 0)
            .input(float(&[2, 2], &[0.0, 0.0, 0.0, 0.0]))
            .input(float(&[2], &[1.0, 2.0]));
        assert_eq!(case.run(), float(&[2, 2], &[1.0, 1.0, 2.0, 2.0]));
        let suffix = Case::new(&ENTRY, 1)
            .int("broadcast", 1)
            .ints("consumed_inputs", &[0, 0])
            .input(float(&[2, 2], &[0.0, 0.0, 0.0, 0.0]))
            .input(float(&[2], &[1.0, 2.0]));
        assert_eq!(suffix.run(), float(&[2, 2], &[1.0, 2.0, 1.0, 2.0]));
        let unasked = Case::new(&ENTRY, 6)
            .input(float(&[2, 2], &[0.0; 4]))
            .input(float(&[2], &[1.0, 2.0]));
        assert!(unasked.refused().contains("`broadcast` = 0"));
    }

    #[test]
    fn what_is_refused() {
        let later = Case::new(&ENTRY, 7).int("broadcast", 1);
        let later = later.input(float(&[1], &[1.0])).input(float(&[1], &[1.0]));
        assert!(later.refused().contains("was removed in opset 7"));
        let mixed = Case::new(&ENTRY, 14).input(float(&[1], &[1.0])).input(int64(&[1], &[1]));
        assert!(mixed.refused().contains("input 1 is int64; supported: float32"));
        let early = Case::new(&ENTRY, 5).input(ints(&[1], &[1])).input(ints(&[1], &[1]));
        assert!(early.refused().contains("supported: float32"), "whole numbers since opset 6");
    }
}
