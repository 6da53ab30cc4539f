//! Normalisation: `(byte · (1 / 255) − mean) / deviation`, each step rounded to float32.
//!
//! A byte has 256 values, so it is a table. The constants are those of red, green, blue, applied to
//! blue, green, red in this order, as the package does.

const MEAN: [f32; 3] = [0.485, 0.456, 0.406];
const DEVIATION: [f32; 3] = [0.229, 0.224, 0.225];

/// Normalised values of every byte, for each plane.
#[must_use]
pub fn table() -> [[f32; 256]; 3] {
    #[expect(clippy::cast_possible_truncation, reason = "rounded once, from float64")]
    let scale = (1.0_f64 / 255.0) as f32;
    std::array::from_fn(|plane| {
        let mut value = -1.0_f32;
        std::array::from_fn(|_| {
            value += 1.0;
            (value * scale - MEAN[plane]) / DEVIATION[plane]
        })
    })
}
