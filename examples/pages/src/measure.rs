//! `measure`: numbers about a binarised page, as a record of twelve f64.

use crate::page::{Gray, trailer_skew, with_trailer};
use flow_func::{Context, FlowFunc, Msg, OutMsg, Result};

/// Values of a record.
pub const RECORD_LEN: usize = 12;

/// The function `measure`.
#[derive(Debug, Default)]
pub struct MeasurePage {
    columns: Vec<u32>,
    rows: Vec<u32>,
    heights: Vec<usize>,
}

/// What is known of a page in the end.
///
/// | index | value |
/// |---|---|
/// | 0, 1 | width, height in pixels |
/// | 2 | pixels of ink |
/// | 3 … 6 | left, top, right, bottom of the ink, the last two exclusive; zeros without ink |
/// | 7 | text lines, estimated |
/// | 8 | skew in degrees, clockwise positive |
/// | 9 | ink in parts of the page |
/// | 10, 11 | FNV-1a 64 of the bitmap: upper, lower 32 bits |
///
/// Every value of a record is exact: counts lie below 2^53.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Measure {
    /// Pixels a row.
    pub width: u64,
    /// Rows.
    pub height: u64,
    /// Pixels of ink.
    pub ink: u64,
    /// Left, top, right, bottom of the ink; right and bottom exclusive.
    pub bounds: [u64; 4],
    /// Text lines, estimated.
    pub lines: u64,
    /// Skew in micro-degrees, clockwise positive.
    pub skew_microdegrees: i64,
    /// FNV-1a 64 of the bitmap.
    pub checksum: u64,
}

impl Measure {
    /// As the function `measure` sends it.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "counts below 2^53")]
    pub fn to_record(&self) -> [f64; RECORD_LEN] {
        let [left, top, right, bottom] = self.bounds;
        let (upper, lower) = (self.checksum >> 32, self.checksum & u64::from(u32::MAX));
        let counts = [self.width, self.height, self.ink, left, top, right, bottom, self.lines];
        let [width, height, ink, left, top, right, bottom, lines] = counts.map(|n| n as f64);
        let (skew, ratio) = (self.skew_degrees(), self.ink_ratio());
        let [upper, lower] = [upper, lower].map(|half| half as f64);
        [width, height, ink, left, top, right, bottom, lines, skew, ratio, upper, lower]
    }

    /// Reads a record; `None` when it has another length.
    #[must_use]
    pub fn from_record(record: &[f64]) -> Option<Self> {
        let &[.., skew, _, upper, lower] = record else { return None };
        let &[width, height, ink, left, top, right, bottom, lines, ..] = record else {
            return None;
        };
        if record.len() != RECORD_LEN {
            return None;
        }
        Some(Measure {
            width: count(width),
            height: count(height),
            ink: count(ink),
            bounds: [left, top, right, bottom].map(count),
            lines: count(lines),
            skew_microdegrees: micro(skew),
            checksum: count(upper) << 32 | count(lower),
        })
    }

    /// Skew in degrees, clockwise positive.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "small")]
    pub fn skew_degrees(&self) -> f64 {
        self.skew_microdegrees as f64 / 1e6
    }

    /// Ink in parts of the whole page, 0..=1.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    pub fn ink_ratio(&self) -> f64 {
        self.ink as f64 / (self.width * self.height).max(1) as f64
    }
}

impl FlowFunc for MeasurePage {
    fn proc(&mut self, ctx: &mut Context<'_>, inputs: &[Msg<'_>]) -> Result {
        crate::transform(ctx, inputs, |ctx, input| self.page(ctx, input))
    }
}

/// Measures a bitmap of 0 (ink) and 255 (paper).
#[must_use]
pub fn measure(bitmap: &Gray<'_>, skew_microdegrees: i64) -> Measure {
    MeasurePage::default().run(bitmap, skew_microdegrees)
}

impl MeasurePage {
    fn page<'c>(&mut self, ctx: &mut Context<'c>, input: &Msg<'_>) -> Result<OutMsg<'c>> {
        let (bitmap, trailer) = with_trailer(input)?;
        let record = self.run(&bitmap, trailer_skew(trailer)).to_record();
        let mut out = ctx.alloc::<f64>(&[record.len().try_into().unwrap_or(-1)])?;
        out.as_mut_slice::<f64>()?.copy_from_slice(&record);
        Ok(out)
    }

    fn run(&mut self, bitmap: &Gray<'_>, skew_microdegrees: i64) -> Measure {
        self.columns.clear();
        self.columns.resize(bitmap.width, 0);
        self.rows.clear();
        for row in bitmap.rows() {
            for (column, &pixel) in self.columns.iter_mut().zip(row) {
                *column += u32::from(pixel == 0);
            }
            self.rows.push(row.iter().map(|&pixel| u32::from(pixel == 0)).sum());
        }
        let (left, right) = extent(&self.columns);
        let (top, bottom) = extent(&self.rows);
        Measure {
            width: bitmap.width as u64,
            height: bitmap.height as u64,
            ink: self.rows.iter().map(|&ink| u64::from(ink)).sum(),
            bounds: [left, top, right, bottom],
            lines: count_lines(&self.rows, right - left, &mut self.heights),
            skew_microdegrees,
            checksum: fnv1a(bitmap.pixels),
        }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturating is fine")]
fn count(value: f64) -> u64 {
    value as u64
}

#[expect(clippy::cast_possible_truncation, reason = "saturating is fine")]
fn micro(degrees: f64) -> i64 {
    (degrees * 1e6).round() as i64
}

/// First and one past the last non-zero value; (0, 0) without one.
fn extent(sums: &[u32]) -> (u64, u64) {
    let Some(first) = sums.iter().position(|&sum| sum != 0) else { return (0, 0) };
    let last = sums.iter().rposition(|&sum| sum != 0).unwrap_or(first);
    (first as u64, last as u64 + 1)
}

/// Runs of rows with ink on more than a hundredth of the ink's width, at least half as high as the
/// middle one of them: accents and specks are no lines.
fn count_lines(rows: &[u32], ink_width: u64, heights: &mut Vec<usize>) -> u64 {
    let threshold = ink_width / 100 + 1;
    heights.clear();
    let runs = rows.split(|&ink| u64::from(ink) <= threshold).map(<[u32]>::len);
    heights.extend(runs.filter(|&height| height >= 3));
    heights.sort_unstable();
    let Some(&middle) = heights.get(heights.len() / 2) else { return 0 };
    heights.iter().filter(|&&height| 2 * height >= middle).count() as u64
}

/// FNV-1a, 64 bits.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
