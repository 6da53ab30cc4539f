//! From a level page to one that looks scanned: rotation, uneven light, noise.

use crate::PageSpec;
use crate::layout::Level;
use crate::text::Random;

/// Grey of ink and of paper before light and noise.
const INK: f64 = 40.0;
const PAPER: f64 = 225.0;

/// Turns the page clockwise by its skew about its middle, with bilinear sampling.
pub(crate) fn turn(level: &Level, spec: &PageSpec) -> Vec<u8> {
    let (sin, cos) = spec.skew_degrees.to_radians().sin_cos();
    let (mid_x, mid_y) = (to_f64(level.width - 1) / 2.0, to_f64(level.height - 1) / 2.0);
    let mut pixels = Vec::with_capacity(level.ink.len());
    for y in 0..level.height {
        let dy = to_f64(y) - mid_y;
        for x in 0..level.width {
            let dx = to_f64(x) - mid_x;
            let ink = sample(level, mid_x + dx * cos + dy * sin, mid_y - dx * sin + dy * cos);
            pixels.push(to_byte(PAPER + (INK - PAPER) * ink));
        }
    }
    pixels
}

fn sample(level: &Level, x: f64, y: f64) -> f64 {
    if x < 0.0 || y < 0.0 || x >= to_f64(level.width - 1) || y >= to_f64(level.height - 1) {
        return 0.0;
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "inside the page")]
    let (column, row) = (x as usize, y as usize);
    let (fx, fy) = (x - to_f64(column), y - to_f64(row));
    let at = row * level.width + column;
    let line =
        |at: usize| f64::from(level.ink[at]) * (1.0 - fx) + f64::from(level.ink[at + 1]) * fx;
    line(at) * (1.0 - fy) + line(at + level.width) * fy
}

/// Light that falls off towards the lower right by 12 %, and noise.
pub(crate) fn scan(pixels: &mut [u8], spec: &PageSpec) {
    let mut random = Random::new(!spec.seed);
    let (width, height) = (spec.width as usize, f64::from(spec.height));
    for (y, row) in pixels.chunks_exact_mut(width).enumerate() {
        let down = 1.0 - 0.08 * to_f64(y) / height;
        for (x, pixel) in row.iter_mut().enumerate() {
            let light = down - 0.04 * to_f64(x) / f64::from(spec.width);
            *pixel = to_byte(f64::from(*pixel) * light + noise(&mut random, spec.noise));
        }
    }
}

fn noise(random: &mut Random, limit: u8) -> f64 {
    if limit == 0 {
        return 0.0;
    }
    let span = 2 * u64::from(limit) + 1;
    #[expect(clippy::cast_precision_loss, reason = "below 512")]
    let value = random.below(span) as f64;
    value - f64::from(limit)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to a byte")]
fn to_byte(value: f64) -> u8 {
    value.round().clamp(0.0, 255.0) as u8
}

#[expect(clippy::cast_precision_loss, reason = "page coordinates")]
fn to_f64(value: usize) -> f64 {
    value as f64
}
