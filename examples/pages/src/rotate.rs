//! Rotation about the middle, bilinear, in fixed point: the same bytes everywhere.

use crate::page::Gray;
use crate::skew::sin_cos;

/// Fraction bits of a source position; weights use the upper 8 of them.
const BITS: u32 = 16;
const ONE: i64 = 1 << BITS;

/// Turns a page by minus its `skew` into `out` (same sides); what comes from outside is `paper`.
///
/// # Panics
/// When `out` has another number of pixels than `page`.
pub fn rotate_level(page: &Gray<'_>, skew_microdegrees: i64, paper: u8, out: &mut [u8]) {
    assert_eq!(out.len(), page.pixels.len(), "the picture keeps its sides");
    if skew_microdegrees == 0 {
        out.copy_from_slice(page.pixels);
        return;
    }
    let (sin, cos) = sin_cos(skew_microdegrees);
    let (sin, cos) = (fixed(sin), fixed(cos));
    let (width, height) = (to_i64(page.width), to_i64(page.height));
    // Middle in half pixels, so that it is exact for even sides.
    let (mid_x, mid_y) = ((width - 1) * ONE / 2, (height - 1) * ONE / 2);
    for (y, row) in (0_i64..).zip(out.chunks_exact_mut(page.width)) {
        // Source of output (x, y): middle + R(skew) · (x − mid, y − mid).
        let dy = y * ONE - mid_y;
        let start_x = mid_x + ((-mid_x * cos - dy * sin) >> BITS);
        let start_y = mid_y + ((-mid_x * sin + dy * cos) >> BITS);
        row.fill(paper);
        let inside = intersect(
            run_inside(start_x, cos, width, page.width),
            run_inside(start_y, sin, height, page.width),
        );
        fill_row(page, (start_x, start_y), (cos, sin), inside, row);
    }
}

/// Interpolates the outputs `inside.0..inside.1` of one row; all their sources lie in the picture.
fn fill_row(
    page: &Gray<'_>,
    start: (i64, i64),
    step: (i64, i64),
    inside: (usize, usize),
    row: &mut [u8],
) {
    let (first, end) = inside;
    let skipped = to_i64(first);
    let (mut x, mut y) = (start.0 + skipped * step.0, start.1 + skipped * step.1);
    for pixel in &mut row[first..end] {
        let (column, line) = (index(x), index(y));
        let at = line * page.width + column;
        let (fx, fy) = (weight(x), weight(y));
        let [a, b] = pair(page.pixels, at);
        let [c, d] = pair(page.pixels, at + page.width);
        let top = a * (256 - fx) + b * fx;
        let bottom = c * (256 - fx) + d * fx;
        *pixel = low((top * (256 - fy) + bottom * fy + 32768) >> 16);
        x += step.0;
        y += step.1;
    }
}

/// Outputs whose source `start + i · step` has both neighbours in `0..side`.
fn run_inside(start: i64, step: i64, side: i64, count: usize) -> (usize, usize) {
    let limit = (side - 1) * ONE - 1;
    if step == 0 {
        return if (0..=limit).contains(&start) { (0, count) } else { (0, 0) };
    }
    // Smallest i with start + i·step ≥ 0 and largest with ≤ limit (mirrored for a negative step).
    let (from, to) = if step > 0 { (-start, limit - start) } else { (start - limit, start) };
    let step = step.abs();
    let first = (from.max(0) + step - 1) / step;
    let end = if to < 0 { 0 } else { to / step + 1 };
    let clip = |value: i64| usize::try_from(value).unwrap_or(0).min(count);
    (clip(first), clip(end))
}

fn intersect(a: (usize, usize), b: (usize, usize)) -> (usize, usize) {
    let first = a.0.max(b.0);
    (first, a.1.min(b.1).max(first))
}

fn pair(pixels: &[u8], at: usize) -> [u32; 2] {
    // In range by `run_inside`; white beyond, so that a mistake there can't panic mid-page.
    pixels.get(at..at + 2).map_or([255; 2], |pair| [u32::from(pair[0]), u32::from(pair[1])])
}

fn to_i64(side: usize) -> i64 {
    i64::try_from(side).unwrap_or(i64::MAX)
}

#[expect(clippy::cast_possible_truncation, reason = "|value| ≤ 1")]
fn fixed(value: f64) -> i64 {
    (value * 65536.0).round() as i64
}

#[expect(clippy::cast_sign_loss, reason = "0 ≤ x < side")]
fn index(position: i64) -> usize {
    (position >> BITS) as usize
}

#[expect(clippy::cast_sign_loss, reason = "8 bits")]
fn weight(position: i64) -> u32 {
    ((position >> 8) & 255) as u32
}

#[expect(clippy::cast_possible_truncation, reason = "a weighted mean of bytes")]
fn low(value: u32) -> u8 {
    value as u8
}
