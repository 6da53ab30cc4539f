//! Into blocks and back.

use super::{BLOCK, blocked, blocks, entry, maps_of};
use crate::ops::{Line, Op, OpError};
use crate::params::ParamWriter;
use crate::shape::Shape;
use crate::team;
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

/// Some maps as one block, zeros behind the last of them.
fn to_blocked(x: &[f32], plane: usize, out: &mut [[f32; BLOCK]]) {
    for (chunk, out) in out.chunks_mut(CHUNK).enumerate() {
        for lane in 0..BLOCK {
            match x.get(lane * plane + chunk * CHUNK..) {
                Some(x @ [_, ..]) => {
                    out.iter_mut().zip(x).for_each(|(pixel, x)| pixel[lane] = *x);
                }
                _ => out.iter_mut().for_each(|pixel| pixel[lane] = 0.0),
            }
        }
    }
}

/// The maps of one block, as many as `out` has.
fn from_blocked(x: &[[f32; BLOCK]], out: &mut [f32]) {
    for (chunk, pixels) in x.chunks(CHUNK).enumerate() {
        for (lane, out) in out.chunks_exact_mut(x.len()).enumerate() {
            let out = out[chunk * CHUNK..].iter_mut();
            out.zip(pixels).for_each(|(to, pixel)| *to = pixel[lane]);
        }
    }
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
        let team = output.team;
        let (out, _) = output.elements::<f32>()?.as_chunks_mut::<BLOCK>();
        debug_assert_eq!(out.len(), batch * blocks(maps) * plane);
        team::deal(team, out, (plane, team::moved(plane * BLOCK)), |from, out| {
            for (index, out) in (from..).zip(out.chunks_exact_mut(plane)) {
                let (image, first) = (index / blocks(maps), index % blocks(maps) * BLOCK);
                let count = (maps - first).min(BLOCK);
                let x = &x[(image * maps + first) * plane..][..count * plane];
                to_blocked(x, plane, out);
            }
        });
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
        let team = output.team;
        let out = output.elements::<f32>()?;
        for (image, out) in out.chunks_exact_mut(plane * self.maps).enumerate() {
            let unit = (plane * BLOCK, team::moved(plane * BLOCK));
            team::deal(team, out, unit, |first, out| {
                for (block, out) in (first..).zip(out.chunks_mut(plane * BLOCK)) {
                    from_blocked(&x[(image * own + block) * plane..][..plane], out);
                }
            });
        }
        Ok(())
    }

    fn flops(&self, _inputs: &[TensorInfo], _output: &TensorInfo) -> u64 {
        0
    }
}
