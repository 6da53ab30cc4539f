//! `turn`: what the classifier says of a line, and the line → the recogniser's input, turned by
//! 180° where it stands on its head, with nothing behind it.

use crate::codes::{BAD_INPUT, text};
use crate::lines::HEIGHT;
use flow_func::{Context, FlowFunc, InitContext, Msg, OutMsg, Result, flow_warn};

/// Settings; also the function `turn`.
#[derive(Debug)]
pub struct Turn {
    /// Least probability of "on its head" at which a line is turned.
    thresh: f32,
    /// Width of the recogniser's input.
    width: usize,
}

impl Default for Turn {
    fn default() -> Self {
        Turn { thresh: 0.9, width: 1024 }
    }
}

impl FlowFunc for Turn {
    fn init(&mut self, ctx: &InitContext<'_>) -> Result {
        self.thresh = ctx.attr_or("cls_thresh", self.thresh)?;
        let width = ctx.attr_or("width", crate::to_i64(self.width))?;
        self.width = usize::try_from(width).ok().filter(|width| *width > 0).ok_or(BAD_INPUT)?;
        Ok(())
    }

    fn proc(&mut self, ctx: &mut Context<'_>, inputs: &[Msg<'_>]) -> Result {
        let [classes, line] = inputs else { return ctx.set_code_on_all(BAD_INPUT) };
        if let Some(failed) = inputs.iter().find(|one| one.ret_code() != 0) {
            return ctx.set_code(0, failed.ret_code());
        }
        if classes.is_empty() || line.is_empty() {
            return ctx.set_output(0, classes);
        }
        match self.line(ctx, classes, line) {
            Ok(out) => ctx.set_output(0, &out),
            Err(code) => {
                flow_warn!(ctx, "line fails with {code}: {}", text(code));
                ctx.set_code(0, code)
            }
        }
    }
}

impl Turn {
    fn line<'c>(
        &self,
        ctx: &mut Context<'c>,
        classes: &Msg<'_>,
        line: &Msg<'_>,
    ) -> Result<OutMsg<'c>> {
        let [upright, turned] = *classes.data::<f32>().map_err(|_| BAD_INPUT)? else {
            return Err(BAD_INPUT);
        };
        let [height, width, 3] = *line.shape() else { return Err(BAD_INPUT) };
        let pixels = line.data::<u8>().map_err(|_| BAD_INPUT)?;
        let width = usize::try_from(width).ok().filter(|width| (1..=self.width).contains(width));
        let width = width.filter(|_| height == crate::to_i64(HEIGHT)).ok_or(BAD_INPUT)?;
        let mut out = ctx.alloc::<f32>(&[1, 3, height, crate::to_i64(self.width)])?;
        let to = out.as_mut_slice::<f32>()?;
        to.fill(0.0);
        let is_turned = turned > upright && turned > self.thresh;
        let mut reversed = Vec::new();
        let pixels = if is_turned {
            reversed.extend(pixels.as_chunks::<3>().0.iter().rev().flatten());
            &reversed
        } else {
            pixels
        };
        for (y, row) in pixels.chunks_exact(3 * width).enumerate() {
            crate::write_row(to, (y, self.width), row);
        }
        Ok(out)
    }
}
