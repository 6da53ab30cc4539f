//! The smallest rectangle around a convex polygon, as OpenCV's `minAreaRect` and `boxPoints`
//! compute it: in float32, step by step, because what follows cuts corners to whole numbers, and
//! 171.99999 is another one than 172.

#![expect(clippy::cast_possible_truncation, reason = "rounded where OpenCV does")]

use crate::mark::Corners;

type Vector = [f32; 2];

fn clockwise([x, y]: Vector) -> Vector {
    [y, -x]
}

fn back([x, y]: Vector) -> Vector {
    [-x, -y]
}

fn dot(one: Vector, other: Vector) -> f32 {
    one[0] * other[0] + one[1] * other[1]
}

fn minus(one: Vector, other: Vector) -> Vector {
    [one[0] - other[0], one[1] - other[1]]
}

/// Centre, sides and degrees of a rectangle.
struct Rectangle {
    centre: Vector,
    sides: Vector,
    degrees: f32,
}

/// The best found so far: indices of the points on its left and lower side, its direction and
/// sides.
struct Best {
    area: f32,
    left: usize,
    bottom: usize,
    base: Vector,
    sides: Vector,
}

/// Corners in no certain order and the shorter side of the smallest rectangle around `points`: a
/// convex polygon of three points or more, which begins with the upper one of those most to the
/// left and goes on along the upper side (y points down).
pub(crate) fn smallest(points: &[Vector]) -> (Corners, f32) {
    let count = points.len();
    let edges: Vec<Vector> =
        (0..count).map(|at| minus(points[(at + 1) % count], points[at])).collect();
    // Points that sides of the rectangle touch: lowest y, largest x, largest y, lowest x.
    let first = |beats: fn(Vector, Vector) -> bool| {
        (1..count).fold(0, |best, at| if beats(points[at], points[best]) { at } else { best })
    };
    let mut touched = [
        first(|one, best| one[1] < best[1]),
        first(|one, best| one[0] > best[0]),
        first(|one, best| one[1] > best[1]),
        first(|one, best| one[0] < best[0]),
    ];
    let mut best: Option<Best> = None;
    for _ in 0..count {
        let [bottom, right, top, left] = touched.map(|at| edges[at]);
        let turned = [bottom, clockwise(right), back(top), back(clockwise(left))];
        let mut side = 0;
        for other in 1..4 {
            if dot(clockwise(turned[other]), turned[side]) < 0.0 {
                side = other;
            }
        }
        let edge = edges[touched[side]];
        let [dx, dy] = edge.map(f64::from);
        let inverse = (1.0 / (dx * dx + dy * dy).sqrt()) as f32;
        let [x, y] = edge.map(|part| part * inverse);
        let base = [[x, y], [y, -x], [-x, -y], [-y, x]][side];
        touched[side] = (touched[side] + 1) % count;
        let [bottom, right, top, left] = touched.map(|at| points[at]);
        let across = minus(top, bottom);
        let sides = [dot(minus(right, left), base), -across[0] * base[1] + across[1] * base[0]];
        let area = sides[0] * sides[1];
        if best.as_ref().is_none_or(|best| area <= best.area) {
            best = Some(Best { area, left: touched[3], bottom: touched[0], base, sides });
        }
    }
    // A polygon has an edge, so there is one.
    best.map_or_else(Default::default, |best| {
        let rectangle = rectangle(points, &best);
        (corners(&rectangle), rectangle.sides[0].min(rectangle.sides[1]))
    })
}

fn rectangle(points: &[Vector], best: &Best) -> Rectangle {
    let [a, b] = best.base;
    let (left, bottom) = (points[best.left], points[best.bottom]);
    let (c1, c2) = (a * left[0] + left[1] * b, -b * bottom[0] + bottom[1] * a);
    let inverse = 1.0 / (a * a - -b * b);
    let corner = [(c1 * a - c2 * b) * inverse, (a * c2 - -b * c1) * inverse];
    let width = [a, b].map(|part| part * best.sides[0]);
    let height = [-b, a].map(|part| part * best.sides[1]);
    let middle = |axis: usize| corner[axis] + (width[axis] + height[axis]) * 0.5;
    let length = |[x, y]: Vector| {
        let (x, y) = (f64::from(x), f64::from(y));
        (x * x + y * y).sqrt() as f32
    };
    let radians = f64::from(width[1]).atan2(f64::from(width[0])) as f32;
    Rectangle {
        centre: [middle(0), middle(1)],
        sides: [length(width), length(height)],
        degrees: (f64::from(radians) * 180.0 / std::f64::consts::PI) as f32,
    }
}

fn corners(rectangle: &Rectangle) -> Corners {
    let Rectangle { centre: [x, y], sides: [width, height], degrees } = *rectangle;
    let radians = f64::from(degrees) * std::f64::consts::PI / 180.0;
    let (a, b) = (radians.sin() as f32 * 0.5, radians.cos() as f32 * 0.5);
    let first = [x - a * height - b * width, y + b * height - a * width];
    let second = [x + a * height - b * width, y - b * height - a * width];
    let opposite = |corner: Vector| [2.0 * x - corner[0], 2.0 * y - corner[1]];
    [first, second, opposite(first), opposite(second)]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against OpenCV 4.12.
    #[test]
    fn rectangles_are_those_of_opencv() {
        let cases: [(&[Vector], [Vector; 2], f32); 4] = [
            (
                &[
                    [8.0, 9.0],
                    [21.0, 4.0],
                    [147.0, 1.0],
                    [162.0, 47.0],
                    [197.0, 171.0],
                    [198.0, 183.0],
                    [79.0, 150.0],
                    [44.0, 91.0],
                ],
                [[7.775_753, 8.312_271], [205.545_5, 180.539_47]],
                134.631_59,
            ),
            (
                &[[9.0, 26.0], [10.0, 5.0], [150.0, 9.0], [149.0, 30.0], [80.0, 31.0]],
                [[8.915_176, 28.969_002], [149.999_98, 9.0]],
                23.990_21,
            ),
            (
                &[[0.0, 0.0], [37.0, 2.0], [40.0, 20.0], [3.0, 17.0]],
                [[-0.961_399_1, 17.785_87], [40.961_395, 2.214_130_4]],
                17.811_834,
            ),
            (
                &[[88.0, 172.0], [233.0, 172.0], [233.0, 189.0], [88.0, 189.0]],
                [[88.0, 172.0], [233.0, 189.0]],
                17.0,
            ),
        ];
        for (points, [left, right], side) in cases {
            let (mut corners, found) = smallest(points);
            corners.sort_by(|one, other| {
                one[0].total_cmp(&other[0]).then(one[1].total_cmp(&other[1]))
            });
            let near = |one: Vector, other: Vector| {
                let [x, y] = minus(one, other);
                x.abs().max(y.abs()) < 1e-4
            };
            assert!(near(corners[0], left) && near(corners[3], right), "{corners:?}");
            assert!((found - side).abs() < 1e-4, "{found}");
        }
    }
}
