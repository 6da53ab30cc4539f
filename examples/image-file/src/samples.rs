//! Samples as the file has them: grey or red, green, blue; with alpha only where pixels have one.

use crate::{Decoder, FileError, ImageFile, damaged};
use png::{BitDepth, ColorType};
use std::io::Cursor;
use zune_core::colorspace::ColorSpace;
use zune_jpeg::JpegDecoder;

/// Samples of a pixel, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Grey.
    Gray,
    /// Grey, alpha.
    GrayAlpha,
    /// Red, green, blue.
    Rgb,
    /// Red, green, blue, alpha.
    Rgba,
}

impl Layout {
    /// Samples a pixel.
    #[must_use]
    pub fn samples(self) -> usize {
        match self {
            Layout::Gray => 1,
            Layout::GrayAlpha => 2,
            Layout::Rgb => 3,
            Layout::Rgba => 4,
        }
    }
}

impl ImageFile<'_> {
    /// Reads all samples, row by row without a gap. A single colour declared transparent (PNG's
    /// `tRNS`) is no alpha. A colour JPEG becomes red, green, blue.
    ///
    /// # Errors
    /// [`FileError::Damaged`].
    pub fn read_samples(self, samples: &mut Vec<u8>) -> Result<Layout, FileError> {
        match self.0 {
            Decoder::Png(reader) => read_png(*reader, samples),
            Decoder::Jpeg(decoder, _) => read_jpeg(*decoder, samples),
        }
    }
}

fn read_png(
    mut reader: png::Reader<Cursor<&[u8]>>,
    samples: &mut Vec<u8>,
) -> Result<Layout, FileError> {
    let (color, depth) = reader.output_color_type();
    if depth != BitDepth::Eight {
        return Err(FileError::Damaged);
    }
    let has_alpha = matches!(reader.info().color_type, ColorType::GrayscaleAlpha | ColorType::Rgba);
    samples.resize(reader.output_buffer_size().ok_or(FileError::TooLarge)?, 0);
    reader.next_frame(samples).map_err(damaged)?;
    match (color, has_alpha) {
        (ColorType::Grayscale, _) => Ok(Layout::Gray),
        (ColorType::Rgb, _) => Ok(Layout::Rgb),
        (ColorType::GrayscaleAlpha, true) => Ok(Layout::GrayAlpha),
        (ColorType::Rgba, true) => Ok(Layout::Rgba),
        (ColorType::GrayscaleAlpha, false) => {
            drop_last::<2>(samples);
            Ok(Layout::Gray)
        }
        (ColorType::Rgba, false) => {
            drop_last::<4>(samples);
            Ok(Layout::Rgb)
        }
        (ColorType::Indexed, _) => Err(FileError::Damaged),
    }
}

fn read_jpeg(
    mut decoder: JpegDecoder<Cursor<&[u8]>>,
    samples: &mut Vec<u8>,
) -> Result<Layout, FileError> {
    let is_gray = decoder.input_colorspace() == Some(ColorSpace::Luma);
    let color = if is_gray { ColorSpace::Luma } else { ColorSpace::RGB };
    decoder.set_options(decoder.options().jpeg_set_out_colorspace(color));
    samples.resize(decoder.output_buffer_size().ok_or(FileError::TooLarge)?, 0);
    decoder.decode_into(samples).map_err(damaged)?;
    Ok(if is_gray { Layout::Gray } else { Layout::Rgb })
}

/// Removes the last sample of every pixel of `N`.
fn drop_last<const N: usize>(samples: &mut Vec<u8>) {
    let pixels = samples.len() / N;
    for pixel in 0..pixels {
        samples.copy_within(pixel * N..pixel * N + N - 1, pixel * (N - 1));
    }
    samples.truncate(pixels * (N - 1));
}
