//! Capture models: what is submitted to streams while they are captured is written down instead of
//! run, and becomes a model.
//!
//! ```text
//! user stream      s ──begin──── launch ──── record e ─────────────── wait f ──── end
//! capture stream   └─ target:    launch      record e                 wait f      end mark
//! second stream                  t ──── wait e ──── launch ──── record f
//! its stream                     └─ target: wait e   launch     record f
//! ```
//! Each stream that takes part has a hidden stream of the model as its *target*. A stream joins by
//! waiting for an event that was recorded in the capture, and has to be joined back: whether it was
//! is told by a count of tasks for each member, which events carry along.

mod begin;
mod cond;
mod end;
mod events;
mod external;
mod group;

use std::cell::Cell;
use std::sync::{Arc, Mutex, Weak};
use std::thread::{self, ThreadId};

use crate::codes::{
    CAPTURE_MODE_NOT_SUPPORT, Error, INTERNAL_ERROR, Result, STREAM_CAPTURE_INVALIDATED,
    STREAM_CAPTURED, TASK_TYPE_NOT_SUPPORT, refuse,
};
use crate::context::Context;
use crate::device::Inner;
use crate::lock::lock;
use crate::model::Graph;
use crate::sqe::{Sqe, kind, task};
use crate::stream::{Core, Placed, Stream};

pub(crate) use cond::{CONDS_MAX, Cond};
pub use cond::{CondHandle, CondType};
pub(crate) use end::forget_captures;
pub(crate) use events::Captured;
pub(crate) use external::{EXTERNALS_MAX, External, WORDS};
pub use group::TaskGroup;
pub(crate) use group::Update;

/// Whom a capture keeps from calls that would not be captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureMode {
    /// All threads.
    Global = 0,
    /// The thread that began it.
    ThreadLocal = 1,
    /// Nobody; any thread may end it.
    Relaxed = 2,
}

/// What a stream is to captures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureStatus {
    /// It is not captured.
    None = 0,
    /// It is captured.
    Active = 1,
    /// It is captured, and nothing will come of it.
    Invalidated = 2,
}

/// How far a capture model is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    None,
    Active,
    Invalidated,
    Updating,
    Fault,
    Ready,
}

/// What a capture model is besides a model.
#[derive(Debug)]
pub(crate) struct Capture {
    pub(crate) stage: Stage,
    mode: CaptureMode,
    thread: ThreadId,
    /// The streams that take part; the first one began it.
    members: Vec<Member>,
    /// The condition that this is a branch of.
    parent: Option<Weak<Cond>>,
    /// Conditions in it.
    conds: Vec<Arc<Cond>>,
}

#[derive(Debug)]
struct Member {
    user: Arc<Core>,
    target: Arc<Core>,
    /// Tasks of each member that come before this one's next task.
    known: Vec<u64>,
    /// Tasks of a group that is open.
    group: Option<Vec<Placed>>,
}

/// A capture that is under way in a context.
#[derive(Debug)]
pub(crate) struct Active {
    serial: u64,
    mode: CaptureMode,
    thread: ThreadId,
    /// Its end was tried from another thread; it no longer keeps anybody from anything.
    unwound: bool,
}

thread_local! {
    static MODE: Cell<CaptureMode> = const { Cell::new(CaptureMode::Global) };
}

/// Gives this thread another mode; the one it had.
pub fn exchange_capture_mode(mode: CaptureMode) -> CaptureMode {
    MODE.replace(mode)
}

impl Capture {
    pub(crate) fn new(parent: Option<Weak<Cond>>) -> Mutex<Self> {
        Mutex::new(Self {
            stage: Stage::None,
            mode: CaptureMode::Global,
            thread: thread::current().id(),
            members: Vec::new(),
            parent,
            conds: Vec::new(),
        })
    }

    fn member(&mut self, user: &Arc<Core>) -> Result<usize> {
        let found = self.members.iter().position(|member| Arc::ptr_eq(&member.user, user));
        found.ok_or_else(|| Error::new(INTERNAL_ERROR, "the stream has left the capture"))
    }

