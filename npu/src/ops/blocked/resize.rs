//! Each pixel several times, in blocks.

use super::{BLOCK, entry, maps_of};
use crate::ops::{Line, Op, OpError};
use crate::params::ParamWriter;
use crate::shape::Shape;
use crate::team;
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

pub(super) const ENTRY: Line =
    entry("BlockedRepeat", 1009, 1, |from| Ok(Box::new(BlockedRepeat { times: from.sizes()? })));

/// Each pixel so many times along both dims: `[N, C / 16, H, W, 16]` to
/// `[N, C / 16, H * Y, W * X, 16]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockedRepeat {
    /// Y and X.
    pub times: [usize; 2],
}

impl Op for BlockedRepeat {
    fn code(&self) -> u16 {
        ENTRY.code
    }

    fn encode(&self, into: &mut ParamWriter) {
        into.sizes(&self.times);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let [batch, blocks, height, width] = maps_of(&inputs[0])?;
        let [y, x] = self.times;
        let (rows, columns) = (height.saturating_mul(y), width.saturating_mul(x));
        if rows == 0 || columns == 0 {
            return Err(OpError::shape("pixels that are repeated no times"));
        }
        let dims = [batch, blocks, rows, columns, BLOCK];
        Ok(TensorInfo::new(inputs[0].dtype, Shape::new(&dims)?))
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let &[.., width, _] = inputs.dims(0) else { return Err(Fault::Memory) };
        let (x, _) = inputs.elements::<f32>(0)?.as_chunks::<BLOCK>();
        let team = output.team;
        let (out, _) = output.elements::<f32>()?.as_chunks_mut::<BLOCK>();
        let wide = width * self.times[1];
        let size = wide * self.times[0];
        team::deal(team, out, (size, team::moved(size * BLOCK)), |first, out| {
            let rows = x.chunks_exact(width).skip(first);
            for (row, lines) in rows.zip(out.chunks_exact_mut(size)) {
                let (first, others) = lines.split_at_mut(wide);
                for (pixel, to) in row.iter().zip(first.chunks_exact_mut(self.times[1])) {
                    to.fill(*pixel);
                }
                others.chunks_exact_mut(wide).for_each(|line| line.copy_from_slice(first));
            }
        });
        Ok(())
    }

    fn flops(&self, _inputs: &[TensorInfo], _output: &TensorInfo) -> u64 {
        0
    }
}
