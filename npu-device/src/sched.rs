//! The scheduler: which stream a core runs next.
//!
//! A stream is idle, ready, running or blocked. Every change of that happens under one lock, which
//! is taken when a stream begins or stops to run and never between two of its tasks.
//!
//! I1. A stream is in the ready line iff its phase is `READY`, and then once.
//! I2. At most one core runs a stream.
//! I3. Nothing is missed: a wake of a running stream is remembered and taken up when it wants to
//!     block; a stream that goes idle looks at its queue again after it said so, with a fence on
//!     both sides ([`Sched::rest`] and `Core::kick`).
//! I4. A core sleeps only when the line was empty under the lock, so whoever makes a stream ready
//!     later sees it sleeping.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use executor_core::gate::{LEVELS, Level};

use crate::codes::{PARAM_INVALID, Result, refuse};
use crate::lock::lock;
use crate::stream::Core;

/// Priorities of process and event, each 0 (first) to 2, as models carry them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priority(Level);

impl Priority {
    /// What streams have that nobody gave one.
    pub const LOWEST: Self = Self(Level::LOWEST);

    /// From the two numbers that models carry; the process's counts first. -1 is unset, the lowest.
    ///
    /// # Errors
    /// A number is not in -1..=2.
    pub fn new(process: i32, event: i32) -> Result<Self> {
        match Level::of(process, event) {
            Some(level) => Ok(Self(level)),
            None => {
                refuse(PARAM_INVALID, format!("priority {process}, {event}: each is -1 or 0 to 2"))
            }
        }
    }

    pub(crate) fn level(self) -> u8 {
        self.0.number()
    }
}

/// What a stream is doing. Written under the scheduler's lock.
pub(crate) mod phase {
    pub(crate) const IDLE: u8 = 0;
    pub(crate) const READY: u8 = 1;
    pub(crate) const RUNNING: u8 = 2;
    pub(crate) const BLOCKED: u8 = 3;
}

#[derive(Debug)]
pub(crate) struct Sched {
    state: Mutex<State>,
    work: Condvar,
    /// A bit for each level with ready streams, for cores that look without the lock.
    ready: AtomicU32,
    spin: Duration,
}

#[derive(Debug, Default)]
struct State {
    levels: [VecDeque<Arc<Core>>; LEVELS],
    count: usize,
    timers: Vec<(Instant, Arc<Core>)>,
    spinning: usize,
    sleeping: usize,
    stopping: bool,
}

impl Sched {
    /// Room for so many streams, so that nothing grows later. A core that has nothing to do looks
    /// out for `spin` before it sleeps.
    pub(crate) fn new(streams: usize, spin: Duration) -> Self {
        let mut state = State { timers: Vec::with_capacity(streams), ..State::default() };
        state.levels.iter_mut().for_each(|level| level.reserve(streams));
        Self { state: Mutex::new(state), work: Condvar::new(), ready: AtomicU32::new(0), spin }
    }

