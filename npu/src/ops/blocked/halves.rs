//! Feature maps moved in halves of a block: several tensors joined, and depth moved to space.

use super::{BLOCK, blocks, entry, maps_of};
use crate::ops::{Line, Op, OpError};
use crate::params::ParamWriter;
use crate::shape::Shape;
use crate::team;
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

/// Maps of half a block.
pub const HALF: usize = BLOCK / 2;

/// Most operands of [`BlockedConcat`].
pub const OPERANDS: usize = 64;

pub(super) const CONCAT: Line = Line {
    operands: (1, OPERANDS),
    ..entry("BlockedConcat", 1007, 1, |from| {
        let count = from.size()?;
        if count > OPERANDS {
            return Err(OpError::params(format!("{count} operands; at most {OPERANDS}")));
        }
        let maps = (0..count).map(|_| from.size()).collect::<Result<_, _>>()?;
        Ok(Box::new(BlockedConcat { maps }))
    })
};

pub(super) const SPREAD: Line = entry("BlockedSpread", 1008, 1, |from| {
    Ok(Box::new(BlockedSpread { size: from.size()?, maps: from.size()? }))
});

/// The maps of several tensors, one after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockedConcat {
    /// Maps of each operand, multiples of [`HALF`].
    pub maps: Vec<usize>,
}

/// Depth to space: of `size * size * maps` maps, `maps` for each place of a square of `size`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockedSpread {
    /// Width and height of a square.
    pub size: usize,
    /// Maps of the result, a multiple of [`HALF`].
    pub maps: usize,
}

/// A half of each pixel: `step` lies between the pixels that are written.
fn copy(from: &[[f32; BLOCK]], half: usize, to: &mut [[f32; BLOCK]], to_half: usize, step: usize) {
    let (at, to_at) = (half % 2 * HALF, to_half % 2 * HALF);
    for (from, to) in from.iter().zip(to.iter_mut().step_by(step)) {
        to[to_at..to_at + HALF].copy_from_slice(&from[at..at + HALF]);
    }
}

impl BlockedConcat {
    /// The operand that a half of the result is of, and the half there.
    fn of_half(&self, half: usize) -> Option<(usize, usize)> {
        let mut rest = half;
        for (operand, maps) in self.maps.iter().enumerate() {
            match rest.checked_sub(maps / HALF) {
                None => return Some((operand, rest)),
                Some(behind) => rest = behind,
            }
        }
        None
    }
}

impl Op for BlockedConcat {
    fn code(&self) -> u16 {
        CONCAT.code
    }

    fn encode(&self, into: &mut ParamWriter) {
        into.size(self.maps.len());
        self.maps.iter().for_each(|maps| into.size(*maps));
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let [batch, _, height, width] = maps_of(&inputs[0])?;
        let fits = |(input, maps): (&TensorInfo, &usize)| {
            let halves = maps.is_multiple_of(HALF) && *maps > 0;
            halves && maps_of(input).is_ok_and(|own| own == [batch, blocks(*maps), height, width])
        };
        if inputs.len() != self.maps.len() || !inputs.iter().zip(&self.maps).all(fits) {
            let first = inputs[0].shape;
            let what = format!("operands like {first} do not have maps {:?}", self.maps);
            return Err(OpError::shape(what));
        }
        let maps = self.maps.iter().sum::<usize>();
        let dims = [batch, blocks(maps), height, width, BLOCK];
        Ok(TensorInfo::new(inputs[0].dtype, Shape::new(&dims)?))
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let &[batch, own, height, width, _] = output.info.shape.dims() else {
            return Err(Fault::Memory);
        };
        let (plane, team) = (height * width, output.team);
        debug_assert_eq!(self.maps.iter().sum::<usize>().div_ceil(BLOCK), own);
        let mut operands = [&[][..]; OPERANDS];
        for (index, operand) in operands.iter_mut().enumerate().take(self.maps.len()) {
            *operand = inputs.elements::<f32>(index)?.as_chunks::<BLOCK>().0;
        }
        let (out, _) = output.elements::<f32>()?.as_chunks_mut::<BLOCK>();
        debug_assert_eq!(out.len(), batch * own * plane);
        team::deal(team, out, (plane, team::moved(plane * BLOCK)), |first, out| {
            for (index, out) in (first..).zip(out.chunks_exact_mut(plane)) {
                let (image, block) = (index / own, index % own);
                for half in 2 * block..2 * block + 2 {
                    let Some((operand, from)) = self.of_half(half) else { continue };
                    let at = image * blocks(self.maps[operand]) + from / 2;
                    copy(&operands[operand][at * plane..][..plane], from, out, half, 1);
                }
            }
        });
        Ok(())
    }

    fn flops(&self, _inputs: &[TensorInfo], _output: &TensorInfo) -> u64 {
        0
    }
}

impl Op for BlockedSpread {
    fn code(&self) -> u16 {
        SPREAD.code
    }

    fn encode(&self, into: &mut ParamWriter) {
        into.size(self.size);
        into.size(self.maps);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let [batch, own, height, width] = maps_of(&inputs[0])?;
        let (size, maps) = (self.size, self.maps);
        let depth = size.checked_mul(size).and_then(|area| area.checked_mul(maps));
        let fits = depth.is_some_and(|depth| depth > 0 && blocks(depth) == own);
        if !fits || !maps.is_multiple_of(HALF) {
            let what = format!("{} can't be spread over {size} to {maps} maps", inputs[0].shape);
            return Err(OpError::shape(what));
        }
        let dims = [batch, blocks(maps), height * size, width * size, BLOCK];
        Ok(TensorInfo::new(inputs[0].dtype, Shape::new(&dims)?))
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let &[batch, depth, height, width, _] = inputs.dims(0) else { return Err(Fault::Memory) };
        let (halves, size, plane) = (self.maps / HALF, self.size, height * width);
        let (x, _) = inputs.elements::<f32>(0)?.as_chunks::<BLOCK>();
        let team = output.team;
        let (out, _) = output.elements::<f32>()?.as_chunks_mut::<BLOCK>();
        let (own, wide) = (blocks(self.maps), width * size);
        debug_assert_eq!(out.len(), batch * own * plane * size * size);
        // What one row of the input becomes in one plane of the result.
        let unit = (size * wide, team::moved(size * wide * BLOCK));
        team::deal(team, out, unit, |first, out| {
            for (index, rows) in (first..).zip(out.chunks_exact_mut(size * wide)) {
                let (to, y) = (index / height, index % height);
                let (image, block) = (to / own, to % own);
                for half in 2 * block..halves.min(2 * block + 2) {
                    for tap in 0..size * size {
                        let from = tap * halves + half;
                        let x = &x[((image * depth + from / 2) * height + y) * width..][..width];
                        let row = &mut rows[tap / size * wide..][..wide][tap % size..];
                        copy(x, from, row, half, size);
                    }
                }
            }
        });
        Ok(())
    }

    fn flops(&self, _inputs: &[TensorInfo], _output: &TensorInfo) -> u64 {
        0
    }
}
