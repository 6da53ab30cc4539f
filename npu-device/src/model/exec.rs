//! A model's runs, on the device's side.
//!
//! I1. `active` counts the streams that were started and have not ended; a stream that starts
//!     another one is active itself, so it is 0 only when nothing of the model runs any more.
//! I2. The end mark is set once a run: by its task, by a failure, or because all streams ended
//!     without it. So whoever waits for it never waits for ever.
//! I3. The next run begins when `active` is 0 and the end of the last one was taken.

use std::collections::VecDeque;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use executor_core::error::Code;

use crate::capture::{EXTERNALS_MAX, External, WORDS};
use crate::codes::{MODEL_ABORT_NORMAL, MODEL_EXECUTE};
use crate::device::Inner;
use crate::event::Marks;
use crate::lock::lock;
use crate::model::Graph;
use crate::notify::Bit;
use crate::sqe::Sqe;
use crate::stream::Core;

/// What runs need, fixed when the model is complete.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) heads: Box<[Arc<Core>]>,
    pub(crate) streams: Box<[Arc<Core>]>,
    pub(crate) end: Arc<Bit>,
    pub(crate) rewinds: Box<[(Arc<Marks>, u64)]>,
    /// Tasks that mark events outside, or wait for such.
    pub(crate) externals: Box<[External]>,
    /// Cells that are set before a run.
    pub(crate) resets: Box<[(u64, u64)]>,
}

/// The state of runs.
#[derive(Debug, Default)]
pub(crate) struct Exec {
    pub(crate) loaded: Option<Arc<Loaded>>,
    /// The stream that waits for the end of the run.
    runner: Option<Arc<Core>>,
    active: u32,
    ended: bool,
    failed: Code0,
    /// The marks of the run's external tasks.
    marks: [u64; EXTERNALS_MAX],
    /// Streams that wait to start it.
    waiters: VecDeque<Arc<Core>>,
    /// Executions submitted, and so the room that `waiters` needs.
    tasks: usize,
}

/// A code, success at first.
#[derive(Debug)]
struct Code0(Code);

impl Default for Code0 {
    fn default() -> Self {
        Self(Code::SUCCESS)
    }
}

impl Exec {
    fn is_idle(&self) -> bool {
        self.runner.is_none() && self.active == 0
    }

    fn fail(&mut self, code: Code) {
        if self.failed.0.is_success() {
            self.failed.0 = code;
        }
    }
}

/// What came of starting a model.
pub(crate) enum Start {
    /// It runs.
    Begun,
    /// Another run is not over; the stream is woken then.
    Busy,
    /// It is not complete.
    NotLoaded,
}

impl Graph {
    /// Makes room, so that waiting allocates nothing: each stream of the device waits once.
    pub(crate) fn expect_run(&self, streams: usize) {
        let mut exec = lock(&self.exec);
        exec.tasks = (exec.tasks + 1).min(streams);
        let more = exec.tasks.saturating_sub(exec.waiters.len());
        exec.waiters.reserve(more);
    }

    /// Starts a run whose end `stream` waits for; `entry` says which marks are this run's.
    pub(crate) fn start(&self, device: &Inner, stream: &Arc<Core>, entry: Option<&Sqe>) -> Start {
        let mut exec = lock(&self.exec);
        exec.waiters.retain(|other| !Arc::ptr_eq(other, stream));
        let Some(loaded) = exec.loaded.clone() else { return Start::NotLoaded };
        if !exec.is_idle() {
            exec.waiters.push_back(stream.clone());
            return Start::Busy;
        }
        exec.runner = Some(stream.clone());
        exec.ended = false;
        exec.failed.0 = Code::SUCCESS;
        exec.marks = WORDS.map(|word| entry.map_or(0, |entry| entry.payload[word]));
        loaded.end.clear();
        for (marks, mark) in &loaded.rewinds {
            marks.rewind(*mark);
        }
        for (address, value) in &loaded.resets {
            let _ = device.store(*address, *value, 8);
        }
        for head in &loaded.heads {
            if device.sched.activate(head, 0) {
                exec.active += 1;
            }
        }
        let nothing = exec.active == 0;
        drop(exec);
        if nothing {
            self.fail(device, MODEL_EXECUTE);
        }
        Start::Begun
    }

