//! Events: marks in a stream that others wait for.
//!
//! Recording counts up: the n-th record marks n when it runs, and a wait names the mark that was
//! the last one when the wait was submitted. Later records do not change what it waits for. A model
//! that runs again takes the marks of its own records back first ([`Marks::rewind`]).

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use executor_core::error::Code;

use crate::capture::Captured;
use crate::codes::{
    EVENT_SYNC_TIMEOUT, Error, PARAM_INVALID, RESOURCE_ALLOC_FAIL, Result, STREAM_ABORT, refuse,
};
use crate::context::Context;
use crate::device::Inner;
use crate::lock::lock;
use crate::sched::Sched;
use crate::sqe::{Sqe, kind, task};
use crate::stream::Core;
use crate::table::Name;

/// Events a device has: their number has 16 bits.
pub(crate) const EVENTS_MAX: u32 = 1 << 16;

/// What an event is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventFlags(pub u32);

impl EventFlags {
    /// It can be reset by a task.
    pub const SYNC: u32 = 0x1;
    /// It keeps the time of its last mark.
    pub const TIME_LINE: u32 = 0x8;
    const KNOWN: u32 = Self::SYNC | Self::TIME_LINE;

    pub(crate) fn has(self, flag: u32) -> bool {
        self.0 & flag != 0
    }
}

/// Word of an entry that says which of the events that had this number it names.
const TURN: usize = 2;

/// What tasks know of an event.
#[derive(Debug)]
pub(crate) struct Marks {
    pub(crate) id: u32,
    turn: u32,
    /// Number of its context.
    context: u32,
    pub(crate) flags: EventFlags,
    state: Mutex<State>,
    marked: Condvar,
}

#[derive(Debug, Default)]
struct State {
    submitted: u64,
    done: u64,
    at: Option<Instant>,
    /// The last record that was dropped with its stream.
    dropped: u64,
    /// What whoever waits gets, once it was destroyed or its context has ended.
    gone: Option<Code>,
    waiters: VecDeque<Arc<Core>>,
    tasks: usize,
    /// How it is recorded, once it is: by models for what is outside, or otherwise.
    external: Option<bool>,
    /// The capture that it was recorded in last.
    captured: Option<Captured>,
}

impl Marks {
    /// An entry that marks it, or waits for a mark.
    pub(crate) fn entry(&self, kind: u8, mark: u64, timeout: u32) -> Sqe {
        let number = u16::try_from(self.id).unwrap_or(u16::MAX);
        let mut sqe = Sqe::event(kind, number, mark, timeout);
        sqe.payload[TURN] = u64::from(self.turn);
        sqe
    }

    /// What placeholders name it by, in their first word.
    pub(crate) fn word(&self) -> u64 {
        Name { id: self.id, turn: self.turn }.word()
    }

    pub(crate) fn captured(&self) -> Option<Captured> {
        lock(&self.state).captured.clone()
    }

    pub(crate) fn set_captured(&self, captured: Option<Captured>) {
        lock(&self.state).captured = captured;
    }

    /// The number of the next record.
    pub(crate) fn next_mark(&self) -> u64 {
        let mut state = lock(&self.state);
        state.submitted += 1;
        state.submitted
    }

    /// How it is recorded does not change.
    pub(crate) fn record_as(&self, external: bool) -> Result<()> {
        let mut state = lock(&self.state);
        if *state.external.get_or_insert(external) == external {
            return Ok(());
        }
        let how = if external { "otherwise" } else { "by models for what is outside them" };
        refuse(PARAM_INVALID, format!("event {} is recorded {how}", self.id))
    }

    /// A record that was counted is not submitted after all.
    pub(crate) fn take_back(&self, mark: u64) {
        let mut state = lock(&self.state);
        if state.submitted == mark {
            state.submitted -= 1;
        }
    }

    /// The last record's number, 0 without one; makes room for a wait of each of the streams.
    pub(crate) fn expect_wait(&self, streams: usize) -> u64 {
        let mut state = lock(&self.state);
        state.tasks = (state.tasks + 1).min(streams);
        let more = state.tasks.saturating_sub(state.waiters.len());
        state.waiters.reserve(more);
        state.submitted
    }

    pub(crate) fn mark(&self, sched: &Sched, mark: u64) {
        let mut state = lock(&self.state);
        state.done = state.done.max(mark);
        if self.flags.has(EventFlags::TIME_LINE) {
            state.at = Some(Instant::now());
        }
        while let Some(stream) = state.waiters.pop_front() {
            sched.wake(&stream);
        }
        drop(state);
        self.marked.notify_all();
    }

    /// A record does not run any more. Streams that wait for it go on waiting, the host does not.
    fn forgo(&self, mark: u64) {
        let mut state = lock(&self.state);
        state.dropped = state.dropped.max(mark);
        drop(state);
        self.marked.notify_all();
    }

    /// It is out of the device's table: whoever waits looks for it once more, and fails.
    pub(crate) fn close(&self, sched: &Sched, code: Code) {
        let mut state = lock(&self.state);
        state.gone.get_or_insert(code);
        while let Some(stream) = state.waiters.pop_front() {
            sched.wake(&stream);
        }
        drop(state);
        self.marked.notify_all();
    }

    pub(crate) fn is_of(&self, context: &Context) -> bool {
        self.context == context.id()
    }

