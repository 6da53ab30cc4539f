//! Relu: max(0, x).

use crate::DataType;
use crate::element::Element;
use crate::numbers::with_wide;
use crate::ops::activation::Elementwise;
use crate::ops::unary::each;
use crate::ops::{Activation, Imported, OpEntry, before, types};
use crate::tensor::{Fault, Inputs, Output};

/// The line of the table.
pub static ENTRY: OpEntry = OpEntry {
    name: "Relu",
    code: 11,
    versions: &[1, 6, 13, 14],
    attributes: &[before("consumed_inputs", 6)],
    inputs: (1, 1),
    outputs: 1,
    operands: (1, 1),
    types: &types::signed(14, 13),
    import: |_| Ok(Imported::first(Relu)),
    decode: |_| Ok(Box::new(Relu)),
    ..OpEntry::BASE
};

/// max(0, x), also of whole numbers.
#[derive(Clone, Copy, Debug)]
pub struct Relu;

impl Elementwise for Relu {
    const ENTRY: &'static OpEntry = &ENTRY;

    fn function(&self) -> Activation {
        Activation::Relu
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        match output.info.dtype {
            DataType::FLOAT => self.function().run(inputs, output),
            dtype => with_wide!(dtype, W => {
                each::<W>(inputs, output, &|x| if x < W::ZERO { W::ZERO } else { x })
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{Case, float, int64, ints, value_of};

    #[test]
    fn every_type() {
        let floats = Case::new(&ENTRY, 15).input(float(&[3], &[-1.0, 0.0, 2.0]));
        assert_eq!(floats.run(), float(&[3], &[0.0, 0.0, 2.0]));
        let whole = Case::new(&ENTRY, 14).input(ints(&[2], &[-1, 2]));
        assert_eq!(whole.run(), ints(&[2], &[0, 2]));
        for (dtype, _) in ENTRY.types {
            let case = Case::new(&ENTRY, 14).input(value_of(*dtype, &[3], &[-3, 0, 4]));
            assert_eq!(case.run(), value_of(*dtype, &[3], &[0, 0, 4]));
        }
        let long = Case::new(&ENTRY, 14).input(int64(&[2], &[i64::MIN, 2]));
        assert_eq!(long.run(), int64(&[2], &[0, 2]));
    }

    #[test]
    fn whole_numbers_since_opset_14() {
        let case = Case::new(&ENTRY, 13).input(ints(&[1], &[1]));
        assert!(case.refused().contains("input 0 is int32; supported: float32"));
    }
}
