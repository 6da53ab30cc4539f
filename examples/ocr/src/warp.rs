//! A quadrilateral of a picture → an upright rectangle, as OpenCV's `warpPerspective` does it with
//! bicubic filter and repeated border: places in 1/32 pixels, weights in 1/32768.

#![expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "places in pictures")]

use crate::mark::Corners;

/// Parts of a pixel.
const PARTS: usize = 32;
/// Weights of a place add up to this.
const ONE: i32 = 1 << 15;

/// Weights of 4 × 4 pixels, for every part of a pixel down and across.
#[derive(Debug)]
pub struct Warper {
    weights: Vec<[i32; 16]>,
}

impl Default for Warper {
    fn default() -> Self {
        let places = (0..PARTS * PARTS).map(|place| weights(place / PARTS, place % PARTS));
        Warper { weights: places.collect() }
    }
}

impl Warper {
    /// Fills `out`, a picture of `sides` with three samples a pixel, from the part of `pixels`
    /// (`width` a row) inside `corners`.
    ///
    /// # Panics
    /// When `out` is not of these sides, or `pixels` has no row.
    pub fn warp(
        &self,
        pixels: &[u8],
        width: usize,
        corners: &Corners,
        sides: (usize, usize),
        out: &mut [u8],
    ) {
        let rows = pixels.len() / (3 * width);
        assert!(rows > 0 && out.len() == 3 * sides.0 * sides.1, "pictures of these sides");
        let map = projection(corners, sides);
        let lines = out.chunks_exact_mut(3 * sides.0);
        for (y, line) in lines.enumerate() {
            for (x, to) in line.as_chunks_mut::<3>().0.iter_mut().enumerate() {
                let [x, y] = place(&map, x as f64, y as f64);
                let part = (y as usize % PARTS) * PARTS + x as usize % PARTS;
                let at = [x >> 5, y >> 5];
                *to = sample(pixels, (width, rows), at, &self.weights[part]);
            }
        }
    }
}

/// The place of a pixel of the rectangle, in parts of a pixel.
fn place(map: &[f64; 9], x: f64, y: f64) -> [i32; 2] {
    let sum = |row: usize| map[3 * row] * x + map[3 * row + 1] * y + map[3 * row + 2];
    let scale = if sum(2) == 0.0 { 0.0 } else { PARTS as f64 / sum(2) };
    [sum(0), sum(1)].map(|sum| (sum * scale).round_ties_even() as i32)
}

fn sample(
    pixels: &[u8],
    (width, rows): (usize, usize),
    [x, y]: [i32; 2],
    weights: &[i32; 16],
) -> [u8; 3] {
    let clamp = |at: i32, count: usize| (at.max(0) as usize).min(count - 1);
    let columns = [x - 1, x, x + 1, x + 2].map(|x| 3 * clamp(x, width));
    let mut sums = [0; 3];
    for (y, weights) in (y - 1..).zip(weights.as_chunks::<4>().0) {
        let line = &pixels[3 * width * clamp(y, rows)..][..3 * width];
        for (column, weight) in columns.iter().zip(weights) {
            for (sum, sample) in sums.iter_mut().zip(&line[*column..]) {
                *sum += i32::from(*sample) * weight;
            }
        }
    }
    sums.map(|sum| ((sum + ONE / 2) >> 15).clamp(0, 255) as u8)
}

/// The projection that takes the corners of a rectangle to `corners`, row by row.
fn projection(corners: &Corners, sides: (usize, usize)) -> [f64; 9] {
    let [p, q, r, s] = corners.map(|corner| corner.map(f64::from));
    let axis = |k: usize| (q[k] - r[k], s[k] - r[k], p[k] - q[k] + r[k] - s[k]);
    let ((ax, bx, cx), (ay, by, cy)) = (axis(0), axis(1));
    let det = ax * by - bx * ay;
    let (g, h) = ((cx * by - bx * cy) / det, (ax * cy - cx * ay) / det);
    let row = |k: usize| [q[k] - p[k] + g * q[k], s[k] - p[k] + h * s[k], p[k]];
    let ([a, b, c], [d, e, f]) = (row(0), row(1));
    let (w, h_) = (sides.0 as f64, sides.1 as f64);
    [a / w, b / h_, c, d / w, e / h_, f, g / w, h / h_, 1.0]
}

/// Weights of the four pixels around a part of a pixel.
fn cubic(part: usize) -> [f32; 4] {
    const A: f32 = -0.75;
    let x = part as f32 * (1.0 / PARTS as f32);
    let near = |x: f32| ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0;
    let first = ((A * (x + 1.0) - 5.0 * A) * (x + 1.0) + 8.0 * A) * (x + 1.0) - 4.0 * A;
    let (second, third) = (near(x), near(1.0 - x));
    [first, second, third, 1.0 - first - second - third]
}

/// Products of both directions; what rounding leaves over goes to one of the middle four.
fn weights(down: usize, across: usize) -> [i32; 16] {
    let (rows, columns) = (cubic(down), cubic(across));
    let product = |at: usize| rows[at / 4] * columns[at % 4] * ONE as f32;
    let mut weights: [i32; 16] = std::array::from_fn(|at| product(at).round_ties_even() as i32);
    let over = weights.iter().sum::<i32>() - ONE;
    if over != 0 {
        let (mut least, mut most) = (10, 10);
        for at in [10, 11, 14, 15] {
            if weights[at] < weights[least] {
                least = at;
            } else if weights[at] > weights[most] {
                most = at;
            }
        }
        weights[if over < 0 { most } else { least }] -= over;
    }
    weights
}
