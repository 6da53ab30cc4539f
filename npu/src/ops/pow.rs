//! Pow: one number to the power of another, which may be of another type.

use crate::DataType;
use crate::element::Element;
use crate::numbers::{Wide, with_wide};
use crate::ops::{Broadcast, Imported, Op, OpEntry, OpError, before, types};
use crate::params::ParamWriter;
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

/// Types of exponents.
const EXPONENTS: &[DataType] = &[
    DataType::FLOAT,
    DataType::DOUBLE,
    DataType::FLOAT16,
    DataType::BF16,
    DataType::INT32,
    DataType::INT64,
    DataType::UINT32,
    DataType::UINT64,
];

/// The line of the table.
pub static ENTRY: OpEntry = OpEntry {
    name: "Pow",
    code: 65,
    versions: &[1, 7, 12, 13, 15],
    attributes: &[before("broadcast", 7), before("axis", 7)],
    inputs: (2, 2),
    operands: (2, 2),
    types: &types::powers(12, 13),
    mixed: &[(1, EXPONENTS)],
    refused: "exponents of 8 and 16 bits, other than floats; before opset 12, other types than \
              the base's",
    import: |node| {
        let (base, exponent) = (node.input(0)?.info.dtype, node.input(1)?.info.dtype);
        if node.opset < 12 && base != exponent {
            return Err(OpError::types(1, exponent, &[base]));
        }
        Ok(Imported::all(Pow(Broadcast::import(node)?), node))
    },
    decode: |from| Ok(Box::new(Pow(Broadcast::decode(from)?))),
    ..OpEntry::BASE
};

/// One number to the power of another.
#[derive(Clone, Copy, Debug)]
pub struct Pow(Broadcast);

/// A base.
trait Base: Wide {
    fn power(self, exponent: f64) -> Self;
}

impl Base for f64 {
    fn power(self, exponent: f64) -> Self {
        self.powf(exponent)
    }
}

impl Base for i128 {
    fn power(self, exponent: f64) -> Self {
        Self::from(whole(self.to_i64(), exponent))
    }
}

/// A whole number's power: whole for whole exponents, which wraps around, else cut off.
fn whole(x: i64, exponent: f64) -> i64 {
    let whole = exponent.trunc() == exponent && (0.0..=f64::from(u32::MAX)).contains(&exponent);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in range")]
    if whole { x.wrapping_pow(exponent as u32) } else { i64::of_f64(x.to_f64().powf(exponent)) }
}

impl Op for Pow {
    fn code(&self) -> u16 {
        const { ENTRY.code }
    }

    fn encode(&self, into: &mut ParamWriter) {
        self.0.encode(into);
    }

    fn is_pointwise(&self) -> bool {
        !matches!(self.0, Broadcast::At(_))
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        self.0.infer(inputs)
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let exponent = inputs.info(1).dtype;
        if (output.info.dtype, exponent) == (DataType::FLOAT, DataType::FLOAT) {
            let of = |x: f32, y: f32| if y == 2.0 { x * x } else { x.powf(y) };
            return self.0.run(inputs, output, of);
        }
        with_wide!(output.info.dtype, W => self.0.run_wide::<W, f64>(inputs, output, W::power))
    }

    fn flops(&self, _inputs: &[TensorInfo], output: &TensorInfo) -> u64 {
        output.shape.elements() as u64
    }
}
