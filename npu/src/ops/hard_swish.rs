//! HardSwish: x * max(0, min(1, x / 6 + 0.5)).

use crate::DataType;
use crate::ops::activation::Elementwise;
use crate::ops::{Activation, Imported, OpEntry, types};

/// The line of the table.
pub static ENTRY: OpEntry = OpEntry {
    name: "HardSwish",
    code: 7,
    versions: &[14, 22],
    attributes: &[],
    inputs: (1, 1),
    outputs: 1,
    operands: (1, 1),
    types: &[(DataType::FLOAT, 1)],
    widened: &types::halves(22),
    import: |_| Ok(Imported::first(HardSwish)),
    decode: |_| Ok(Box::new(HardSwish)),
    ..OpEntry::BASE
};

/// x * max(0, min(1, x / 6 + 0.5)).
#[derive(Clone, Copy, Debug)]
pub struct HardSwish;

impl Elementwise for HardSwish {
    const ENTRY: &'static OpEntry = &ENTRY;

    fn function(&self) -> Activation {
        Activation::HardSwish
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{Case, assert_close, float, int64};

    #[test]
    fn values() {
        let case = Case::new(&ENTRY, 14).input(float(&[4], &[-4.0, -1.5, 1.5, 4.0]));
        assert_close(&case.run(), &float(&[4], &[0.0, -0.375, 1.125, 4.0]), 1e-6);
    }

    #[test]
    fn what_is_refused() {
        let early = Case::new(&ENTRY, 13).input(float(&[1], &[1.0]));
        assert!(early.refused().contains("not known in opset 13; supported: 14 to"));
        let whole = Case::new(&ENTRY, 14).input(int64(&[1], &[1]));
        assert!(whole.refused().contains("input 0 is int64; supported: float32"));
    }
}
