//! Taking turns with a deadline: a `Mutex` whose waiting ends in time. No system call while nobody
//! waits: the end of a turn wakes only those who said that they do.

use std::ops::{Deref, DerefMut};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use sys::clock::MonoTime;

use super::lock;

/// Something that one thread uses at a time.
#[derive(Debug)]
pub(super) struct Turn<T> {
    state: Mutex<State>,
    freed: Condvar,
    value: Mutex<T>,
}

#[derive(Default, Debug)]
struct State {
    busy: bool,
    waiting: u32,
}

/// A turn; it ends when dropped.
#[derive(Debug)]
pub(super) struct Taken<'a, T> {
    turn: &'a Turn<T>,
    value: MutexGuard<'a, T>,
}

impl<T> Turn<T> {
    pub(super) fn new(value: T) -> Self {
        Self { state: Mutex::default(), freed: Condvar::new(), value: Mutex::new(value) }
    }

    /// Waits for the turn until `deadline`, for ever with `None`; `None` when it did not come.
    pub(super) fn take(&self, deadline: Option<MonoTime>) -> Option<Taken<'_, T>> {
        let mut state = lock(&self.state);
        while state.busy {
            let now = MonoTime::now();
            if deadline.is_some_and(|deadline| deadline.is_past(now)) {
                return None;
            }
            state.waiting += 1;
            state = match deadline {
                None => self.freed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let waited = self.freed.wait_timeout(state, deadline.saturating_since(now));
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
            state.waiting -= 1;
        }
        state.busy = true;
        drop(state);
        Some(Taken { turn: self, value: lock(&self.value) })
    }
}

impl<T> Drop for Taken<'_, T> {
    fn drop(&mut self) {
        let mut state = lock(&self.turn.state);
        state.busy = false;
        let waited_for = state.waiting > 0;
        drop(state);
        if waited_for {
            self.turn.freed.notify_one();
        }
    }
}

impl<T> Deref for Taken<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Taken<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_waited_for_until_the_deadline() {
        let turn = Turn::new(1);
        let mut mine = turn.take(None).unwrap();
        *mine += 1;
        let now = MonoTime::now();
        assert!(turn.take(Some(now)).is_none());
        std::thread::scope(|scope| {
            let late = scope.spawn(|| turn.take(Some(now.add_ms(5))).is_none());
            assert!(late.join().unwrap());
            assert!(MonoTime::now().since_ns(now) >= 5_000_000);
            let next = scope.spawn(|| *turn.take(None).unwrap());
            drop(mine);
            assert_eq!(next.join().unwrap(), 2);
        });
    }
}
