//! `lines`: a map of probabilities and its page → each line of text, upright, twice: small for the
//! classifier of directions, and as high as the recogniser wants it.

use crate::boxes::{self, Limits, TextBox};
use crate::codes::{BAD_INPUT, text};
use crate::mark::{Corners, LineMark, PageMark};
use crate::resize::Resizer;
use crate::warp::Warper;
use flow_func::{Context, FlowFunc, InitContext, Msg, OutMsg, Result, flow_warn};

/// Height of a line, pixels.
pub const HEIGHT: usize = 48;
/// Width of what the classifier gets.
pub const SMALL: usize = 192;
/// A line so many times as high as wide stands on its end.
const UPRIGHT: f64 = 1.5;

/// Settings and buffers; also the function `lines`.
#[derive(Debug)]
pub struct Lines {
    limits: Limits,
    /// Most pixels of a line's width.
    width: usize,
    cutter: Cutter,
}

impl Default for Lines {
    fn default() -> Self {
        Lines { limits: Limits::default(), width: 1024, cutter: Cutter::default() }
    }
}

/// Cuts lines out of a page and scales them.
#[derive(Debug, Default)]
pub struct Cutter {
    warper: Warper,
    resizer: Resizer,
    /// The line upright, as large as on the page.
    line: Vec<u8>,
    turned: Vec<u8>,
    sides: (usize, usize),
}

impl FlowFunc for Lines {
    fn init(&mut self, ctx: &InitContext<'_>) -> Result {
        let limits = &mut self.limits;
        limits.thresh = ctx.attr_or("thresh", limits.thresh)?;
        limits.box_thresh = ctx.attr_or("box_thresh", limits.box_thresh)?;
        limits.unclip_ratio = ctx.attr_or("unclip_ratio", limits.unclip_ratio)?;
        let most = ctx.attr_or("max_candidates", crate::to_i64(limits.max_candidates))?;
        limits.max_candidates = usize::try_from(most).map_err(|_| BAD_INPUT)?;
        let width = ctx.attr_or("width", crate::to_i64(self.width))?;
        self.width = usize::try_from(width).ok().filter(|width| *width > 0).ok_or(BAD_INPUT)?;
        Ok(())
    }

    fn proc(&mut self, ctx: &mut Context<'_>, inputs: &[Msg<'_>]) -> Result {
        let [map, page] = inputs else { return ctx.set_code_on_all(BAD_INPUT) };
        if let Some(failed) = inputs.iter().find(|one| one.ret_code() != 0 || one.is_empty()) {
            return ctx.set_code_on_all(crate::code_of(failed));
        }
        match Sheet::of(map, page) {
            Ok(sheet) => self.send(ctx, &sheet),
            Err(code) => {
                flow_warn!(ctx, "page fails with {code}: {}", text(code));
                ctx.set_code_on_all(code)
            }
        }
    }
}

/// A page and what the detector says of it.
struct Sheet<'a> {
    map: &'a [f32],
    pixels: &'a [u8],
    width: usize,
    mark: PageMark,
}

impl<'a> Sheet<'a> {
    fn of(map: &Msg<'a>, page: &Msg<'a>) -> Result<Self> {
        let ([1, 1, rows, columns], &[height, width, 3]) = (map.shape(), page.shape()) else {
            return Err(BAD_INPUT);
        };
        if (*rows, *columns) != (height, width) || height < 1 || width < 1 {
            return Err(BAD_INPUT);
        }
        let width = usize::try_from(width).map_err(|_| BAD_INPUT)?;
        let (map, pixels) = (map.data::<f32>(), page.data::<u8>());
        let (map, pixels) = (map.map_err(|_| BAD_INPUT)?, pixels.map_err(|_| BAD_INPUT)?);
        Ok(Sheet { map, pixels, width, mark: PageMark::of(page)? })
    }
}

