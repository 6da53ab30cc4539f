//! The smallest rectangle around points, and a polygon around a rectangle at a distance.

#![expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "places in pictures")]

use crate::calipers;
use crate::mark::Corners;

/// A place with whole numbers: x, y.
pub(crate) type Point = [i32; 2];

/// Points of the convex hull; those in between are left out. It begins with the upper one of those
/// most to the left and goes on along the upper side (y points down). Sorts `points`.
fn hull(points: &mut Vec<Point>) -> Vec<Point> {
    points.sort_unstable();
    points.dedup();
    let mut hull: Vec<Point> = Vec::new();
    for direction in 0..2 {
        let start = hull.len();
        for index in 0..points.len() {
            let point =
                if direction == 0 { points[index] } else { points[points.len() - 1 - index] };
            while hull.len() >= start + 2
                && cross(hull[hull.len() - 2], hull[hull.len() - 1], point) <= 0
            {
                hull.pop();
            }
            hull.push(point);
        }
        // The last point of one half is the first of the other.
        if points.len() > 1 {
            hull.pop();
        }
    }
    hull
}

fn cross(from: Point, via: Point, to: Point) -> i64 {
    let [ax, ay] = [0, 1].map(|axis| i64::from(via[axis]) - i64::from(from[axis]));
    let [bx, by] = [0, 1].map(|axis| i64::from(to[axis]) - i64::from(from[axis]));
    ax * by - ay * bx
}

/// The rectangle of least area around `points`, and its shorter side; `None` without an area.
/// Corners begin with the upper one of the two that are most to the left, and go on clockwise.
pub(crate) fn around(points: &mut Vec<Point>) -> Option<(Corners, f32)> {
    let hull = hull(points);
    if hull.len() < 3 {
        return None;
    }
    #[expect(clippy::cast_precision_loss, reason = "places in pictures")]
    let hull: Vec<[f32; 2]> = hull.into_iter().map(|point| point.map(|at| at as f32)).collect();
    let (mut corners, side) = calipers::smallest(&hull);
    corners.sort_by(|one, other| one[0].total_cmp(&other[0]));
    let [a, b, c, d] = corners;
    let (upper_left, lower_left) = if b[1] > a[1] { (a, b) } else { (b, a) };
    let (upper_right, lower_right) = if d[1] > c[1] { (c, d) } else { (d, c) };
    Some(([upper_left, upper_right, lower_right, lower_left], side))
}

/// Points around a rectangle at the distance `ratio` · area / length, round at the corners: those
/// of the Clipper library (`JT_ROUND`), which cuts corners and rounds what comes out to whole
/// numbers.
pub(crate) fn unclip(corners: &Corners, ratio: f64) -> Vec<Point> {
    let exact = corners.map(|corner| corner.map(f64::from));
    let next = |index: usize| (index + 1) % 4;
    let (mut area, mut length) = (0.0, 0.0);
    for (index, [x, y]) in exact.into_iter().enumerate() {
        let [to_x, to_y] = exact[next(index)];
        area += (x * to_y - to_x * y) / 2.0;
        length += (to_x - x).hypot(to_y - y);
    }
    let distance = area.abs() * ratio / length;
    let mut path = exact.map(|corner| corner.map(f64::trunc)).to_vec();
    if area < 0.0 {
        path.reverse();
    }
    path.dedup();
    if path.len() > 1 && path.first() == path.last() {
        path.pop();
    }
    offset(&path, distance)
}

