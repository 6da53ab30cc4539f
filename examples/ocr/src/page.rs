//! `page`: the bytes of an image file → the detector's input, and the same page as bytes to cut
//! lines out of: scaled to fit the canvas, in its upper left corner, the rest white.

use crate::codes::{self, BAD_INPUT, text};
use crate::mark::PageMark;
use crate::resize::Resizer;
use flow_func::{Context, FlowFunc, InitContext, Msg, MsgType, OutMsg, Result, flow_warn};
use image_file::{Colours, Picture};

/// A blank pixel's sample.
const WHITE: u8 = 255;

/// Settings and buffers; also the function `page`.
#[derive(Debug)]
pub struct Page {
    max_pixels: u64,
    /// Width and height, pixels.
    canvas: [usize; 2],
    picture: Picture,
    resizer: Resizer,
    normal: [f32; 256],
}

impl Default for Page {
    fn default() -> Self {
        let (picture, resizer) = (Picture::default(), Resizer::default());
        Page { max_pixels: 1 << 24, canvas: [736; 2], picture, resizer, normal: normal() }
    }
}

impl FlowFunc for Page {
    fn init(&mut self, ctx: &InitContext<'_>) -> Result {
        let max = ctx.attr_or("max_pixels", 1_i64 << 24)?;
        self.max_pixels = u64::try_from(max).map_err(|_| BAD_INPUT)?;
        for (key, side) in ["width", "height"].into_iter().zip(&mut self.canvas) {
            let asked = ctx.attr_or(key, 736_i64)?;
            *side = usize::try_from(asked).ok().filter(|side| *side > 0).ok_or(BAD_INPUT)?;
        }
        Ok(())
    }

    fn proc(&mut self, ctx: &mut Context<'_>, inputs: &[Msg<'_>]) -> Result {
        let [input] = inputs else { return ctx.set_code_on_all(BAD_INPUT) };
        if input.ret_code() != 0 || input.is_empty() {
            return ctx.set_code_on_all(crate::code_of(input));
        }
        match self.page(ctx, input) {
            Ok([tensor, page]) => {
                ctx.set_output(0, &tensor)?;
                ctx.set_output(1, &page)
            }
            Err(code) => {
                flow_warn!(ctx, "page fails with {code}: {}", text(code));
                ctx.set_code_on_all(code)
            }
        }
    }
}

impl Page {
    fn page<'c>(&mut self, ctx: &mut Context<'c>, input: &Msg<'_>) -> Result<[OutMsg<'c>; 2]> {
        let file = match input.msg_type() {
            MsgType::RAW_MSG => input.bytes(),
            _ => input.data::<u8>().map_err(|_| BAD_INPUT)?,
        };
        let [width, height] = self.canvas.map(crate::to_i64);
        let mut page = ctx.alloc::<u8>(&[height, width, 3])?;
        let mark = self.draw(file, page.as_mut_slice::<u8>()?)?;
        let mut tensor = ctx.alloc::<f32>(&[1, 3, height, width])?;
        self.normalise(page.as_mut_slice::<u8>()?, tensor.as_mut_slice::<f32>()?);
        mark.put(&mut tensor)?;
        mark.put(&mut page)?;
        Ok([tensor, page])
    }

    /// Decodes a file and draws it on a canvas: blue, green, red.
    ///
    /// # Errors
    /// [`codes::BAD_IMAGE`], [`codes::TOO_LARGE`].
    ///
    /// # Panics
    /// When `canvas` is not of the sides that were set.
    pub fn draw(&mut self, file: &[u8], canvas: &mut [u8]) -> Result<PageMark> {
        let [width, height] = self.canvas;
        assert_eq!(canvas.len(), 3 * width * height, "a canvas of the sides that were set");
        self.picture.read(file, self.max_pixels).map_err(codes::of)?;
        let Picture { width: across, height: down, samples, colours } = &self.picture;
        let source = (*across, *down);
        let target = fit(source, (width, height));
        canvas.fill(WHITE);
        let place = |y: usize| 3 * width * y..3 * (width * y + target.0);
        match colours {
            Colours::Bgr => self.resizer.resize::<3>(samples, source, target, |y, row| {
                canvas[place(y)].copy_from_slice(row);
            }),
            Colours::Gray => self.resizer.resize::<1>(samples, source, target, |y, row| {
                for (to, gray) in canvas[place(y)].as_chunks_mut::<3>().0.iter_mut().zip(row) {
                    *to = [*gray; 3];
                }
            }),
        }
        let sides = |(width, height): (usize, usize)| {
            [width, height].map(|side| u32::try_from(side).unwrap_or(u32::MAX))
        };
        Ok(PageMark { file: sides(source), scaled: sides(target) })
    }

    /// Planes of blue, green, red, from −1 (black) to 1.
    fn normalise(&self, canvas: &[u8], tensor: &mut [f32]) {
        let plane = tensor.len() / 3;
        for (colour, plane) in tensor.chunks_exact_mut(plane).enumerate() {
            for (to, pixel) in plane.iter_mut().zip(canvas.as_chunks::<3>().0) {
                *to = self.normal[usize::from(pixel[colour])];
            }
        }
    }
}

/// Sides of a page that fits the canvas, as large as it can be.
fn fit((width, height): (usize, usize), canvas: (usize, usize)) -> (usize, usize) {
    #[expect(clippy::cast_precision_loss, reason = "sides of pictures are far below 2^52")]
    let ratio = |side: usize, of: usize| side as f64 / of as f64;
    let scale = ratio(canvas.0, width).min(ratio(canvas.1, height));
    let scaled = |side: usize, most: usize| {
        #[expect(clippy::cast_precision_loss, reason = "as above")]
        let exact = (side as f64 * scale).round_ties_even();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
        let whole = exact.max(1.0) as usize;
        whole.min(most)
    };
    (scaled(width, canvas.0), scaled(height, canvas.1))
}

/// Values of every byte, computed as the package does: first in float32, then in float64.
fn normal() -> [f32; 256] {
    #[expect(clippy::cast_possible_truncation, reason = "rounded as there")]
    std::array::from_fn(|byte| {
        let scaled = byte as f32 * (1.0_f64 / 255.0) as f32;
        ((f64::from(scaled) - 0.5) / 0.5) as f32
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_fills_one_side_of_the_canvas() {
        assert_eq!(fit((384, 191), (736, 736)), (736, 366));
        assert_eq!(fit((1654, 2339), (736, 736)), (520, 736));
        assert_eq!(fit((736, 736), (736, 736)), (736, 736));
        assert_eq!(fit((100_000, 1), (736, 736)), (736, 1));
        let values = normal();
        assert_eq!((values[0], values[255]), (-1.0, 1.0));
        assert!(values.is_sorted());
    }
}
