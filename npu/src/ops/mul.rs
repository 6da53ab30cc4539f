//! Mul: the product of two tensors, element by element, with broadcasting.

use std::any::Any;

use crate::DataType;
use crate::ops::broadcast::Broadcast;
use crate::ops::{Op, OpEntry, OpError, before};
use crate::params::ParamWriter;
use crate::tensor::{Element, Fault, Inputs, Output, TensorInfo, with_element};

/// The line of the table.
pub static ENTRY: OpEntry = OpEntry {
    name: "Mul",
    code: 10,
    versions: &[1, 6, 7, 13, 14],
    attributes: &[before("broadcast", 7), before("axis", 7), before("consumed_inputs", 6)],
    inputs: (2, 2),
    operands: (2, 2),
    types: &[(DataType::FLOAT, 1), (DataType::INT32, 6), (DataType::INT64, 6)],
    refused: "",
    import: |node| Broadcast::imported(node, |broadcast| Box::new(Mul { broadcast })),
    decode: |from| Ok(Box::new(Mul { broadcast: Broadcast::decode(from)? })),
};

/// The product of two tensors.
#[derive(Clone, Copy, Debug)]
pub struct Mul {
    /// How the second meets the first.
    pub broadcast: Broadcast,
}

impl Op for Mul {
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
            self.broadcast.run::<T>(inputs, output, <T as Element>::times)
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
    use crate::ops::testing::{Case, float, ints};

    #[test]
    fn a_scale_of_each_map() {
        let case = Case::new(&ENTRY, 15)
            .input(float(&[1, 2, 1, 2], &[1.0, 2.0, 3.0, 4.0]))
            .input(float(&[1, 2, 1, 1], &[10.0, 0.5]));
        assert_eq!(case.run(), float(&[1, 2, 1, 2], &[10.0, 20.0, 1.5, 2.0]));
        let outer = Case::new(&ENTRY, 7).input(ints(&[2, 1], &[2, 3])).input(ints(&[2], &[5, 7]));
        assert_eq!(outer.run(), ints(&[2, 2], &[10, 14, 15, 21]));
    }

    #[test]
    fn empty_operands_make_an_empty_result() {
        let case = Case::new(&ENTRY, 15).input(float(&[0, 2], &[])).input(float(&[1], &[1.0]));
        assert_eq!(case.run(), float(&[0, 2], &[]));
    }

    #[test]
    fn shapes_that_do_not_fit_are_refused() {
        let case = Case::new(&ENTRY, 15).input(float(&[2], &[1.0; 2]));
        let case = case.input(float(&[3], &[1.0; 3]));
        assert!(case.refused().contains("[2] and [3] do not broadcast"));
    }
}
