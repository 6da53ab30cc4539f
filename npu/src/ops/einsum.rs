//! Einsum: products of tensors whose dims have letters, summed over the letters that the result
//! does not have.
//!
//! Operands are taken in one after the other. Each step is a stack of matrix products: letters of
//! both that are kept number the matrices, those of one alone are its rows or columns, and those
//! that nobody needs any more are the depth. Both sides are copied into that order first, which
//! sums what only one has, and takes diagonals.

mod equation;
mod steps;
#[cfg(test)]
mod tests;

use crate::DataType;
use crate::cast::{Plain, elements, elements_mut};
use crate::element::Element;
use crate::ops::gemm::{self, Gemm};
use crate::ops::mat_mul::multiply;
use crate::ops::{Activation, Imported, Node, Op, OpEntry, OpError, always};
use crate::params::{ParamReader, ParamWriter};
use crate::shape::{RANK_MAX, Shape};
use crate::tensor::{Fault, Inputs, Output, TensorInfo, element_size};

use steps::{LETTERS, List, Source, Step, copy};

/// The line of the table.
pub static ENTRY: OpEntry = OpEntry {
    name: "Einsum",
    code: 193,
    versions: &[12, 28],
    attributes: &[always("equation")],
    inputs: (1, usize::MAX),
    operands: (1, usize::MAX),
    types: &[
        (DataType::FLOAT, 1),
        (DataType::DOUBLE, 1),
        (DataType::INT32, 1),
        (DataType::INT64, 1),
        (DataType::UINT32, 1),
        (DataType::UINT64, 1),
    ],
    import,
    decode,
    ..OpEntry::BASE
};

/// A sum of products. Letters are numbers.
#[derive(Clone, Debug)]
pub struct Einsum {
    /// The letters of each operand's dims, and behind them those of the result.
    terms: Vec<List>,
}

fn import(node: &Node<'_>) -> Result<Imported, OpError> {
    let Some(text) = node.text("equation")? else {
        return Err(OpError::attribute("equation", "is not given", "a text"));
    };
    let mut ranks = Vec::new();
    for index in 0..node.inputs.len() {
        ranks.push(node.input(index)?.info.shape.rank());
    }
    let terms = equation::parse(text, &ranks)
        .map_err(|why| OpError::attribute("equation", format!("`{text}`"), why))?;
    Ok(Imported::all(Einsum { terms }, node))
}

fn decode(from: &mut ParamReader<'_>) -> Result<Box<dyn Op>, OpError> {
    let (count, mut terms, mut seen) = (from.size()?, Vec::new(), 0u64);
    for index in 0..=count {
        let bytes = from.size().and_then(|rank| from.bytes(rank))?;
        let letters = bytes.iter().copied().map(usize::from);
        let list = List::new(letters.clone()).ok_or_else(|| OpError::params("letters"))?;
        let own = letters.fold(0u64, |own, letter| own | 1 << letter);
        let result = index == count;
        let unique = own.count_ones() as usize == list.len();
        if count == 0 || result && (own & !seen != 0 || !unique) {
            return Err(OpError::params("the result's letters are not those of operands"));
        }
        seen |= own;
        terms.push(list);
    }
    Ok(Box::new(Einsum { terms }))
}

impl Einsum {
    /// Operands, and the result's letters.
    fn sides(&self) -> (&[List], List) {
        match self.terms.split_last() {
            Some((result, operands)) => (operands, *result),
            None => (&[], List::default()),
        }
    }

    /// The size of each letter: a dim of 1 is repeated for the others.
    fn sizes(&self, shape: &dyn Fn(usize) -> Shape) -> Result<[usize; LETTERS], OpError> {
        let mut sizes = [1; LETTERS];
        for (index, letters) in self.sides().0.iter().enumerate() {
            let own = shape(index);
            if own.rank() != letters.len() {
                let what = format!("operand {index} is {own}; expected {} dims", letters.len());
                return Err(OpError::shape(what));
            }
            for (letter, dim) in letters.iter().zip(own.dims()) {
                match (sizes[letter], *dim) {
                    (1, dim) => sizes[letter] = dim,
                    (size, dim) if dim == 1 || dim == size => {}
                    (size, dim) => {
                        let what = format!("operand {index} is {own}; a dim is {size} elsewhere");
                        return Err(OpError::shape(format!("{what}, not {dim}")));
                    }
                }
            }
        }
        Ok(sizes)
    }

