//! Functions of quantised elements: of one by a table of all its values, and of two.

use super::entry;
use super::quantised::{BYTES, check_zero};
use crate::DataType;
use crate::isa::{self, LANES, Routine, Simd};
use crate::ops::quantize::{ends, limits, store_bytes};
use crate::ops::{Activation, Line, Op, OpError};
use crate::params::ParamWriter;
use crate::team;
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

/// Types of operands.
const X: &[(DataType, u32)] = &[(DataType::INT8, 1), (DataType::UINT8, 1)];

pub(super) const TABLE: Line = Line {
    types: X,
    ..entry("QuantisedTable", 1014, 1, |from| {
        let to = DataType(from.u32()?.cast_signed());
        let mut values = Box::new([0; 256]);
        values.copy_from_slice(from.bytes(256)?);
        check_type(to)?;
        Ok(Box::new(QuantisedTable { to, values }))
    })
};

pub(super) const PAIR: Line = Line {
    types: X,
    mixed: &[(1, BYTES)],
    ..entry("QuantisedPair", 1015, 2, |from| {
        let product = from.flag()?;
        let mut quanta = [(0.0, 0); 2];
        for (scale, zero) in &mut quanta {
            (*scale, *zero) = (from.f32()?, from.u32()?.cast_signed());
            check_zero(*zero)?;
        }
        let activation = Activation::decode(from)?;
        let (to, scale) = (DataType(from.u32()?.cast_signed()), from.f32()?);
        let zero = from.u32()?.cast_signed();
        check_type(to)?;
        if !(ends(to).0..=ends(to).1).contains(&zero) {
            return Err(OpError::params(format!("zero {zero} is no byte of its type")));
        }
        Ok(Box::new(QuantisedPair { product, quanta, activation, to, end: (scale, zero) }))
    })
};

/// Refuses a result that is no byte.
fn check_type(to: DataType) -> Result<(), OpError> {
    if BYTES.contains(&to) {
        return Ok(());
    }
    Err(OpError::params(format!("type {} is no quantised one of 8 bits", to.0)))
}

/// A function of one byte. Operand: x.
#[derive(Clone, Debug, PartialEq)]
pub struct QuantisedTable {
    /// Type of the result.
    pub to: DataType,
    /// The bytes for each byte, counted without a sign.
    pub values: Box<[u8; 256]>,
}

impl Op for QuantisedTable {
    fn code(&self) -> u16 {
        TABLE.code
    }

    fn encode(&self, into: &mut ParamWriter) {
        into.u32(self.to.0.cast_unsigned());
        into.bytes(&self.values[..]);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        Ok(TensorInfo::new(self.to, inputs[0].shape))
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let x = inputs.bytes(0);
        team::deal(output.team, output.bytes, (1, team::moved(1)), |first, out| {
            let pairs = out.iter_mut().zip(&x[first..]);
            pairs.for_each(|(to, x)| *to = self.values[usize::from(*x)]);
        });
        Ok(())
    }

    fn flops(&self, _inputs: &[TensorInfo], output: &TensorInfo) -> u64 {
        output.shape.elements() as u64
    }

    fn is_elementwise(&self) -> bool {
        true
    }
}

/// Sum or product of two quantised tensors of one shape, and a function of it. Computed as
/// DequantizeLinear, Add or Mul and QuantizeLinear have it, step by step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QuantisedPair {
    /// A product.
    pub product: bool,
    /// Scale and zero of both.
    pub quanta: [(f32, i32); 2],
    /// Applied to the sum or product.
    pub activation: Activation,
    /// Type of the result.
    pub to: DataType,
    /// Its scale and zero.
    pub end: (f32, i32),
}

impl Op for QuantisedPair {
    fn code(&self) -> u16 {
        PAIR.code
    }

    fn encode(&self, into: &mut ParamWriter) {
        into.flag(self.product);
        for (scale, zero) in self.quanta {
            into.f32(scale);
            into.u32(zero.cast_unsigned());
        }
        self.activation.encode(into);
        into.u32(self.to.0.cast_unsigned());
        into.f32(self.end.0);
        into.u32(self.end.1.cast_unsigned());
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let (a, b) = (inputs[0].shape, inputs[1].shape);
        if a != b {
            return Err(OpError::shape(format!("operands are {a} and {b}; expected one shape")));
        }
        Ok(TensorInfo::new(self.to, a))
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let (a, b, own) = (inputs.bytes(0), inputs.bytes(1), *self);
        let signed = [0, 1].map(|index| inputs.info(index).dtype == DataType::INT8);
        team::deal(output.team, output.bytes, (1, team::moved(1)), |first, out| {
            let x = [a, b].map(|own| &own[first..][..out.len()]);
            isa::run(Both { x, signed, own, out });
        });
        Ok(())
    }

    fn flops(&self, _inputs: &[TensorInfo], output: &TensorInfo) -> u64 {
        (6 + self.activation.flops()) * output.shape.elements() as u64
    }
}

struct Both<'a> {
    x: [&'a [u8]; 2],
    signed: [bool; 2],
    own: QuantisedPair,
    out: &'a mut [u8],
}

impl Routine for Both<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let QuantisedPair { product, quanta, activation, to, end: (scale, zero) } = self.own;
        // A byte with a sign is the byte with its first bit changed, less 128.
        let flips = self.signed.map(|signed| if signed { 0x80 } else { 0 });
        let zeros = [0, 1].map(|x| quanta[x].1 + i32::from(flips[x]));
        let (limits, scales) = (limits(zero, to), quanta.map(|own| simd.splat(own.0)));
        let mut lanes = [[0f32; LANES]; 2];
        for (place, out) in self.out.chunks_mut(LANES).enumerate() {
            let count = out.len();
            for x in 0..2 {
                let from = &self.x[x][place * LANES..][..count];
                #[expect(clippy::cast_precision_loss, reason = "small numbers")]
                let of = |byte: u8| (i32::from(byte ^ flips[x]) - zeros[x]) as f32;
                match <&[u8; LANES]>::try_from(from) {
                    Ok(from) => (0..LANES).for_each(|lane| lanes[x][lane] = of(from[lane])),
                    Err(_) => {
                        lanes[x].iter_mut().zip(from).for_each(|(to, byte)| *to = of(*byte));
                    }
                }
            }
            let a = simd.mul(simd.load(&lanes[0]), scales[0]);
            let b = simd.mul(simd.load(&lanes[1]), scales[1]);
            let own = if product { simd.mul(a, b) } else { simd.add(a, b) };
            let own = simd.div(activation.of_vector(simd, own), simd.splat(scale));
            store_bytes(simd, own, limits, zero, out);
        }
    }
}
