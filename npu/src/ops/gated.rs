//! SwiGLU: numbers of one tensor by the gate that is another one.

use crate::numbers::BLOCK;
use crate::ops::{Imported, Op, OpEntry, OpError, always, types};
use crate::params::ParamWriter;
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

/// The line of the table.
pub static ENTRY: OpEntry = OpEntry {
    name: "SwiGLU",
    code: 176,
    versions: &[28],
    attributes: &[always("alpha")],
    inputs: (2, 2),
    operands: (2, 2),
    types: &types::floats(28),
    import: |node| Ok(Imported::all(SwiGlu { alpha: node.float("alpha", 1.0)? }, node)),
    decode: |from| Ok(Box::new(SwiGlu { alpha: from.f32()? })),
    ..OpEntry::BASE
};

/// `a * sigmoid(alpha * a) * b`.
#[derive(Clone, Copy, Debug)]
pub struct SwiGlu {
    alpha: f32,
}

impl Op for SwiGlu {
    fn code(&self) -> u16 {
        const { ENTRY.code }
    }

    fn encode(&self, into: &mut ParamWriter) {
        into.f32(self.alpha);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        if inputs[0].shape != inputs[1].shape {
            let (a, b) = (inputs[0].shape, inputs[1].shape);
            return Err(OpError::shape(format!("{a} and {b} are not the same")));
        }
        Ok(inputs[0])
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let (gate, from) = (inputs.numbers::<f64>(0)?, inputs.numbers::<f64>(1)?);
        let (count, alpha) = (output.info.shape.elements(), f64::from(self.alpha));
        let mut to = output.numbers::<f64>()?;
        let (mut a, mut b) = ([0.0; BLOCK], [0.0; BLOCK]);
        for begin in (0..count).step_by(BLOCK) {
            let own = BLOCK.min(count - begin);
            gate.read(begin, 1, &mut a[..own]);
            from.read(begin, 1, &mut b[..own]);
            a.iter_mut().zip(&b).for_each(|(a, b)| *a *= b / (1.0 + (-alpha * *a).exp()));
            to.write(begin, &a[..own]);
        }
        Ok(())
    }

    fn is_by_place(&self, _inputs: &[TensorInfo], _output: &TensorInfo) -> bool {
        true
    }

    fn flops(&self, _inputs: &[TensorInfo], output: &TensorInfo) -> u64 {
        16 * output.shape.elements() as u64
    }
}
