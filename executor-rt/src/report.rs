//! Log lines of the executor itself: listed as exempt from the allocation count, one call each.

use core::fmt::Arguments;

use crate::interpose::exempt;
use crate::log::{Level, Logger, Stamp, Stream};

/// Something failed.
pub fn error(logger: &Logger, trans_id: Option<u64>, text: Arguments<'_>) {
    line(logger, Level::Error, trans_id, text);
}

/// Odd, and handled.
pub fn warn(logger: &Logger, trans_id: Option<u64>, text: Arguments<'_>) {
    line(logger, Level::Warn, trans_id, text);
}

/// Normal course.
pub fn info(logger: &Logger, trans_id: Option<u64>, text: Arguments<'_>) {
    line(logger, Level::Info, trans_id, text);
}

fn line(logger: &Logger, level: Level, trans_id: Option<u64>, text: Arguments<'_>) {
    exempt(|| logger.log(Stream::Runtime, level, Stamp::now(), trans_id, text));
}
