//! `prepare`: the bytes of an image file → the model's input, written straight into shared memory.

use crate::codes::{BAD_IMAGE, BAD_INPUT, TOO_LARGE, text};
use crate::lanczos::{Scaler, Span};
use crate::normal;
use flow_func::{Context, FlowFunc, InitContext, Msg, MsgType, OutMsg, Result, flow_warn};
use image_file::{FileError, Picture};

/// Length that the shorter side is scaled to, pixels.
pub const SHORT: usize = 256;
/// Side of the square that is cut out of the middle, pixels.
pub const CROP: usize = 224;
/// Values of a tensor.
pub const TENSOR_LEN: usize = 3 * CROP * CROP;

/// Buffers and settings; also the function `prepare`.
#[derive(Debug)]
pub struct Prepare {
    max_pixels: u64,
    picture: Picture,
    scaler: Scaler,
    table: [[f32; 256]; 3],
}

impl Default for Prepare {
    fn default() -> Self {
        let (picture, scaler) = (Picture::default(), Scaler::default());
        Prepare { max_pixels: 1 << 24, picture, scaler, table: normal::table() }
    }
}

impl FlowFunc for Prepare {
    fn init(&mut self, ctx: &InitContext<'_>) -> Result {
        let max = ctx.attr_or("max_pixels", 1_i64 << 24)?;
        self.max_pixels = u64::try_from(max).map_err(|_| BAD_INPUT)?;
        Ok(())
    }

    fn proc(&mut self, ctx: &mut Context<'_>, inputs: &[Msg<'_>]) -> Result {
        let [input] = inputs else { return ctx.set_code_on_all(BAD_INPUT) };
        if input.ret_code() != 0 || input.is_empty() {
            return ctx.set_output(0, input);
        }
        match self.page(ctx, input) {
            Ok(out) => ctx.set_output(0, &out),
            Err(code) => {
                flow_warn!(ctx, "page fails with {code}: {}", text(code));
                ctx.set_code(0, code)
            }
        }
    }
}

impl Prepare {
    fn page<'c>(&mut self, ctx: &mut Context<'c>, input: &Msg<'_>) -> Result<OutMsg<'c>> {
        let file = match input.msg_type() {
            MsgType::RAW_MSG => input.bytes(),
            _ => input.data::<u8>().map_err(|_| BAD_INPUT)?,
        };
        self.picture.read(file, self.max_pixels).map_err(code)?;
        let mut out = ctx.alloc::<f32>(&[1, 3, 224, 224])?;
        self.tensor(out.as_mut_slice::<f32>()?);
        Ok(out)
    }

    /// Decodes a file and writes its tensor.
    ///
    /// # Errors
    /// [`codes::BAD_IMAGE`](crate::codes::BAD_IMAGE),
    /// [`codes::TOO_LARGE`](crate::codes::TOO_LARGE).
    ///
    /// # Panics
    /// When `out` is not [`TENSOR_LEN`] long.
    pub fn run(&mut self, file: &[u8], out: &mut [f32]) -> Result {
        self.picture.read(file, self.max_pixels).map_err(code)?;
        self.tensor(out);
        Ok(())
    }

    fn tensor(&mut self, out: &mut [f32]) {
        assert_eq!(out.len(), TENSOR_LEN, "three planes");
        let (across, down) = spans(self.picture.width, self.picture.height);
        let table = &self.table;
        self.scaler.scale(&self.picture, across, down, |y, x, pixel| {
            for (plane, byte) in pixel.into_iter().enumerate() {
                out[(plane * CROP + y) * CROP + x] = table[plane][usize::from(byte)];
            }
        });
    }
}

fn code(error: FileError) -> i32 {
    match error {
        FileError::Damaged => BAD_IMAGE,
        FileError::TooLarge => TOO_LARGE,
    }
}

/// The middle square of a picture whose shorter side is scaled to [`SHORT`].
fn spans(width: usize, height: usize) -> (Span, Span) {
    #[expect(clippy::cast_precision_loss, reason = "sides of pictures are far below 2^52")]
    let percent = SHORT as f64 / width.min(height) as f64;
    let span = |source: usize| {
        #[expect(clippy::cast_precision_loss, reason = "as above")]
        let target = (source as f64 * percent).round_ties_even();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at least 256")]
        let target = target as usize;
        Span { source, target, start: (target - CROP) / 2, count: CROP }
    };
    (span(width), span(height))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_the_longer_side_is_kept() {
        let (across, down) = spans(1654, 2339);
        assert_eq!(across, Span { source: 1654, target: 256, start: 16, count: 224 });
        assert_eq!(down, Span { source: 2339, target: 362, start: 69, count: 224 });
        assert_eq!(spans(1, 1).0, Span { source: 1, target: 256, start: 16, count: 224 });
        // 512 · 3 / 1024 = 1.5 is even at 2, as Python rounds.
        assert_eq!((spans(512, 513).1.target, spans(512, 515).1.target), (256, 258));
    }
}
