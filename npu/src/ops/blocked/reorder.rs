//! Into blocks and back.

use super::{BLOCK, blocked, blocks, entry, maps_of};
use crate::ops::{Line, Op, OpError};
use crate::params::ParamWriter;
use crate::shape::Shape;
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

pub(super) const TO: Line = entry("ToBlocked", 1003, 1, |_| Ok(Box::new(ToBlocked)));

pub(super) const FROM: Line =
    entry("FromBlocked", 1004, 1, |from| Ok(Box::new(FromBlocked { maps: from.size()? })));

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
            for (pixel, out) in out.iter_mut().enumerate() {
                for (lane, to) in out.iter_mut().enumerate() {
                    *to = if lane < count { x[lane * plane + pixel] } else { 0.0 };
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
        for (index, out) in out.chunks_exact_mut(plane).enumerate() {
            let (image, map) = (index / self.maps, index % self.maps);
            let x = &x[(image * own + map / BLOCK) * plane..][..plane];
            for (to, pixel) in out.iter_mut().zip(x) {
                *to = pixel[map % BLOCK];
            }
        }
        Ok(())
    }

    fn flops(&self, _inputs: &[TensorInfo], _output: &TensorInfo) -> u64 {
        0
    }
}