    /// The next stream to run; waits for one. `None` when the device ends.
    pub(crate) fn next(&self) -> Option<Arc<Core>> {
        let mut state = lock(&self.state);
        loop {
            for looked_out in [self.spin.is_zero(), true] {
                if state.stopping {
                    return None;
                }
                self.fire_timers(&mut state);
                if let Some(stream) = self.pop(&mut state) {
                    return Some(stream);
                }
                if !looked_out {
                    state.spinning += 1;
                    drop(state);
                    self.look_out();
                    state = lock(&self.state);
                    state.spinning -= 1;
                }
            }
            let deadline = state.timers.iter().map(|(at, _)| *at).min();
            state.sleeping += 1;
            state = match deadline {
                None => self.work.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(at) => {
                    let left = at.saturating_duration_since(Instant::now());
                    let woken = self.work.wait_timeout(state, left);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
            };
            state.sleeping -= 1;
        }
    }

    /// Watches the levels without the lock, for a while.
    fn look_out(&self) {
        let begin = Instant::now();
        loop {
            for _ in 0..64 {
                if self.ready.load(Ordering::Relaxed) != 0 {
                    return;
                }
                std::hint::spin_loop();
            }
            if begin.elapsed() >= self.spin {
                return;
            }
        }
    }

    fn pop(&self, state: &mut State) -> Option<Arc<Core>> {
        let (level, line) =
            state.levels.iter_mut().enumerate().find(|(_, line)| !line.is_empty())?;
        let stream = line.pop_front()?;
        if line.is_empty() {
            self.ready.fetch_and(!(1 << level), Ordering::Relaxed);
        }
        state.count -= 1;
        stream.set_phase(phase::RUNNING);
        Some(stream)
    }

    fn push(&self, state: &mut State, stream: Arc<Core>, front: bool) {
        stream.set_phase(phase::READY);
        let level = usize::from(stream.level()).min(LEVELS - 1);
        let line = &mut state.levels[level];
        if front {
            line.push_front(stream)
        } else {
            line.push_back(stream)
        }
        state.count += 1;
        self.ready.fetch_or(1 << level, Ordering::Relaxed);
        if state.count > state.spinning && state.sleeping > 0 {
            self.work.notify_one();
        }
    }

    /// Makes a stream ready that has something to do; remembers it when it is running.
    pub(crate) fn wake(&self, stream: &Arc<Core>) {
        let mut state = lock(&self.state);
        match stream.phase() {
            phase::IDLE if stream.is_persistent() => {}
            phase::IDLE | phase::BLOCKED => {
                if stream.timed.swap(false, Ordering::Relaxed) {
                    state.timers.retain(|(_, other)| !Arc::ptr_eq(other, stream));
                }
                self.push(&mut state, stream.clone(), false);
            }
            phase::RUNNING => stream.wake.store(true, Ordering::Relaxed),
            _ => {}
        }
    }

    /// A running stream waits, until it is woken or until `deadline`. False: it was woken
    /// meanwhile and goes on.
    pub(crate) fn block(&self, stream: &Arc<Core>, deadline: Option<Instant>) -> bool {
        let mut state = lock(&self.state);
        if stream.wake.swap(false, Ordering::Relaxed) {
            return false;
        }
        stream.set_phase(phase::BLOCKED);
        if let Some(at) = deadline {
            stream.timed.store(true, Ordering::Relaxed);
            state.timers.push((at, stream.clone()));
            if state.sleeping > 0 {
                self.work.notify_one();
            }
        }
        true
    }

    /// A running stream has nothing to do. False: it has, look again.
    pub(crate) fn rest(&self, stream: &Core) -> bool {
        let _state = lock(&self.state);
        stream.wake.store(false, Ordering::Relaxed);
        stream.set_phase(phase::IDLE);
        // SYNC: pairs with the fence in Core::kick; one of both sees what the other did.
        fence(Ordering::SeqCst);
        if stream.has_work() {
            stream.set_phase(phase::RUNNING);
            return false;
        }
        true
    }

    /// Starts a stream of a model at a task. False: it has been started already.
    pub(crate) fn activate(&self, stream: &Arc<Core>, entry: u64) -> bool {
        let mut state = lock(&self.state);
        if stream.active.swap(true, Ordering::Relaxed) {
            return false;
        }
        stream.stop.store(false, Ordering::Relaxed);
        stream.entry.store(entry, Ordering::Relaxed);
        stream.fresh.store(true, Ordering::Relaxed);
        self.push(&mut state, stream.clone(), false);
        true
    }

    /// A running stream of a model has ended.
    pub(crate) fn deactivate(&self, stream: &Core) {
        let _state = lock(&self.state);
        stream.wake.store(false, Ordering::Relaxed);
        stream.set_phase(phase::IDLE);
        stream.active.store(false, Ordering::Relaxed);
    }

    /// Tells a stream to stop where it is, if it is doing anything.
    pub(crate) fn interrupt(&self, stream: &Arc<Core>) {
        let mut state = lock(&self.state);
        if stream.is_persistent() && !stream.active.load(Ordering::Relaxed) {
            return;
        }
        stream.stop.store(true, Ordering::Relaxed);
        if matches!(stream.phase(), phase::IDLE | phase::BLOCKED) {
            if stream.timed.swap(false, Ordering::Relaxed) {
                state.timers.retain(|(_, other)| !Arc::ptr_eq(other, stream));
            }
            self.push(&mut state, stream.clone(), false);
        } else {
            stream.wake.store(true, Ordering::Relaxed);
        }
    }

    /// A running stream makes room for others and goes on later.
    pub(crate) fn requeue(&self, stream: &Arc<Core>, front: bool) {
        let mut state = lock(&self.state);
        stream.wake.store(false, Ordering::Relaxed);
        self.push(&mut state, stream.clone(), front);
    }

    /// Whether something more urgent than this level is ready.
    pub(crate) fn more_urgent(&self, level: u8) -> bool {
        self.ready.load(Ordering::Relaxed) & ((1 << level) - 1) != 0
    }

    /// Whether anything is ready.
    pub(crate) fn has_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed) != 0
    }

    /// Whether something at least as urgent is ready.
    pub(crate) fn as_urgent(&self, level: u8) -> bool {
        self.ready.load(Ordering::Relaxed) & ((2 << level) - 1) != 0
    }

    /// Ends all cores after the task that they are at.
    pub(crate) fn stop(&self) {
        lock(&self.state).stopping = true;
        self.work.notify_all();
    }

    fn fire_timers(&self, state: &mut State) {
        if state.timers.is_empty() {
            return;
        }
        let now = Instant::now();
        while let Some(index) = state.timers.iter().position(|(at, _)| *at <= now) {
            let (_, stream) = state.timers.swap_remove(index);
            stream.timed.store(false, Ordering::Relaxed);
            self.push(state, stream, false);
        }
    }
}
