//! The tensor that travels between `deskew`, `binarise` and `measure`: uint8 `[h + 1, w]`.
//!
//! The first `h` rows are the picture. The last one, the *trailer*, carries what was found on the
//! way:
//!
//! ```text
//! off size meaning
//!   0    8 magic "PAGETRL1"
//!   8    8 skew in micro-degrees, i64, clockwise positive
//!  16      zeros
//! ```

use crate::codes::{BAD_INPUT, TOO_SMALL};
use flow_func::Msg;

/// Fewest pixels of a side; a trailer needs as many.
pub const SIDE_MIN: usize = 16;

const MAGIC: [u8; 8] = *b"PAGETRL1";

/// A grey picture: rows of bytes without a gap.
#[derive(Debug, Clone, Copy)]
pub struct Gray<'a> {
    /// Pixels a row, at least [`SIDE_MIN`].
    pub width: usize,
    /// Rows, at least [`SIDE_MIN`].
    pub height: usize,
    /// `width * height` pixels, 0 black.
    pub pixels: &'a [u8],
}

impl<'a> Gray<'a> {
    /// A picture of these sides.
    ///
    /// # Errors
    /// [`TOO_SMALL`], or [`BAD_INPUT`] when there are not as many pixels.
    pub fn new(width: usize, height: usize, pixels: &'a [u8]) -> Result<Self, i32> {
        if width < SIDE_MIN || height < SIDE_MIN {
            return Err(TOO_SMALL);
        }
        if width.checked_mul(height) != Some(pixels.len()) {
            return Err(BAD_INPUT);
        }
        Ok(Gray { width, height, pixels })
    }

    /// Shape of a tensor of this picture and `extra` rows.
    #[must_use]
    pub fn shape(&self, extra: usize) -> [i64; 2] {
        // Sides come from an i64 shape or a u32 image header, so they fit.
        [self.height + extra, self.width].map(|side| i64::try_from(side).unwrap_or(-1))
    }

    /// The rows from the top.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &'a [u8]> {
        self.pixels.chunks_exact(self.width)
    }
}

/// A picture out of a uint8 `[h, w]` message.
///
/// # Errors
/// [`BAD_INPUT`], [`TOO_SMALL`].
pub fn from_msg<'a>(msg: &Msg<'a>) -> Result<Gray<'a>, i32> {
    let [height, width] = *msg.shape() else { return Err(BAD_INPUT) };
    let side = |side: i64| usize::try_from(side).map_err(|_| BAD_INPUT);
    let pixels = msg.data::<u8>().map_err(|_| BAD_INPUT)?;
    Gray::new(side(width)?, side(height)?, pixels)
}

/// A picture and its trailer out of a uint8 `[h + 1, w]` message.
///
/// # Errors
/// [`BAD_INPUT`] (a missing trailer too), [`TOO_SMALL`].
pub fn with_trailer<'a>(msg: &Msg<'a>) -> Result<(Gray<'a>, &'a [u8]), i32> {
    let all = from_msg(msg)?;
    let (pixels, trailer) = all.pixels.split_at(all.pixels.len() - all.width);
    if !trailer.starts_with(&MAGIC) {
        return Err(BAD_INPUT);
    }
    Ok((Gray::new(all.width, all.height - 1, pixels)?, trailer))
}

/// Writes a trailer into a row.
pub fn write_trailer(row: &mut [u8], skew_microdegrees: i64) {
    row.fill(0);
    row[..8].copy_from_slice(&MAGIC);
    row[8..16].copy_from_slice(&skew_microdegrees.to_le_bytes());
}

/// The skew out of a trailer row, micro-degrees; 0 when the row is too short to be one.
#[must_use]
pub fn trailer_skew(row: &[u8]) -> i64 {
    row.get(8..16).and_then(|bytes| bytes.try_into().ok()).map_or(0, i64::from_le_bytes)
}
