//! Streams: tasks that run one after the other.
//!
//! An ordinary stream is a ring: a task runs once, as soon as those before it are done. A stream
//! with the flag `PERSISTENT` is for models: its tasks stay, and run when the model runs. So do
//! those of one with the flag `CPU_SCHEDULE`, tasks of the device's CPU: the device has no queue
//! for them, they stand in a list of the host ([`Core::is_cpu`]).

mod at;
#[cfg(test)]
mod golden;
mod inspect;
mod queue;
mod submit;
mod tasks;

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;
use executor_core::error::Code;

use crate::codes::{
    FEATURE_NOT_SUPPORT, NO_STREAM, PARAM_INVALID, REPORT_TIMEOUT, Result, STREAM_ABORT,
    STREAM_MODEL, STREAM_SYNC_TIMEOUT, refuse,
};
use crate::context::Context;
use crate::device::Inner;
use crate::lock::lock;
use crate::model::Graph;
use crate::report::{Report, Reports};
use crate::sched::{Priority, phase};
use crate::table::Name;

pub use inspect::{TaskInfo, TaskType};
pub(crate) use queue::Queue;
pub(crate) use submit::{Placed, Submit};
pub(crate) use tasks::activation;
pub use tasks::{Compare, WaitValue};

/// Streams a device has, slaves included.
pub(crate) const STREAMS_MAX: u32 = 1024;

/// What a stream is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamFlags(pub u32);

impl StreamFlags {
    /// Its tasks stay and run when its model runs.
    pub const PERSISTENT: u32 = 0x4;
    /// Of the device's CPU: as `PERSISTENT`, for kernels of the CPU and what orders them.
    pub const CPU_SCHEDULE: u32 = 0x10;
    /// Hints that change nothing here: launch fast, synchronise fast, large.
    pub const HINTS: u32 = 0x1 | 0x2 | 0x8;

    fn has(self, flag: u32) -> bool {
        self.0 & flag != 0
    }
}

/// What a core needs of a stream, and what a submitter does.
#[derive(Debug)]
pub(crate) struct Core {
    /// Number of its queue.
    pub(crate) sq: u32,
    turn: u32,
    /// Number that users know: its own, or of the stream that it continues.
    pub(crate) shown: u32,
    pub(crate) flags: StreamFlags,
    /// Number of its context.
    pub(crate) context: u32,
    level: AtomicU8,

    /// The scheduler's, see there.
    phase: AtomicU8,
    pub(crate) wake: AtomicBool,
    pub(crate) timed: AtomicBool,
    /// A stream of a model: it was started and has not ended.
    pub(crate) active: AtomicBool,
    /// It is to stop where it is.
    pub(crate) stop: AtomicBool,
    /// Its context or its device has ended: nothing of it runs, nobody waits for it any more.
    closed: AtomicBool,
    /// It begins at `entry`.
    pub(crate) fresh: AtomicBool,
    pub(crate) entry: AtomicU64,

    pub(crate) queue: CachePadded<RwLock<Arc<Queue>>>,
    /// Tasks before this are done.
    pub(crate) head: CachePadded<AtomicU64>,
    /// Tasks before this are there.
    pub(crate) tail: CachePadded<AtomicU64>,
    pub(crate) submit: CachePadded<Mutex<Submit>>,
    pub(crate) cursor: Mutex<Cursor>,
    /// First code since the last synchronise.
    sticky: AtomicU32,
    pub(crate) reports: Reports,
    /// Its call on the host's thread: [`crate::host::called`].
    pub(crate) called: AtomicU32,
    pub(crate) call_outcome: AtomicU32,

    waiting: AtomicU32,
    progress: Mutex<()>,
    moved: Condvar,
    /// The device knows that it is a model's.
    pub(crate) bound: AtomicBool,
    /// The model that it is bound to.
    pub(crate) graph: Mutex<Weak<Graph>>,
}

/// Where a core is in a stream.
#[derive(Debug, Default)]
pub(crate) struct Cursor {
    /// The task it is at.
    pub(crate) at: u64,
    /// It was begun and waits.
    pub(crate) begun: bool,
    /// When its wait ends.
    pub(crate) deadline: Option<Instant>,
    /// The branch of a condition that it waits for.
    pub(crate) branch: Option<Arc<Graph>>,
}

impl Core {
    pub(crate) fn new(name: Name, shown: Option<u32>, flags: StreamFlags, context: u32) -> Self {
        let sq = name.id;
        Self {
            sq,
            turn: name.turn,
            shown: shown.unwrap_or(sq),
            flags,
            context,
            level: AtomicU8::new(Priority::LOWEST.level()),
            phase: AtomicU8::new(phase::IDLE),
            wake: AtomicBool::new(false),
            timed: AtomicBool::new(false),
            active: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            fresh: AtomicBool::new(false),
            entry: AtomicU64::new(0),
            queue: RwLock::new(Arc::new(Queue::line(0))).into(),
            head: CachePadded::default(),
            tail: CachePadded::default(),
            submit: CachePadded::default(),
            cursor: Mutex::default(),
            sticky: AtomicU32::new(0),
            reports: Reports::default(),
            called: AtomicU32::new(0),
            call_outcome: AtomicU32::new(0),
            waiting: AtomicU32::new(0),
            progress: Mutex::new(()),
            moved: Condvar::new(),
            bound: AtomicBool::new(false),
            graph: Mutex::default(),
        }
    }

