//! PNG and JPEG files in memory, read by user functions.
//!
//! [`ImageFile::open`] reads the header and checks the sides before anything large is allocated;
//! the caller then asks for grey pixels, written straight where they belong, or for samples as the
//! file has them. Samples have 8 bits: smaller ones and palettes are expanded, 16 bits are cut.
//! A cut or damaged file is an error and not a grey area.

mod gray;
mod picture;
mod samples;

pub use picture::{Colours, Picture};
pub use samples::Layout;

use png::Transformations;
use std::io::Cursor;
use zune_core::options::DecoderOptions;
use zune_jpeg::JpegDecoder;

/// Why a file is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileError {
    /// No PNG or JPEG file, or a damaged one.
    Damaged,
    /// More pixels than asked for.
    TooLarge,
}

impl std::fmt::Display for FileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            FileError::Damaged => "not a readable PNG or JPEG file",
            FileError::TooLarge => "more pixels than allowed",
        })
    }
}

impl std::error::Error for FileError {}

/// A file whose header was read.
pub struct ImageFile<'a>(Decoder<'a>);

enum Decoder<'a> {
    Png(Box<png::Reader<Cursor<&'a [u8]>>>),
    Jpeg(Box<JpegDecoder<Cursor<&'a [u8]>>>, (u32, u32)),
}

impl std::fmt::Debug for ImageFile<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = if matches!(self.0, Decoder::Png(_)) { "png" } else { "jpeg" };
        f.debug_struct("ImageFile").field("kind", &kind).field("sides", &self.sides()).finish()
    }
}

impl<'a> ImageFile<'a> {
    /// Reads the header.
    ///
    /// # Errors
    /// [`FileError::Damaged`]; [`FileError::TooLarge`] when there are more than `max_pixels`.
    pub fn open(file: &'a [u8], max_pixels: u64) -> Result<Self, FileError> {
        let decoder = if file.starts_with(b"\x89PNG") {
            open_png(file, max_pixels)?
        } else if file.starts_with(b"\xFF\xD8") {
            open_jpeg(file)?
        } else {
            return Err(FileError::Damaged);
        };
        let image = ImageFile(decoder);
        let (width, height) = image.sides();
        if width == 0 || height == 0 {
            return Err(FileError::Damaged);
        }
        if u64::from(width) * u64::from(height) > max_pixels {
            return Err(FileError::TooLarge);
        }
        Ok(image)
    }

    /// Width and height in pixels.
    #[must_use]
    pub fn sides(&self) -> (u32, u32) {
        match &self.0 {
            Decoder::Png(reader) => reader.info().size(),
            Decoder::Jpeg(_, sides) => *sides,
        }
    }
}

fn open_png(file: &[u8], max_pixels: u64) -> Result<Decoder<'_>, FileError> {
    let bytes = usize::try_from(max_pixels.saturating_mul(16)).unwrap_or(usize::MAX);
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(file), png::Limits { bytes });
    decoder.set_transformations(Transformations::EXPAND | Transformations::STRIP_16);
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    Ok(Decoder::Png(Box::new(decoder.read_info().map_err(damaged)?)))
}

fn open_jpeg(file: &[u8]) -> Result<Decoder<'_>, FileError> {
    let options = DecoderOptions::default().set_strict_mode(true);
    let mut decoder = JpegDecoder::new_with_options(Cursor::new(file), options);
    decoder.decode_headers().map_err(damaged)?;
    let info = decoder.info().ok_or(FileError::Damaged)?;
    Ok(Decoder::Jpeg(Box::new(decoder), (info.width.into(), info.height.into())))
}

fn damaged<E>(_: E) -> FileError {
    FileError::Damaged
}
