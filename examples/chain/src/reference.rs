//! What the chain computes, by plain loops.

use crate::weights::{self, CLASSES, IMAGE, INNER, MAPS};

/// A convolution of three rows and columns with an edge of zeros, its offset and Relu. `at` reads
/// the image by map, row and column, `weight` the filters by map that is made, map that is read,
/// row and column.
fn convolution(
    [maps, height, width]: [usize; 3],
    offsets: &[f32],
    at: impl Fn(usize, usize, usize) -> f32,
    weight: impl Fn(usize, usize, usize, usize) -> f32,
) -> Vec<f32> {
    let inside = |place: usize, tap: usize, length: usize| {
        (place + tap).checked_sub(1).filter(|place| *place < length)
    };
    let mut made = Vec::new();
    for (to, offset) in offsets.iter().enumerate() {
        for (row, column) in (0..height).flat_map(|row| (0..width).map(move |at| (row, at))) {
            let mut sum = f64::from(*offset);
            for (i, j) in (0..3).flat_map(|i| (0..3).map(move |j| (i, j))) {
                let (Some(y), Some(x)) = (inside(row, i, height), inside(column, j, width)) else {
                    continue;
                };
                for map in 0..maps {
                    sum += f64::from(at(map, y, x)) * f64::from(weight(to, map, i, j));
                }
            }
            made.push(float(sum.max(0.0)));
        }
    }
    made
}

/// The class of an image and its probability.
#[must_use]
pub fn reference(image: &[f32]) -> [f32; 2] {
    let [maps, height, width] = IMAGE;
    let (filters, offsets) = weights::first();
    let first = convolution(
        IMAGE,
        &offsets,
        |map, y, x| image[(map * height + y) * width + x],
        |to, map, i, j| filters[((to * maps + map) * 3 + i) * 3 + j],
    );
    let (rows, columns) = (height / 2, width / 2);
    let mean = |map: usize, y: usize, x: usize| {
        let at = |i: usize, j: usize| first[(map * height + 2 * y + i) * width + 2 * x + j];
        (at(0, 0) + at(0, 1) + at(1, 0) + at(1, 1)) / 4.0
    };
    let (filters, offsets, classes) = weights::second();
    let second = convolution([MAPS, rows, columns], &offsets, mean, |to, map, i, j| {
        filters[((i * 3 + j) * MAPS + map) * INNER + to]
    });
    let places = rows * columns;
    let count = f64::from(u32::try_from(places).unwrap_or(u32::MAX));
    let logits = (0..CLASSES).map(|class| {
        let map = |(map, plane): (usize, &[f32])| {
            let mean = plane.iter().map(|own| f64::from(*own)).sum::<f64>() / count;
            mean * f64::from(classes[map * CLASSES + class])
        };
        second.chunks_exact(places).enumerate().map(map).sum::<f64>().exp()
    });
    let powers: Vec<f64> = logits.collect();
    let sum: f64 = powers.iter().sum();
    let (mut best, mut number) = ([0.0; 2], 0.0);
    for power in powers {
        if power > best[1] {
            best = [number, power];
        }
        number += 1.0;
    }
    [float(best[0]), float(best[1] / sum)]
}

#[expect(clippy::cast_possible_truncation, reason = "rounded, as the models compute")]
fn float(value: f64) -> f32 {
    value as f32
}
