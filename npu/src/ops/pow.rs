//! Pow: one number to the power of another, which may be of another type.

use crate::DataType;
use crate::element::{Element, Float, Real, with_type};
use crate::half::{Bf16, F16};
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
trait Base: Element {
    fn power(self, exponent: f64) -> Self;
}

macro_rules! bases {
    ($($name:ty: |$x:ident, $y:ident| $of:expr;)+) => {
        $(impl Base for $name {
            #[inline(always)]
            #[allow(clippy::cast_possible_truncation, reason = "to the type's precision")]
            fn power(self, exponent: f64) -> Self {
                let ($x, $y) = (self, exponent);
                $of
            }
        })+
    };
}
bases! {
    f32: |x, y| if y == 2.0 { x * x } else { x.powf(y as f32) };
    f64: |x, y| x.powf(y);
    F16: |x, y| F16::of_real(Real::powf(x.real(), y as f32));
    Bf16: |x, y| Bf16::of_real(Real::powf(x.real(), y as f32));
    i32: |x, y| Self::of_i64(whole(i64::from(x), y));
    i64: |x, y| whole(x, y);
}

/// A whole number's power: whole for whole exponents, which wraps around, else cut off.
fn whole(x: i64, exponent: f64) -> i64 {
    let whole = exponent.trunc() == exponent && (0.0..=f64::from(u32::MAX)).contains(&exponent);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in range")]
    if whole { x.wrapping_pow(exponent as u32) } else { i64::of_f64(x.to_f64().powf(exponent)) }
}

impl Op for Pow {
    fn entry(&self) -> &'static OpEntry {
        &ENTRY
    }

    fn encode(&self, into: &mut ParamWriter) {
        self.0.encode(into);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        self.0.infer(inputs)
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let exponent = inputs.info(1).dtype;
        with_type!(output.info.dtype, T => {
            with_type!(exponent, E => {
                self.0.run::<T, E, T>(inputs, output, |x, y| x.power(y.to_f64()))
            }, FLOAT = f32, DOUBLE = f64, FLOAT16 = F16, BF16 = Bf16, INT32 = i32, INT64 = i64,
                UINT32 = u32, UINT64 = u64)
        }, FLOAT = f32, DOUBLE = f64, FLOAT16 = F16, BF16 = Bf16, INT32 = i32, INT64 = i64)
    }

    fn flops(&self, _inputs: &[TensorInfo], output: &TensorInfo) -> u64 {
        output.shape.elements() as u64
    }
}
