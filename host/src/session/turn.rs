//! Taking turns with a deadline: a `Mutex` whose waiting ends in time.

use std::ops::{Deref, DerefMut};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use sys::clock::MonoTime;

use super::lock;

/// Something that one thread uses at a time.
#[derive(Debug)]
pub(super) struct Turn<T> {
    busy: Mutex<bool>,
    freed: Condvar,
    value: Mutex<T>,
}

/// A turn; it ends when dropped.
#[derive(Debug)]
pub(super) struct Taken<'a, T> {
    turn: &'a Turn<T>,
    value: MutexGuard<'a, T>,
}

impl<T> Turn<T> {
    pub(super) fn new(value: T) -> Self {
        Self { busy: Mutex::new(false), freed: Condvar::new(), value: Mutex::new(value) }
    }

    /// Waits for the turn until `deadline`, for ever with `None`; `None` when it did not come.
    pub(super) fn take(&self, deadline: Option<MonoTime>) -> Option<Taken<'_, T>> {
        let mut busy = lock(&self.busy);
        while *busy {
            busy = match deadline {
                None => self.freed.wait(busy).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let now = MonoTime::now();
                    if deadline.is_past(now) {
                        return None;
                    }
                    let left = deadline.saturating_since(now);
                    let waited = self.freed.wait_timeout(busy, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        *busy = true;
        drop(busy);
        Some(Taken { turn: self, value: lock(&self.value) })
    }
}

impl<T> Drop for Taken<'_, T> {
    fn drop(&mut self) {
        *lock(&self.turn.busy) = false;
        self.turn.freed.notify_one();
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
