//! A map of probabilities → boxes of text lines in reading order: the post-processing of DB
//! (differentiable binarization) as the Python package does it.
//!
//! ```text
//! map > thresh ─► 2 × 2 dilation ─► borders ─► smallest rectangle ─► mean probability inside
//!     ─► larger by unclip_ratio · area / length ─► smallest rectangle ─► whole pixels, in order
//! ```

#![expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "places in pictures")]

use crate::borders::Mask;
use crate::mark::Corners;
use crate::rect::{self, Point};

/// Shortest side of a rectangle before it is made larger, pixels.
const SIDE_MIN: f32 = 3.0;
/// Boxes whose upper left corners differ less in height are on one line.
const SAME_LINE: f32 = 10.0;

/// A text line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TextBox {
    /// Where it is.
    pub corners: Corners,
    /// Mean probability inside.
    pub score: f32,
}

/// Limits of the search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Least probability of a pixel.
    pub thresh: f32,
    /// Least mean probability of a box.
    pub box_thresh: f32,
    /// How much larger a box becomes.
    pub unclip_ratio: f32,
    /// Most borders that are looked at.
    pub max_candidates: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { thresh: 0.3, box_thresh: 0.5, unclip_ratio: 1.6, max_candidates: 1000 }
    }
}

/// Boxes of a map of `width` a row.
///
/// # Panics
/// When the map has no whole rows.
#[must_use]
pub fn find(map: &[f32], width: usize, limits: &Limits) -> Vec<TextBox> {
    let height = map.len() / width;
    assert!(height > 0 && map.len() == width * height, "a map of whole rows");
    let borders = mask(map, width, limits.thresh).borders();
    let mut boxes: Vec<TextBox> = borders
        .into_iter()
        .take(limits.max_candidates)
        .filter_map(|border| text_box(map, (width, height), border, limits))
        .collect();
    sort(&mut boxes);
    boxes
}

/// What is text, each pixel of it 2 × 2.
fn mask(map: &[f32], width: usize, thresh: f32) -> Mask {
    let height = map.len() / width;
    let mut mask = Mask::new(width, height);
    for (y, row) in map.chunks_exact(width).enumerate() {
        for x in (0..width).filter(|x| row[*x] > thresh) {
            for (right, below) in [(x, y), (x + 1, y), (x, y + 1), (x + 1, y + 1)] {
                if right < width && below < height {
                    mask.set(right, below);
                }
            }
        }
    }
    mask
}

fn text_box(
    map: &[f32],
    (width, height): (usize, usize),
    mut points: Vec<Point>,
    limits: &Limits,
) -> Option<TextBox> {
    let (corners, side) = rect::around(&mut points)?;
    if side < SIDE_MIN {
        return None;
    }
    let score = mean(map, (width, height), &corners);
    if score < f64::from(limits.box_thresh) {
        return None;
    }
    let mut larger = rect::unclip(&corners, f64::from(limits.unclip_ratio));
    let (corners, side) = rect::around(&mut larger)?;
    if side < SIDE_MIN + 2.0 {
        return None;
    }
    let sides = [width, height].map(|side| side as f32);
    let whole = |axis: usize, place: f32| {
        let side = sides[axis];
        (place / side * side).round_ties_even().clamp(0.0, side).min(side - 1.0)
    };
    let corners = clockwise(corners.map(|[x, y]| [whole(0, x), whole(1, y)]));
    let distance = |one: [f32; 2], other: [f32; 2]| {
        let (x, y) = (one[0] - other[0], one[1] - other[1]);
        (x * x + y * y).sqrt().trunc()
    };
    let [width, height] = [distance(corners[0], corners[1]), distance(corners[0], corners[3])];
    (width > 3.0 && height > 3.0).then_some(TextBox { corners, score: score as f32 })
}

/// The two most to the left, the upper one first; then the others.
fn clockwise(mut corners: Corners) -> Corners {
    corners.sort_by(|one, other| one[0].total_cmp(&other[0]));
    let [a, b, c, d] = corners;
    let (upper_left, lower_left) = if b[1] < a[1] { (b, a) } else { (a, b) };
    let (upper_right, lower_right) = if d[1] < c[1] { (d, c) } else { (c, d) };
    [upper_left, upper_right, lower_right, lower_left]
}

/// Mean probability inside a rectangle and on its border.
fn mean(map: &[f32], (width, height): (usize, usize), corners: &Corners) -> f64 {
    let low = |axis: usize| corners.iter().map(|corner| corner[axis]).fold(f32::MAX, f32::min);
    let high = |axis: usize| corners.iter().map(|corner| corner[axis]).fold(f32::MIN, f32::max);
    let clamp = |place: f32, side: usize| (place.max(0.0) as usize).min(side - 1);
    let (left, right) = (clamp(low(0).floor(), width), clamp(high(0).ceil(), width));
    let (top, bottom) = (clamp(low(1).floor(), height), clamp(high(1).ceil(), height));
    let local = corners.map(|[x, y]| [(x - left as f32).trunc(), (y - top as f32).trunc()]);
    let (mut sum, mut count) = (0.0, 0_u32);
    for y in top..=bottom {
        let Some((from, to)) = span(&local, (y - top) as f32) else { continue };
        let (from, to) = (left + from.max(0.0) as usize, (left + to.max(0.0) as usize).min(right));
        for value in map[y * width..][..width].get(from..=to).unwrap_or_default() {
            sum += f64::from(*value);
            count += 1;
        }
    }
    if count == 0 { 0.0 } else { sum / f64::from(count) }
}

/// Columns of a convex polygon on row `y`, whose border is drawn: a flat side has many on each row.
fn span(polygon: &Corners, y: f32) -> Option<(f32, f32)> {
    let mut span: Option<(f32, f32)> = None;
    for (index, from) in polygon.iter().enumerate() {
        let to = polygon[(index + 1) % polygon.len()];
        let (low, high) = (from[1].min(to[1]), from[1].max(to[1]));
        let (upper, lower) = ((y - 0.5).max(low), (y + 0.5).min(high));
        if upper > lower {
            continue;
        }
        let is_steep = high - low >= (to[0] - from[0]).abs();
        let x = |y: f32| from[0] + (to[0] - from[0]) * (y - from[1]) / (to[1] - from[1]);
        let places = match (low == high, is_steep) {
            (true, _) => [from[0], to[0]],
            (false, true) => [x(y.clamp(low, high)).round(); 2],
            (false, false) => [x(upper).min(x(lower)).ceil(), x(upper).max(x(lower)).floor()],
        };
        for x in places {
            let (left, right) = span.unwrap_or((x, x));
            span = Some((left.min(x), right.max(x)));
        }
    }
    span
}

/// From top to bottom; boxes that are about on one line from left to right.
fn sort(boxes: &mut [TextBox]) {
    boxes.sort_by(|one, other| {
        let place = |text: &TextBox| [text.corners[0][1], text.corners[0][0]];
        let ([y, x], [other_y, other_x]) = (place(one), place(other));
        y.total_cmp(&other_y).then(x.total_cmp(&other_x))
    });
    for end in 1..boxes.len() {
        for at in (0..end).rev() {
            let ([x, y], [next_x, next_y]) = (boxes[at].corners[0], boxes[at + 1].corners[0]);
            if (next_y - y).abs() >= SAME_LINE || next_x >= x {
                break;
            }
            boxes.swap(at, at + 1);
        }
    }
}
