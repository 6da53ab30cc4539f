//! QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear: floats as whole numbers of 8 or 16
//! bits, by a scale and the number that stands for zero, and back.
//!
//! A scale and a zero that are known and hold for the whole tensor are parameters, so that the op
//! is a function of one element.

use crate::DataType;
use crate::isa::{self, LANES, Routine, Simd};
use crate::numbers::Numbers;
use crate::ops::{Imported, Node, Op, OpEntry, OpError, since};
use crate::params::{ParamReader, ParamWriter};
use crate::shape::{RANK_MAX, Shape};
use crate::team;
use crate::tensor::{Fault, Inputs, Output, TensorInfo, element_size};

/// Types of quantised tensors.
pub(super) const QUANTISED: &[DataType] =
    &[DataType::INT8, DataType::UINT8, DataType::INT16, DataType::UINT16];
/// Types of what is dequantised.
const SUMS: &[DataType] =
    &[DataType::INT8, DataType::UINT8, DataType::INT16, DataType::UINT16, DataType::INT32];
/// Types of scales.
pub(super) const SCALES: &[DataType] = &[DataType::FLOAT, DataType::FLOAT16, DataType::BF16];

/// The line of QuantizeLinear.
pub static QUANTIZE: OpEntry = OpEntry {
    name: "QuantizeLinear",
    code: 160,
    versions: &[10, 13, 19, 21, 23, 24, 25, 28],
    attributes: &[
        since("axis", 13),
        since("saturate", 19),
        since("block_size", 21),
        since("output_dtype", 21),
        since("precision", 23),
    ],
    inputs: (2, 3),
    operands: (1, 3),
    types: &[
        (DataType::FLOAT, 1),
        (DataType::INT32, 1),
        (DataType::FLOAT16, 19),
        (DataType::BF16, 19),
    ],
    mixed: &[(1, SCALES), (2, QUANTISED)],
    refused: "results of 2 and 4 bits and floats of 8",
    import: |node| Linear::import(node, Way::To),
    decode: |from| Linear::decode(from, Way::To),
    ..OpEntry::BASE
};

/// The line of DequantizeLinear.
pub static DEQUANTIZE: OpEntry = OpEntry {
    name: "DequantizeLinear",
    code: 161,
    versions: &[10, 13, 19, 21, 23, 24, 25, 28],
    attributes: &[since("axis", 13), since("block_size", 21), since("output_dtype", 23)],
    inputs: (2, 3),
    operands: (1, 3),
    types: &[
        (DataType::INT8, 1),
        (DataType::UINT8, 1),
        (DataType::INT32, 1),
        (DataType::INT16, 21),
        (DataType::UINT16, 21),
    ],
    mixed: &[(1, SCALES), (2, SUMS)],
    refused: "numbers of 2 and 4 bits and floats of 8",
    import: |node| Linear::import(node, Way::Back),
    decode: |from| Linear::decode(from, Way::Back),
    ..OpEntry::BASE
};

/// The line of DynamicQuantizeLinear.
pub static DYNAMIC: OpEntry = OpEntry {
    name: "DynamicQuantizeLinear",
    code: 162,
    versions: &[11],
    attributes: &[],
    outputs: 3,
    types: &[(DataType::FLOAT, 1)],
    import: |node| Ok(Imported::all(Dynamic, node)),
    decode: |_| Ok(Box::new(Dynamic)),
    ..OpEntry::BASE
};

/// Which of both an op is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Way {
    /// QuantizeLinear.
    To,
    /// DequantizeLinear.
    Back,
}

/// Floats to whole numbers, or back. Operands: x; scales and zeros unless they are parameters, the
/// last of them optional.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Linear {
    /// Which of both.
    pub way: Way,
    /// Type of the result.
    pub to: DataType,
    /// Scale and zero of the whole tensor.
    pub whole: Option<(f32, i32)>,
    /// The dim that scales are for, when there are several.
    pub axis: usize,
    /// Neighbours along that dim that share one; 0 for one scale an index.
    pub block: usize,
}

/// The lowest and the highest number of a quantised type.
#[must_use]
pub fn ends(dtype: DataType) -> (i32, i32) {
    match dtype {
        DataType::INT8 => (-128, 127),
        DataType::INT16 => (-32_768, 32_767),
        DataType::UINT16 => (0, 65_535),
        _ => (0, 255),
    }
}

