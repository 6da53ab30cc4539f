//! Two user functions for models of two frameworks: `maps_last` and `decide`.
//!
//! | function | input | output |
//! |---|---|---|
//! | `maps_last` | float32 `[1, C, H, W]`, as in ONNX | float32 `[1, H, W, C]`, as in TensorFlow |
//! | `decide` | float32 `[1, N]`, probabilities | float32 `[2]`: best class, its probability |
//!
//! The models are made by [`files`], from weights of [`weights`]; [`reference()`] computes by plain
//! loops what comes out of the chain of `examples/graphs/chain.yaml`.

pub mod files;
mod reference;
pub mod weights;

use flow_func::{Context, FlowFunc, Msg, Result, export_flow_funcs, flow_warn};

pub use reference::reference;

/// A message that is none of floats with the dims that are wanted.
pub const BAD_INPUT: i32 = 9_900_301;

export_flow_funcs! {
    "maps_last" => MapsLast,
    "decide" => Decide,
}

/// Maps of a pixel behind one another.
#[derive(Debug, Default)]
pub struct MapsLast;

impl FlowFunc for MapsLast {
    fn proc(&mut self, ctx: &mut Context<'_>, inputs: &[Msg<'_>]) -> Result {
        let [input] = inputs else { return ctx.set_code_on_all(BAD_INPUT) };
        if input.ret_code() != 0 || input.is_empty() {
            return ctx.set_output(0, input);
        }
        let (&[1, maps, height, width], Ok(from)) = (input.shape(), input.data::<f32>()) else {
            flow_warn!(ctx, "float32 [1, C, H, W] is expected, found {:?}", input.shape());
            return ctx.set_code(0, BAD_INPUT);
        };
        let mut out = ctx.alloc::<f32>(&[1, height, width, maps])?;
        let to = out.as_mut_slice::<f32>()?;
        let maps = usize::try_from(maps).map_err(|_| BAD_INPUT)?;
        let pixels = from.len() / maps.max(1);
        for (map, plane) in from.chunks_exact(pixels.max(1)).enumerate() {
            let places = to.iter_mut().skip(map).step_by(maps.max(1));
            places.zip(plane).for_each(|(to, from)| *to = *from);
        }
        ctx.set_output(0, &out)
    }
}

/// The most probable class.
#[derive(Debug, Default)]
pub struct Decide;

impl FlowFunc for Decide {
    fn proc(&mut self, ctx: &mut Context<'_>, inputs: &[Msg<'_>]) -> Result {
        let [input] = inputs else { return ctx.set_code_on_all(BAD_INPUT) };
        if input.ret_code() != 0 || input.is_empty() {
            return ctx.set_output(0, input);
        }
        let Some(found) = input.data::<f32>().ok().and_then(decide) else {
            flow_warn!(ctx, "float32 [1, N] is expected, found {:?}", input.shape());
            return ctx.set_code(0, BAD_INPUT);
        };
        let mut out = ctx.alloc::<f32>(&[2])?;
        out.as_mut_slice::<f32>()?.copy_from_slice(&found);
        ctx.set_output(0, &out)
    }
}

/// Number of the most probable class, and its probability; the first of several.
fn decide(probabilities: &[f32]) -> Option<[f32; 2]> {
    let mut best = [0.0, *probabilities.first()?];
    let mut class = 0.0;
    for own in probabilities {
        if *own > best[1] {
            best = [class, *own];
        }
        class += 1.0;
    }
    Some(best)
}
