//! The greatest or the mean of the places of a window, in blocks.

use super::{BLOCK, Window, ZERO, entry, maps_of};
use crate::isa::{self, Routine, Simd};
use crate::ops::{Line, Op, OpError};
use crate::params::ParamWriter;
use crate::shape::Shape;
use crate::team;
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

pub(super) const ENTRY: Line = entry("BlockedPool", 1010, 1, |from| {
    let (window, kernel) = (Window::decode(from)?, from.sizes()?);
    Ok(Box::new(BlockedPool { window, kernel, greatest: from.flag()? }))
});

/// One number of each place of a window, which is never wholly outside.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockedPool {
    /// Where it stands.
    pub window: Window,
    /// Its size.
    pub kernel: [usize; 2],
    /// The greatest of what is inside; else the mean, and nothing is outside.
    pub greatest: bool,
}

impl Op for BlockedPool {
    fn code(&self) -> u16 {
        ENTRY.code
    }

    fn encode(&self, into: &mut ParamWriter) {
        self.window.encode(into);
        into.sizes(&self.kernel);
        into.flag(self.greatest);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let [batch, blocks, height, width] = maps_of(&inputs[0])?;
        let Window { pads_begin, pads_end, dilations, .. } = self.window;
        let pads = [pads_begin, pads_end];
        let inside = pads.iter().all(|pads| pads[0] < self.kernel[0] && pads[1] < self.kernel[1]);
        if !inside || (pads != [[0; 2]; 2] && (!self.greatest || dilations != [1; 2])) {
            return Err(OpError::shape(format!("{self:?} would stand outside")));
        }
        let [rows, columns] = self.window.places([height, width], self.kernel)?;
        let dims = [batch, blocks, rows, columns, BLOCK];
        Ok(TensorInfo::new(inputs[0].dtype, Shape::new(&dims)?))
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let (&[.., height, width, _], &[.., rows, columns, _]) =
            (inputs.dims(0), output.info.shape.dims())
        else {
            return Err(Fault::Memory);
        };
        let (x, _) = inputs.elements::<f32>(0)?.as_chunks();
        let team = output.team;
        let (out, _) = output.elements::<f32>()?.as_chunks_mut();
        let sizes = [height, width, rows, columns];
        let cost = columns * BLOCK * 8 * self.kernel[0] * self.kernel[1];
        team::deal(team, out, (columns, cost), |line, out| {
            isa::run(Places { pool: *self, x, out, line, sizes });
        });
        Ok(())
    }

    fn flops(&self, _inputs: &[TensorInfo], output: &TensorInfo) -> u64 {
        (self.kernel[0] * self.kernel[1]) as u64 * output.shape.elements() as u64
    }
}

struct Places<'a> {
    pool: BlockedPool,
    x: &'a [[f32; BLOCK]],
    out: &'a mut [[f32; BLOCK]],
    /// The first line of all maps.
    line: usize,
    /// Rows and columns of a map of the input, then of the output.
    sizes: [usize; 4],
}

impl Routine for Places<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let [height, width, rows, columns] = self.sizes;
        let BlockedPool { window, kernel, greatest } = self.pool;
        #[expect(clippy::cast_precision_loss, reason = "a count of elements")]
        let part = simd.splat(1.0 / (kernel[0] * kernel[1]) as f32);
        for (index, to) in self.out.iter_mut().enumerate() {
            let (line, column) = (self.line + index / columns, index % columns);
            let map = &self.x[line / rows * height * width..][..height * width];
            let mut own = simd.splat(if greatest { f32::NEG_INFINITY } else { 0.0 });
            for tap_y in 0..kernel[0] {
                let y = window.meets(0, line % rows, tap_y);
                if y >= height {
                    continue;
                }
                let row = &map[y * width..][..width];
                for tap_x in 0..kernel[1] {
                    let pixel = row.get(window.meets(1, column, tap_x));
                    if greatest {
                        // The operand order keeps a NaN.
                        own = pixel.map_or(own, |pixel| simd.max(own, simd.load(pixel)));
                    } else {
                        own = simd.add(own, simd.load(pixel.unwrap_or(&ZERO)));
                    }
                }
            }
            simd.store(if greatest { own } else { simd.mul(own, part) }, to);
        }
    }
}
