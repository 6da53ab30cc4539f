//! Into blocks and back.

use super::{BLOCK, blocked, blocks, entry, maps_of};
use crate::DataType;
use crate::ops::{Line, Op, OpError};
use crate::params::ParamWriter;
use crate::shape::Shape;
use crate::team;
use crate::tensor::{Element, Fault, Inputs, Output, TensorInfo};

pub(super) const TO: Line =
    Line { types: TYPES, ..entry("ToBlocked", 1003, 1, |_| Ok(Box::new(ToBlocked))) };

pub(super) const FROM: Line = Line {
    types: TYPES,
    ..entry("FromBlocked", 1004, 1, |from| Ok(Box::new(FromBlocked { maps: from.size()? })))
};

/// Floats, and bytes of quantised maps.
const TYPES: &[(DataType, u32)] =
    &[(DataType::FLOAT, 1), (DataType::INT8, 1), (DataType::UINT8, 1)];

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
fn to_blocked<T: Element>(x: &[T], plane: usize, out: &mut [[T; BLOCK]], step: usize) {
    for (chunk, out) in out.chunks_mut(CHUNK).enumerate() {
        for lane in 0..BLOCK {
            match x.get(lane * plane + chunk * CHUNK..) {
                Some(x @ [_, ..]) => {
                    let own = out.as_flattened_mut()[lane..].iter_mut().step_by(step);
                    own.zip(x).for_each(|(to, x)| *to = *x);
                }
                _ => out.iter_mut().for_each(|pixel| pixel[lane] = T::ZERO),
            }
        }
    }
}

/// The maps of one block, as many as `out` has.
fn from_blocked<T: Element>(x: &[[T; BLOCK]], out: &mut [T], step: usize) {
    for (chunk, pixels) in x.chunks(CHUNK).enumerate() {
        for (lane, out) in out.chunks_exact_mut(x.len()).enumerate() {
            let out = out[chunk * CHUNK..].iter_mut();
            let own = pixels.as_flattened()[lane..].iter().step_by(step);
            out.zip(own).for_each(|(to, x)| *to = *x);
        }
    }
}

/// [`BLOCK`] as a step that the compiler does not know: its way to spare single bytes is a hundred
/// times the code, and no faster.
fn byte_step() -> usize {
    std::hint::black_box(BLOCK)
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
        match output.info.dtype {
            DataType::FLOAT => self.of::<f32>(inputs, output, BLOCK),
            _ => self.of::<u8>(inputs, output, byte_step()),
        }
    }

    fn flops(&self, _inputs: &[TensorInfo], _output: &TensorInfo) -> u64 {
        0
    }
}

impl ToBlocked {
    fn of<T: Element>(
        &self,
        inputs: &dyn Inputs,
        output: &mut Output<'_>,
        step: usize,
    ) -> Result<(), Fault> {
        let &[batch, maps, height, width] = inputs.dims(0) else { return Err(Fault::Memory) };
        let (x, plane) = (inputs.elements::<T>(0)?, height * width);
        let team = output.team;
        let (out, _) = output.elements::<T>()?.as_chunks_mut::<BLOCK>();
        debug_assert_eq!(out.len(), batch * blocks(maps) * plane);
        team::deal(team, out, (plane, team::moved(plane * BLOCK)), |from, out| {
            for (index, out) in (from..).zip(out.chunks_exact_mut(plane)) {
                let (image, first) = (index / blocks(maps), index % blocks(maps) * BLOCK);
                let count = (maps - first).min(BLOCK);
                let x = &x[(image * maps + first) * plane..][..count * plane];
                to_blocked(x, plane, out, step);
            }
        });
        Ok(())
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
        match output.info.dtype {
            DataType::FLOAT => self.of::<f32>(inputs, output, BLOCK),
            _ => self.of::<u8>(inputs, output, byte_step()),
        }
    }

    fn flops(&self, _inputs: &[TensorInfo], _output: &TensorInfo) -> u64 {
        0
    }
}

impl FromBlocked {
    fn of<T: Element>(
        &self,
        inputs: &dyn Inputs,
        output: &mut Output<'_>,
        step: usize,
    ) -> Result<(), Fault> {
        let &[_, own, height, width, _] = inputs.dims(0) else { return Err(Fault::Memory) };
        let plane = height * width;
        let (x, _) = inputs.elements::<T>(0)?.as_chunks::<BLOCK>();
        let team = output.team;
        let out = output.elements::<T>()?;
        for (image, out) in out.chunks_exact_mut(plane * self.maps).enumerate() {
            let unit = (plane * BLOCK, team::moved(plane * BLOCK));
            team::deal(team, out, unit, |first, out| {
                for (block, out) in (first..).zip(out.chunks_mut(plane * BLOCK)) {
                    from_blocked(&x[(image * own + block) * plane..][..plane], out, step);
                }
            });
        }
        Ok(())
    }
}
