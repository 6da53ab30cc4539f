//! User functions for scanned pages: `decode` → `deskew` → `binarise` → `measure`.
//!
//! | function | input | output |
//! |---|---|---|
//! | `decode` | bytes of a PNG or JPEG file: raw, or a uint8 tensor | uint8 `[h, w]`, grey |
//! | `deskew` | uint8 `[h, w]` | uint8 `[h + 1, w]`: level page, and a trailer row ([`page`]) |
//! | `binarise` | uint8 `[h + 1, w]` | uint8 `[h + 1, w]`: ink 0, paper 255, same trailer |
//! | `measure` | uint8 `[h + 1, w]` | float64 `[12]`, see [`Measure`] |
//!
//! A page that can't be processed fails alone: its output is an empty message with a code of
//! [`codes`], which the following functions pass on. Everything is integer arithmetic, or float
//! operations that IEEE 754 defines exactly, so that every run gives the same bytes.
//!
//! Buffers are kept between pages; only the image decoder allocates.
//!
//! Attributes: `decode.max_pixels` (int, 16777216), `deskew.max_degrees` (float, 10),
//! `binarise.window` (int, 31, odd) and `binarise.k` (float, 0.2).

mod binarise;
pub mod codes;
mod decode;
mod deskew;
mod measure;
pub mod page;
mod rotate;
pub mod skew;

pub use binarise::{Binarise, binarise};
pub use decode::{Decode, decode};
pub use deskew::{Deskew, stretch_contrast};
pub use measure::{Measure, MeasurePage, RECORD_LEN, measure};
pub use rotate::rotate_level;

use flow_func::{Context, Msg, OutMsg, Result, export_flow_funcs, flow_warn};

export_flow_funcs! {
    "decode" => Decode,
    "deskew" => Deskew,
    "binarise" => Binarise,
    "measure" => MeasurePage,
}

/// One message in, one message out: passes codes and empty messages on, and turns a failure of
/// `work` into a code on this message only.
fn transform<'c>(
    ctx: &mut Context<'c>,
    inputs: &[Msg<'_>],
    work: impl FnOnce(&mut Context<'c>, &Msg<'_>) -> Result<OutMsg<'c>>,
) -> Result {
    let [input] = inputs else { return ctx.set_code_on_all(codes::BAD_INPUT) };
    if input.ret_code() != 0 || input.is_empty() {
        return ctx.set_output(0, input);
    }
    match work(ctx, input) {
        Ok(out) => ctx.set_output(0, &out),
        Err(code) => {
            flow_warn!(ctx, "page fails with {code}: {}", codes::text(code));
            ctx.set_code(0, code)
        }
    }
}