    fn check_active(&self) -> Result<()> {
        match self.stage {
            Stage::Active => Ok(()),
            _ => refuse(STREAM_CAPTURE_INVALIDATED, "the capture is not valid any more"),
        }
    }

    pub(crate) fn is_sub(&self) -> bool {
        self.parent.is_some()
    }

    pub(crate) fn is_under_way(&self) -> bool {
        matches!(self.stage, Stage::Active | Stage::Invalidated)
    }

    pub(crate) fn take_conds(&mut self) -> Vec<Arc<Cond>> {
        // The streams that took part are not needed either.
        self.members = Vec::new();
        std::mem::take(&mut self.conds)
    }

    /// Cells that are set before each run, with their values.
    pub(crate) fn resets(&self) -> Box<[(u64, u64)]> {
        self.conds.iter().filter_map(|cond| cond.reset()).collect()
    }
}

impl Graph {
    /// Something was done that a capture can't hold: nothing will come of it.
    pub(crate) fn invalidate(&self) {
        if let Some(capture) = &self.capture {
            let mut capture = lock(capture);
            if capture.stage == Stage::Active {
                capture.stage = Stage::Invalidated;
            }
        }
    }

    /// Writes down a task that a captured stream was given.
    pub(crate) fn capture_task(
        &self,
        user: &Arc<Core>,
        device: &Inner,
        sqe: Sqe,
    ) -> Result<Placed> {
        let Some(capture) = &self.capture else {
            return refuse(INTERNAL_ERROR, "the model is no capture model");
        };
        let mut capture = lock(capture);
        capture.check_active()?;
        let index = capture.member(user)?;
        let member = &mut capture.members[index];
        if member.group.is_some() && !can_be_updated(&sqe) {
            let what = "a task group holds kernels, copies, fills and written values only";
            return refuse(TASK_TYPE_NOT_SUPPORT, what);
        }
        let placed = member.target.submit(device, sqe)?;
        if sqe.kind() != kind::EVENT_WAIT {
            member.known[index] += 1;
        }
        if let Some(group) = &mut member.group {
            group.push(placed.clone());
        }
        Ok(placed)
    }
}

/// Whether a task in a group can get other parameters later.
fn can_be_updated(sqe: &Sqe) -> bool {
    match sqe.kind() {
        kind::KERNEL | kind::AICPU | kind::SDMA | kind::WRITE_VALUE => true,
        kind::PLACE_HOLDER => sqe.task_type() == task::MEMSET,
        _ => false,
    }
}

impl Stream {
    pub(crate) fn capture(&self) -> Option<Arc<Graph>> {
        lock(&self.core.submit).capture.clone()
    }

    /// For calls that no capture can hold: they end it.
    pub(crate) fn refuse_in_capture(&self) -> Result<()> {
        let Some(graph) = self.capture() else { return Ok(()) };
        graph.invalidate();
        refuse(STREAM_CAPTURED, format!("stream {} is captured", self.id()))
    }
}

impl Context {
    /// Whether a call that would not be captured may be made now, by this thread.
    pub(crate) fn may_bypass_captures(&self) -> bool {
        let captures = self.captures();
        let (mode, own) = (MODE.get(), thread::current().id());
        let began =
            |wanted| captures.iter().any(|c| !c.unwound && c.thread == own && c.mode == wanted);
        match mode {
            CaptureMode::Relaxed => true,
            CaptureMode::Global => {
                let global = captures.iter().any(|c| !c.unwound && c.mode == CaptureMode::Global);
                !global && !began(CaptureMode::ThreadLocal)
            }
            CaptureMode::ThreadLocal => {
                !began(CaptureMode::Global) && !began(CaptureMode::ThreadLocal)
            }
        }
    }

    /// Whether this thread may do something at once, past captures: copies and fills ask.
    ///
    /// # Errors
    /// 107030 when a capture forbids it to this thread.
    pub fn check_at_once(&self, what: &str) -> Result<()> {
        if self.may_bypass_captures() {
            return Ok(());
        }
        refuse(CAPTURE_MODE_NOT_SUPPORT, format!("{what} while a capture forbids it"))
    }
}
