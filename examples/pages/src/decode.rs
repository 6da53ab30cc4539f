//! `decode`: the bytes of an image file → grey pixels, written straight into shared memory when the
//! file is grey with 8 bits, or a colour JPEG (whose luminance is stored apart).

use crate::codes::{BAD_IMAGE, BAD_INPUT, TOO_LARGE, TOO_SMALL};
use crate::page::SIDE_MIN;
use flow_func::{Context, FlowFunc, InitContext, Msg, MsgType, OutMsg, Result};
use image_file::{FileError, ImageFile};

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
        let image = open(file, self.max_pixels)?;
        let (width, height) = image.sides();
        let mut out = ctx.alloc::<u8>(&[i64::from(height), i64::from(width)])?;
        image.read_gray(&mut self.scratch, out.as_mut_slice::<u8>()?).map_err(code)?;
        Ok(out)
    }
}

/// Decodes a file in memory: width, height, pixels.
///
/// # Errors
/// [`BAD_IMAGE`], [`TOO_LARGE`] beyond 2^24 pixels, [`TOO_SMALL`].
pub fn decode(file: &[u8]) -> Result<(usize, usize, Vec<u8>)> {
    let image = open(file, 1 << 24)?;
    let (width, height) = image.sides();
    let mut pixels = vec![0; width as usize * height as usize];
    image.read_gray(&mut Vec::new(), &mut pixels).map_err(code)?;
    Ok((width as usize, height as usize, pixels))
}

fn open(file: &[u8], max_pixels: u64) -> Result<ImageFile<'_>> {
    let image = ImageFile::open(file, max_pixels).map_err(code)?;
    let (width, height) = image.sides();
    if (width as usize) < SIDE_MIN || (height as usize) < SIDE_MIN {
        return Err(TOO_SMALL);
    }
    Ok(image)
}

fn code(error: FileError) -> i32 {
    match error {
        FileError::Damaged => BAD_IMAGE,
        FileError::TooLarge => TOO_LARGE,
    }
}
