//! What travels in the user data, little-endian: first of a page, then of each of its lines.
//!
//! ```text
//! off size of a page              off size of a line
//!   0    4 magic "OCRP"             0    4 magic "OCRL"
//!   4    4 width of the file, u32   4    4 number of the line, u32, in reading order
//!   8    4 height of the file       8    4 how many lines the page has, u32
//!  12    4 width on the canvas     12    4 how sure the detector is, f32
//!  16    4 height on the canvas    16   32 four corners in the file's pixels, (x, y), f32
//! ```
//! The head of a message goes on into everything that is made of it, through models too, so that
//! functions behind a model know which line its answer is of.

use flow_func::{Msg, OutMsg, Result};

use crate::codes::BAD_INPUT;

/// Corners from the upper left one on, clockwise: x, y.
pub type Corners = [[f32; 2]; 4];

const PAGE: [u8; 4] = *b"OCRP";
const LINE: [u8; 4] = *b"OCRL";
/// Bytes in use.
const LEN: usize = 48;

/// A page on the canvas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageMark {
    /// Width and height of the file.
    pub file: [u32; 2],
    /// Width and height on the canvas, from its upper left corner on.
    pub scaled: [u32; 2],
}

/// A line of a page.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LineMark {
    /// Number in reading order.
    pub index: u32,
    /// Lines of the page; 0 for the one message of a page without any.
    pub count: u32,
    /// How sure the detector is.
    pub score: f32,
    /// Where it is in the file's pixels.
    pub corners: Corners,
}

impl PageMark {
    /// Out of a message's user data.
    ///
    /// # Errors
    /// [`BAD_INPUT`] when it is not there.
    pub fn of(msg: &Msg<'_>) -> Result<Self> {
        let [magic, words @ ..] = words(&msg.user_data());
        let [width, height, across, down, ..] = words.map(u32::from_le_bytes);
        let is_page = magic == PAGE && across > 0 && down > 0;
        let mark = PageMark { file: [width, height], scaled: [across, down] };
        is_page.then_some(mark).ok_or(BAD_INPUT)
    }

    /// Puts it on a message.
    ///
    /// # Errors
    /// The runtime's code.
    pub fn put(&self, msg: &mut OutMsg<'_>) -> Result {
        let numbers = [self.file, self.scaled].concat();
        put(msg, PAGE, numbers.into_iter().map(u32::to_le_bytes))
    }

    /// Corners on the canvas → in the file's pixels.
    #[must_use]
    pub fn to_file(&self, corners: Corners) -> Corners {
        #[expect(clippy::cast_precision_loss, reason = "sides of pictures")]
        let ratio = |axis: usize| self.file[axis] as f32 / self.scaled[axis] as f32;
        corners.map(|[x, y]| [x * ratio(0), y * ratio(1)])
    }
}

impl LineMark {
    /// Out of a message's user data; `None` when it is not a line's.
    #[must_use]
    pub fn of(msg: &Msg<'_>) -> Option<Self> {
        let [magic, index, count, numbers @ ..] = words(&msg.user_data());
        let [score, corners @ ..] = numbers.map(f32::from_le_bytes);
        let corners = std::array::from_fn(|corner| [corners[2 * corner], corners[2 * corner + 1]]);
        let [index, count] = [index, count].map(u32::from_le_bytes);
        (magic == LINE).then_some(LineMark { index, count, score, corners })
    }

    /// Puts it on a message.
    ///
    /// # Errors
    /// The runtime's code.
    pub fn put(&self, msg: &mut OutMsg<'_>) -> Result {
        let numbers = [self.index, self.count].map(u32::to_le_bytes).into_iter();
        let floats = [self.score].into_iter().chain(self.corners.into_iter().flatten());
        put(msg, LINE, numbers.chain(floats.map(f32::to_le_bytes)))
    }
}

fn words(data: &[u8; 64]) -> [[u8; 4]; LEN / 4] {
    std::array::from_fn(|word| std::array::from_fn(|byte| data[4 * word + byte]))
}

fn put(msg: &mut OutMsg<'_>, magic: [u8; 4], words: impl Iterator<Item = [u8; 4]>) -> Result {
    let mut data = [0; LEN];
    for (to, word) in data.as_chunks_mut::<4>().0.iter_mut().zip([magic].into_iter().chain(words)) {
        *to = word;
    }
    msg.set_user_data(&data, 0)
}
