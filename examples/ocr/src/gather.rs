//! `gather`: the lines of a page, in whatever order they come → its text in reading order.
//!
//! Lines are those of one trans_id; each knows how many there are. One that carries a code fails
//! the page with it. A page that misses a line stays open until its deadline; what is remembered of
//! it goes when more than `max_open` pages are. The result is text, a header and a row a line:
//!
//! ```text
//! confidence TAB corners TAB text
//! 0.98       TAB 12.0,3.5 80.0,3.5 80.0,15.0 12.0,15.0 TAB Region-based segmentation
//! ```

use crate::codes::{BAD_INPUT, INCOMPLETE};
use crate::mark::{Corners, LineMark};
use crate::text;
use flow_func::{Context, FlowFunc, InitContext, Msg, Result, flow_warn};
use std::collections::BTreeMap;
use std::fmt::Write;

/// First row of a result.
pub const HEADER: &str = "confidence\tcorners\ttext";

/// A line of text.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// How sure the recogniser is.
    pub confidence: f32,
    /// Where it is in the file's pixels.
    pub corners: Corners,
    /// Its characters.
    pub text: String,
}

/// What came of a page so far.
#[derive(Debug, Default)]
struct Page {
    seen: u32,
    /// Answered: what still comes of it is dropped.
    failed: bool,
    lines: BTreeMap<u32, Line>,
}

/// Open pages by trans_id; also the function `gather`.
#[derive(Debug)]
pub struct Gather {
    text_score: f32,
    max_open: usize,
    open: BTreeMap<u64, Page>,
}

impl Default for Gather {
    fn default() -> Self {
        Gather { text_score: 0.5, max_open: 64, open: BTreeMap::new() }
    }
}

impl FlowFunc for Gather {
    fn init(&mut self, ctx: &InitContext<'_>) -> Result {
        self.text_score = ctx.attr_or("text_score", self.text_score)?;
        let most = ctx.attr_or("max_open", crate::to_i64(self.max_open))?;
        self.max_open = usize::try_from(most).map_err(|_| BAD_INPUT)?;
        Ok(())
    }

    fn proc(&mut self, ctx: &mut Context<'_>, inputs: &[Msg<'_>]) -> Result {
        let [input] = inputs else { return ctx.set_code_on_all(BAD_INPUT) };
        let id = input.trans_id();
        let Some(mark) = LineMark::of(input) else {
            // Nothing of this page became a line.
            self.open.remove(&id);
            return ctx.set_code(0, crate::code_of(input));
        };
        let page = self.open.entry(id).or_default();
        page.seen += 1;
        let mut code = input.ret_code();
        if code == 0 && mark.count > 0 {
            match text::read(input.bytes()) {
                Ok((confidence, text)) => {
                    let line = Line { confidence, corners: mark.corners, text: text.to_owned() };
                    page.lines.insert(mark.index, line);
                }
                Err(wrong) => code = wrong,
            }
        }
        let (failed, complete) = (page.failed, page.seen >= mark.count.max(1));
        page.failed |= code != 0;
        let page = if complete { self.open.remove(&id) } else { None };
        match page {
            _ if failed => Ok(()),
            _ if code != 0 => ctx.set_code(0, code),
            Some(page) => self.send(ctx, page),
            None => self.forget(ctx),
        }
    }
}

impl Gather {
    fn send(&self, ctx: &mut Context<'_>, page: Page) -> Result {
        let lines: Vec<Line> = page.lines.into_values().collect();
        let rows = write(lines.iter().filter(|line| line.confidence >= self.text_score));
        let mut out = ctx.alloc::<u8>(&[crate::to_i64(rows.len())])?;
        out.as_mut_slice::<u8>()?.copy_from_slice(rows.as_bytes());
        ctx.set_output(0, &out)
    }

    /// Gives up the oldest page when there are too many.
    fn forget(&mut self, ctx: &mut Context<'_>) -> Result {
        if self.open.len() <= self.max_open {
            return Ok(());
        }
        let Some((id, page)) = self.open.pop_first() else { return Ok(()) };
        flow_warn!(ctx, "page {id} is given up: {} lines came of it", page.seen);
        if page.failed {
            return Ok(());
        }
        let mut out = ctx.alloc_empty()?;
        out.set_trans_id(id);
        out.set_ret_code(INCOMPLETE);
        ctx.set_output(0, &out)
    }
}

fn write<'a>(lines: impl Iterator<Item = &'a Line>) -> String {
    let mut rows = format!("{HEADER}\n");
    for Line { confidence, corners, text } in lines {
        let _ = write!(rows, "{confidence:.4}\t");
        for (index, [x, y]) in corners.iter().enumerate() {
            let _ = write!(rows, "{}{x:.1},{y:.1}", if index == 0 { "" } else { " " });
        }
        let _ = writeln!(rows, "\t{text}");
    }
    rows
}

/// Lines of a result.
///
/// # Errors
/// The row that is none.
pub fn read(rows: &str) -> std::result::Result<Vec<Line>, String> {
    let mut rows = rows.lines();
    match rows.next() {
        Some(HEADER) => {
            rows.map(|row| line(row).ok_or_else(|| format!("no line: {row}"))).collect()
        }
        other => Err(format!("found {other:?}, expected a header: {HEADER}")),
    }
}

fn line(row: &str) -> Option<Line> {
    let mut fields = row.splitn(3, '\t');
    let [confidence, places, text] = [fields.next()?, fields.next()?, fields.next()?];
    let mut corners = Corners::default();
    let mut places = places.split(' ');
    for corner in &mut corners {
        let (x, y) = places.next()?.split_once(',')?;
        *corner = [x.parse().ok()?, y.parse().ok()?];
    }
    let (confidence, text) = (confidence.parse().ok()?, text.to_owned());
    places.next().is_none().then_some(Line { confidence, corners, text })
}
