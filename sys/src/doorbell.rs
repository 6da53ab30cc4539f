//! An event counter that another process can ring and a loop can poll.
#![allow(unsafe_code, reason = "eventfd")]

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::errno::{Errno, Result, check, check_len};

/// A non-blocking event counter, closed on exec.
#[derive(Debug)]
pub struct EventFd(OwnedFd);

impl EventFd {
    /// `int eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);`
    ///
    /// # Errors
    /// `EMFILE`, `ENFILE`, `ENOMEM`.
    ///
    /// # References
    /// eventfd(2)
    pub fn new() -> Result<Self> {
        // SAFETY: no memory is passed.
        let raw = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        let raw = check("eventfd", raw)?;
        // SAFETY: a fresh descriptor that nothing else owns.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(raw) }))
    }

    /// Takes over an inherited or received event counter, which should be non-blocking.
    #[must_use]
    pub const fn from_owned(fd: OwnedFd) -> Self {
        Self(fd)
    }

    /// `ssize_t write(int fd, const void *buf, 8);`
    ///
    /// Adds one. Never waits: a full counter is readable already. Async-signal-safe.
    ///
    /// # References
    /// eventfd(2)
    pub fn ring(&self) {
        let one = 1u64;
        // SAFETY: eight readable bytes. The only failures are a full counter, which rings as well,
        // and a signal before anything was written.
        while unsafe { libc::write(self.0.as_raw_fd(), (&raw const one).cast(), 8) } == -1
            && Errno::last() == Errno::INTR
        {}
    }

    /// `ssize_t read(int fd, void *buf, 8);`
    ///
    /// Sets the counter to zero and returns what it was; zero when nobody rang.
    ///
    /// # References
    /// eventfd(2)
    #[must_use]
    pub fn drain(&self) -> u64 {
        let mut count = 0u64;
        // SAFETY: eight writable bytes.
        let read = unsafe { libc::read(self.0.as_raw_fd(), (&raw mut count).cast(), 8) };
        if check_len("read", read).is_ok() { count } else { 0 }
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::EventFd;
    use crate::clock::MonoTime;
    use crate::poll::{Events, PollFd, poll};

    #[test]
    fn rings_are_counted_and_drained() {
        let bell = EventFd::new().expect("eventfd");
        assert_eq!(bell.drain(), 0);
        bell.ring();
        bell.ring();
        let mut fds = [PollFd::new(&bell, Events::IN)];
        assert_eq!(poll(&mut fds, Some(MonoTime::ZERO)), Ok(1));
        assert_eq!(bell.drain(), 2);
        assert_eq!(poll(&mut fds, Some(MonoTime::ZERO)), Ok(0));
    }
}