    /// What entries name it by.
    pub(crate) fn word(&self) -> u64 {
        Name { id: self.sq, turn: self.turn }.word()
    }

    pub(crate) fn is_persistent(&self) -> bool {
        self.flags.has(StreamFlags::PERSISTENT | StreamFlags::CPU_SCHEDULE)
    }

    /// Its tasks are the CPU's: binding it is a note of the host in any mode, it never gets a queue
    /// of the device, and no slave continues it.
    pub(crate) fn is_cpu(&self) -> bool {
        self.flags.has(StreamFlags::CPU_SCHEDULE)
    }

    pub(crate) fn level(&self) -> u8 {
        self.level.load(Ordering::Relaxed)
    }

    pub(crate) fn set_level(&self, level: u8) {
        self.level.store(level, Ordering::Relaxed);
    }

    pub(crate) fn phase(&self) -> u8 {
        self.phase.load(Ordering::Relaxed)
    }

    pub(crate) fn set_phase(&self, phase: u8) {
        self.phase.store(phase, Ordering::Relaxed);
    }

    pub(crate) fn queue(&self) -> Arc<Queue> {
        self.queue.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_queue(&self, queue: Queue) {
        *self.queue.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(queue);
    }

    pub(crate) fn graph(&self) -> Option<Arc<Graph>> {
        lock(&self.graph).upgrade()
    }

    /// Whether a core has something to do here; those of models are started by their model.
    pub(crate) fn has_work(&self) -> bool {
        let more = || self.tail.load(Ordering::Acquire) != self.head.load(Ordering::Relaxed);
        !self.is_persistent() && (more() || self.stop.load(Ordering::Relaxed))
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    fn close(&self) {
        let mut submit = lock(&self.submit);
        self.closed.store(true, Ordering::Relaxed);
        submit.aborts += 1;
    }

    /// Nothing can be submitted to them any more, what was is dropped, and whoever waits is told:
    /// all are closed before one stops, so nobody sees the code of another one that did.
    pub(crate) fn close_all(cores: &[Arc<Self>], device: &Inner) {
        cores.iter().for_each(|core| core.close());
        for core in cores {
            device.sched.interrupt(core);
            drop(lock(&core.progress));
            core.moved.notify_all();
        }
    }

    /// Starts a core on it if none is there; a task was submitted before.
    pub(crate) fn kick(self: &Arc<Self>, device: &Inner) {
        // SYNC: pairs with the fence in Sched::rest; one of both sees what the other did.
        fence(Ordering::SeqCst);
        if self.phase() == phase::IDLE {
            device.sched.wake(self);
        }
    }

    /// Keeps a code until the next synchronise; the first one counts.
    pub(crate) fn stick(&self, code: Code) {
        let _ = self.sticky.compare_exchange(0, code.0, Ordering::AcqRel, Ordering::Relaxed);
    }

    pub(crate) fn unstick(&self) -> Code {
        Code(self.sticky.swap(0, Ordering::AcqRel))
    }

    /// Tells whoever waits on the host that something is done.
    pub(crate) fn tell_progress(&self) {
        // SYNC: pairs with the fence in `wait_until`: it sees what was done, or is seen here.
        fence(Ordering::SeqCst);
        if self.waiting.load(Ordering::Relaxed) != 0 {
            drop(lock(&self.progress));
            self.moved.notify_all();
        }
    }

    pub(crate) fn is_waited_for(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) != 0
    }

    /// Waits on the host until something holds; false after the deadline, or when it is closed.
    pub(crate) fn wait_until(&self, deadline: Option<Instant>, holds: impl Fn() -> bool) -> bool {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let mut guard = lock(&self.progress);
        let held = loop {
            if holds() {
                break true;
            }
            if self.is_closed() {
                break false;
            }
            guard = match deadline {
                None => self.moved.wait(guard).unwrap_or_else(PoisonError::into_inner),
                Some(at) => {
                    let left = at.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        break false;
                    }
                    let woken = self.moved.wait_timeout(guard, left);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        };
        drop(guard);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        held
    }
}

impl Inner {
    /// Makes a stream. Rings have their queue at once; so have persistent streams whose tasks go
    /// straight to the device.
    pub(crate) fn new_stream(
        &self,
        flags: StreamFlags,
        context: u32,
        shown: Option<u32>,
    ) -> Result<Arc<Core>> {
        let stream = self.streams.insert(|name| Core::new(name, shown, flags, context));
        let Some(stream) = stream else {
            return refuse(NO_STREAM, format!("all {STREAMS_MAX} streams of the device are used"));
        };
        if !stream.is_persistent() {
            stream.set_queue(Queue::ring(self.config.sq_depth));
        } else if !self.config.auto_split && !stream.is_cpu() {
            stream.set_queue(Queue::line(self.config.sq_depth as usize));
        }
        stream.reports.reserve();
        Ok(stream)
    }
}

/// A stream of a context. It is there until [`Stream::destroy`].
#[derive(Clone, Debug)]
pub struct Stream {
    pub(crate) core: Arc<Core>,
    pub(crate) context: Context,
}

impl Stream {
    /// The number that users know it by.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.core.shown
    }

    /// What it is for.
    #[must_use]
    pub fn flags(&self) -> StreamFlags {
        self.core.flags
    }

    /// Sets its priority, from the next time that it becomes ready.
    pub fn set_priority(&self, priority: Priority) {
        self.core.set_level(priority.level());
    }

    /// Whether all submitted tasks are done; a stream of a model has none of its own.
    ///
    /// # Errors
    /// The code of a task that failed, once; 107027 when it is captured.
    pub fn query(&self) -> Result<bool> {
        self.refuse_in_capture()?;
        let done = !self.core.has_work();
        self.outcome().map(|()| done)
    }

    /// Waits until the tasks submitted so far are done; `None` is forever. Of a persistent stream,
    /// whose tasks are its model's, there is nothing to wait for.
    ///
    /// # Errors
    /// 507046 after the timeout, 107023 when it was aborted, 107027 when it is captured, or the
    /// code of the first task that failed since the last time.
    pub fn synchronize(&self, timeout: Option<Duration>) -> Result<()> {
        if self.core.is_persistent() {
            return Ok(());
        }
        self.refuse_in_capture()?;
        let core = &self.core;
        let (wanted, aborts) = {
            let submit = lock(&core.submit);
            (core.tail.load(Ordering::Acquire), submit.aborts)
        };
        let done = || core.head.load(Ordering::Acquire) >= wanted;
        self.context.device().spin_until(done);
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        let in_time = core.wait_until(deadline, done);
        if lock(&core.submit).aborts != aborts || core.is_closed() {
            return refuse(STREAM_ABORT, format!("stream {} was aborted", self.id()));
        }
        if !in_time {
            let at = core.head.load(Ordering::Acquire);
            let what = format!("stream {} is at task {at} of {wanted}", self.id());
            return refuse(STREAM_SYNC_TIMEOUT, what);
        }
        self.outcome()
    }

    /// The sticky code, once.
    fn outcome(&self) -> Result<()> {
        match self.core.unstick() {
            Code::SUCCESS => Ok(()),
            code => refuse(code, format!("a task of stream {} failed", self.id())),
        }
    }

    /// Stops the task it is at, as soon as that can be, and drops those behind it.
    ///
    /// # Errors
    /// 207000 for persistent streams, whose model is aborted instead; 107027 when it is captured;
    /// 507012 when its task does not end in the time that the device was configured with.
    pub fn abort(&self) -> Result<()> {
        if self.core.is_persistent() {
            return refuse(FEATURE_NOT_SUPPORT, "a persistent stream ends with its model's abort");
        }
        self.refuse_in_capture()?;
        {
            let mut submit = lock(&self.core.submit);
            submit.aborting += 1;
            submit.aborts += 1;
        }
        let device = self.context.device();
        device.sched.interrupt(&self.core);
        let deadline = Instant::now() + device.config.patience;
        let stopped =
            self.core.wait_until(Some(deadline), || !self.core.stop.load(Ordering::Acquire));
        lock(&self.core.submit).aborting -= 1;
        if stopped {
            return Ok(());
        }
        refuse(REPORT_TIMEOUT, format!("the task that stream {} is at does not end", self.id()))
    }

    /// The next report of a task, if there is one.
    #[must_use]
    pub fn take_report(&self) -> Option<Report> {
        self.core.reports.take()
    }

    /// Whether its tasks are reported when they succeed, too.
    pub fn report_all(&self, report: bool) {
        lock(&self.core.submit).report_all = report;
    }

    /// Ends it after the tasks that were submitted.
    ///
    /// # Errors
    /// 107005 while it is bound to a model; 107027 when it is captured; 107000 for the context's
    /// default stream; 507046 when its tasks do not end in the time that the device was configured
    /// with.
    pub fn destroy(self) -> Result<()> {
        self.refuse_in_capture()?;
        if self.core.graph().is_some() {
            return refuse(STREAM_MODEL, format!("stream {} is bound to a model", self.id()));
        }
        if self.context.is_default(&self.core) {
            return refuse(PARAM_INVALID, "the default stream ends with its context");
        }
        let outcome = self.synchronize(Some(self.context.device().config.patience));
        if outcome.as_ref().is_err_and(|error| error.code() == STREAM_SYNC_TIMEOUT) {
            return outcome;
        }
        self.context.forget_stream(&self.core);
        Ok(())
    }

    /// Ends it where it is, without waiting for anything.
    pub(crate) fn abandon(&self) {
        self.context.device().sched.interrupt(&self.core);
        self.context.forget_stream(&self.core);
    }
}

/// The same stream, not only the same number.
impl PartialEq for Stream {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.core, &other.core)
    }
}

impl Eq for Stream {}
