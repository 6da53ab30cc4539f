//! Exit codes of the command.

/// Everything came out as data; or the command did what it should.
pub(super) const DONE: u8 = 0;
/// Graph, plan or deployment was refused or failed, and nothing was fed; or results cannot be
/// written: the summary says what was fed.
pub(super) const FAILED: u8 = 1;
/// Wrong usage.
pub(super) const USAGE: u8 = 2;
/// Some inputs could not be read, or some ids ended with a code.
pub(super) const CODES: u8 = 3;
/// The flow ended by itself: a node failed for good, or the supervisor died.
pub(super) const ENDED: u8 = 4;
/// Interrupted: 128 and SIGINT's number, as shells say it.
pub(super) const INTERRUPTED: u8 = 130;
