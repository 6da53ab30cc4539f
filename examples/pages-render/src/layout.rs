//! Sets text on a level page.

use crate::PageSpec;
use crate::text::{Random, word};
use ab_glyph::{Font, FontVec, GlyphId, PxScale, ScaleFont, point};

/// A level page: ink from 0 (paper) to 1, row by row.
#[derive(Debug)]
pub(crate) struct Level {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) ink: Vec<f32>,
}

/// Fills the page with ragged lines inside margins of an eighth; the last line of a paragraph is
/// short.
pub(crate) fn set_text(font: &FontVec, spec: &PageSpec) -> (Level, usize) {
    let (width, height) = (spec.width as usize, spec.height as usize);
    let mut level = Level { width, height, ink: vec![0.0; width * height] };
    let mut random = Random::new(spec.seed);
    let scaled = font.as_scaled(PxScale::from(spec.text_px));
    let pitch = (scaled.height() * 1.3).ceil();
    let (margin_x, margin_y) = (to_f32(width) / 8.0, to_f32(height) / 8.0);
    let mut baseline = margin_y + scaled.ascent();
    let mut lines = 0;
    while baseline - scaled.descent() < to_f32(height) - margin_y {
        let short = lines % 6 == 5;
        let limit = to_f32(width) - margin_x * if short { 4.0 } else { 1.0 };
        set_line(font, spec, &mut random, (margin_x, baseline, limit), &mut level);
        lines += 1;
        baseline += if short { pitch * 1.6 } else { pitch };
    }
    (level, lines)
}

/// Words from `at.0` on the baseline `at.1` up to `at.2`.
fn set_line(
    font: &FontVec,
    spec: &PageSpec,
    random: &mut Random,
    at: (f32, f32, f32),
    level: &mut Level,
) {
    let scaled = font.as_scaled(PxScale::from(spec.text_px));
    let (mut x, baseline, limit) = at;
    loop {
        let word = word(random);
        let advance: f32 = word.chars().map(|c| scaled.h_advance(scaled.glyph_id(c))).sum();
        if x + advance > limit {
            return;
        }
        for character in word.chars() {
            let id = scaled.glyph_id(character);
            draw(font, spec.text_px, id, (x, baseline), level);
            x += scaled.h_advance(id);
        }
        x += scaled.h_advance(scaled.glyph_id(' '));
    }
}

fn draw(font: &FontVec, text_px: f32, id: GlyphId, at: (f32, f32), level: &mut Level) {
    let glyph = id.with_scale_and_position(PxScale::from(text_px), point(at.0, at.1));
    let Some(outline) = font.outline_glyph(glyph) else { return };
    let bounds = outline.px_bounds();
    outline.draw(|x, y, coverage| {
        let (Some(x), Some(y)) = (pixel(bounds.min.x, x), pixel(bounds.min.y, y)) else { return };
        if x < level.width && y < level.height {
            let ink = &mut level.ink[y * level.width + x];
            *ink = ink.max(coverage.min(1.0));
        }
    });
}

/// Whole-pixel origin plus an offset; `None` left of or above the page.
#[expect(clippy::cast_possible_truncation, reason = "page coordinates")]
fn pixel(origin: f32, offset: u32) -> Option<usize> {
    usize::try_from(origin as i64 + i64::from(offset)).ok()
}

#[expect(clippy::cast_precision_loss, reason = "page coordinates")]
fn to_f32(value: usize) -> f32 {
    value as f32
}
