//! Scaling of 8-bit pictures by an 8-tap Lanczos filter, to the bit as OpenCV's `resize` with
//! `INTER_LANCZOS4` does it.
//!
//! Coefficients are float32, scaled to 11 bits and rounded to even; rows are filtered first, then
//! columns, both in 32-bit integers; the sum is rounded at bit 22 and clamped. The filter keeps its
//! eight taps when it shrinks (so it aliases), and repeats the outermost pixels beyond the border.
//!
//! Only the window that is asked for is computed. Rows once filtered wait in a ring of eight, so
//! each source row is filtered at most once.

use image_file::{Colours, Picture};

/// Pixels that an output pixel is made of, along one axis.
pub const TAPS: usize = 8;
/// Bits of a coefficient's fraction.
const BITS: u32 = 11;

/// One output position along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Position {
    /// Source index of the first tap; it and its followers may lie outside.
    first: i64,
    /// Coefficients; they add up to about 2^11.
    taps: [i32; TAPS],
}

/// Outputs to compute along one axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Length of the source.
    pub source: usize,
    /// Length of the whole output.
    pub target: usize,
    /// First output wanted.
    pub start: usize,
    /// Outputs wanted.
    pub count: usize,
}

/// Buffers, kept between pictures.
#[derive(Debug, Default)]
pub struct Scaler {
    columns: Vec<Position>,
    rows: Vec<Position>,
    ring: Vec<i32>,
}

impl Scaler {
    /// Computes a window of the scaled `picture`; `put` is called with the window's row and column
    /// and the samples of each pixel (one that counts for three when it is grey).
    ///
    /// # Panics
    /// When a span's source is not the picture's side, or that side is zero.
    pub fn scale(
        &mut self,
        picture: &Picture,
        across: Span,
        down: Span,
        put: impl FnMut(usize, usize, [u8; 3]),
    ) {
        assert_eq!((across.source, down.source), (picture.width, picture.height));
        assert!(picture.width > 0 && picture.height > 0, "a picture has pixels");
        positions(across, &mut self.columns);
        positions(down, &mut self.rows);
        match picture.colours {
            Colours::Gray => self.window::<1>(picture, |[gray]| [gray; 3], put),
            Colours::Bgr => self.window::<3>(picture, |pixel| pixel, put),
        }
    }

    fn window<const C: usize>(
        &mut self,
        picture: &Picture,
        spread: impl Fn([u8; C]) -> [u8; 3],
        mut put: impl FnMut(usize, usize, [u8; 3]),
    ) {
        let pixels = picture.samples.as_chunks::<C>().0;
        let width = self.columns.len();
        self.ring.clear();
        self.ring.resize(TAPS * width * C, 0);
        let ring = self.ring.as_chunks_mut::<C>().0;
        // Which source row each slot of the ring holds. Eight rows in a row have a slot each.
        let mut held = [usize::MAX; TAPS];
        for (y, position) in self.rows.iter().enumerate() {
            let slots: [usize; TAPS] = std::array::from_fn(|tap| {
                let row = clamp(position.first, tap, picture.height);
                let slot = row % TAPS;
                if held[slot] != row {
                    let source = &pixels[row * picture.width..][..picture.width];
                    filter_row(source, &self.columns, &mut ring[slot * width..][..width]);
                    held[slot] = row;
                }
                slot * width
            });
            for x in 0..width {
                let mut sums = [0_i32; C];
                for (slot, tap) in slots.iter().zip(position.taps) {
                    for (sum, sample) in sums.iter_mut().zip(ring[slot + x]) {
                        *sum += sample * tap;
                    }
                }
                put(y, x, spread(sums.map(round)));
            }
        }
    }
}

