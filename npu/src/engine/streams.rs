//! Tasks of several streams, run by whoever has nothing to do.
//!
//! ```text
//! a stream:  ended ──take──▶ ended, held ──task──▶ ended + 1, held ─ ⋯ ─leave──▶ ended + n
//! a thread:  takes a stream that nobody holds and whose next task can begin; goes on with it while
//!            it can; else looks for another one ─▶ looks for a while ─▶ lets others run
//!            ─▶ a member leaves, the caller sleeps until a task has ended
//! ```
//! Whoever ends a task looks for the next one itself, so what can begin is always taken by a thread
//! that is awake: of the tasks that have not ended, the first one in file order can begin, and
//! either its stream is held by who runs it, or the caller takes it. Any number of threads ends,
//! one too. All state lies on the caller's stack; nothing is allocated.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Thread};

use crate::isa;
use crate::program::{STREAMS_MAX, Task};
use crate::team::{LOOKS, Team};
use crate::tensor::Fault;

/// Looks that let others run, after [`LOOKS`] that do not: some 200 µs where nobody wants to.
const YIELDS: u32 = 1 << 8;

/// In the state of a stream: a thread runs its next task.
const HELD: usize = 1 << (usize::BITS - 1);

/// A part of a program whose tasks are of several streams.
#[derive(Debug)]
pub(super) struct Region {
    streams: Vec<Vec<Step>>,
}

#[derive(Debug)]
struct Step {
    task: usize,
    /// Streams, and how many of their tasks end before this one begins.
    after: Vec<(usize, usize)>,
}

/// Tasks that have ended, and [`HELD`]; in a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Ended(AtomicUsize);

impl Region {
    /// The tasks of a segment: all before it have ended when it begins.
    pub(super) fn new(tasks: &[Task], segment: &Range<usize>) -> Self {
        let mut number: [Option<usize>; STREAMS_MAX] = [None; STREAMS_MAX];
        let (mut streams, mut places): (Vec<Vec<Step>>, Vec<(usize, usize)>) = Default::default();
        for (index, task) in tasks[segment.clone()].iter().enumerate() {
            let own = *number[task.stream].get_or_insert(streams.len());
            if own == streams.len() {
                streams.push(Vec::new());
            }
            let within = task.after.iter().filter_map(|after| after.checked_sub(segment.start));
            let after = within.map(|after| (places[after].0, places[after].1 + 1)).collect();
            places.push((own, streams[own].len()));
            streams[own].push(Step { task: segment.start + index, after });
        }
        Self { streams }
    }

    /// Runs all tasks, on the threads of a team that come in; the first task that fails, in file
    /// order, of those that were run.
    pub(super) fn run(
        &self,
        team: &Team,
        task: &(dyn Fn(usize) -> Result<(), Fault> + Sync),
    ) -> Result<(), (usize, Fault)> {
        let run = Run {
            streams: &self.streams,
            ended: Default::default(),
            stopped: AtomicBool::new(false),
            sleeps: AtomicBool::new(false),
            caller: thread::current(),
            fault: Mutex::new(None),
        };
        let limit = isa::limit();
        team.call(&|| isa::at_most(limit, || run.help(task)));
        run.fault.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }
}

/// One run of a region.
struct Run<'a> {
    streams: &'a [Vec<Step>],
    ended: [Ended; STREAMS_MAX],
    /// A task has failed, or its thread has panicked: no other begins.
    stopped: AtomicBool,
    /// The caller sleeps.
    sleeps: AtomicBool,
    caller: Thread,
    fault: Mutex<Option<(usize, Fault)>>,
}

/// What a thread finds to do.
enum Next {
    /// A stream, which it holds now, and the number of its next task.
    Task(usize, usize),
    /// Nothing as long as nobody ends a task.
    Nothing,
    /// Nothing ever: all have ended, or no other begins.
    End,
}

