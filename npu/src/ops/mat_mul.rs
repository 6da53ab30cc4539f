//! MatMul: matrix products by numpy's rule, with broadcasting of the dims before the last two.

use crate::DataType;
use crate::ops::gemm::{self, Gemm};
use crate::ops::{Activation, Imported, Op, OpEntry, OpError, types};
use crate::shape::{RANK_MAX, Shape};
use crate::tensor::{Element, Fault, Inputs, Output, TensorInfo, element_size};

/// The line of the table.
pub static ENTRY: OpEntry = OpEntry {
    name: "MatMul",
    code: 9,
    versions: &[1, 9, 13],
    attributes: &[],
    inputs: (2, 2),
    outputs: 1,
    operands: (2, 2),
    types: &[
        (DataType::FLOAT, 1),
        (DataType::DOUBLE, 1),
        (DataType::INT32, 9),
        (DataType::INT64, 9),
        (DataType::UINT32, 9),
        (DataType::UINT64, 9),
    ],
    widened: &types::halves(13),
    import: |node| Ok(Imported::all(MatMul, node)),
    decode: |_| Ok(Box::new(MatMul)),
    ..OpEntry::BASE
};

/// A matrix product.
#[derive(Clone, Copy, Debug)]
pub struct MatMul;

/// Two shapes as stacks of matrices.
pub(super) struct Product {
    pub(super) rows: usize,
    pub(super) depth: usize,
    pub(super) columns: usize,
    /// Dims of the stack, and its strides in matrices for both operands; 0 where one repeats.
    stack: Shape,
    strides: [[usize; RANK_MAX]; 2],
}

impl Product {
    pub(super) fn new(a: &Shape, b: &Shape) -> Option<Self> {
        // A vector is a matrix of one row on the left, of one column on the right.
        let (before_a, rows, depth) = match a.dims() {
            [] => return None,
            [depth] => (&[][..], 1, *depth),
            [before @ .., rows, depth] => (before, *rows, *depth),
        };
        let (before_b, other, columns) = match b.dims() {
            [] => return None,
            [depth] => (&[][..], *depth, 1),
            [before @ .., depth, columns] => (before, *depth, *columns),
        };
        let (stack_a, stack_b) = (Shape::new(before_a).ok()?, Shape::new(before_b).ok()?);
        let stack = stack_a.broadcast(&stack_b)?;
        let strides = [stack_a, stack_b].map(|own| {
            let mut strides = [0; RANK_MAX];
            let dense = own.strides();
            for (index, dim) in own.dims().iter().enumerate() {
                let at = stack.rank() - own.rank() + index;
                strides[at] = if *dim == 1 { 0 } else { dense[index] };
            }
            strides
        });
        (other == depth).then_some(Self { rows, depth, columns, stack, strides })
    }

    pub(super) fn shape(&self, a: &Shape, b: &Shape) -> Option<Shape> {
        let mut dims = self.stack.dims().to_vec();
        if a.rank() > 1 {
            dims.push(self.rows);
        }
        if b.rank() > 1 {
            dims.push(self.columns);
        }
        Shape::new(&dims).ok()
    }

    /// Calls `of` with the index of both matrices for each matrix of the result.
    pub(super) fn each(&self, mut of: impl FnMut(usize, usize)) {
        let dims = self.stack.dims();
        for flat in 0..self.stack.elements() {
            let mut rest = flat;
            let mut at = [0; 2];
            for dim in (0..dims.len()).rev() {
                let index = rest % dims[dim];
                rest /= dims[dim];
                at[0] += index * self.strides[0][dim];
                at[1] += index * self.strides[1][dim];
            }
            of(at[0], at[1]);
        }
    }
}

impl Op for MatMul {
    fn code(&self) -> u16 {
        const { ENTRY.code }
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let (a, b) = (inputs[0].shape, inputs[1].shape);
        let shape = Product::new(&a, &b).and_then(|product| product.shape(&a, &b));
        let what = || OpError::shape(format!("{a} and {b} have no matrix product"));
        Ok(TensorInfo::new(inputs[0].dtype, shape.ok_or_else(what)?))
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let (a, b) = (&inputs.info(0).shape, &inputs.info(1).shape);
        let product = Product::new(a, b).ok_or(Fault::Memory)?;
        if output.info.dtype == DataType::FLOAT {
            return floats(&product, inputs, output);
        }
        // The lowest bits of sums and products are the same with a sign and without.
        match (output.info.dtype, element_size(output.info.dtype)) {
            (DataType::DOUBLE, _) => plain::<f64>(&product, inputs, output),
            (_, Some(4)) => plain::<u32>(&product, inputs, output),
            _ => plain::<u64>(&product, inputs, output),
        }
    }

