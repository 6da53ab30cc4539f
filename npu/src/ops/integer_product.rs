//! MatMulInteger and QLinearMatMul: products of matrices of bytes.
//!
//! The plain form: operands without their zeros as numbers of 16 bits, sums of 32. Behind a
//! constant matrix the compiler puts `blocked::QuantisedDense` in its place.

use crate::DataType;
use crate::cast;
use crate::ops::mat_mul::Product;
use crate::ops::quantize::{SCALES, requantise};
use crate::ops::{Imported, Op, OpEntry, OpError};
use crate::shape::Shape;
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

/// Types of operands.
pub(super) const BYTES: &[DataType] = &[DataType::INT8, DataType::UINT8];

/// The line of MatMulInteger.
pub static INTEGER: OpEntry = OpEntry {
    name: "MatMulInteger",
    code: 163,
    versions: &[10],
    inputs: (2, 4),
    operands: (2, 4),
    types: &[(DataType::INT8, 1), (DataType::UINT8, 1)],
    mixed: &[(1, BYTES), (2, BYTES), (3, BYTES)],
    refused: "zeros with more than one dim",
    import: |node| {
        // A zero that is left out in between has no place among operands.
        if node.has(3) && !node.has(2) {
            return Err(OpError::shape("the zero of b is given and that of a is not"));
        }
        Ok(Imported::all(IntegerProduct { scaled: false }, node))
    },
    decode: |_| Ok(Box::new(IntegerProduct { scaled: false })),
    ..OpEntry::BASE
};

/// The line of QLinearMatMul.
pub static LINEAR: OpEntry = OpEntry {
    name: "QLinearMatMul",
    code: 164,
    versions: &[10, 21],
    inputs: (8, 8),
    operands: (8, 8),
    types: &[(DataType::INT8, 1), (DataType::UINT8, 1)],
    mixed: &[
        (1, SCALES),
        (2, BYTES),
        (3, BYTES),
        (4, SCALES),
        (5, BYTES),
        (6, SCALES),
        (7, BYTES),
    ],
    widened: &[(DataType::FLOAT16, 21), (DataType::BF16, 21)],
    refused: "scales and zeros with more than one dim; floats of 8 bits",
    import: |node| Ok(Imported::all(IntegerProduct { scaled: true }, node)),
    decode: |_| Ok(Box::new(IntegerProduct { scaled: true })),
    ..OpEntry::BASE
};

/// A product of matrices of bytes. Operands: a, b and their zeros, which may be left out; or each
/// with scale and zero, and scale and zero of the result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IntegerProduct {
    /// QLinearMatMul.
    pub scaled: bool,
}

impl IntegerProduct {
    /// Where the operands are: b, and the zeros of a and b.
    #[must_use]
    pub fn places(&self) -> [usize; 3] {
        if self.scaled { [3, 2, 5] } else { [1, 2, 3] }
    }
}

/// Elements of a byte type less their zeros; `zero` gets an element's place.
pub(super) fn centred(
    inputs: &dyn Inputs,
    index: usize,
    zero: impl Fn(usize) -> i16,
    to: &mut [i16],
) {
    let signed = inputs.info(index).dtype == DataType::INT8;
    for (place, (to, x)) in to.iter_mut().zip(inputs.bytes(index)).enumerate() {
        let x = if signed { i16::from(x.cast_signed()) } else { i16::from(*x) };
        *to = x - zero(place);
    }
}

/// One of the numbers of an operand that may be left out: of one, or of one each.
pub(super) fn one_of(
    inputs: &dyn Inputs,
    index: usize,
    count: usize,
) -> Result<impl Fn(usize) -> f64, Fault> {
    let own = if index < inputs.count() { Some(inputs.numbers::<f64>(index)?) } else { None };
    let several = count > 1 && own.is_some() && inputs.info(index).shape.elements() == count;
    Ok(move |place: usize| own.map_or(0.0, |own| own.get(if several { place } else { 0 })))
}

/// Whether an operand is one number, or a list of so many.
pub(super) fn is_list(shape: &Shape, count: usize) -> bool {
    shape.elements() == 1 || shape.dims() == [count]
}

/// A zero as a number of 16 bits.
#[expect(clippy::cast_possible_truncation, reason = "it was a byte")]
pub(super) fn small(zero: f64) -> i16 {
    zero as i16
}

