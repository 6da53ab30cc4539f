//! `deskew`: stretches the contrast, finds the skew and turns the page level.

use crate::codes::BAD_INPUT;
use crate::page::{Gray, from_msg, write_trailer};
use crate::rotate::rotate_level;
use crate::skew::{SkewFinder, histogram};
use flow_func::{Context, FlowFunc, InitContext, Msg, OutMsg, Result, flow_debug};

/// The function `deskew`.
#[derive(Debug, Default)]
pub struct Deskew {
    max_degrees: i64,
    finder: SkewFinder,
    level: Vec<u8>,
}

impl FlowFunc for Deskew {
    fn init(&mut self, ctx: &InitContext<'_>) -> Result {
        let degrees = ctx.attr_or("max_degrees", 10.0_f32)?;
        if !(0.0..=20.0).contains(&degrees) {
            return Err(BAD_INPUT);
        }
        #[expect(clippy::cast_possible_truncation, reason = "0..=20")]
        let degrees = degrees.ceil() as i64;
        self.max_degrees = degrees;
        Ok(())
    }

    fn proc(&mut self, ctx: &mut Context<'_>, inputs: &[Msg<'_>]) -> Result {
        crate::transform(ctx, inputs, |ctx, input| self.page(ctx, input))
    }
}

impl Deskew {
    fn page<'c>(&mut self, ctx: &mut Context<'c>, input: &Msg<'_>) -> Result<OutMsg<'c>> {
        let page = from_msg(input)?;
        let mut out = ctx.alloc::<u8>(&page.shape(1))?;
        self.level.resize(page.pixels.len(), 0);
        stretch_contrast(page.pixels, &mut self.level);
        let page = Gray { pixels: &self.level, ..page };
        let skew = self.finder.estimate(&page, self.max_degrees);
        let (pixels, trailer) = out.as_mut_slice::<u8>()?.split_at_mut(page.pixels.len());
        rotate_level(&page, skew, 255, pixels);
        write_trailer(trailer, skew);
        flow_debug!(ctx, "{}x{}: skew {skew} micro-degrees", page.width, page.height);
        Ok(out)
    }
}

/// Maps the darkest percent of the pixels to 0, the brightest to 255 and the rest between.
///
/// # Panics
/// When `out` is shorter than `pixels`.
pub fn stretch_contrast(pixels: &[u8], out: &mut [u8]) {
    let counts = histogram(pixels);
    let limit = pixels.len() as u64 / 100;
    let (low, high) = (percentile(counts.iter(), limit), percentile(counts.iter().rev(), limit));
    let (low, high) = (low, 255 - high);
    let range = u32::from(high.saturating_sub(low)).max(1);
    let table: [u8; 256] = std::array::from_fn(|value| {
        let above = u32::try_from(value).unwrap_or(255).saturating_sub(u32::from(low));
        u8::try_from(((above * 255 + range / 2) / range).min(255)).unwrap_or(255)
    });
    for (to, &from) in out[..pixels.len()].iter_mut().zip(pixels) {
        *to = table[usize::from(from)];
    }
}

/// How many values from the front hold no more than `limit` pixels.
fn percentile<'a>(counts: impl Iterator<Item = &'a u32>, limit: u64) -> u8 {
    let mut seen = 0;
    let skipped = counts
        .take_while(|count| {
            seen += u64::from(**count);
            seen <= limit
        })
        .count();
    u8::try_from(skipped).unwrap_or(255)
}
