//! The mean of each map, in blocks.

use super::{BLOCK, entry, maps_of};
use crate::isa::{self, Routine, Simd};
use crate::ops::{Line, Op, OpError};
use crate::shape::Shape;
use crate::team;
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

pub(super) const ENTRY: Line = entry("BlockedMean", 1005, 1, |_| Ok(Box::new(BlockedMean)));

/// The mean of each map: `[N, C / 16, H, W, 16]` to `[N, C / 16, 1, 1, 16]`.
#[derive(Clone, Copy, Debug)]
pub struct BlockedMean;

impl Op for BlockedMean {
    fn code(&self) -> u16 {
        ENTRY.code
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let [batch, blocks, _, _] = maps_of(&inputs[0])?;
        Ok(TensorInfo::new(inputs[0].dtype, Shape::new(&[batch, blocks, 1, 1, BLOCK])?))
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let size = inputs.dims(0)[2..4].iter().product::<usize>();
        let (x, _) = inputs.elements::<f32>(0)?.as_chunks();
        let team = output.team;
        let (out, _) = output.elements::<f32>()?.as_chunks_mut();
        team::deal(team, out, (1, 8 * size * BLOCK), |first, out| {
            isa::run(Means { x: &x[first * size..], size, out });
        });
        Ok(())
    }

    fn flops(&self, inputs: &[TensorInfo], _output: &TensorInfo) -> u64 {
        inputs[0].shape.elements() as u64
    }
}

struct Means<'a> {
    x: &'a [[f32; BLOCK]],
    size: usize,
    out: &'a mut [[f32; BLOCK]],
}

impl Routine for Means<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        #[expect(clippy::cast_precision_loss, reason = "a count of elements")]
        let part = 1.0 / self.size as f32;
        for (mean, pixels) in self.out.iter_mut().zip(self.x.chunks_exact(self.size)) {
            let (fours, rest) = pixels.as_chunks::<4>();
            let mut sums = [simd.splat(0.0); 4];
            for four in fours {
                for (sum, pixel) in sums.iter_mut().zip(four) {
                    *sum = simd.add(*sum, simd.load(pixel));
                }
            }
            for pixel in rest {
                sums[0] = simd.add(sums[0], simd.load(pixel));
            }
            let sum = simd.add(simd.add(sums[0], sums[1]), simd.add(sums[2], sums[3]));
            simd.store(simd.mul(sum, simd.splat(part)), mean);
        }
    }
}
