//! `decode`: the bytes of an image file → grey pixels, written straight into shared memory when the
//! file is grey with 8 bits, or a colour JPEG (whose luminance is stored apart).

use crate::codes::{BAD_IMAGE, BAD_INPUT, TOO_LARGE, TOO_SMALL};
use crate::page::SIDE_MIN;
use flow_func::{Context, FlowFunc, InitContext, Msg, MsgType, OutMsg, Result};
use png::{BitDepth, ColorType, Transformations};
use std::io::Cursor;
use zune_core::colorspace::ColorSpace;
use zune_core::options::DecoderOptions;
use zune_jpeg::JpegDecoder;

/// The function `decode`.
#[derive(Debug, Default)]
pub struct Decode {
    max_pixels: u64,
    scratch: Vec<u8>,
}

impl FlowFunc for Decode {
    fn init(&mut self, ctx: &InitContext<'_>) -> Result {
        let max = ctx.attr_or("max_pixels", 1_i64 << 24)?;
        self.max_pixels = u64::try_from(max).map_err(|_| BAD_INPUT)?;
        Ok(())
    }

    fn proc(&mut self, ctx: &mut Context<'_>, inputs: &[Msg<'_>]) -> Result {
        crate::transform(ctx, inputs, |ctx, input| self.page(ctx, input))
    }
}

impl Decode {
    fn page<'c>(&mut self, ctx: &mut Context<'c>, input: &Msg<'_>) -> Result<OutMsg<'c>> {
        let file = match input.msg_type() {
            MsgType::RAW_MSG => input.bytes(),
            _ => input.data::<u8>().map_err(|_| BAD_INPUT)?,
        };
        let decoder = Decoder::open(file, self.max_pixels)?;
        let (width, height) = decoder.sides();
        let mut out = ctx.alloc::<u8>(&[i64::from(height), i64::from(width)])?;
        decoder.read(&mut self.scratch, out.as_mut_slice::<u8>()?)?;
        Ok(out)
    }
}

/// Decodes a file in memory: width, height, pixels.
///
/// # Errors
/// [`BAD_IMAGE`], [`TOO_LARGE`] beyond 2^24 pixels, [`TOO_SMALL`].
pub fn decode(file: &[u8]) -> Result<(usize, usize, Vec<u8>)> {
    let decoder = Decoder::open(file, 1 << 24)?;
    let (width, height) = decoder.sides();
    let mut pixels = vec![0; width as usize * height as usize];
    decoder.read(&mut Vec::new(), &mut pixels)?;
    Ok((width as usize, height as usize, pixels))
}

/// A file whose header was read.
enum Decoder<'a> {
    Png(Box<png::Reader<Cursor<&'a [u8]>>>),
    Jpeg(Box<JpegDecoder<Cursor<&'a [u8]>>>, (u32, u32)),
}

impl<'a> Decoder<'a> {
    /// Reads the header and checks the sides before anything large is allocated.
    fn open(file: &'a [u8], max_pixels: u64) -> Result<Self> {
        let decoder = if file.starts_with(b"\x89PNG") {
            open_png(file, max_pixels)?
        } else if file.starts_with(b"\xFF\xD8") {
            open_jpeg(file)?
        } else {
            return Err(BAD_IMAGE);
        };
        let (width, height) = decoder.sides();
        if u64::from(width) * u64::from(height) > max_pixels {
            return Err(TOO_LARGE);
        }
        if (width as usize) < SIDE_MIN || (height as usize) < SIDE_MIN {
            return Err(TOO_SMALL);
        }
        Ok(decoder)
    }

    /// Width and height.
    fn sides(&self) -> (u32, u32) {
        match self {
            Decoder::Png(reader) => reader.info().size(),
            Decoder::Jpeg(_, sides) => *sides,
        }
    }

    fn read(self, scratch: &mut Vec<u8>, pixels: &mut [u8]) -> Result {
        match self {
            Decoder::Png(reader) => read_png(*reader, scratch, pixels),
            Decoder::Jpeg(decoder, _) => read_jpeg(*decoder, scratch, pixels),
        }
    }
}

fn open_png(file: &[u8], max_pixels: u64) -> Result<Decoder<'_>> {
    let bytes = usize::try_from(max_pixels.saturating_mul(16)).unwrap_or(usize::MAX);
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(file), png::Limits { bytes });
    // 8 bits a sample: palettes and small samples are expanded, 16 bits are cut.
    decoder.set_transformations(Transformations::EXPAND | Transformations::STRIP_16);
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    Ok(Decoder::Png(Box::new(decoder.read_info().map_err(|_| BAD_IMAGE)?)))
}

fn read_png(
    mut reader: png::Reader<Cursor<&[u8]>>,
    scratch: &mut Vec<u8>,
    pixels: &mut [u8],
) -> Result {
    let (color, depth) = reader.output_color_type();
    if depth != BitDepth::Eight {
        return Err(BAD_IMAGE);
    }
    if color == ColorType::Grayscale {
        return reader.next_frame(pixels).map(|_| ()).map_err(|_| BAD_IMAGE);
    }
    scratch.resize(reader.output_buffer_size().ok_or(TOO_LARGE)?, 0);
    reader.next_frame(scratch).map_err(|_| BAD_IMAGE)?;
    match color {
        ColorType::Rgb => convert::<3>(scratch, pixels, |&[r, g, b]| luma(r, g, b)),
        ColorType::Rgba => convert::<4>(scratch, pixels, |&[r, g, b, a]| over(luma(r, g, b), a)),
        ColorType::GrayscaleAlpha => convert::<2>(scratch, pixels, |&[l, a]| over(l, a)),
        ColorType::Grayscale | ColorType::Indexed => return Err(BAD_IMAGE),
    }
    Ok(())
}

/// Strict, so that a cut or damaged file is an error and not a grey area.
fn open_jpeg(file: &[u8]) -> Result<Decoder<'_>> {
    let options = DecoderOptions::default().set_strict_mode(true);
    let mut decoder = JpegDecoder::new_with_options(Cursor::new(file), options);
    decoder.decode_headers().map_err(|_| BAD_IMAGE)?;
    let info = decoder.info().ok_or(BAD_IMAGE)?;
    let has_luma = matches!(decoder.input_colorspace(), Some(ColorSpace::Luma | ColorSpace::YCbCr));
    let color = if has_luma { ColorSpace::Luma } else { ColorSpace::RGB };
    decoder.set_options(options.jpeg_set_out_colorspace(color));
    Ok(Decoder::Jpeg(Box::new(decoder), (info.width.into(), info.height.into())))
}

fn read_jpeg(
    mut decoder: JpegDecoder<Cursor<&[u8]>>,
    scratch: &mut Vec<u8>,
    pixels: &mut [u8],
) -> Result {
    if decoder.output_colorspace() == Some(ColorSpace::Luma) {
        return decoder.decode_into(pixels).map_err(|_| BAD_IMAGE);
    }
    scratch.resize(decoder.output_buffer_size().ok_or(TOO_LARGE)?, 0);
    decoder.decode_into(scratch).map_err(|_| BAD_IMAGE)?;
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