/// A sum as a quantised number: scaled, rounded to the nearest, halves to the even one, and not
/// beyond the ends.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "it lies between the ends")]
#[expect(clippy::cast_precision_loss, reason = "the nearest float is meant")]
pub(super) fn requantise(sum: i32, scale: f32, zero: i32, dtype: DataType) -> i32 {
    let (low, high) = ends(dtype);
    let own = (sum as f32 * scale).round_ties_even();
    own.clamp((low - zero) as f32, (high - zero) as f32) as i32 + zero
}

impl Linear {
    fn import(node: &Node<'_>, way: Way) -> Result<Imported, OpError> {
        let (x, scale) = (node.input(0)?, node.input(1)?);
        let zero = if node.has(2) { Some(node.input(2)?) } else { None };
        let given = node.data_type("output_dtype")?;
        node.flag("saturate", true)?;
        node.data_type("precision")?;
        let to = match way {
            Way::To => zero.map(|zero| zero.info.dtype).or(given).unwrap_or(DataType::UINT8),
            Way::Back => given.unwrap_or(scale.info.dtype),
        };
        if given.is_some_and(|given| given != to) {
            let found = format!("not the type of the zero, {}", crate::tensor::type_name(to));
            return Err(OpError::attribute("output_dtype", found, "the same"));
        }
        let block = node.int("block_size")?.unwrap_or(0);
        let block = usize::try_from(block)
            .map_err(|_| OpError::attribute("block_size", block, "0 or more"))?;
        let own = Self { way, to, whole: None, axis: 0, block };
        let one = scale.info.shape.elements() == 1
            && zero.is_none_or(|zero| zero.info.shape.elements() == 1);
        let known = scale.value.is_some() && zero.is_none_or(|zero| zero.value.is_some());
        let single = scale.info.dtype == DataType::FLOAT && own.types_fit(x.info.dtype);
        if one && known && single {
            let scale = node.numbers(1, "y_scale")?.first().map_or(1.0, |(_, value)| *value);
            let zero = match node.has(2) {
                true => node.numbers(2, "y_zero_point")?.first().map_or(0, |(value, _)| *value),
                false => 0,
            };
            #[expect(clippy::cast_possible_truncation, reason = "it was such a float")]
            let scale = scale as f32;
            let zero = i32::try_from(zero).unwrap_or(0);
            let op = Self { whole: Some((scale, zero)), block: 0, ..own };
            return Ok(Imported::first(op));
        }
        let axis = match scale.info.shape.elements() {
            1 if block == 0 => 0,
            _ => crate::ops::axis("axis", node.int("axis")?.unwrap_or(1), x.info.shape.rank())?,
        };
        Ok(Imported::all(Self { axis, ..own }, node))
    }

    /// Whether a tensor of such a type can have its scale in the parameters.
    fn types_fit(&self, x: DataType) -> bool {
        match self.way {
            Way::To => x == DataType::FLOAT && QUANTISED.contains(&self.to),
            Way::Back => self.to == DataType::FLOAT && SUMS.contains(&x),
        }
    }

    fn decode(from: &mut ParamReader<'_>, way: Way) -> Result<Box<dyn Op>, OpError> {
        let to = DataType(from.u32()?.cast_signed());
        let (whole, scale, zero) = (from.flag()?, from.f32()?, from.u32()?.cast_signed());
        let own = Self {
            way,
            to,
            whole: whole.then_some((scale, zero)),
            axis: from.size()?,
            block: from.size()?,
        };
        let types = if way == Way::To { QUANTISED } else { SCALES };
        let (low, high) = if way == Way::To { ends(to) } else { (-32_768, 65_535) };
        let fits = match own.whole {
            Some(_) => own.axis == 0 && own.block == 0 && (low..=high).contains(&zero),
            None => scale == 0.0 && zero == 0,
        };
        if !types.contains(&to) || !fits || own.axis >= RANK_MAX {
            return Err(OpError::params(format!("{own:?} is no way to quantise")));
        }
        Ok(Box::new(own))
    }

