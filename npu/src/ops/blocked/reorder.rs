//! Into blocks and back.

use super::{BLOCK, blocked, blocks, entry, maps_of};
use crate::ops::{Line, Op, OpError};
use crate::params::ParamWriter;
use crate::shape::Shape;
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

pub(super) const TO: Line = entry("ToBlocked", 1003, 1, |_| Ok(Box::new(ToBlocked)));

pub(super) const FROM: Line =
    entry("FromBlocked", 1004, 1, |from| Ok(Box::new(FromBlocked { maps: from.size()? })));

/// Pixels that are reordered at a time: they stay in the first-level cache.
const CHUNK: usize = 64;

/// `[N, C, H, W]` in blocks. Maps behind the last one are zeros.
#[derive(Clone, Copy, Debug)]
pub struct ToBlocked;

/// Maps in blocks as `[N, C, H, W]`.
#[derive(Clone, Copy, Debug)]
pub struct FromBlocked {
    /// C, of which the blocks hold no more than a part of one.
    pub maps: usize,
}

impl Op for ToBlocked {
    fn code(&self) -> u16 {
        TO.code
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let found = inputs[0].shape;
        let shape = blocked(&found).filter(|shape| shape.elements() > 0);
        let what = || OpError::shape(format!("{found} has no maps; expected [N, C, H, W]"));
        Ok(TensorInfo::new(inputs[0].dtype, shape.ok_or_else(what)?))
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let &[batch, maps, height, width] = inputs.dims(0) else { return Err(Fault::Memory) };
        let (x, plane) = (inputs.elements::<f32>(0)?, height * width);
        let (out, _) = output.elements::<f32>()?.as_chunks_mut::<BLOCK>();
        for (index, out) in out.chunks_exact_mut(plane).enumerate().take(batch * blocks(maps)) {
            let (image, first) = (index / blocks(maps), index % blocks(maps) * BLOCK);
            let count = (maps - first).min(BLOCK);
            let x = &x[(image * maps + first) * plane..][..count * plane];
            for (chunk, out) in out.chunks_mut(CHUNK).enumerate() {
                for lane in 0..BLOCK {
                    if lane >= count {
                        out.iter_mut().for_each(|pixel| pixel[lane] = 0.0);
                        continue;
                    }
                    let x = &x[lane * plane + chunk * CHUNK..];
                    out.iter_mut().zip(x).for_each(|(pixel, x)| pixel[lane] = *x);
                }
            }
        }
        Ok(())
    }

    fn flops(&self, _inputs: &[TensorInfo], _output: &TensorInfo) -> u64 {
        0
    }
}

impl Op for FromBlocked {
    fn code(&self) -> u16 {
        FROM.code
    }

    fn encode(&self, into: &mut ParamWriter) {
        into.size(self.maps);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let [batch, own, height, width] = maps_of(&inputs[0])?;
        if self.maps == 0 || blocks(self.maps) != own {
            let what = format!("{} maps in {own} blocks of 16", self.maps);
            return Err(OpError::shape(what));
        }
        Ok(TensorInfo::new(inputs[0].dtype, Shape::new(&[batch, self.maps, height, width])?))
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let &[_, own, height, width, _] = inputs.dims(0) else { return Err(Fault::Memory) };
        let plane = height * width;
        let (x, _) = inputs.elements::<f32>(0)?.as_chunks::<BLOCK>();
        let out = output.elements::<f32>()?;
        for (image, out) in out.chunks_exact_mut(plane * self.maps).enumerate() {
            for (block, out) in out.chunks_mut(plane * BLOCK).enumerate() {
                let x = &x[(image * own + block) * plane..][..plane];
                for (chunk, x) in x.chunks(CHUNK).enumerate() {
                    for (lane, out) in out.chunks_exact_mut(plane).enumerate() {
                        let out = out[chunk * CHUNK..].iter_mut();
                        out.zip(x).for_each(|(to, pixel)| *to = pixel[lane]);
                    }
                }
            }
        }
        Ok(())
    }

    fn flops(&self, _inputs: &[TensorInfo], _output: &TensorInfo) -> u64 {
        0
    }
}