impl Op for IntegerProduct {
    fn code(&self) -> u16 {
        if self.scaled { const { LINEAR.code } } else { const { INTEGER.code } }
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let [at_b, ..] = self.places();
        let (a, b) = (inputs[0].shape, inputs[at_b].shape);
        let product = Product::new(&a, &b);
        let Some((product, shape)) = product.and_then(|own| own.shape(&a, &b).map(|s| (own, s)))
        else {
            return Err(OpError::shape(format!("{a} and {b} have no matrix product")));
        };
        let (of_a, of_b, of_y): (&[usize], &[usize], &[usize]) =
            if self.scaled { (&[1, 2], &[4, 5], &[6, 7]) } else { (&[2], &[3], &[]) };
        let lists = of_a.iter().map(|index| (*index, product.rows));
        let lists = lists.chain(of_b.iter().map(|index| (*index, product.columns)));
        for (index, count) in lists.chain(of_y.iter().map(|index| (*index, 1))) {
            let Some(own) = inputs.get(index) else { continue };
            if !is_list(&own.shape, count) {
                let what = format!("operand {index} is {}; expected 1 or {count}", own.shape);
                return Err(OpError::shape(what));
            }
        }
        let zero_fits = |index: usize, of: usize| {
            inputs.get(index).is_none_or(|zero| zero.dtype == inputs[of].dtype)
        };
        let [_, zero_a, zero_b] = self.places();
        if !zero_fits(zero_a, 0) || !zero_fits(zero_b, at_b) {
            return Err(OpError::shape("a zero is of another type than what it is for"));
        }
        let dtype = if self.scaled { inputs[7].dtype } else { DataType::INT32 };
        Ok(TensorInfo::new(dtype, shape))
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let [at_b, zero_a, zero_b] = self.places();
        let product = Product::new(&inputs.info(0).shape, &inputs.info(at_b).shape);
        let product = product.ok_or(Fault::Memory)?;
        let Product { rows, depth, columns, .. } = product;
        let (a_count, b_count) =
            (inputs.bytes(0).len(), inputs.bytes(at_b).len().next_multiple_of(2));
        let (sums, small_numbers) =
            output.scratch.split_at_mut_checked(4 * columns).ok_or(Fault::Memory)?;
        let sums = cast::elements_mut::<i32>(sums).ok_or(Fault::Memory)?;
        let own = cast::elements_mut::<i16>(small_numbers).ok_or(Fault::Memory)?;
        let (b, a) = own.split_at_mut_checked(b_count).ok_or(Fault::Memory)?;
        let a = a.get_mut(..a_count).ok_or(Fault::Memory)?;
        let zeros = (one_of(inputs, zero_a, rows)?, one_of(inputs, zero_b, columns)?);
        centred(inputs, 0, |place| small((zeros.0)(place / depth.max(1) % rows)), a);
        centred(inputs, at_b, |place| small((zeros.1)(place % columns)), b);
        let scales = match self.scaled {
            true => Some((one_of(inputs, 1, rows)?, one_of(inputs, 4, columns)?)),
            false => None,
        };
        let (scale, zero) = (one_of(inputs, 6, 1)?(0), small(one_of(inputs, 7, 1)?(0)).into());
        let (dtype, mut first) = (output.info.dtype, 0);
        let to = &mut *output.bytes;
        product.each(|of_a, of_b| {
            let (a, b) = (&a[of_a * rows * depth..], &b[of_b * depth * columns..]);
            for row in 0..rows {
                sums.fill(0);
                for k in 0..depth {
                    let x = i32::from(a[row * depth + k]);
                    let b = &b[k * columns..][..columns];
                    for (sum, b) in sums.iter_mut().zip(b) {
                        *sum = sum.wrapping_add(x * i32::from(*b));
                    }
                }
                for (column, sum) in sums.iter().enumerate() {
                    let at = first + column;
                    match &scales {
                        None => to[at * 4..][..4].copy_from_slice(&sum.to_le_bytes()),
                        Some((of_a, of_b)) => {
                            #[expect(clippy::cast_possible_truncation, reason = "of floats")]
                            let scale =
                                of_a(row) as f32 * of_b(column) as f32 / scale as f32;
                            to[at] = requantise(*sum, scale, zero, dtype).to_le_bytes()[0];
                        }
                    }
                }
                first += columns;
            }
        });
        Ok(())
    }

    fn scratch_bytes(&self, inputs: &[TensorInfo], _output: &TensorInfo) -> usize {
        let (a, b) = (&inputs[0], &inputs[self.places()[0]]);
        let columns = b.shape.dims().last().copied().unwrap_or(1);
        // A vector on the right has one column.
        let columns = if b.shape.rank() < 2 { 1 } else { columns };
        4 * columns + 2 * (a.bytes() + b.bytes().next_multiple_of(2))
    }

    fn flops(&self, inputs: &[TensorInfo], output: &TensorInfo) -> u64 {
        let depth = inputs[0].shape.dims().last().copied().unwrap_or(0);
        2 * depth as u64 * output.shape.elements() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{Case, Value, float, ints};

    #[test]
    fn zeros_of_rows_and_columns_and_a_vector() {
        let a = Value::new(&[2, 2], &[1i8, -2, 3, 4]);
        let b = Value::new(&[2, 2], &[10u8, 20, 30, 40]);
        let case = Case::new(&INTEGER, 10).input(a.clone()).input(b.clone());
        assert_eq!(case.run(), ints(&[2, 2], &[-50, -60, 150, 220]));
        let zeros = case.input(Value::new(&[2], &[1i8, 2])).input(Value::new(&[2], &[10u8, 20]));
        // [[0, -3], [1, 2]] by [[0, 0], [20, 20]].
        assert_eq!(zeros.run(), ints(&[2, 2], &[-60, -60, 40, 40]));
        let vector = Case::new(&INTEGER, 10).input(a).input(Value::new(&[2], &[1u8, 2]));
        assert_eq!(vector.run(), ints(&[2], &[-3, 11]));
    }

    #[test]
    fn what_is_refused() {
        let a = || Value::new(&[2, 3], &[0u8; 6]);
        let case = |b: Value| Case::new(&INTEGER, 10).input(a()).input(b);
        let square = || Value::new(&[3, 2], &[0u8; 6]);
        assert!(case(a()).refused().contains("have no matrix product"));
        let many = case(square()).input(Value::new(&[3], &[0u8; 3]));
        assert!(many.refused().contains("operand 2 is [3]; expected 1 or 2"));
        let other = case(square()).input(Value::new(&[], &[0i8]));
        assert!(other.refused().contains("of another type"));
        let between = case(square()).absent().input(Value::new(&[], &[0u8]));
        assert!(between.refused().contains("that of a is not"));
        let (scale, zero) = (float(&[], &[1.0]), Value::new(&[], &[0u8]));
        let linear = Case::new(&LINEAR, 10).input(a()).input(scale.clone()).input(zero.clone());
        let linear = linear.input(square()).input(float(&[1, 2], &[1.0; 2]));
        let linear = linear.input(zero.clone()).input(scale).input(zero);
        assert!(linear.refused().contains("operand 4 is [1, 2]; expected 1 or 2"));
    }
}