    /// Whether shapes of x and of scales go together.
    fn fits(&self, x: &Shape, scales: &Shape) -> bool {
        let dim = x.dims().get(self.axis).copied();
        if self.block == 0 {
            return scales.elements() == 1 || (scales.rank() == 1 && dim == Some(scales.dims()[0]));
        }
        let own = x.dims().iter().enumerate().map(|(index, dim)| {
            if index == self.axis { dim.div_ceil(self.block) } else { *dim }
        });
        dim.is_some() && x.rank() == scales.rank() && own.eq(scales.dims().iter().copied())
    }

    /// Scale by scale, of any type.
    fn plain(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let x = inputs.numbers::<f64>(0)?;
        let shape = inputs.info(0).shape;
        let (scales, zeros): (Option<Numbers<'_, f64>>, _) = match self.whole {
            Some(_) => (None, None),
            None => (Some(inputs.numbers(1)?), inputs.optional_numbers::<f64>(2)?),
        };
        let several = scales.is_some() && inputs.info(1).shape.elements() > 1 || self.block > 0;
        let dim = shape.dims().get(self.axis).copied().unwrap_or(1);
        let inner: usize = shape.dims().iter().skip(self.axis + 1).product();
        let (low, high) = ends(self.to);
        let mut to = output.numbers::<f64>()?;
        for place in 0..shape.elements() {
            let (outer, index, rest) =
                (place / inner / dim, place / inner % dim, place % inner);
            let at = match (several, self.block) {
                (false, _) => 0,
                (true, 0) => index,
                (true, block) => (outer * dim.div_ceil(block) + index / block) * inner + rest,
            };
            let (scale, zero) = match (self.whole, scales) {
                (Some((scale, zero)), _) => (f64::from(scale), f64::from(zero)),
                (None, Some(scales)) => (scales.get(at), zeros.map_or(0.0, |own| own.get(at))),
                (None, None) => (1.0, 0.0),
            };
            // A quotient or product of two floats is rounded as it would be in their own type.
            #[expect(clippy::cast_possible_truncation, reason = "rounded to it")]
            to.set(place, match self.way {
                Way::To => {
                    let own = f64::from((x.get(place) / scale) as f32).round_ties_even() + zero;
                    own.clamp(f64::from(low), f64::from(high))
                }
                Way::Back => f64::from(((x.get(place) - zero) * scale) as f32),
            });
        }
        Ok(())
    }
}

impl Op for Linear {
    fn code(&self) -> u16 {
        match self.way {
            Way::To => const { QUANTIZE.code },
            Way::Back => const { DEQUANTIZE.code },
        }
    }

    fn encode(&self, into: &mut ParamWriter) {
        let (scale, zero) = self.whole.unwrap_or_default();
        into.u32(self.to.0.cast_unsigned());
        into.flag(self.whole.is_some());
        into.f32(scale);
        into.u32(zero.cast_unsigned());
        into.sizes(&[self.axis, self.block]);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let x = inputs[0];
        let fits = match (self.whole, &inputs[1..]) {
            (Some(_), []) => self.types_fit(x.dtype),
            (None, [scales]) => self.fits(&x.shape, &scales.shape),
            (None, [scales, zeros]) => {
                let zero = if self.way == Way::To { self.to } else { x.dtype };
                self.fits(&x.shape, &scales.shape)
                    && scales.shape.elements() == zeros.shape.elements()
                    && zeros.dtype == zero
            }
            _ => false,
        };
        if !fits {
            let shapes: Vec<String> = inputs.iter().map(|input| input.to_string()).collect();
            let (axis, shapes) = (self.axis, shapes.join(", "));
            let what = format!(
                "{shapes} with axis {axis} and blocks of {}; expected one scale, one an index of \
                 the axis or one a block, and as many zeros of the quantised type",
                self.block
            );
            return Err(OpError::shape(what));
        }
        Ok(TensorInfo::new(self.to, x.shape))
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let (team, size) = (output.team, element_size(inputs.info(0).dtype));
        let unit = (1, team::moved(1) / 4);
        match (self.way, self.whole) {
            (Way::To, Some(whole)) if element_size(self.to) == Some(1) => {
                let (x, to) = (inputs.elements::<f32>(0)?, self.to);
                team::deal(team, output.bytes, unit, |first, out| {
                    isa::run(To { x: &x[first..][..out.len()], out, whole, to });
                });
                Ok(())
            }
            (Way::Back, Some(whole)) if size == Some(1) => {
                let (x, signed) = (inputs.bytes(0), inputs.info(0).dtype == DataType::INT8);
                team::deal(team, output.elements::<f32>()?, unit, |first, out| {
                    isa::run(Back { x: &x[first..][..out.len()], out, whole, signed });
                });
                Ok(())
            }
            _ => self.plain(inputs, output),
        }
    }

