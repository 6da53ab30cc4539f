//! Waiting for a 32-bit word to change, across processes.
//!
//! Always the shared kind: the word may lie in a memory file that several processes map, and the
//! waiter's own mapping may be read-only. The word alone carries the meaning; a waker changes it
//! first and calls [`wake`] after.
#![allow(unsafe_code, reason = "futex has no libc wrapper")]

use core::ptr;
use core::sync::atomic::AtomicU32;

use crate::clock::MonoTime;
use crate::errno::Errno;

/// Why [`wait`] returned. None of them promises anything about the word: read it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitOutcome {
    /// Somebody called [`wake`] (or the kernel woke us for no reason).
    Woken,
    /// The word differed from the expected value already, so there was no wait.
    Changed,
    /// The deadline passed.
    TimedOut,
    /// A signal handler ran, or the kernel could not wait; look at the word and the deadline again.
    Interrupted,
}

/// `long syscall(SYS_futex, uint32_t *uaddr, FUTEX_WAIT_BITSET, uint32_t val, timeout, 0, mask);`
///
/// Sleeps while `*word == expected`, until woken or until `deadline`; `None` waits without limit.
///
/// # References
/// futex(2), FUTEX_WAIT_BITSET(2const)
pub fn wait(word: &AtomicU32, expected: u32, deadline: Option<MonoTime>) -> WaitOutcome {
    let limit = deadline.map(MonoTime::as_timespec);
    let limit_ptr = limit.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY:
    // - `word` is a live, aligned 32-bit word; the kernel only reads it.
    // - `limit_ptr` is null or points to `limit`, which outlives the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT_BITSET,
            expected,
            limit_ptr,
            ptr::null::<u32>(),
            libc::FUTEX_BITSET_MATCH_ANY,
        )
    };
    if result == 0 {
        return WaitOutcome::Woken;
    }
    match Errno::last() {
        Errno::AGAIN => WaitOutcome::Changed,
        Errno::TIMEDOUT => WaitOutcome::TimedOut,
        _ => WaitOutcome::Interrupted,
    }
}

/// `long syscall(SYS_futex, uint32_t *uaddr, FUTEX_WAKE, uint32_t count);`
///
/// Wakes at most `count` waiters of `word`, in whatever process; returns how many were woken.
///
/// # References
/// futex(2), FUTEX_WAKE(2const)
pub fn wake(word: &AtomicU32, count: u32) -> u32 {
    let count = i32::try_from(count).unwrap_or(i32::MAX);
    // SAFETY: `word` is a live, aligned 32-bit word, which the kernel uses as a key only.
    let woken = unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, count) };
    u32::try_from(woken).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::Ordering::{Acquire, Release};
    use std::os::fd::AsFd;
    use std::sync::Arc;
    use std::thread;

    use super::{AtomicU32, MonoTime, WaitOutcome, wait, wake};
    use crate::mapping::{Access, Mapping, page_size};
    use crate::memfd;

    #[test]
    fn a_changed_word_does_not_wait() {
        assert_eq!(wait(&AtomicU32::new(1), 0, None), WaitOutcome::Changed);
    }

    #[test]
    fn a_past_deadline_ends_the_wait() {
        let word = AtomicU32::new(0);
        assert_eq!(wait(&word, 0, Some(MonoTime::now())), WaitOutcome::TimedOut);
        assert_eq!(wait(&word, 0, Some(MonoTime::now().add_ms(1))), WaitOutcome::TimedOut);
    }

    #[test]
    fn nobody_to_wake() {
        assert_eq!(wake(&AtomicU32::new(0), u32::MAX), 0);
    }

    #[test]
    fn a_waiter_is_woken() {
        let word = Arc::new(AtomicU32::new(0));
        let waiter = {
            let word = Arc::clone(&word);
            thread::spawn(move || {
                while word.load(Acquire) == 0 {
                    wait(&word, 0, None);
                }
            })
        };
        word.store(1, Release);
        wake(&word, 1);
        waiter.join().expect("waiter ends");
    }

    #[test]
    fn a_read_only_mapping_of_the_same_page_can_wait() {
        let fd = memfd::create("futex-test", page_size() as u64).expect("memfd");
        let writer = Mapping::shared(fd.as_fd(), page_size(), Access::ReadWrite).expect("map");
        let reader = Mapping::shared(fd.as_fd(), page_size(), Access::Read).expect("map");
        assert_ne!(writer.as_ptr(), reader.as_ptr());
        // SAFETY: the mapping is page-aligned, lives until the end of the test, and the word is
        // accessed by atomic operations only.
        let written = unsafe { AtomicU32::from_ptr(writer.as_ptr().cast()) };
        let waiter = thread::spawn(move || {
            // SAFETY: as above; the page is read-only and only loads and waits happen here.
            let word = unsafe { AtomicU32::from_ptr(reader.as_ptr().cast()) };
            while word.load(Acquire) == 0 {
                assert_ne!(wait(word, 0, None), WaitOutcome::Interrupted);
            }
        });
        // A futex key is the page of the file, so the wake through another mapping must arrive:
        // loop until the waiter is seen asleep, then change the word and wake it.
        while wake(written, 1) == 0 {
            thread::yield_now();
        }
        written.store(1, Release);
        wake(written, 1);
        waiter.join().expect("waiter ends");
    }
}
