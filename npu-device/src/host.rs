//! The host's thread of a device: functions that are called in a stream's order but not on a core,
//! so that one that waits for a core never takes one away.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use executor_core::error::Code;

use crate::codes::{AICPU_EXCEPTION, INTERNAL_ERROR};
use crate::device::Inner;
use crate::kernel::Call;
use crate::lock::lock;
use crate::sched::Sched;
use crate::stream::{Core, STREAMS_MAX};

/// Calls that wait for the host's thread; each stream has at most one.
#[derive(Debug)]
pub(crate) struct Host {
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Debug, Default)]
struct State {
    calls: VecDeque<(Arc<Core>, u64, Call)>,
    stopping: bool,
}

/// What a stream's call is at: [`Core::called`].
pub(crate) mod called {
    pub(crate) const NOT: u32 = 0;
    pub(crate) const WAITING: u32 = 1;
    pub(crate) const RUNNING: u32 = 2;
    pub(crate) const DONE: u32 = 3;
}

impl Host {
    pub(crate) fn new() -> Self {
        let state = State { calls: VecDeque::with_capacity(STREAMS_MAX as usize), stopping: false };
        Self { state: Mutex::new(state), work: Condvar::new() }
    }

    pub(crate) fn call(&self, stream: &Arc<Core>, function: u64, call: Call) {
        let mut state = lock(&self.state);
        stream.called.store(called::WAITING, Ordering::Relaxed);
        state.calls.push_back((stream.clone(), function, call));
        drop(state);
        self.work.notify_one();
    }

    /// Takes a call back; false if it is under way.
    pub(crate) fn take_back(&self, stream: &Arc<Core>) -> bool {
        let mut state = lock(&self.state);
        state.calls.retain(|(other, ..)| !Arc::ptr_eq(other, stream));
        let back = stream.called.load(Ordering::Relaxed) != called::RUNNING;
        if back {
            stream.called.store(called::NOT, Ordering::Relaxed);
        }
        back
    }

    pub(crate) fn stop(&self) {
        lock(&self.state).stopping = true;
        self.work.notify_all();
    }

    /// The thread.
    pub(crate) fn serve(&self, device: &Inner) {
        let mut state = lock(&self.state);
        while !state.stopping {
            let Some((stream, function, call)) = state.calls.pop_front() else {
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            stream.called.store(called::RUNNING, Ordering::Relaxed);
            drop(state);
            let outcome = run(device, function, &call);
            stream.call_outcome.store(outcome.0, Ordering::Relaxed);
            state = lock(&self.state);
            stream.called.store(called::DONE, Ordering::Release);
            device.sched.wake(&stream);
        }
    }
}

fn run(device: &Inner, function: u64, call: &Call) -> Code {
    let Some(entry) = device.functions.named(function) else { return INTERNAL_ERROR };
    match catch_unwind(AssertUnwindSafe(|| entry.kernel.run(call))) {
        Ok(Ok(())) => Code::SUCCESS,
        Ok(Err(fault)) => fault.code(true),
        Err(_) => AICPU_EXCEPTION,
    }
}

/// Streams that wait for a value in memory. Whoever writes memory wakes all of them.
#[derive(Debug)]
pub(crate) struct Values {
    count: AtomicU32,
    waiters: Mutex<VecDeque<Arc<Core>>>,
}

impl Values {
    pub(crate) fn new() -> Self {
        let waiters = VecDeque::with_capacity(STREAMS_MAX as usize);
        Self { count: AtomicU32::new(0), waiters: Mutex::new(waiters) }
    }

    /// Registers a stream; it looks at the value once more afterwards, so no write is missed.
    pub(crate) fn wait(&self, stream: &Arc<Core>) {
        let mut waiters = lock(&self.waiters);
        if !waiters.iter().any(|other| Arc::ptr_eq(other, stream)) {
            waiters.push_back(stream.clone());
            self.count.fetch_add(1, Ordering::SeqCst);
        }
    }

    pub(crate) fn give_up(&self, stream: &Arc<Core>) {
        let mut waiters = lock(&self.waiters);
        let before = waiters.len();
        waiters.retain(|other| !Arc::ptr_eq(other, stream));
        let gone = u32::try_from(before - waiters.len()).unwrap_or_default();
        self.count.fetch_sub(gone, Ordering::SeqCst);
    }

    /// Memory was written, before this call.
    pub(crate) fn changed(&self, sched: &Sched) {
        // SYNC: the write lies under the memory's lock, which the waiter takes after `wait`.
        if self.count.load(Ordering::SeqCst) == 0 {
            return;
        }
        let mut waiters = lock(&self.waiters);
        while let Some(stream) = waiters.pop_front() {
            self.count.fetch_sub(1, Ordering::SeqCst);
            sched.wake(&stream);
        }
    }
}
