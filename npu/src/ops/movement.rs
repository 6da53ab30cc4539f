//! What ops that move elements without looking at them share: copies, and walks with a stride a
//! dim.

use crate::cast::Plain;
use crate::element::with_bits;
use crate::shape::RANK_MAX;
use crate::tensor::{Fault, Inputs, Output};

/// Copies input 0.
pub(super) fn copy(inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
    let from = inputs.bytes(0);
    if from.len() != output.bytes.len() {
        return Err(Fault::Memory);
    }
    output.bytes.copy_from_slice(from);
    Ok(())
}

/// Most dims of a walk: a dim can be cut in two.
const DIMS_MAX: usize = 2 * RANK_MAX;

/// Where the elements of an output come from: for each of its dims the distance in the input.
/// Neighbouring dims are joined where possible.
#[derive(Debug)]
pub(super) struct Strided {
    dims: [usize; DIMS_MAX],
    strides: [usize; DIMS_MAX],
    rank: usize,
}

impl Strided {
    /// No dims: one element.
    pub(super) fn new() -> Self {
        Self { dims: [1; DIMS_MAX], strides: [0; DIMS_MAX], rank: 0 }
    }

    /// Adds an inner dim; at most 16 are added.
    pub(super) fn push(&mut self, dim: usize, stride: usize) {
        if dim == 1 {
            return;
        }
        let joins = self.rank > 0 && self.strides[self.rank - 1] == stride * dim;
        let at = if joins { self.rank - 1 } else { self.rank };
        self.dims[at] = if joins { self.dims[at] * dim } else { dim };
        self.strides[at] = stride;
        self.rank = at + 1;
    }

    /// Copies input 0, which is walked over from an element on.
    pub(super) fn copy(
        &self,
        first: usize,
        inputs: &dyn Inputs,
        output: &mut Output<'_>,
    ) -> Result<(), Fault> {
        with_bits!(output.info.dtype, T => {
            self.elements::<T>(inputs.elements(0)?.get(first..).ok_or(Fault::Memory)?,
                output.elements()?);
            Ok(())
        })
    }

    fn elements<T: Plain>(&self, from: &[T], to: &mut [T]) {
        let last = self.rank.max(1) - 1;
        let (length, stride) = (self.dims[last], self.strides[last]);
        let mut index = [0; DIMS_MAX];
        let mut at = 0;
        for row in to.chunks_exact_mut(length.max(1)) {
            match stride {
                0 => row.fill(from[at]),
                1 => row.copy_from_slice(&from[at..at + length]),
                _ => {
                    let line = from[at..].iter().step_by(stride);
                    row.iter_mut().zip(line).for_each(|(to, from)| *to = *from);
                }
            }
            for dim in (0..last).rev() {
                index[dim] += 1;
                at += self.strides[dim];
                if index[dim] < self.dims[dim] {
                    break;
                }
                at -= self.strides[dim] * self.dims[dim];
                index[dim] = 0;
            }
        }
    }
}
