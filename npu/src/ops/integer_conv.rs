//! ConvInteger and QLinearConv: convolutions of bytes.
//!
//! The plain form, sum by sum. With constant weights the compiler puts `blocked::QuantisedConv` in
//! its place.

use crate::DataType;
use crate::cast;
use crate::ops::conv::{self, Conv};
use crate::ops::integer_product::{BYTES, centred, is_list, one_of, small};
use crate::ops::quantize::requantise;
use crate::ops::{Imported, Node, Op, OpEntry, OpError};
use crate::params::{ParamReader, ParamWriter};
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

/// Types of scales.
const FLOATS: &[DataType] = &[DataType::FLOAT];

/// The line of ConvInteger.
pub static INTEGER: OpEntry = OpEntry {
    name: "ConvInteger",
    code: 165,
    versions: &[10],
    attributes: conv::ENTRY.attributes,
    inputs: (2, 4),
    operands: (2, 4),
    types: &[(DataType::INT8, 1), (DataType::UINT8, 1)],
    mixed: &[(1, BYTES), (2, BYTES), (3, BYTES)],
    refused: "more than three spatial dims",
    import: |node| IntegerConv::import(node, false),
    decode: |from| IntegerConv::decode(from, false),
    ..OpEntry::BASE
};

/// The line of QLinearConv.
pub static LINEAR: OpEntry = OpEntry {
    name: "QLinearConv",
    code: 166,
    versions: &[10],
    attributes: conv::ENTRY.attributes,
    inputs: (8, 9),
    operands: (8, 9),
    types: &[(DataType::INT8, 1), (DataType::UINT8, 1)],
    mixed: &[
        (1, FLOATS),
        (2, BYTES),
        (3, BYTES),
        (4, FLOATS),
        (5, BYTES),
        (6, FLOATS),
        (7, BYTES),
        (8, &[DataType::INT32]),
    ],
    refused: "more than three spatial dims",
    import: |node| IntegerConv::import(node, true),
    decode: |from| IntegerConv::decode(from, true),
    ..OpEntry::BASE
};

/// A convolution of bytes. Operands: x, weights and their zeros, which may be left out; or x and
/// weights each with scale and zero, scale and zero of the result, and a bias or none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IntegerConv {
    /// Where the kernel stands.
    pub conv: Conv,
    /// QLinearConv.
    pub scaled: bool,
}

impl IntegerConv {
    fn import(node: &Node<'_>, scaled: bool) -> Result<Imported, OpError> {
        let own = Self { conv: conv::of_node(node, if scaled { 3 } else { 1 })?, scaled };
        if !scaled && node.has(3) && !node.has(2) {
            return Err(OpError::shape("the zero of the weights is given and that of x is not"));
        }
        Ok(Imported::all(own, node))
    }

    fn decode(from: &mut ParamReader<'_>, scaled: bool) -> Result<Box<dyn Op>, OpError> {
        Ok(Box::new(Self { conv: Conv::read(from)?, scaled }))
    }

    /// Where the operands are: weights, and the zeros of x and of them.
    #[must_use]
    pub fn places(&self) -> [usize; 3] {
        if self.scaled { [3, 2, 5] } else { [1, 2, 3] }
    }
}

impl Op for IntegerConv {
    fn code(&self) -> u16 {
        if self.scaled { const { LINEAR.code } } else { const { INTEGER.code } }
    }

