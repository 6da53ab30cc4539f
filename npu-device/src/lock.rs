//! Locks of this crate. No user code runs under one, so a poisoned lock guards whole values.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks; a thread that panicked while it held the lock changes nothing.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