    pub(crate) fn passed_or_wait(&self, stream: &Arc<Core>, mark: u64) -> bool {
        let mut state = lock(&self.state);
        state.waiters.retain(|other| !Arc::ptr_eq(other, stream));
        let passed = state.done >= mark;
        if !passed {
            state.waiters.push_back(stream.clone());
        }
        passed
    }

    pub(crate) fn give_up(&self, stream: &Arc<Core>) {
        lock(&self.state).waiters.retain(|other| !Arc::ptr_eq(other, stream));
    }

    /// As if `mark` and later ones had not run.
    pub(crate) fn rewind(&self, mark: u64) {
        let mut state = lock(&self.state);
        state.done = state.done.min(mark.saturating_sub(1));
    }
}

/// An event of a device. It is there until [`Event::destroy`].
#[derive(Clone, Debug)]
pub struct Event {
    pub(crate) marks: Arc<Marks>,
    pub(crate) context: Context,
}

impl Event {
    pub(crate) fn create(context: &Context, flags: EventFlags) -> Result<Self> {
        if flags.0 & !EventFlags::KNOWN != 0 {
            return refuse(PARAM_INVALID, format!("event flags {:#x} are not known", flags.0));
        }
        let own = context.id();
        let make = |name: Name| Marks {
            id: name.id,
            turn: name.turn,
            context: own,
            flags,
            state: Mutex::default(),
            marked: Condvar::new(),
        };
        let marks = context.device().events.insert(make).ok_or_else(|| {
            Error::new(RESOURCE_ALLOC_FAIL, format!("all {EVENTS_MAX} events are used"))
        })?;
        Ok(Self { marks, context: context.clone() })
    }

    /// Its number on the device.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.marks.id
    }

    /// Whether an entry of a queue names this event, and no other that had its number.
    #[must_use]
    pub fn is_named_by(&self, sqe: &Sqe) -> bool {
        word_of(sqe) == Some(self.marks.word())
    }

    /// Whether the last record has run; true without one.
    ///
    /// # Errors
    /// 107028 when it was recorded in a capture, which is invalid then.
    pub fn query(&self) -> Result<bool> {
        self.refuse_if_captured()?;
        let state = lock(&self.marks.state);
        Ok(state.done >= state.submitted)
    }

    /// Waits on the host until the last record has run; `None` is forever.
    ///
    /// # Errors
    /// 507047 after the timeout; 107028 when it was recorded in a capture, which is invalid then;
    /// 107023 when the record was dropped with its stream or its context has ended, 107000 when the
    /// event is destroyed meanwhile.
    pub fn synchronize(&self, timeout: Option<Duration>) -> Result<()> {
        self.refuse_if_captured()?;
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        let mut state = lock(&self.marks.state);
        let wanted = state.submitted;
        while state.done < wanted {
            if let Some(code) = state.gone {
                return refuse(code, format!("event {} has ended", self.marks.id));
            }
            if state.dropped >= wanted {
                let what = format!("the stream that event {} was recorded in", self.marks.id);
                return refuse(STREAM_ABORT, format!("{what} was aborted before"));
            }
            state = match deadline {
                None => self.marks.marked.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(at) => {
                    let left = at.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        let what = format!("event {} has no mark {wanted} yet", self.marks.id);
                        return refuse(EVENT_SYNC_TIMEOUT, what);
                    }
                    let woken = self.marks.marked.wait_timeout(state, left);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        Ok(())
    }

    /// Time from this event's last mark to that of `later`.
    ///
    /// # Errors
    /// One keeps no time or has no mark.
    pub fn elapsed(&self, later: &Self) -> Result<Duration> {
        let at = |event: &Self| lock(&event.marks.state).at;
        match (at(self), at(later)) {
            (Some(begin), Some(end)) => Ok(end.saturating_duration_since(begin)),
            _ => refuse(PARAM_INVALID, "both events need the flag TIME_LINE and a mark"),
        }
    }

    /// Ends it; a task that still names it fails.
    pub fn destroy(self) {
        let device = self.context.device();
        if let Some(marks) = device.events.remove_named(self.marks.word()) {
            marks.close(&device.sched, PARAM_INVALID);
        }
    }
}

/// What an entry names its event by, if it has one.
fn word_of(sqe: &Sqe) -> Option<u64> {
    let external = [task::CAPTURE_RECORD_EXTERNAL, task::CAPTURE_WAIT_EXTERNAL];
    match sqe.kind() {
        kind::EVENT_RECORD | kind::EVENT_WAIT => {
            Some(sqe.payload[TURN] << 32 | u64::from(sqe.object))
        }
        kind::PLACE_HOLDER => {
            let of = sqe.task_type();
            (of == task::EVENT_RESET || external.contains(&of)).then(|| sqe.payload[0])
        }
        _ => None,
    }
}

impl Inner {
    /// A task that is not run any more: if it is an event's record, the host need not wait.
    pub(crate) fn drop_record(&self, sqe: &Sqe) {
        if sqe.kind() == kind::EVENT_RECORD
            && let Some(marks) = self.marks(sqe)
        {
            marks.forgo(sqe.payload[1]);
        }
    }

    /// The event that an entry names, unless it is gone.
    pub(crate) fn marks(&self, sqe: &Sqe) -> Option<Arc<Marks>> {
        self.events.named(word_of(sqe)?)
    }
}