    fn flops(&self, inputs: &[TensorInfo], output: &TensorInfo) -> u64 {
        let depth = inputs[0].shape.dims().last().copied().unwrap_or(0);
        2 * depth as u64 * output.shape.elements() as u64
    }
}

fn floats(product: &Product, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
    let (left, right) = (inputs.elements::<f32>(0)?, inputs.elements::<f32>(1)?);
    let Product { rows, depth, columns, .. } = *product;
    let mut matrices = output.elements::<f32>()?.chunks_exact_mut(rows * columns);
    product.each(|a, b| {
        let Some(out) = matrices.next() else { return };
        let (left, right) = (&left[a * rows * depth..], &right[b * depth * columns..]);
        let activation = Activation::None;
        gemm::run(Gemm { left, right, bias: None, activation, out, rows, depth, columns });
    });
    Ok(())
}

fn plain<T: Element>(
    product: &Product,
    inputs: &dyn Inputs,
    output: &mut Output<'_>,
) -> Result<(), Fault> {
    let (left, right) = (inputs.elements::<T>(0)?, inputs.elements::<T>(1)?);
    let Product { rows, depth, columns, .. } = *product;
    let mut matrices = output.elements::<T>()?.chunks_exact_mut(rows * columns);
    product.each(|a, b| {
        let Some(out) = matrices.next() else { return };
        multiply(&left[a * rows * depth..], &right[b * depth * columns..], out, depth, columns);
    });
    Ok(())
}

/// One product of matrices of any type.
pub(super) fn multiply<T: Element>(
    left: &[T],
    right: &[T],
    out: &mut [T],
    depth: usize,
    columns: usize,
) {
    for (row, out) in out.chunks_exact_mut(columns).enumerate() {
        out.fill(T::ZERO);
        for k in 0..depth {
            let factor = left[row * depth + k];
            for (to, x) in out.iter_mut().zip(&right[k * columns..][..columns]) {
                *to = to.plus(factor.times(*x));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{Case, float, int64, ints, value_of};

    #[test]
    fn vectors_and_matrices() {
        for (dtype, _) in ENTRY.types {
            let run = |a: (&[usize], &[i32]), b: (&[usize], &[i32])| {
                let case = Case::new(&ENTRY, 13).input(value_of(*dtype, a.0, a.1));
                case.input(value_of(*dtype, b.0, b.1)).run()
            };
            let two = (&[2, 2][..], &[1, 2, 3, 4][..]);
            let dot = run((&[2], &[1, 2]), (&[2], &[3, 4]));
            assert_eq!(dot, value_of(*dtype, &[], &[11]));
            assert_eq!(run(two, (&[2], &[5, 6])), value_of(*dtype, &[2], &[17, 39]));
            assert_eq!(run((&[2], &[5, 6]), two), value_of(*dtype, &[2], &[23, 34]));
            assert_eq!(run(two, two), value_of(*dtype, &[2, 2], &[7, 10, 15, 22]));
            let stack = run((&[2, 1, 2], &[1, 2, 3, 4]), two);
            assert_eq!(stack, value_of(*dtype, &[2, 1, 2], &[7, 10, 15, 22]));
        }
    }

    #[test]
    fn stacks_broadcast() {
        let a = ints(&[2, 1, 1, 1], &[2, 3]);
        let b = ints(&[2, 1, 1], &[5, 7]);
        let case = Case::new(&ENTRY, 9).input(a).input(b);
        assert_eq!(case.run(), ints(&[2, 2, 1, 1], &[10, 14, 15, 21]));
    }

    #[test]
    fn no_depth_is_zero() {
        let case = Case::new(&ENTRY, 13).input(float(&[1, 0], &[])).input(float(&[0, 2], &[]));
        assert_eq!(case.run(), float(&[1, 2], &[0.0, 0.0]));
        let whole = Case::new(&ENTRY, 13).input(int64(&[1, 0], &[])).input(int64(&[0, 2], &[]));
        assert_eq!(whole.run(), int64(&[1, 2], &[0, 0]));
    }

    #[test]
    fn what_is_refused() {
        let depth = Case::new(&ENTRY, 13).input(float(&[1, 2], &[0.0; 2]));
        let depth = depth.input(float(&[3, 1], &[0.0; 3]));
        assert!(depth.refused().contains("[1, 2] and [3, 1] have no matrix product"));
        let scalar = Case::new(&ENTRY, 13).input(float(&[], &[0.0])).input(float(&[1], &[0.0]));
        assert!(scalar.refused().contains("no matrix product"));
        let early = Case::new(&ENTRY, 8).input(ints(&[1], &[1])).input(ints(&[1], &[1]));
        assert!(early.refused().contains("supported: float32"));
    }
}
