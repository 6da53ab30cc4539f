//! The progress bar on stderr; nothing where stderr is no terminal.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar over all terminal events.
pub(super) fn bar(total: u64) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr_with_hz(10));
    let style = ProgressStyle::with_template(
        "{elapsed_precise} {bar:40} {pos}/{len} {per_sec} eta {eta} {msg}",
    );
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