    fn encode(&self, into: &mut ParamWriter) {
        self.conv.encode(into);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let [at_w, zero_x, zero_w] = self.places();
        let shape = self.conv.shape(&inputs[0].shape, &inputs[at_w].shape)?;
        let maps = shape.dims()[1];
        let lists: &[(usize, usize)] = match self.scaled {
            true => &[(1, 1), (2, 1), (4, maps), (5, maps), (6, 1), (7, 1)],
            false => &[(2, 1), (3, maps)],
        };
        for (index, count) in lists {
            let Some(own) = inputs.get(*index) else { continue };
            if !is_list(&own.shape, *count) {
                let what = format!("operand {index} is {}; expected 1 or {count}", own.shape);
                return Err(OpError::shape(what));
            }
        }
        if let Some(bias) = inputs.get(8).filter(|bias| bias.shape.dims() != [maps]) {
            return Err(OpError::shape(format!("the bias is {}; expected [{maps}]", bias.shape)));
        }
        let zero_fits = |index: usize, of: usize| {
            inputs.get(index).is_none_or(|zero| zero.dtype == inputs[of].dtype)
        };
        if !zero_fits(zero_x, 0) || !zero_fits(zero_w, at_w) {
            return Err(OpError::shape("a zero is of another type than what it is for"));
        }
        let dtype = if self.scaled { inputs[7].dtype } else { DataType::INT32 };
        Ok(TensorInfo::new(dtype, shape))
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let [at_w, zero_x, zero_w] = self.places();
        let maps = inputs.dims(at_w)[0];
        let own = cast::elements_mut::<i16>(output.scratch).ok_or(Fault::Memory)?;
        let (x, w) = own.split_at_mut_checked(inputs.bytes(0).len()).ok_or(Fault::Memory)?;
        let w = w.get_mut(..inputs.bytes(at_w).len()).ok_or(Fault::Memory)?;
        let zero = small(one_of(inputs, zero_x, 1)?(0));
        let zeros = one_of(inputs, zero_w, maps)?;
        let each = w.len() / maps.max(1);
        centred(inputs, 0, |_| zero, x);
        centred(inputs, at_w, |place| small(zeros(place / each.max(1))), w);
        let scales = one_of(inputs, 4, maps)?;
        #[expect(clippy::cast_possible_truncation, reason = "they were such floats")]
        let [of_x, of_y] = [one_of(inputs, 1, 1)?(0) as f32, one_of(inputs, 6, 1)?(0) as f32];
        let (zero_y, dtype) = (small(one_of(inputs, 7, 1)?(0)).into(), output.info.dtype);
        let bias = inputs.optional::<i32>(8)?;
        let to = &mut *output.bytes;
        let shapes = (&inputs.info(0).shape, &inputs.info(at_w).shape);
        self.conv.sums(shapes, x, w, |at, map, sum| {
            if self.scaled {
                let sum = sum.wrapping_add(bias.map_or(0, |bias| bias[map]));
                #[expect(clippy::cast_possible_truncation, reason = "it was such a float")]
                let scale = of_x * scales(map) as f32 / of_y;
                to[at] = requantise(sum, scale, zero_y, dtype).to_le_bytes()[0];
            } else {
                to[at * 4..][..4].copy_from_slice(&sum.to_le_bytes());
            }
        })
    }

    fn scratch_bytes(&self, inputs: &[TensorInfo], _output: &TensorInfo) -> usize {
        2 * (inputs[0].bytes() + inputs[self.places()[0]].bytes())
    }

    fn flops(&self, inputs: &[TensorInfo], output: &TensorInfo) -> u64 {
        let dims = inputs[self.places()[0]].shape.dims();
        2 * dims.iter().skip(1).product::<usize>() as u64 * output.shape.elements() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{Case, Value, float, ints};

    #[test]
    fn groups_with_a_scale_and_a_zero_each() {
        let scalar = |x: u8| Value::new(&[], &[x]);
        let case = Case::new(&LINEAR, 10)
            .int("group", 2)
            .ints("pads", &[1, 0])
            .input(Value::new(&[1, 2, 2], &[3u8, 4, 5, 6]))
            .input(float(&[], &[0.5]))
            .input(scalar(2))
            .input(Value::new(&[2, 1, 2], &[1i8, 2, 3, 4]))
            .input(float(&[2], &[1.0, 2.0]))
            .input(Value::new(&[2], &[0i8, 1]))
            .input(float(&[], &[0.25]))
            .input(scalar(10))
            .input(ints(&[2], &[1, -2]));
        // x is [[1, 2], [3, 4]], weights are [[1, 2], [2, 3]], and 0 stands before each map.
        let sums = [2 + 1, 1 + 4 + 1, 9 - 2, 6 + 12 - 2];
        let scaled = [2 * sums[0], 2 * sums[1], 4 * sums[2], 4 * sums[3]];
        let expected: Vec<u8> = scaled.iter().map(|own| u8::try_from(own + 10).unwrap()).collect();
        assert_eq!(case.run().elements::<u8>(), expected);
    }

    #[test]
    fn what_is_refused() {
        let x = || Value::new(&[1, 1, 2], &[0u8; 2]);
        let case = || Case::new(&INTEGER, 10).input(x()).input(Value::new(&[3, 1, 1], &[0i8; 3]));
        let several = case().input(Value::new(&[2], &[0u8; 2]));
        assert!(several.refused().contains("operand 2 is [2]; expected 1 or 1"));
        assert!(case().input(Value::new(&[], &[0i8])).refused().contains("of another type"));
        let between = case().absent().input(Value::new(&[3], &[0i8; 3]));
        assert!(between.refused().contains("that of x is not"));
        assert!(case().int("group", 2).refused().contains("group is 2"));
    }
}