    /// One more stream is active; whoever says so is active itself.
    pub(crate) fn joins(&self) {
        lock(&self.exec).active += 1;
    }

    /// A stream has ended.
    pub(crate) fn leaves(&self, device: &Inner) {
        let mut exec = lock(&self.exec);
        exec.active = exec.active.saturating_sub(1);
        if exec.active > 0 {
            return;
        }
        if exec.runner.is_some() && !exec.ended {
            exec.fail(MODEL_EXECUTE);
            exec.ended = true;
            let end = exec.loaded.as_ref().map(|loaded| loaded.end.clone());
            drop(exec);
            if let Some(end) = end {
                end.record(&device.sched);
            }
            return;
        }
        self.settle(&mut exec, device);
    }

    /// Somebody else's turn, if the run is over.
    fn settle(&self, exec: &mut Exec, device: &Inner) {
        if exec.is_idle() {
            if let Some(next) = exec.waiters.pop_front() {
                device.sched.wake(&next);
            }
            self.idle.notify_all();
        }
    }

    /// The end mark's task.
    pub(crate) fn mark_end(&self, device: &Inner) {
        let mut exec = lock(&self.exec);
        if std::mem::replace(&mut exec.ended, true) {
            return;
        }
        let end = exec.loaded.as_ref().map(|loaded| loaded.end.clone());
        drop(exec);
        if let Some(end) = end {
            end.record(&device.sched);
        }
    }

    /// The mark of an external task in this run.
    pub(crate) fn external_mark(&self, place: usize) -> Option<u64> {
        lock(&self.exec).marks.get(place).copied()
    }

    pub(crate) fn is_run_by(&self, stream: &Arc<Core>) -> bool {
        lock(&self.exec).runner.as_ref().is_some_and(|runner| Arc::ptr_eq(runner, stream))
    }

    /// The runner has seen the end; the run's code.
    pub(crate) fn take_end(&self, device: &Inner) -> Code {
        let mut exec = lock(&self.exec);
        exec.runner = None;
        let code = exec.failed.0;
        let (loaded, marks) = (exec.loaded.clone(), exec.marks);
        let externals = loaded.iter().flat_map(|loaded| &loaded.externals);
        externals.zip(marks).for_each(|(external, mark)| external.over(device, mark));
        self.settle(&mut exec, device);
        code
    }

    /// Ends the run with a code: all its streams stop, and its runner goes on.
    pub(crate) fn fail(&self, device: &Inner, code: Code) {
        let mut exec = lock(&self.exec);
        let Some(loaded) = exec.loaded.clone() else { return };
        if exec.runner.is_none() && exec.active == 0 {
            return;
        }
        exec.fail(code);
        let end = !std::mem::replace(&mut exec.ended, true);
        drop(exec);
        for stream in &loaded.streams {
            device.sched.interrupt(stream);
        }
        if end {
            loaded.end.record(&device.sched);
        }
    }

    /// The runner was aborted while it waited for the end.
    pub(crate) fn abandon(&self, device: &Inner, end: &Bit) {
        self.fail(device, MODEL_ABORT_NORMAL);
        end.clear();
        let _ = self.take_end(device);
    }

    /// A stream no longer waits to start it.
    pub(crate) fn give_up(&self, stream: &Arc<Core>) {
        lock(&self.exec).waiters.retain(|other| !Arc::ptr_eq(other, stream));
    }

    /// Does something between two runs, as soon as there is none; `None` after the timeout.
    pub(crate) fn while_idle<R>(&self, timeout: Duration, act: impl FnOnce() -> R) -> Option<R> {
        self.idle_exec(timeout).map(|_exec| act())
    }

    /// Whether it runs.
    pub(crate) fn is_idle(&self) -> bool {
        lock(&self.exec).is_idle()
    }

    /// Waits on the host until nothing of it runs; false after the timeout.
    pub(crate) fn wait_idle(&self, timeout: Duration) -> bool {
        self.idle_exec(timeout).is_some()
    }

    fn idle_exec(&self, timeout: Duration) -> Option<MutexGuard<'_, Exec>> {
        let deadline = Instant::now() + timeout;
        let mut exec = lock(&self.exec);
        while !exec.is_idle() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            let woken = self.idle.wait_timeout(exec, left);
            exec = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        Some(exec)
    }
}
