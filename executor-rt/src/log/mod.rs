//! Log lines of an executor: formatted on the stack, limited, one write(2) each to stderr.
//!
//! The supervisor gives every node a memfd as stderr; `dflow logs` reads it and parses lines with
//! [`LogLine::parse`]. It is not a log file manager, and nothing here allocates after start-up.

mod limiter;
mod line;
mod stamp;

use core::fmt;
use core::sync::atomic::{AtomicU8, Ordering};
use std::io::Write;
use std::sync::{Mutex, PoisonError};

pub use limiter::{Dropped, Limiter, REFILL_MS, TokenBucket, Verdict};
pub use line::{Head, LINE_BYTES_MAX, Line, LogLine};
pub use stamp::Stamp;

/// How important a line is (`FlowFuncLogLevel`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// For developers.
    Debug = 0,
    /// Normal course.
    Info = 1,
    /// Odd, and handled.
    Warn = 2,
    /// Something failed.
    Error = 3,
}

impl Level {
    const ALL: [Self; 4] = [Self::Debug, Self::Info, Self::Warn, Self::Error];

    /// Its name in a line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Debug => "DEBUG",
            Self::Info => "INFO",
            Self::Warn => "WARN",
            Self::Error => "ERROR",
        }
    }

    /// The level of a name in a line.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.name() == name)
    }

    /// The level of a `FlowFuncLogLevel` or `ASCEND_GLOBAL_LOG_LEVEL` number, 0..=3.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }
}

/// Who writes a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// The executor itself; never limited.
    Runtime,
    /// A function's `DEBUG_LOG`.
    Debug,
    /// A function's `RUN_LOG`.
    Run,
}

impl Stream {
    const ALL: [Self; 3] = [Self::Runtime, Self::Debug, Self::Run];

    /// Its name in a line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Runtime => "rt",
            Self::Debug => "func",
            Self::Run => "run",
        }
    }

    /// The stream of a name in a line.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stream| stream.name() == name)
    }
}

/// The log of one process; shared by its threads.
#[derive(Debug)]
pub struct Logger {
    node: String,
    level: AtomicU8,
    limiter: Mutex<Limiter>,
}

impl Logger {
    /// A log whose lines carry `node` and that drops lines below `level`.
    #[must_use]
    pub fn new(node: &str, level: Level) -> Self {
        Self {
            node: node.to_owned(),
            level: AtomicU8::new(level as u8),
            limiter: Mutex::new(Limiter::new()),
        }
    }

    /// Whether lines of this level are written.
    #[must_use]
    pub fn is_enabled(&self, level: Level) -> bool {
        // Relaxed: a filter that changes a line late is fine.
        level as u8 >= self.level.load(Ordering::Relaxed)
    }

    /// Changes the lowest level that is written.
    pub fn set_level(&self, level: Level) {
        self.level.store(level as u8, Ordering::Relaxed);
    }

    /// Writes one line to stderr unless its level is off or the limiter drops it.
    pub fn log(
        &self,
        stream: Stream,
        level: Level,
        stamp: Stamp,
        trans_id: Option<u64>,
        text: fmt::Arguments<'_>,
    ) {
        self.log_to(&mut std::io::stderr(), (stream, level), stamp, trans_id, text);
    }

    /// Like [`Logger::log`], to any writer: one `write` per line, failures are ignored.
    pub fn log_to(
        &self,
        out: &mut impl Write,
        (stream, level): (Stream, Level),
        stamp: Stamp,
        trans_id: Option<u64>,
        text: fmt::Arguments<'_>,
    ) {
        if !self.is_enabled(level) {
            return;
        }
        let verdict = self.limiter.lock().unwrap_or_else(PoisonError::into_inner).take(
            stream,
            level,
            stamp.mono_ms(),
        );
        let head = Head { stamp, level, stream, node: &self.node, trans_id };
        match verdict {
            Verdict::Pass => emit(out, &head, text),
            Verdict::Drop => {}
            Verdict::DropAndWarn => {
                let head = Head { level: Level::Warn, stream: Stream::Runtime, ..head };
                let (name, kind) = (level.name(), stream.name());
                let text = format_args!(
                    "too many {name} lines ({kind}); dropping them until the next refill"
                );
                emit(out, &head, text);
            }
        }
    }

    /// What the limiter dropped so far.
    #[must_use]
    pub fn dropped(&self) -> Dropped {
        self.limiter.lock().unwrap_or_else(PoisonError::into_inner).dropped()
    }

    /// Writes the number of dropped lines, if any; the last call before the process ends.
    pub fn report_dropped(&self, out: &mut impl Write, stamp: Stamp) {
        let dropped = self.dropped();
        if dropped.is_none() {
            return;
        }
        let (level, stream) = (Level::Warn, Stream::Runtime);
        let head = Head { stamp, level, stream, node: &self.node, trans_id: None };
        let Dropped { info, warn, error, run } = dropped;
        let text = format_args!(
            "dropped by the rate limiter: {info} info, {warn} warn, {error} error, {run} run lines"
        );
        emit(out, &head, text);
    }
}

fn emit(out: &mut impl Write, head: &Head<'_>, text: fmt::Arguments<'_>) {
    let line = Line::new(head, text);
    // One write, so lines of several threads don't mix; there is nowhere to report a failure to.
    let _written = out.write(line.as_bytes());
}

#[cfg(test)]
mod tests;
