//! One point in time that a feed is woken at: of the id that has waited longest.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use crate::codes::{Error, RESOURCE_ALLOC_FAIL, Result};
use crate::lock::lock;

#[derive(Debug, Default)]
struct State {
    due: Option<Instant>,
    ended: bool,
}

/// A thread that calls back at a time. It ends with this value, or soon after.
#[derive(Debug)]
pub(super) struct Alarm {
    shared: Arc<(Mutex<State>, Condvar)>,
}

impl Alarm {
    pub(super) fn new(ring: impl Fn() + Send + 'static) -> Result<Self> {
        let shared: Arc<(Mutex<State>, Condvar)> = Arc::default();
        let own = shared.clone();
        let started = thread::Builder::new().name("feed-alarm".to_owned()).spawn(move || {
            while wait(&own.0, &own.1) {
                ring();
            }
        });
        started.map_err(|error| {
            Error::new(RESOURCE_ALLOC_FAIL, format!("a thread can't be started: {error}"))
        })?;
        Ok(Self { shared })
    }

    /// When it calls next; the last word counts.
    pub(super) fn set(&self, due: Option<Instant>) {
        lock(&self.shared.0).due = due;
        self.shared.1.notify_one();
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        lock(&self.shared.0).ended = true;
        self.shared.1.notify_one();
    }
}

/// Until it is time; false at the end.
fn wait(state: &Mutex<State>, changed: &Condvar) -> bool {
    let mut state = lock(state);
    loop {
        if state.ended {
            return false;
        }
        state = match state.due {
            None => changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            Some(due) => {
                let left = due.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    state.due = None;
                    return true;
                }
                let woken = changed.wait_timeout(state, left);
                woken.unwrap_or_else(PoisonError::into_inner).0
            }
        };
    }
}