    fn flops(&self, _inputs: &[TensorInfo], output: &TensorInfo) -> u64 {
        3 * output.shape.elements() as u64
    }

    fn is_elementwise(&self) -> bool {
        self.whole.is_some()
    }
}

/// Floats to bytes.
struct To<'a> {
    x: &'a [f32],
    out: &'a mut [u8],
    whole: (f32, i32),
    to: DataType,
}

impl Routine for To<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let (scale, zero) = (simd.splat(self.whole.0), self.whole.1);
        let limits = limits(zero, self.to);
        let (x, rest) = self.x.as_chunks();
        let (out, out_rest) = self.out.as_chunks_mut::<LANES>();
        for (x, out) in x.iter().zip(out) {
            store_bytes(simd, simd.div(simd.load(x), scale), limits, zero, out);
        }
        let own = simd.div(simd.load_part(rest), scale);
        store_bytes(simd, own, limits, zero, out_rest);
    }
}

/// The ends of a type of 8 bits, as floats and without the zero.
#[inline(always)]
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
pub(super) fn limits(zero: i32, dtype: DataType) -> (f32, f32) {
    let (low, high) = ends(dtype);
    ((low - zero) as f32, (high - zero) as f32)
}

/// Writes floats as bytes: rounded, halves to the even one, not beyond the limits, and the zero
/// added.
#[inline(always)]
pub(super) fn store_bytes<S: Simd>(
    simd: S,
    v: S::V,
    (low, high): (f32, f32),
    zero: i32,
    out: &mut [u8],
) {
    let own = simd.min(simd.max(v, simd.splat(low)), simd.splat(high));
    let own = simd.round(own, zero);
    match out.try_into() {
        Ok(out) => simd.store_bytes(own, out),
        Err(_) => {
            let mut whole = [0; LANES];
            simd.store_bytes(own, &mut whole);
            out.iter_mut().zip(whole).for_each(|(to, x)| *to = x);
        }
    }
}

/// Bytes to floats.
pub(super) struct Back<'a> {
    pub(super) x: &'a [u8],
    pub(super) out: &'a mut [f32],
    pub(super) whole: (f32, i32),
    pub(super) signed: bool,
}

impl Routine for Back<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, _simd: S) {
        let (scale, zero) = self.whole;
        // A byte with a sign is the byte with its first bit changed, less 128.
        let (flip, zero) = if self.signed { (0x80, zero + 128) } else { (0, zero) };
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        let of = |x: u8| (i32::from(x ^ flip) - zero) as f32 * scale;
        self.out.iter_mut().zip(self.x).for_each(|(to, x)| *to = of(*x));
    }
}

/// Floats as bytes, by a scale that fits them. Operand: x. Outputs: bytes, scale, zero.
#[derive(Clone, Copy, Debug)]
pub struct Dynamic;

impl Op for Dynamic {
    fn code(&self) -> u16 {
        const { DYNAMIC.code }
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        Ok(TensorInfo::new(DataType::UINT8, inputs[0].shape))
    }

    fn further(&self, _inputs: &[TensorInfo]) -> Result<Vec<TensorInfo>, OpError> {
        let one = Shape::new(&[])?;
        Ok(vec![TensorInfo::new(DataType::FLOAT, one), TensorInfo::new(DataType::UINT8, one)])
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let x = inputs.elements::<f32>(0)?;
        let (mut low, mut high) = (0f32, 0f32);
        x.iter().for_each(|x| (low, high) = (low.min(*x), high.max(*x)));
        let scale = if low < high { (high - low) / 255.0 } else { 1.0 };
        #[expect(clippy::cast_possible_truncation, reason = "it lies between the ends")]
        let zero = (-low / scale).clamp(0.0, 255.0).round_ties_even() as i32;
        if let Some(to) = output.further::<f32>(0)? {
            to.fill(scale);
        }
        if let Some(to) = output.further::<u8>(1)? {
            to.fill(u8::try_from(zero).unwrap_or(0));
        }
        isa::run(To { x, out: output.bytes, whole: (scale, zero), to: DataType::UINT8 });
        Ok(())
    }

