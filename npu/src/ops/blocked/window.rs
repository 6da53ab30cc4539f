//! Where a kernel of two dims stands: strides, dilations, padding.

use crate::ops::OpError;
use crate::ops::conv::Conv;
use crate::params::{ParamReader, ParamWriter};
use crate::shape::ELEMENTS_MAX;

/// How a kernel of two dims moves over its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Distance between the places of the kernel.
    pub strides: [usize; 2],
    /// Distance between elements of the kernel.
    pub dilations: [usize; 2],
    /// Zeros before each dim.
    pub pads_begin: [usize; 2],
    /// Zeros after each dim.
    pub pads_end: [usize; 2],
}

impl Window {
    /// How a convolution of two dims moves.
    #[must_use]
    pub fn of(conv: &Conv) -> Self {
        let last = |list: [usize; 3]| [list[1], list[2]];
        Self {
            strides: last(conv.strides),
            dilations: last(conv.dilations),
            pads_begin: last(conv.pads_begin),
            pads_end: last(conv.pads_end),
        }
    }

    pub(super) fn encode(&self, into: &mut ParamWriter) {
        for list in [&self.strides, &self.dilations, &self.pads_begin, &self.pads_end] {
            into.sizes(list);
        }
    }

    pub(super) fn decode(from: &mut ParamReader<'_>) -> Result<Self, OpError> {
        let (strides, dilations) = (from.sizes()?, from.sizes()?);
        let own = Self { strides, dilations, pads_begin: from.sizes()?, pads_end: from.sizes()? };
        let all = [own.strides, own.dilations, own.pads_begin, own.pads_end];
        let bounded = all.as_flattened().iter().all(|value| *value <= ELEMENTS_MAX);
        let positive = all[..2].as_flattened().iter().all(|value| *value > 0);
        if bounded && positive {
            return Ok(own);
        }
        Err(OpError::params(format!("{own:?} is no window")))
    }

    /// How many places a kernel has in an input, along both dims.
    pub(super) fn places(
        &self,
        input: [usize; 2],
        kernel: [usize; 2],
    ) -> Result<[usize; 2], OpError> {
        let along = |dim: usize| {
            let reach =
                kernel[dim].checked_sub(1)?.checked_mul(self.dilations[dim])?.checked_add(1)?;
            let padded = input[dim] + self.pads_begin[dim] + self.pads_end[dim];
            Some(padded.checked_sub(reach)? / self.strides[dim] + 1)
        };
        let own = along(0).zip(along(1)).map(|(y, x)| [y, x]);
        let what = || format!("a kernel of {kernel:?} does not fit into {input:?} with {self:?}");
        own.ok_or_else(|| OpError::shape(what()))
    }

    /// Whether each place of a kernel is one element of the input, in order.
    pub(super) fn is_pointwise(&self, kernel: [usize; 2]) -> bool {
        let none = [0; 2];
        kernel == [1; 2]
            && self.strides == [1; 2]
            && (self.pads_begin, self.pads_end) == (none, none)
    }

    /// The row or column that element `tap` of the kernel meets at a place; beyond every input
    /// where it lies before the first one.
    #[inline(always)]
    pub(super) fn meets(&self, dim: usize, place: usize, tap: usize) -> usize {
        let padded = place * self.strides[dim] + tap * self.dilations[dim];
        padded.wrapping_sub(self.pads_begin[dim])
    }
}