    /// Letters that operands from one on, or the result, have.
    fn needed(&self, from: usize) -> u64 {
        let letters = self.terms[from..].iter().flat_map(List::iter);
        letters.fold(0, |needed, letter| needed | 1 << letter)
    }

    /// The first operand, and the steps: each takes the next one in.
    fn steps<'a>(&'a self, sizes: &'a [usize; LETTERS]) -> impl Iterator<Item = Step> + 'a {
        let (operands, _) = self.sides();
        let mut own = operands.first().copied().unwrap_or_default();
        let others = operands.iter().enumerate().skip(1);
        others.map(move |(index, other)| {
            let step = Step::new(own, *other, self.needed(index + 1), sizes);
            own = step.result();
            step
        })
    }

    /// Most elements of the left sides, of the right ones, and of what comes of steps.
    fn rooms(&self, sizes: &[usize; LETTERS]) -> [usize; 3] {
        let steps = self.steps(sizes).map(|step| [step.left(), step.right(), step.product()]);
        steps.fold([0; 3], |most, own| [0, 1, 2].map(|side| most[side].max(own[side])))
    }

    /// The same code for all types, which know how to copy and to multiply bytes.
    fn compute(
        &self,
        inputs: &dyn Inputs,
        output: &mut Output<'_>,
        (size, copy, product): (usize, Mover, Product),
    ) -> Result<(), Fault> {
        let sizes = self.sizes(&|index| inputs.info(index).shape).map_err(|_| Fault::Memory)?;
        let (operands, result) = self.sides();
        let [left, right, whole] = self.rooms(&sizes);
        let (left, scratch) = room(output.scratch, left, size)?;
        let (right, scratch) = room(scratch, right, size)?;
        let (mut made, scratch) = room(scratch, whole, size)?;
        let (mut next, _) = room(scratch, whole, size)?;
        let first = operands.first().copied().ok_or(Fault::Memory)?;
        let mut own = Source::strided(first, inputs.dims(0), &sizes);
        for (index, step) in self.steps(&sizes).enumerate() {
            let from = if index == 0 { inputs.bytes(0) } else { &*made };
            copy(from, &own, &step.left, &sizes, &mut left[..step.left() * size])?;
            let other = Source::strided(operands[index + 1], inputs.dims(index + 1), &sizes);
            let (from, to) = (inputs.bytes(index + 1), &mut right[..step.right() * size]);
            copy(from, &other, &step.right, &sizes, to)?;
            product(&step, left, right, &mut next[..step.product() * size])?;
            std::mem::swap(&mut made, &mut next);
            own = Source::dense(step.result(), &sizes);
        }
        let from = if operands.len() == 1 { inputs.bytes(0) } else { &*made };
        copy(from, &own, &result, &sizes, output.bytes)
    }
}

/// Copies elements in another order.
type Mover = fn(&[u8], &Source, &List, &[usize; LETTERS], &mut [u8]) -> Result<(), Fault>;

/// Multiplies stacks of matrices.
type Product = fn(&Step, &[u8], &[u8], &mut [u8]) -> Result<(), Fault>;

/// Memory of elements, and what is behind it.
fn room(scratch: &mut [u8], count: usize, size: usize) -> Result<(&mut [u8], &mut [u8]), Fault> {
    let own = scratch.split_at_mut_checked(bytes(count, size));
    let (own, rest) = own.ok_or(Fault::Memory)?;
    Ok((&mut own[..count * size], rest))
}

/// Bytes as elements.
fn seen<T: Plain>(bytes: &[u8]) -> Result<&[T], Fault> {
    elements(bytes).ok_or(Fault::Memory)
}

/// Bytes of so many elements, so that what is behind them is aligned.
fn bytes(count: usize, size: usize) -> usize {
    count.saturating_mul(size).checked_next_multiple_of(64).unwrap_or(usize::MAX)
}

