//! User functions around the models of the Python package `rapidocr-onnxruntime` 1.4.4: what stands
//! between its detector, classifier and recogniser.
//!
//! ```text
//! file ─► page ─► [det] ─► lines ─► [cls] ─► turn ─► [rec] ─► text ─► gather ─► text of the page
//!            └──── page ────┘  └──── line ─────┘
//! ```
//! | function | inputs | outputs |
//! |---|---|---|
//! | `page` | bytes of a PNG or JPEG file | float32 `[1, 3, H, W]`; the same as uint8 `[H, W, 3]` |
//! | `lines` | float32 `[1, 1, H, W]`; the page | float32 `[1, 3, 48, 192]`, uint8 `[48, w, 3]` |
//! | `turn` | float32 `[1, 2]`; the line | float32 `[1, 3, 48, 1024]` |
//! | `text` | float32 `[1, T, classes]` | confidence and characters ([`text`]) |
//! | `gather` | of every line its text | text of the page ([`gather`]) |
//!
//! One page becomes many messages of one trans_id; number, count and place of a line travel in the
//! user data ([`mark`]), through the models too. A page without a line is one message without data.
//!
//! Results are those of the package at the same sizes: scaling and cutting give the same bytes
//! ([`resize`], [`warp`]), boxes the same corners ([`boxes`]) but for rare ties. Where it differs:
//! a line wider than the recogniser's input is squeezed, where the package takes a wider input.
//!
//! Attributes: `page.max_pixels` (int, 16777216), `page.width` and `page.height` (int, 736);
//! `lines.thresh` (float, 0.3), `lines.box_thresh` (0.5), `lines.unclip_ratio` (1.6),
//! `lines.max_candidates` (int, 1000), `lines.width` and `turn.width` (int, 1024),
//! `turn.cls_thresh` (float, 0.9), `text.model` (the recogniser's ONNX file, for its characters),
//! `gather.text_score` (float, 0.5), `gather.max_open` (int, 64).

mod borders;
pub mod boxes;
mod calipers;
pub mod characters;
pub mod codes;
pub mod gather;
pub mod lines;
pub mod mark;
pub mod page;
mod rect;
pub mod resize;
pub mod text;
mod turn;
pub mod warp;

pub use turn::Turn;

use flow_func::Msg;

flow_func::export_flow_funcs! {
    "page" => page::Page,
    "lines" => lines::Lines,
    "turn" => Turn,
    "text" => text::Text,
    "gather" => gather::Gather,
}

/// The code of a message that fails a page: its own, or that it has no data.
fn code_of(input: &Msg<'_>) -> i32 {
    if input.ret_code() == 0 { codes::BAD_INPUT } else { input.ret_code() }
}

/// A dimension; sides of pictures are far below the limit.
fn to_i64(side: usize) -> i64 {
    i64::try_from(side).unwrap_or(i64::MAX)
}

/// Writes row `y` of three planes of `width` a row and [`lines::HEIGHT`] rows: −1 is black, 1
/// white.
fn write_row(planes: &mut [f32], (y, width): (usize, usize), row: &[u8]) {
    for (colour, plane) in planes.chunks_exact_mut(lines::HEIGHT * width).enumerate() {
        for (to, pixel) in plane[y * width..][..width].iter_mut().zip(row.as_chunks::<3>().0) {
            *to = (f32::from(pixel[colour]) / 255.0 - 0.5) / 0.5;
        }
    }
}
