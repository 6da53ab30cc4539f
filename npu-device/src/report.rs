//! Completion queue: what the device reports of tasks. Tasks that fail are always reported, others
//! when their entry asks for it; a full queue drops and says so in the next report.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use executor_core::error::Code;

use crate::lock::lock;
use crate::sqe::Sqe;

/// Reports that wait to be read.
const REPORTS_MAX: usize = 1024;

/// One completion entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Stream, as users know it.
    pub stream: u16,
    /// Task within it.
    pub task: u16,
    /// 0 or the code it failed with.
    pub error: Code,
    /// Bit 0: exception, bit 1: trap; the low six bits are errors.
    pub error_type: u8,
    /// Kind of its entry.
    pub kind: u8,
    /// Queue it was in.
    pub sq: u16,
    /// Place of the entry after it.
    pub sq_head: u16,
    /// Reports before this one were dropped.
    pub dropped: bool,
    /// Time since the device began.
    pub at: Duration,
}

/// Reports of one stream.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Report>,
    dropped: bool,
}

/// Bits of `error_type`.
pub(crate) const EXCEPTION: u8 = 1;
pub(crate) const TRAP: u8 = 2;

impl Reports {
    /// Makes room, so that reporting allocates nothing.
    pub(crate) fn reserve(&self) {
        let queue = &mut lock(&self.state).queue;
        let more = REPORTS_MAX.saturating_sub(queue.len());
        queue.reserve(more);
    }

    pub(crate) fn push(&self, sq: u32, sqe: &Sqe, next: u64, error: Code, begin: Instant) {
        let mut state = lock(&self.state);
        if state.queue.len() == REPORTS_MAX {
            state.dropped = true;
            return;
        }
        let error_type = match error {
            Code::SUCCESS => 0,
            crate::codes::AICORE_TRAP => TRAP,
            _ => EXCEPTION,
        };
        let dropped = std::mem::take(&mut state.dropped);
        state.queue.push_back(Report {
            stream: sqe.header.stream,
            task: sqe.header.task,
            error,
            error_type,
            kind: sqe.kind(),
            sq: u16::try_from(sq).unwrap_or(u16::MAX),
            sq_head: u16::try_from(next & 0xFFFF).unwrap_or_default(),
            dropped,
            at: begin.elapsed(),
        });
    }

    pub(crate) fn take(&self) -> Option<Report> {
        lock(&self.state).queue.pop_front()
    }
}