/// Filters a row at every one of `columns`.
fn filter_row<const C: usize>(row: &[[u8; C]], columns: &[Position], out: &mut [[i32; C]]) {
    for (position, out) in columns.iter().zip(out) {
        let inside = usize::try_from(position.first).ok();
        let inside = inside.and_then(|first| row.get(first..)?.first_chunk::<TAPS>());
        let pixels = inside.copied().unwrap_or_else(|| {
            std::array::from_fn(|tap| row[clamp(position.first, tap, row.len())])
        });
        *out = [0; C];
        for (pixel, tap) in pixels.iter().zip(position.taps) {
            for (sum, &sample) in out.iter_mut().zip(pixel) {
                *sum += i32::from(sample) * tap;
            }
        }
    }
}

/// The pixel of a tap; the outermost ones stand for those outside.
fn clamp(first: i64, tap: usize, side: usize) -> usize {
    let index = first.saturating_add_unsigned(tap as u64);
    usize::try_from(index).unwrap_or(0).min(side - 1)
}

#[expect(clippy::cast_sign_loss, reason = "clamped")]
fn round(sum: i32) -> u8 {
    ((sum + (1 << (2 * BITS - 1))) >> (2 * BITS)).clamp(0, 255) as u8
}

#[expect(clippy::cast_precision_loss, reason = "sides of pictures are far below 2^52")]
#[expect(clippy::cast_possible_truncation, reason = "float32 is part of the definition")]
fn positions(span: Span, out: &mut Vec<Position>) {
    let scale = 1.0 / (span.target as f64 / span.source as f64);
    out.clear();
    out.extend((span.start..span.start + span.count).map(|index| {
        let centre = ((index as f64 + 0.5) * scale - 0.5) as f32;
        let floor = f64::from(centre).floor() as i64;
        Position { first: floor - 3, taps: taps(centre - floor as f32) }
    }));
}

/// Coefficients for a position `fraction` (0..1) behind the fourth tap.
#[expect(clippy::cast_possible_truncation, reason = "float32 is part of the definition")]
#[expect(clippy::cast_precision_loss, reason = "0..8")]
fn taps(fraction: f32) -> [i32; TAPS] {
    use std::f64::consts::{FRAC_1_SQRT_2 as R, PI};
    // sin(t − i·π/4) = A[i]·sin t + B[i]·cos t, with the signs of four eighths of a turn.
    const TURNS: [(f64, f64); TAPS] =
        [(1.0, 0.0), (-R, -R), (0.0, 1.0), (R, -R), (-1.0, 0.0), (R, R), (0.0, -1.0), (-R, R)];
    let (sin, cos) = (-f64::from(fraction + 3.0) * PI * 0.25).sin_cos();
    let mut sum = 0.0_f32;
    let weights: [f32; TAPS] = std::array::from_fn(|tap| {
        let distance = fraction + 3.0 - tap as f32;
        let weight = if distance.abs() >= 1e-6 {
            let angle = -f64::from(distance) * PI * 0.25;
            let (a, b) = TURNS[tap];
            ((a * sin + b * cos) / (angle * angle)) as f32
        } else {
            // On a pixel: it outweighs all others.
            1e30
        };
        sum += weight;
        weight
    });
    let norm = 1.0 / sum;
    weights.map(|weight| (weight * norm * 2048.0).round_ties_even() as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_fit_32_bits_whatever_the_fraction() {
        for step in 0..4096_u16 {
            let taps = taps(f32::from(step) / 4096.0);
            let part = |wanted: fn(i32) -> bool| -> i64 {
                taps.iter().filter(|tap| wanted(**tap)).map(|tap| i64::from(*tap)).sum()
            };
            let (plus, minus) = (part(|tap| tap > 0), part(|tap| tap < 0));
            // Rows first, then columns: the largest sum takes plus by plus and minus by minus.
            let most = 255 * (plus * plus + minus * minus) + (1 << 21);
            assert!(i32::try_from(most).is_ok(), "{step}: {most}");
            assert!((2044..=2052).contains(&(plus + minus)), "{step}: {taps:?}");
        }
        assert_eq!(taps(0.0), [0, 0, 0, 2048, 0, 0, 0, 0]);
    }
}
