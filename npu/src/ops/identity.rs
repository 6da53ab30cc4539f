//! Identity: the input itself. The compiler takes it out where no copy is needed.

use crate::ops::movement::copy;
use crate::ops::types;
use crate::ops::{Imported, Op, OpEntry, OpError};
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

/// The line of the table.
pub static ENTRY: OpEntry = OpEntry {
    name: "Identity",
    code: 8,
    versions: &[1, 13, 14, 16, 19, 21, 23, 24, 25],
    attributes: &[],
    inputs: (1, 1),
    outputs: 1,
    operands: (1, 1),
    types: types::ALL,
    refused: "sequences and optionals",
    import: |_| Ok(Imported::first(Identity)),
    decode: |_| Ok(Box::new(Identity)),
    ..OpEntry::MOVES
};

/// The input itself.
#[derive(Clone, Copy, Debug)]
pub struct Identity;

impl Op for Identity {
    fn code(&self) -> u16 {
        const { ENTRY.code }
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        Ok(inputs[0])
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        copy(inputs, output)
    }

    fn flops(&self, _inputs: &[TensorInfo], _output: &TensorInfo) -> u64 {
        0
    }

    fn is_view(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{Case, int64, value_of};

    #[test]
    fn every_type_and_rank() {
        for (dtype, _) in ENTRY.types {
            let value = value_of(*dtype, &[2, 1], &[3, -4]);
            assert_eq!(Case::new(&ENTRY, 25).input(value.clone()).run(), value);
        }
        assert_eq!(Case::new(&ENTRY, 1).input(int64(&[], &[5])).run(), int64(&[], &[5]));
    }

    #[test]
    fn two_inputs_are_refused() {
        let case = Case::new(&ENTRY, 1).input(int64(&[], &[5])).input(int64(&[], &[5]));
        assert_eq!(case.refused(), "2 inputs; supported: 1");
        let two = Case::new(&ENTRY, 1).input(int64(&[], &[5])).outputs(2);
        assert_eq!(two.refused(), "2 outputs; supported: 1");
    }
}