impl Lines {
    /// Sends every line of a page, or one message without data where there is none.
    fn send(&mut self, ctx: &mut Context<'_>, sheet: &Sheet<'_>) -> Result {
        let boxes = boxes::find(sheet.map, sheet.width, &self.limits);
        let count = u32::try_from(boxes.len()).map_err(|_| BAD_INPUT)?;
        if count == 0 {
            let mark = LineMark { index: 0, count, score: 0.0, corners: Corners::default() };
            return (0..ctx.output_count()).try_for_each(|output| {
                let mut none = ctx.alloc_empty()?;
                mark.put(&mut none)?;
                ctx.set_output(output, &none)
            });
        }
        for (index, TextBox { corners, score }) in (0..count).zip(boxes) {
            let at = sheet.mark.to_file(corners);
            let mark = LineMark { index, count, score, corners: at };
            self.cutter.cut(sheet.pixels, sheet.width, &corners);
            let send = |output: u32, mut msg: OutMsg<'_>, ctx: &mut Context<'_>| {
                mark.put(&mut msg)?;
                // Lines of one page go to different instances of the recogniser.
                msg.set_route_label(index);
                ctx.set_output(output, &msg)
            };
            let small = self.small(ctx)?;
            send(0, small, ctx)?;
            let line = self.line(ctx)?;
            send(1, line, ctx)?;
        }
        Ok(())
    }

    fn small<'c>(&mut self, ctx: &mut Context<'c>) -> Result<OutMsg<'c>> {
        let shape = [3, HEIGHT, SMALL].map(crate::to_i64);
        let mut out = ctx.alloc::<f32>(&[1, shape[0], shape[1], shape[2]])?;
        let to = out.as_mut_slice::<f32>()?;
        to.fill(0.0);
        let width = self.cutter.width(SMALL);
        self.cutter.scale(width, |y, row| crate::write_row(to, (y, SMALL), row));
        Ok(out)
    }

    fn line<'c>(&mut self, ctx: &mut Context<'c>) -> Result<OutMsg<'c>> {
        let width = self.cutter.width(self.width);
        let mut out = ctx.alloc::<u8>(&[crate::to_i64(HEIGHT), crate::to_i64(width), 3])?;
        let to = out.as_mut_slice::<u8>()?;
        self.cutter.scale(width, |y, row| to[3 * width * y..][..3 * width].copy_from_slice(row));
        Ok(out)
    }
}

impl Cutter {
    /// Cuts a line out of a page of `width` a row.
    ///
    /// # Panics
    /// When the page has no row.
    pub fn cut(&mut self, pixels: &[u8], width: usize, corners: &Corners) {
        let [a, b, c, d] = *corners;
        let sides = [distance(a, b).max(distance(c, d)), distance(a, d).max(distance(b, c))];
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "distances")]
        let [across, down] = sides.map(|side| (side as usize).max(1));
        self.line.resize(3 * across * down, 0);
        self.warper.warp(pixels, width, corners, (across, down), &mut self.line);
        self.sides = (across, down);
        #[expect(clippy::cast_precision_loss, reason = "sides of pictures")]
        if down as f64 / across as f64 >= UPRIGHT {
            self.lay_down();
        }
    }

    /// Sides and pixels of the line that was cut.
    #[must_use]
    pub fn line(&self) -> ((usize, usize), &[u8]) {
        (self.sides, &self.line)
    }

    /// A quarter turn, counter-clockwise.
    fn lay_down(&mut self) {
        let (width, height) = self.sides;
        self.turned.clear();
        for x in (0..width).rev() {
            for y in 0..height {
                self.turned.extend_from_slice(&self.line[3 * (y * width + x)..][..3]);
            }
        }
        std::mem::swap(&mut self.line, &mut self.turned);
        self.sides = (height, width);
    }

    /// The line's width when it is [`HEIGHT`] high, at most `most`.
    #[must_use]
    pub fn width(&self, most: usize) -> usize {
        #[expect(clippy::cast_precision_loss, reason = "sides of pictures")]
        let exact = HEIGHT as f64 * (self.sides.0 as f64 / self.sides.1 as f64);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive")]
        let whole = exact.ceil() as usize;
        whole.clamp(1, most)
    }

    /// The line scaled to `width` and [`HEIGHT`], row by row.
    pub fn scale(&mut self, width: usize, row: impl FnMut(usize, &[u8])) {
        self.resizer.resize::<3>(&self.line, self.sides, (width, HEIGHT), row);
    }
}

fn distance(one: [f32; 2], other: [f32; 2]) -> f32 {
    let (x, y) = (one[0] - other[0], one[1] - other[1]);
    (x * x + y * y).sqrt()
}
