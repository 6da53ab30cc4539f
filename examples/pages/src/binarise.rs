//! `binarise`: Sauvola's local threshold, `mean · (1 + k · (deviation / 128 − 1))` of a window.
//!
//! Sums of the window's columns slide down the page (one row enters, one leaves: plain vector
//! adds), and are prefix-summed along each row; two subtractions give the sums of every window.
//! Sums wrap, their differences fit: a window holds at most 255² · 255² < 2³².

use crate::codes::BAD_INPUT;
use crate::page::{Gray, with_trailer};
use flow_func::{Context, FlowFunc, InitContext, Msg, OutMsg, Result};

/// Buffers and settings; also the function `binarise`.
#[derive(Debug, Default)]
pub struct Binarise {
    half: usize,
    k: f32,
    columns: Vec<u32>,
    squares: Vec<u32>,
    prefix: Vec<u32>,
    prefix_squares: Vec<u32>,
}

impl FlowFunc for Binarise {
    fn init(&mut self, ctx: &InitContext<'_>) -> Result {
        let window = ctx.attr_or("window", 31_i64)?;
        let k = ctx.attr_or("k", 0.2_f32)?;
        *self = Binarise::new(window, k).ok_or(BAD_INPUT)?;
        Ok(())
    }

    fn proc(&mut self, ctx: &mut Context<'_>, inputs: &[Msg<'_>]) -> Result {
        crate::transform(ctx, inputs, |ctx, input| self.page(ctx, input))
    }
}

/// Binarises with the default settings.
#[must_use]
pub fn binarise(page: &Gray<'_>) -> Vec<u8> {
    let mut out = vec![0; page.pixels.len()];
    Binarise { half: 15, k: 0.2, ..Binarise::default() }.run(page, &mut out);
    out
}

impl Binarise {
    /// Settings: `window` odd and 3..=255, `k` 0..=1; `None` beyond.
    #[must_use]
    pub fn new(window: i64, k: f32) -> Option<Self> {
        if window % 2 != 1 || !(3..=255).contains(&window) || !(0.0..=1.0).contains(&k) {
            return None;
        }
        let half = usize::try_from(window / 2).ok()?;
        Some(Binarise { half, k, ..Binarise::default() })
    }

    fn page<'c>(&mut self, ctx: &mut Context<'c>, input: &Msg<'_>) -> Result<OutMsg<'c>> {
        let (page, trailer) = with_trailer(input)?;
        let mut out = ctx.alloc::<u8>(&page.shape(1))?;
        let (pixels, out_trailer) = out.as_mut_slice::<u8>()?.split_at_mut(page.pixels.len());
        self.run(&page, pixels);
        out_trailer.copy_from_slice(trailer);
        Ok(out)
    }

    /// Writes 0 for ink and 255 for paper. Windows are cut at the page's border.
    ///
    /// # Panics
    /// When `out` is shorter than the page.
    pub fn run(&mut self, page: &Gray<'_>, out: &mut [u8]) {
        let width = page.width;
        for sums in [&mut self.columns, &mut self.squares] {
            sums.clear();
            sums.resize(width, 0);
        }
        for sums in [&mut self.prefix, &mut self.prefix_squares] {
            sums.clear();
            sums.resize(width + 1, 0);
        }
        let row = |y: usize| &page.pixels[y * width..][..width];
        for y in 0..self.half.min(page.height) {
            add_row(&mut self.columns, &mut self.squares, row(y));
        }
        for (y, out) in out[..page.pixels.len()].chunks_exact_mut(width).enumerate() {
            if y + self.half < page.height {
                add_row(&mut self.columns, &mut self.squares, row(y + self.half));
            }
            if y > self.half {
                remove_row(&mut self.columns, &mut self.squares, row(y - self.half - 1));
            }
            let rows = (y + self.half).min(page.height - 1) + 1 - y.saturating_sub(self.half);
            prefix_sums(&self.columns, &mut self.prefix);
            prefix_sums(&self.squares, &mut self.prefix_squares);
            self.threshold_row(row(y), rows, out);
        }
    }

    fn threshold_row(&self, row: &[u8], rows: usize, out: &mut [u8]) {
        let (width, half) = (row.len(), self.half);
        let window = 2 * half + 1;
        let edge = half.min(width);
        for x in (0..edge).chain(width.saturating_sub(half).max(edge)..width) {
            let (first, end) = (x.saturating_sub(half), (x + half + 1).min(width));
            let scale = inverse(rows * (end - first));
            let sum = self.prefix[end].wrapping_sub(self.prefix[first]);
            let squares = self.prefix_squares[end].wrapping_sub(self.prefix_squares[first]);
            out[x] = decide(row[x], sum, squares, scale, self.k);
        }
        if width <= 2 * half {
            return;
        }
        let scale = inverse(rows * window);
        let inner = half..width - half;
        let windows = self.prefix.iter().zip(&self.prefix[window..]);
        let squares = self.prefix_squares.iter().zip(&self.prefix_squares[window..]);
        let pixels = out[inner.clone()].iter_mut().zip(&row[inner]);
        for ((pixel, sums), squares) in pixels.zip(windows).zip(squares) {
            let sum = sums.1.wrapping_sub(*sums.0);
            let square = squares.1.wrapping_sub(*squares.0);
            *pixel.0 = decide(*pixel.1, sum, square, scale, self.k);
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts below 2^16")]
fn inverse(count: usize) -> f32 {
    1.0 / count as f32
}

#[expect(clippy::cast_precision_loss, reason = "rounding to 24 bits is part of the definition")]
fn decide(pixel: u8, sum: u32, squares: u32, scale: f32, k: f32) -> u8 {
    let mean = sum as f32 * scale;
    let variance = (squares as f32 * scale - mean * mean).max(0.0);
    let threshold = mean * (1.0 + k * (variance.sqrt() * (1.0 / 128.0) - 1.0));
    if f32::from(pixel) <= threshold { 0 } else { 255 }
}

fn add_row(columns: &mut [u32], squares: &mut [u32], row: &[u8]) {
    for ((column, square), &pixel) in columns.iter_mut().zip(squares).zip(row) {
        let value = u32::from(pixel);
        *column += value;
        *square += value * value;
    }
}

fn remove_row(columns: &mut [u32], squares: &mut [u32], row: &[u8]) {
    for ((column, square), &pixel) in columns.iter_mut().zip(squares).zip(row) {
        let value = u32::from(pixel);
        *column -= value;
        *square -= value * value;
    }
}

fn prefix_sums(columns: &[u32], prefix: &mut [u32]) {
    let mut sum = 0_u32;
    for (to, &column) in prefix[1..].iter_mut().zip(columns) {
        sum = sum.wrapping_add(column);
        *to = sum;
    }
}
