//! Skew of a page by projection profiles.
//!
//! Text lines give rows full of ink between rows without; a profile along the right slope has the
//! highest contrast. The page is shrunk to about 1000 rows, its ink edges (ink above paper: the
//! baselines) are listed once, and each candidate slope costs one pass over that list. Candidates
//! are refined in four rounds from 0.5° to 0.01°.
//!
//! Angles are in micro-degrees, positive when lines fall to the right (clockwise on the screen).

use crate::page::Gray;

const MICRO: i64 = 1_000_000;
/// Rows of the shrunk page are at most this many.
const ROWS_MAX: usize = 1200;
/// Fewer edge points than this are no text.
const POINTS_MIN: usize = 64;
/// Step of each round in micro-degrees; a round searches ± the step before it.
const STEPS: [i64; 4] = [MICRO / 2, MICRO / 10, MICRO / 50, MICRO / 100];

/// Tenths of the mean score that the best one has to reach; a photograph has no such peak.
const PEAK_MIN: u64 = 15;

/// An angle and the contrast of its profile.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    angle: i64,
    score: u64,
}

/// Buffers of the estimate, kept between pages.
#[derive(Debug, Default)]
pub struct SkewFinder {
    small: Vec<u8>,
    sums: Vec<u32>,
    points: Vec<(i32, i32)>,
    bins: Vec<u32>,
}

impl SkewFinder {
    /// Skew of a page in micro-degrees within ± `max_degrees`; 0 when there is no text to judge
    /// by.
    pub fn estimate(&mut self, page: &Gray<'_>, max_degrees: i64) -> i64 {
        let (width, height) = self.shrink(page);
        let threshold = otsu(&histogram(&self.small));
        self.find_edges(width, height, threshold);
        if self.points.len() < POINTS_MIN {
            return 0;
        }
        let mut reach = max_degrees * MICRO;
        let mut best = Candidate { angle: 0, score: 0 };
        let mut mean = 0;
        for step in STEPS {
            let sum;
            (best, sum) = self.search(best.angle, reach, step, height);
            if mean == 0 {
                mean = sum / (2 * (reach / step).unsigned_abs() + 1);
            }
            reach = step;
        }
        if best.score * 10 < mean * PEAK_MIN {
            return 0;
        }
        best.angle.clamp(-max_degrees * MICRO, max_degrees * MICRO)
    }

    /// Averages square cells so that at most [`ROWS_MAX`] rows and columns are left.
    fn shrink(&mut self, page: &Gray<'_>) -> (usize, usize) {
        let cell = page.height.max(page.width).div_ceil(ROWS_MAX);
        let (width, height) = (page.width / cell, page.height / cell);
        self.small.clear();
        self.sums.resize(width, 0);
        let area = u32::try_from(cell * cell).unwrap_or(u32::MAX);
        for band in page.pixels.chunks_exact(page.width * cell).take(height) {
            self.sums.fill(0);
            for row in band.chunks_exact(page.width) {
                add_cells(&mut self.sums, row, cell);
            }
            self.small.extend(self.sums.iter().map(|sum| u8::try_from(sum / area).unwrap_or(255)));
        }
        (width, height)
    }

    /// Lists pixels of ink that have paper below, x from the middle.
    fn find_edges(&mut self, width: usize, height: usize, threshold: u8) {
        self.points.clear();
        let middle = to_i32(width / 2);
        for y in 0..height - 1 {
            let (row, below) = self.small[y * width..][..2 * width].split_at(width);
            for (x, (&here, &next)) in row.iter().zip(below).enumerate() {
                if here <= threshold && next > threshold {
                    self.points.push((to_i32(x) - middle, to_i32(y)));
                }
            }
        }
    }

    /// Best of `centre` ± `reach` in steps (the one nearest to the centre on a tie), and the sum of
    /// all scores.
    fn search(&mut self, centre: i64, reach: i64, step: i64, height: usize) -> (Candidate, u64) {
        let count = reach / step;
        let mut best = Candidate { angle: centre, score: 0 };
        let mut sum = 0;
        for index in 0..=2 * count {
            // 0, 1, -1, 2, -2, …
            let offset = if index % 2 == 1 { (index + 1) / 2 } else { -(index / 2) };
            let angle = centre + offset * step;
            let score = self.score(angle, height);
            sum += score;
            if score > best.score {
                best = Candidate { angle, score };
            }
        }
        (best, sum)
    }

