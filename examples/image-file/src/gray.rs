//! Grey pixels of any file: colours by their luminance, transparent pixels over white paper.

use crate::{Decoder, FileError, ImageFile, damaged};
use png::{BitDepth, ColorType};
use std::io::Cursor;
use zune_core::colorspace::ColorSpace;
use zune_jpeg::JpegDecoder;

impl ImageFile<'_> {
    /// Writes grey pixels, straight out of the decoder when the file is grey with 8 bits or a
    /// colour JPEG (whose luminance is stored apart); else by way of `scratch`.
    ///
    /// # Errors
    /// [`FileError::Damaged`], also when `pixels` is not width × height long.
    pub fn read_gray(self, scratch: &mut Vec<u8>, pixels: &mut [u8]) -> Result<(), FileError> {
        let (width, height) = self.sides();
        if pixels.len() as u64 != u64::from(width) * u64::from(height) {
            return Err(FileError::Damaged);
        }
        match self.0 {
            Decoder::Png(reader) => read_png(*reader, scratch, pixels),
            Decoder::Jpeg(decoder, _) => read_jpeg(*decoder, scratch, pixels),
        }
    }
}

fn read_png(
    mut reader: png::Reader<Cursor<&[u8]>>,
    scratch: &mut Vec<u8>,
    pixels: &mut [u8],
) -> Result<(), FileError> {
    let (color, depth) = reader.output_color_type();
    if depth != BitDepth::Eight {
        return Err(FileError::Damaged);
    }
    if color == ColorType::Grayscale {
        return reader.next_frame(pixels).map(|_| ()).map_err(damaged);
    }
    scratch.resize(reader.output_buffer_size().ok_or(FileError::TooLarge)?, 0);
    reader.next_frame(scratch).map_err(damaged)?;
    match color {
        ColorType::Rgb => convert::<3>(scratch, pixels, |&[r, g, b]| luma(r, g, b)),
        ColorType::Rgba => convert::<4>(scratch, pixels, |&[r, g, b, a]| over(luma(r, g, b), a)),
        ColorType::GrayscaleAlpha => convert::<2>(scratch, pixels, |&[l, a]| over(l, a)),
        ColorType::Grayscale | ColorType::Indexed => return Err(FileError::Damaged),
    }
    Ok(())
}

fn read_jpeg(
    mut decoder: JpegDecoder<Cursor<&[u8]>>,
    scratch: &mut Vec<u8>,
    pixels: &mut [u8],
) -> Result<(), FileError> {
    let has_luma = matches!(decoder.input_colorspace(), Some(ColorSpace::Luma | ColorSpace::YCbCr));
    let color = if has_luma { ColorSpace::Luma } else { ColorSpace::RGB };
    decoder.set_options(decoder.options().jpeg_set_out_colorspace(color));
    if decoder.output_colorspace() == Some(ColorSpace::Luma) {
        return decoder.decode_into(pixels).map_err(damaged);
    }
    scratch.resize(decoder.output_buffer_size().ok_or(FileError::TooLarge)?, 0);
    decoder.decode_into(scratch).map_err(damaged)?;
    convert::<3>(scratch, pixels, |&[r, g, b]| luma(r, g, b));
    Ok(())
}

fn convert<const N: usize>(from: &[u8], to: &mut [u8], pixel: impl Fn(&[u8; N]) -> u8) {
    for (to, from) in to.iter_mut().zip(from.as_chunks::<N>().0) {
        *to = pixel(from);
    }
}

/// Rec. 601 weights in 1/256; the sum of weights is 256, so it fits a byte.
fn luma(red: u8, green: u8, blue: u8) -> u8 {
    let sum = 77 * u32::from(red) + 150 * u32::from(green) + 29 * u32::from(blue) + 128;
    low(sum >> 8)
}

/// A pixel of opacity `alpha` over white paper.
fn over(gray: u8, alpha: u8) -> u8 {
    let alpha = u32::from(alpha);
    low((u32::from(gray) * alpha + 255 * (255 - alpha) + 127) / 255)
}

#[expect(clippy::cast_possible_truncation, reason = "callers pass 0..=255")]
fn low(value: u32) -> u8 {
    value as u8
}