/// A stack of products of matrices of floats.
fn floats(step: &Step, left: &[u8], right: &[u8], out: &mut [u8]) -> Result<(), Fault> {
    let ([stack, rows, depth, columns], left, right) = (step.sizes(), seen(left)?, seen(right)?);
    let out = elements_mut::<f32>(out).ok_or(Fault::Memory)?;
    if rows * columns == 0 {
        return Ok(());
    }
    for (at, out) in out.chunks_exact_mut(rows * columns).enumerate().take(stack) {
        let (left, right) = (&left[at * rows * depth..], &right[at * depth * columns..]);
        let activation = Activation::None;
        gemm::run(Gemm { left, right, bias: None, activation, out, rows, depth, columns });
    }
    Ok(())
}

/// The same of other types.
fn others<T: Element>(step: &Step, left: &[u8], right: &[u8], out: &mut [u8]) -> Result<(), Fault> {
    let ([stack, rows, depth, columns], left, right) = (step.sizes(), seen(left)?, seen(right)?);
    let out = elements_mut::<T>(out).ok_or(Fault::Memory)?;
    if rows * columns == 0 {
        return Ok(());
    }
    for (at, out) in out.chunks_exact_mut(rows * columns).enumerate().take(stack) {
        multiply(&left[at * rows * depth..], &right[at * depth * columns..], out, depth, columns);
    }
    Ok(())
}

impl Op for Einsum {
    fn code(&self) -> u16 {
        const { ENTRY.code }
    }

    fn encode(&self, into: &mut ParamWriter) {
        into.size(self.sides().0.len());
        for term in &self.terms {
            into.size(term.len());
            term.iter().for_each(|letter| into.bytes(&letter.to_le_bytes()[..1]));
        }
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let (operands, result) = self.sides();
        if inputs.len() != operands.len() {
            let supported = operands.len().to_string();
            return Err(OpError::Count { what: "operands", found: inputs.len(), supported });
        }
        let sizes = self.sizes(&|index| inputs[index].shape)?;
        let mut dims = [0; RANK_MAX];
        for (dim, letter) in dims.iter_mut().zip(result.iter()) {
            *dim = sizes[letter];
        }
        let [left, right, whole] = self.rooms(&sizes);
        if left.max(right).max(whole) > crate::shape::ELEMENTS_MAX {
            return Err(OpError::shape("a product of two operands has too many elements"));
        }
        Ok(TensorInfo::new(inputs[0].dtype, Shape::new(&dims[..result.len()])?))
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        // The lowest bits of sums and products are the same with a sign and without.
        match (output.info.dtype, element_size(output.info.dtype)) {
            (DataType::FLOAT, _) => self.compute(inputs, output, (4, copy::<f32>, floats)),
            (DataType::DOUBLE, _) => self.compute(inputs, output, (8, copy::<f64>, others::<f64>)),
            (_, Some(4)) => self.compute(inputs, output, (4, copy::<u32>, others::<u32>)),
            _ => self.compute(inputs, output, (8, copy::<u64>, others::<u64>)),
        }
    }

    fn flops(&self, inputs: &[TensorInfo], output: &TensorInfo) -> u64 {
        let Ok(sizes) = self.sizes(&|index| inputs[index].shape) else { return 0 };
        let own = |step: Step| {
            let [stack, rows, depth, columns] = step.sizes().map(|size| size as u64);
            let product = stack.saturating_mul(rows).saturating_mul(columns);
            product.saturating_mul(2 * depth)
        };
        let sum = self.steps(&sizes).map(own).fold(0u64, u64::saturating_add);
        sum.saturating_add(output.shape.elements() as u64)
    }

    fn scratch_bytes(&self, inputs: &[TensorInfo], output: &TensorInfo) -> usize {
        let (Ok(sizes), Some(size)) =
            (self.sizes(&|index| inputs[index].shape), element_size(output.dtype))
        else {
            return 0;
        };
        let [left, right, whole] = self.rooms(&sizes).map(|count| bytes(count, size));
        left.saturating_add(right).saturating_add(whole).saturating_add(whole)
    }
}
