//! Ops on feature maps in blocks of 16, which the compiler puts in the place of those of the model.
//! No model can name them; a program can.
//!
//! A tensor `[N, C, H, W]` is in blocks as `[N, C / 16, H, W, 16]`, C / 16 rounded up: a vector of
//! 16 maps for each pixel. Maps behind the last one hold anything; nothing reads them. Ops of one
//! element, and Add and Mul with numpy's rule, are the same on both.

mod attend;
mod chain;
mod conv;
mod dense;
mod depthwise;
mod fours;
mod halves;
mod pool;
mod quantised;
mod quantised_conv;
mod quantised_elements;
#[cfg(test)]
mod quantised_tests;
mod reorder;
mod resize;
#[cfg(test)]
mod tests;
mod window;
mod window_pool;
mod winograd;

use crate::DataType;
use crate::isa::LANES;
use crate::ops::{Line, Op, OpError};
use crate::params::ParamReader;
use crate::shape::Shape;
use crate::tensor::TensorInfo;

pub use attend::Attend;
pub use chain::{Chain, STEPS_MAX, Source, Step};
pub use conv::{BlockedConv, pack_weights};
pub use dense::{Dense, pack_columns};
pub use depthwise::{BlockedDepthwise, pack_depthwise};
pub use fours::Fours;
pub use halves::{BlockedConcat, BlockedSpread, HALF, OPERANDS};
pub use pool::BlockedMean;
pub use quantised::{Finish, QuantisedDense, pack_pairs};
pub use quantised_conv::{QuantisedConv, QuantisedDepthwise, pack_kernel};
pub use quantised_elements::{QuantisedPair, QuantisedTable};
pub use reorder::{FromBlocked, ToBlocked};
pub use resize::BlockedRepeat;
pub use window::Window;
pub use window_pool::BlockedPool;
pub use winograd::{BlockedWinograd, pack_winograd};

/// The ops, by number.
pub(super) static LINES: &[Line] = &[
    conv::ENTRY,
    depthwise::ENTRY,
    reorder::TO,
    reorder::FROM,
    pool::ENTRY,
    dense::ENTRY,
    halves::CONCAT,
    halves::SPREAD,
    resize::ENTRY,
    window_pool::ENTRY,
    attend::ENTRY,
    winograd::ENTRY,
    quantised::ENTRY,
    quantised_conv::ENTRY,
    quantised_conv::DEPTHWISE,
    quantised_elements::TABLE,
    quantised_elements::PAIR,
    chain::ENTRY,
];

/// Maps of a block.
pub const BLOCK: usize = LANES;

/// A word of sixteen columns of packed weights: a pair each, or four bytes.
type Panel = [i32; BLOCK];

/// Zeros for a pixel of the padding.
static ZERO: [f32; BLOCK] = [0.0; BLOCK];

/// A line of the table.
const fn entry(
    name: &'static str,
    code: u16,
    operands: usize,
    decode: fn(&mut ParamReader<'_>) -> Result<Box<dyn Op>, OpError>,
) -> Line {
    Line {
        name,
        code,
        operands: (operands, operands),
        types: &[(DataType::FLOAT, 1)],
        mixed: &[],
        decode,
    }
}

/// How many blocks some maps are.
#[must_use]
pub const fn blocks(maps: usize) -> usize {
    maps.div_ceil(BLOCK)
}

/// The shape in blocks of `[N, C, H, W]`; `None` for others.
#[must_use]
pub fn blocked(shape: &Shape) -> Option<Shape> {
    match *shape.dims() {
        [n, c, h, w] => Shape::new(&[n, blocks(c), h, w, BLOCK]).ok(),
        _ => None,
    }
}

/// One value a map as one vector a block, zeros behind them.
#[must_use]
pub fn pack_maps(values: &[f32]) -> Vec<f32> {
    let mut own = values.to_vec();
    own.resize(blocks(values.len()) * BLOCK, 0.0);
    own
}

/// Dims of maps in blocks, none of them 0.
fn maps_of(info: &TensorInfo) -> Result<[usize; 4], OpError> {
    match *info.shape.dims() {
        [n, c, h, w, BLOCK] if n * c * h * w > 0 => Ok([n, c, h, w]),
        _ => {
            let found = info.shape;
            Err(OpError::shape(format!("{found} has no maps in blocks; expected [N, C, H, W, 16]")))
        }
    }
}

/// The result of a convolution with dims `[N, M / 16, H, W]`: its bias, and what is added to it if
/// there is a fourth operand, have to fit.
fn conv_result(dims: [usize; 4], inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
    let [batch, blocks, height, width] = dims;
    if inputs[2].shape.dims() != [blocks, BLOCK] {
        let found = inputs[2].shape;
        return Err(OpError::shape(format!("the bias is {found}; expected [{blocks}, 16]")));
    }
    let shape = Shape::new(&[batch, blocks, height, width, BLOCK])?;
    if let Some(added) = inputs.get(3).filter(|added| added.shape != shape) {
        return Err(OpError::shape(format!("{} is added to {shape}", added.shape)));
    }
    Ok(TensorInfo::new(inputs[0].dtype, shape))
}

/// Calls a function of some places for `$count` places: as many of the largest tile as there are,
/// then of the next one.
macro_rules! tiles {
    ($count:expr, [$($tile:literal),+], |$at:ident, $P:ident| $body:expr) => {{
        let mut $at = 0;
        $(while $count - $at >= $tile {
            const $P: usize = $tile;
            $body;
            $at += $tile;
        })+
    }};
}

/// As `tiles`, six at a time, for eight registers. A tile of fewer than four takes as long as one
/// of four, since it waits for its own sums, so one six and a small rest are dealt out anew.
macro_rules! sixes {
    ($count:expr, |$at:ident, $P:ident| $body:expr) => {{
        let count = $count;
        let mut $at = 0;
        while matches!(count - $at, 6 | 9 | 10 | 12..) {
            const $P: usize = 6;
            $body;
            $at += 6;
        }
        while count - $at >= 4 {
            const $P: usize = 4;
            $body;
            $at += 4;
        }
        if count - $at == 3 {
            const $P: usize = 3;
            $body;
            $at += 3;
        }
        while count > $at {
            const $P: usize = 1;
            $body;
            $at += 1;
        }
    }};
}
use {sixes, tiles};