    fn flops(&self, _inputs: &[TensorInfo], output: &TensorInfo) -> u64 {
        5 * output.shape.elements() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::Isa;
    use crate::ops::testing::{Case, Value, float, noise};

    #[test]
    #[expect(clippy::cast_possible_truncation, reason = "small numbers")]
    #[expect(clippy::cast_sign_loss, reason = "the byte is meant")]
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    fn bytes_on_every_isa_are_those_of_the_plain_form() {
        for (count, dtype) in [(1, DataType::UINT8), (40, DataType::INT8), (67, DataType::UINT8)] {
            let x: Vec<f32> = noise(count, 3).iter().map(|x| x * 40.0).collect();
            let zero = if dtype == DataType::INT8 { -7 } else { 100 };
            let whole = (0.25, zero);
            let (low, high) = ends(dtype);
            let expected: Vec<u8> = x
                .iter()
                .map(|x| (x / 0.25).round_ties_even() as i32 + zero)
                .map(|own| own.clamp(low, high) as u8)
                .collect();
            for isa in Isa::ALL {
                let mut out = vec![0; count];
                let own = To { x: &x, out: &mut out, whole, to: dtype };
                isa::at_most(isa, || isa::run(own));
                assert_eq!(out, expected, "{isa:?}");
                let mut back = vec![0.0; count];
                let signed = dtype == DataType::INT8;
                isa::at_most(isa, || isa::run(Back { x: &out, out: &mut back, whole, signed }));
                let value = |x: &u8| match signed {
                    true => i32::from(x.cast_signed()),
                    false => i32::from(*x),
                };
                let expected: Vec<f32> =
                    out.iter().map(|x| (value(x) - zero) as f32 * 0.25).collect();
                assert_eq!(back, expected, "{isa:?}");
            }
        }
    }

    #[test]
    fn halves_go_to_the_even_one_and_what_is_no_number_to_an_end() {
        let x = [0.5, 1.5, -0.5, 2.5, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e30];
        let case = Case::new(&QUANTIZE, 13).variable(float(&[8], &x)).input(float(&[], &[1.0]));
        assert_eq!(case.run().elements::<u8>(), [0, 2, 0, 2, 0, 255, 0, 255]);
    }

    #[test]
    fn scales_that_are_computed_are_operands() {
        let x = float(&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
        let zero = Value::new(&[1], &[7i8]);
        let known = Case::new(&QUANTIZE, 19).variable(x).input(float(&[1], &[0.5])).input(zero);
        assert_eq!(known.import().unwrap().1.len(), 1);
        assert_eq!(known.clone().data().import().unwrap().1.len(), 3);
        assert_eq!(known.run(), known.data().run());
    }

    #[test]
    fn what_is_refused() {
        let case = |scales: usize| {
            let x = float(&[2, 3], &[0.0; 6]);
            Case::new(&QUANTIZE, 21).input(x).input(float(&[scales], &vec![1.0; scales]))
        };
        assert!(case(2).refused().contains("one scale, one an index of the axis or one a block"));
        assert_eq!(case(3).run().elements::<u8>(), [0; 6]);
        assert!(case(3).int("axis", 2).refused().contains("axis"));
        assert!(case(3).int("block_size", -1).refused().contains("block_size"));
        let other = case(1).input(Value::new(&[1], &[0i8])).int("output_dtype", 2);
        assert!(other.refused().contains("not the type of the zero, int8"));
        assert!(case(1).int("output_dtype", 6).refused().contains("no way to quantise"));
    }

    #[test]
    fn an_axis_beyond_every_rank_is_refused() {
        for (axis, fits) in [(RANK_MAX - 1, true), (RANK_MAX, false), (usize::MAX, false)] {
            let own = Linear { way: Way::Back, to: DataType::FLOAT, whole: None, axis, block: 0 };
            let bytes = crate::ops::testing::params(&own);
            let read = (&own as &dyn Op).line().decode_params(&bytes);
            assert_eq!(read.is_ok(), fits, "{axis}");
        }
    }
}
