//! Lines for the user that belong to no result: what a running session has to say by itself.
//!
//! They go to stderr, or to where the program wants them ([`to`]): `dflow run` draws a progress bar
//! there that must not be written into.

use std::sync::OnceLock;

type Sink = dyn Fn(&str) + Send + Sync;

static SINK: OnceLock<Box<Sink>> = OnceLock::new();

/// Sends every further line of this process's sessions to `sink`, without its newline. The first
/// call counts.
pub fn to(sink: impl Fn(&str) + Send + Sync + 'static) {
    let _first = SINK.set(Box::new(sink));
}

/// Says one line.
pub(crate) fn say(line: &str) {
    match SINK.get() {
        Some(sink) => sink(line),
        None => to_stderr(&format!("{line}\n")),
    }
}

/// Writes to stderr. A full disk behind it or a reader that went away costs the text and nothing
/// else: results go elsewhere.
pub(crate) fn to_stderr(text: &str) {
    use std::io::Write as _;
    let _nowhere_to_say_it = std::io::stderr().lock().write_all(text.as_bytes());
}