    /// Sum of squares of the profile along `angle`.
    fn score(&mut self, angle: i64, height: usize) -> u64 {
        let slope = slope(angle);
        let margin = self.points.iter().map(|point| point.0.unsigned_abs()).max().unwrap_or(0);
        // |slope| < 0.5 for every angle allowed, so a shift is below half the margin.
        let margin = margin as usize / 2 + 2;
        self.bins.clear();
        self.bins.resize(height + 2 * margin, 0);
        let base = to_i32(margin) * 65536 + 32768;
        for &(x, y) in &self.points {
            let row = (y * 65536 + base - x * slope) >> 16;
            if let Some(bin) = self.bins.get_mut(row.unsigned_abs() as usize) {
                *bin += 1;
            }
        }
        self.bins.iter().map(|&bin| u64::from(bin) * u64::from(bin)).sum()
    }
}

fn add_cells(sums: &mut [u32], row: &[u8], cell: usize) {
    for (sum, cell) in sums.iter_mut().zip(row.chunks_exact(cell)) {
        *sum += cell.iter().map(|&pixel| u32::from(pixel)).sum::<u32>();
    }
}

fn to_i32(value: usize) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

/// Tangent of an angle in 1/65536.
fn slope(microdegrees: i64) -> i32 {
    let (sin, cos) = sin_cos(microdegrees);
    #[expect(clippy::cast_possible_truncation, reason = "below 65536 for angles below 45°")]
    let slope = (sin / cos * 65536.0).round() as i32;
    slope
}

/// Sine and cosine of a small angle by their series: the same bits on every machine and libc.
#[must_use]
pub fn sin_cos(microdegrees: i64) -> (f64, f64) {
    #[expect(clippy::cast_precision_loss, reason = "small angles")]
    let x = microdegrees as f64 / 1e6 * (std::f64::consts::PI / 180.0);
    let square = x * x;
    let sin = x * (1.0 - square / 6.0 * (1.0 - square / 20.0 * (1.0 - square / 42.0)));
    let cos = 1.0 - square / 2.0 * (1.0 - square / 12.0 * (1.0 - square / 30.0));
    (sin, cos)
}

/// Counts of each grey value; four counters a value, so that equal neighbours don't wait for each
/// other.
#[must_use]
pub fn histogram(pixels: &[u8]) -> [u32; 256] {
    let mut counts = [[0_u32; 256]; 4];
    let (quads, rest) = pixels.as_chunks::<4>();
    for quad in quads {
        for (counts, &pixel) in counts.iter_mut().zip(quad) {
            counts[usize::from(pixel)] += 1;
        }
    }
    for &pixel in rest {
        counts[0][usize::from(pixel)] += 1;
    }
    std::array::from_fn(|value| counts.iter().map(|counts| counts[value]).sum())
}

/// Otsu's threshold: the value that splits dark (≤) from bright best.
#[must_use]
pub fn otsu(counts: &[u32; 256]) -> u8 {
    let total: u64 = counts.iter().map(|&count| u64::from(count)).sum();
    let weighted = |(value, &count): (u64, &u32)| value * u64::from(count);
    let sum: u64 = (0..).zip(counts).map(weighted).sum();
    let (mut below, mut below_sum) = (0_u64, 0_u64);
    let mut best = (0_u128, 0_u8);
    for (value, &count) in (0_u8..=255).zip(counts) {
        below += u64::from(count);
        below_sum += u64::from(value) * u64::from(count);
        let above = total - below;
        if below == 0 || above == 0 {
            continue;
        }
        // Between-class variance times total², in integers: (total·below_sum − below·sum)² / (b·a).
        let gap = (u128::from(total) * u128::from(below_sum))
            .abs_diff(u128::from(below) * u128::from(sum));
        let score = gap * gap / (u128::from(below) * u128::from(above));
        if score > best.0 {
            best = (score, value);
        }
    }
    best.1
}