impl Run<'_> {
    /// What each thread does.
    fn help(&self, task: &(dyn Fn(usize) -> Result<(), Fault> + Sync)) {
        let calls = thread::current().id() == self.caller.id();
        let (mut looks, mut next) = (0, self.take());
        loop {
            match next {
                Next::Task(stream, number) => {
                    self.follow(stream, number, task);
                    looks = 0;
                }
                Next::End => return,
                Next::Nothing if looks < LOOKS => std::hint::spin_loop(),
                Next::Nothing if looks < LOOKS + YIELDS => thread::yield_now(),
                Next::Nothing if calls => {
                    (looks, next) = (0, self.sleep());
                    continue;
                }
                Next::Nothing => return,
            }
            looks += 1;
            next = self.take();
        }
    }

    /// Takes a stream whose next task can begin.
    fn take(&self) -> Next {
        if self.stopped.load(Ordering::Relaxed) {
            return Next::End;
        }
        let mut all = true;
        for (stream, steps) in self.streams.iter().enumerate() {
            // SYNC: acquire, here and where it is taken, pairs with the release of who ran the
            // tasks before on this stream, which came after those that it waited for.
            let now = self.ended[stream].0.load(Ordering::Acquire);
            let ended = now & !HELD;
            all &= ended == steps.len();
            let free = now & HELD == 0 && self.can_begin(stream, ended);
            if free && self.exchange(stream, now, now | HELD) {
                return Next::Task(stream, ended);
            }
        }
        if all { Next::End } else { Next::Nothing }
    }

    fn exchange(&self, stream: usize, from: usize, to: usize) -> bool {
        let ended = &self.ended[stream].0;
        ended.compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Whether there is such a task and all that it waits for have ended.
    fn can_begin(&self, stream: usize, number: usize) -> bool {
        // SYNC: acquire, pairs with the release of who ran those: what they wrote is there.
        let ended = |stream: usize| self.ended[stream].0.load(Ordering::Acquire) & !HELD;
        let step = self.streams[stream].get(number);
        step.is_some_and(|step| step.after.iter().all(|(other, count)| ended(*other) >= *count))
    }

    /// Runs tasks of a stream that this thread holds, as long as they can begin; leaves it.
    fn follow(
        &self,
        stream: usize,
        mut number: usize,
        task: &(dyn Fn(usize) -> Result<(), Fault> + Sync),
    ) {
        let own = &self.ended[stream].0;
        loop {
            let step = &self.streams[stream][number];
            let mut panics = Stop(Some(self));
            let outcome = task(step.task);
            panics.0 = None;
            if let Err(fault) = outcome {
                let mut first = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
                if first.is_none_or(|(other, _)| step.task < other) {
                    *first = Some((step.task, fault));
                }
                self.stop();
                return;
            }
            number += 1;
            let goes_on = self.can_begin(stream, number) && !self.stopped.load(Ordering::Relaxed);
            // SYNC: release: whoever sees the number sees what the tasks wrote.
            own.store(number | if goes_on { HELD } else { 0 }, Ordering::Release);
            self.wake();
            if !goes_on {
                return;
            }
        }
    }

    /// No other task begins.
    fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        self.wake();
    }

    /// The caller sleeps until a task has ended, unless there is something to do.
    fn sleep(&self) -> Next {
        self.sleeps.store(true, Ordering::Relaxed);
        // SYNC: with the one in `wake`: either what has ended is seen here, or that one unparks.
        fence(Ordering::SeqCst);
        let next = self.take();
        if matches!(next, Next::Nothing) {
            thread::park();
        }
        self.sleeps.store(false, Ordering::Relaxed);
        next
    }

    /// Wakes the caller if it sleeps: something has changed.
    fn wake(&self) {
        // SYNC: see `sleep`.
        fence(Ordering::SeqCst);
        if self.sleeps.load(Ordering::Relaxed) {
            self.caller.unpark();
        }
    }
}

/// When it goes with a run, a task of that unwinds.
struct Stop<'a>(Option<&'a Run<'a>>);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        if let Some(run) = self.0 {
            run.stop();
        }
    }
}

#[cfg(test)]
mod tests;
