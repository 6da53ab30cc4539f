//! Signals as readable events of a descriptor, for loops that poll.
//!
//! Without a handler there is no moment between a look at a flag and the wait in which a signal
//! could be missed.
#![allow(unsafe_code, reason = "signalfd")]

use core::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::errno::{Errno, Result, check, check_len};
use crate::signal::{Signal, block, set_of};

/// A descriptor that becomes readable while a signal of its set is pending.
#[derive(Debug)]
pub struct SignalFd(OwnedFd);

/// One received signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Which signal.
    pub signal: Signal,
    /// The sender; for `SIGCHLD` the child.
    pub pid: u32,
}

impl SignalFd {
    /// `int signalfd(-1, const sigset_t *mask, SFD_CLOEXEC | SFD_NONBLOCK);`
    ///
    /// Blocks the set in the calling thread and listens for it. Call it before other threads start:
    /// a thread that does not block the set would take a signal away.
    ///
    /// # Errors
    /// `EMFILE`, `ENFILE`, `ENOMEM`.
    ///
    /// # References
    /// signalfd(2)
    pub fn new(signals: &[Signal]) -> Result<Self> {
        block(signals)?;
        let set = set_of(signals);
        // SAFETY: `set` is a valid set, copied by the kernel.
        let raw =
            unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
        let raw = check("signalfd", raw)?;
        // SAFETY: a fresh descriptor that nothing else owns.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(raw) }))
    }

    /// `ssize_t read(int fd, void *buf, size_t count);`
    ///
    /// Takes one pending signal; `None` when there is none.
    ///
    /// # Errors
    /// None in practice.
    ///
    /// # References
    /// signalfd(2)
    pub fn read(&self) -> Result<Option<Received>> {
        // SAFETY: the structure is plain integers; all zeroes is a value.
        let mut info: libc::signalfd_siginfo = unsafe { zeroed() };
        let size = size_of::<libc::signalfd_siginfo>();
        // SAFETY: `info` is writable and has `size` bytes; every bit pattern is a value of it.
        let count = unsafe { libc::read(self.0.as_raw_fd(), (&raw mut info).cast(), size) };
        match check_len("read", count) {
            Ok(_) => {}
            Err(error) if error.errno == Errno::AGAIN => return Ok(None),
            Err(error) => return Err(error),
        }
        let signal = i32::try_from(info.ssi_signo).ok().and_then(Signal::from_raw);
        Ok(signal.map(|signal| Received { signal, pid: info.ssi_pid }))
    }
}

impl AsFd for SignalFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::{Signal, SignalFd};

    #[test]
    fn a_pending_signal_is_read_once() {
        let thread = thread::spawn(|| {
            let fd = SignalFd::new(&[Signal::XCPU]).expect("signalfd");
            assert_eq!(fd.read(), Ok(None));
            // SAFETY: sends a blocked signal to this thread.
            assert_eq!(unsafe { libc::raise(libc::SIGXCPU) }, 0);
            let received = fd.read().expect("read").expect("pending");
            assert_eq!((received.signal, received.pid), (Signal::XCPU, std::process::id()));
            assert_eq!(fd.read(), Ok(None));
        });
        thread.join().expect("thread");
    }
}
