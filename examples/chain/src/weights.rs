//! Sizes and weights of both models: fixed numbers that look like noise.

/// Maps of an image, and its height and width.
pub const IMAGE: [usize; 3] = [3, 12, 12];
/// Maps that the first model makes of an image; each is half as high and wide.
pub const MAPS: usize = 8;
/// Maps that the second model makes of those.
pub const INNER: usize = 16;
/// Classes.
pub const CLASSES: usize = 5;

/// Numbers from -1 to 1, the same for the same seed.
#[must_use]
pub fn noise(count: usize, seed: usize) -> Vec<f32> {
    let one = |index: usize| u16::try_from((index * 7919 + seed * 104_729) % 2003).unwrap_or(0);
    (0..count).map(|index| f32::from(one(index)) / 1001.0 - 1.0).collect()
}

/// Of the first model: filters by map, map, row, column; an offset for each map.
#[must_use]
pub fn first() -> (Vec<f32>, Vec<f32>) {
    (noise(MAPS * IMAGE[0] * 9, 1), noise(MAPS, 2))
}

/// Of the second model: filters by row, column, map that is read, map that is made; offsets; and
/// the weights of classes by map and class.
#[must_use]
pub fn second() -> (Vec<f32>, Vec<f32>, Vec<f32>) {
    (noise(9 * MAPS * INNER, 3), noise(INNER, 4), noise(INNER * CLASSES, 5))
}

/// An image, maps in front.
#[must_use]
pub fn image(seed: usize) -> Vec<f32> {
    noise(IMAGE.iter().product(), 100 + seed)
}
