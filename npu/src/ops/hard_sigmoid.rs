//! HardSigmoid: max(0, min(1, alpha * x + beta)).

use crate::DataType;
use crate::ops::activation::Elementwise;
use crate::ops::{Activation, Imported, OpEntry, always, before, types};
use crate::params::ParamWriter;

/// The line of the table.
pub static ENTRY: OpEntry = OpEntry {
    name: "HardSigmoid",
    code: 6,
    versions: &[1, 6, 22],
    attributes: &[always("alpha"), always("beta"), before("consumed_inputs", 6)],
    inputs: (1, 1),
    outputs: 1,
    operands: (1, 1),
    types: &[(DataType::FLOAT, 1)],
    widened: &types::halves(22),
    import: |node| {
        let (alpha, beta) = (node.float("alpha", 0.2)?, node.float("beta", 0.5)?);
        Ok(Imported::first(HardSigmoid { alpha, beta }))
    },
    decode: |from| Ok(Box::new(HardSigmoid { alpha: from.f32()?, beta: from.f32()? })),
    ..OpEntry::BASE
};

/// max(0, min(1, alpha * x + beta)).
#[derive(Clone, Copy, Debug)]
pub struct HardSigmoid {
    /// Slope.
    pub alpha: f32,
    /// Offset.
    pub beta: f32,
}

impl Elementwise for HardSigmoid {
    const ENTRY: &'static OpEntry = &ENTRY;

    fn function(&self) -> Activation {
        Activation::HardSigmoid { alpha: self.alpha, beta: self.beta }
    }

    fn encode(&self, into: &mut ParamWriter) {
        into.f32(self.alpha);
        into.f32(self.beta);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{Case, assert_close, float};

    #[test]
    fn defaults_and_attributes() {
        let input = float(&[3], &[-10.0, 1.0, 10.0]);
        let plain = Case::new(&ENTRY, 1).input(input.clone());
        assert_close(&plain.run(), &float(&[3], &[0.0, 0.7, 1.0]), 1e-6);
        let steep = Case::new(&ENTRY, 15).float("alpha", 0.5).float("beta", 0.25).input(input);
        assert_close(&steep.run(), &float(&[3], &[0.0, 0.75, 1.0]), 1e-6);
    }

    #[test]
    fn what_is_refused() {
        let endless = Case::new(&ENTRY, 6).float("alpha", f32::INFINITY);
        let endless = endless.input(float(&[1], &[0.0]));
        assert!(endless.refused().contains("attribute `alpha`: inf; supported: a finite float"));
        let strange = Case::new(&ENTRY, 6).float("gamma", 1.0).input(float(&[1], &[0.0]));
        let refused = strange.refused();
        assert!(refused.contains("`gamma`: no attribute of this op; supported: alpha, b"));
    }
}