/// Steps of a corner: a quarter of a pixel is the most it may be off.
fn offset(path: &[[f64; 2]], distance: f64) -> Vec<Point> {
    let count = path.len();
    if count < 3 {
        return Vec::new();
    }
    let off = 0.25_f64.min(distance * 0.25);
    let full = std::f64::consts::TAU;
    let steps = (full / 2.0 / (1.0 - off / distance).acos()).min(distance * full / 2.0);
    let (sin, cos) = (full / steps).sin_cos();
    let normals: Vec<[f64; 2]> = (0..count)
        .map(|index| {
            let [from, to] = [path[index], path[(index + 1) % count]];
            let (dx, dy) = (to[0] - from[0], to[1] - from[1]);
            let length = (dx * dx + dy * dy).sqrt();
            [dy / length, -dx / length]
        })
        .collect();
    let mut points = Vec::new();
    for (index, corner) in path.iter().enumerate() {
        let (before, after) = (normals[(index + count - 1) % count], normals[index]);
        let mut put = |[x, y]: [f64; 2]| {
            let place = [corner[0] + x * distance, corner[1] + y * distance];
            points.push(place.map(|value| value.round() as i32));
        };
        let dot = before[0] * after[0] + before[1] * after[1];
        let turn = (before[0] * after[1] - after[0] * before[1]).clamp(-1.0, 1.0);
        if (turn * distance).abs() < 1.0 && dot > 0.0 {
            put(before);
            continue;
        }
        let mut normal = before;
        let parts = (steps / full * turn.atan2(dot).abs()).round().max(1.0) as u32;
        for _ in 0..parts {
            put(normal);
            let [x, y] = normal;
            normal = [x * cos - sin * y, x * sin + y * cos];
        }
        put(after);
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rectangle_around_points_is_the_smallest() {
        let mut points = vec![[0, 0], [10, 0], [10, 4], [0, 4], [5, 2], [5, 0], [5, 0]];
        let (corners, side) = around(&mut points).expect("an area");
        let whole = corners.map(|corner| corner.map(f32::round));
        assert_eq!(whole, [[0.0, 0.0], [10.0, 0.0], [10.0, 4.0], [0.0, 4.0]]);
        assert!((side - 4.0).abs() < 1e-6);
        // A square on its tip.
        let (corners, side) = around(&mut vec![[0, 5], [5, 0], [10, 5], [5, 10]]).expect("an area");
        assert!((side * side - 50.0).abs() < 1e-4, "{corners:?}");
        for flat in [&[][..], &[[3, 4]], &[[3, 4], [3, 4], [7, 9]], &[[0, 0], [1, 1], [2, 2]]] {
            assert_eq!(around(&mut flat.to_vec()), None, "{flat:?}");
        }
    }

    /// Against pyclipper 1.3.0.post6 and OpenCV 4.12: union leaves these points of a polygon.
    #[test]
    fn a_polygon_around_is_that_of_clipper() {
        let right = [[10.7, 20.2], [110.2, 20.2], [110.2, 40.9], [10.7, 40.9]];
        let left_side = [
            [-4, 20],
            [-4, 40],
            [-3, 15],
            [-2, 46],
            [0, 11],
            [1, 50],
            [4, 8],
            [5, 53],
            [10, 6],
            [10, 54],
        ];
        let mut points = unclip(&right, 1.6);
        let (corners, side) = around(&mut points).expect("an area");
        assert_eq!(points[..10], left_side);
        assert_eq!(corners, [[-4.0, 6.0], [124.0, 6.0], [124.0, 54.0], [-4.0, 54.0]]);
        assert!((side - 48.0).abs() < 1e-4);
        let oblique = [[10.5, 30.25], [100.75, 10.5], [104.5, 28.0], [14.25, 48.0]];
        let mut points = unclip(&oblique, 1.6);
        let (corners, side) = around(&mut points).expect("an area");
        assert_eq!(points[..5], [[-2, 28], [-2, 33], [0, 23], [2, 51], [4, 20]]);
        let expected = [
            [-4.752_944, 20.611_763],
            [109.388_24, -4.752_945],
            [118.752_94, 37.388_23],
            [4.611_755_4, 62.752_937],
        ];
        for (corner, expected) in corners.into_iter().flatten().zip(expected.as_flattened()) {
            assert!((corner - expected).abs() < 1e-4, "{corners:?}");
        }
        assert!((side - 43.169_16).abs() < 1e-4);
    }
}
