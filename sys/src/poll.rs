//! Waiting for descriptors.
#![allow(unsafe_code, reason = "ppoll")]

use core::marker::PhantomData;
use core::ptr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use bitflags::bitflags;

use crate::clock::{MonoTime, timespec};
use crate::errno::{Errno, Result, SysError, check};

bitflags! {
    /// What to wait for, or what happened.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Events: i16 {
        /// `POLLIN`: readable; for a pidfd: the process ended.
        const IN = libc::POLLIN;
        /// `POLLOUT`: writable.
        const OUT = libc::POLLOUT;
        /// `POLLRDHUP`: the peer will not send any more.
        const RDHUP = libc::POLLRDHUP;
        /// `POLLERR`: reported only.
        const ERR = libc::POLLERR;
        /// `POLLHUP`: reported only; the peer is gone.
        const HUP = libc::POLLHUP;
        /// `POLLNVAL`: reported only; not open.
        const NVAL = libc::POLLNVAL;
    }
}

/// One descriptor to wait for.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct PollFd<'fd> {
    raw: libc::pollfd,
    borrowed: PhantomData<BorrowedFd<'fd>>,
}

impl<'fd> PollFd<'fd> {
    /// Waits for `interest` on `fd`; errors and hang-ups are always reported.
    pub fn new(fd: &'fd impl AsFd, interest: Events) -> Self {
        Self::from_borrowed(fd.as_fd(), interest)
    }

    /// As [`PollFd::new`], from a borrowed descriptor.
    #[must_use]
    pub fn from_borrowed(fd: BorrowedFd<'fd>, interest: Events) -> Self {
        let raw = libc::pollfd { fd: fd.as_raw_fd(), events: interest.bits(), revents: 0 };
        Self { raw, borrowed: PhantomData }
    }

    /// What happened, as of the last [`poll`].
    #[must_use]
    pub const fn returned(&self) -> Events {
        Events::from_bits_retain(self.raw.revents)
    }

    /// Whether anything happened, as of the last [`poll`].
    #[must_use]
    pub const fn is_ready(&self) -> bool {
        self.raw.revents != 0
    }
}

impl core::fmt::Debug for PollFd<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("PollFd")
            .field("fd", &self.raw.fd)
            .field("interest", &Events::from_bits_retain(self.raw.events))
            .field("returned", &self.returned())
            .finish()
    }
}

/// `int ppoll(struct pollfd *fds, nfds_t nfds, const struct timespec *tmo_p, NULL);`
///
/// Sleeps until a descriptor is ready or the deadline `timeout` has come (`None`: no limit; a past
/// time: only look). Returns how many are ready; zero means the deadline came.
///
/// # Errors
/// `EINTR`: a signal handler ran; `EINVAL`: more descriptors than `RLIMIT_NOFILE`.
///
/// # References
/// ppoll(2)
pub fn poll(fds: &mut [PollFd<'_>], timeout: Option<MonoTime>) -> Result<usize> {
    let limit = timeout.map(|deadline| timespec(deadline.since_ns(MonoTime::now())));
    let limit_ptr = limit.as_ref().map_or(ptr::null(), ptr::from_ref);
    let count =
        libc::nfds_t::try_from(fds.len()).map_err(|_| SysError::new("ppoll", Errno::INVAL))?;
    // SAFETY:
    // - `PollFd` is transparent over pollfd, so the pointer is to `count` writable structures;
    // - `limit_ptr` is null or points to `limit`, which outlives the call; a null mask is
    //   permitted.
    let ready = unsafe { libc::ppoll(fds.as_mut_ptr().cast(), count, limit_ptr, ptr::null()) };
    check("ppoll", ready).map(|ready| usize::try_from(ready).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::io::{Write, pipe};

    use super::*;

    #[test]
    fn only_the_ready_descriptor_is_reported() {
        let (quiet, _quiet_writer) = pipe().expect("pipe");
        let (loud, mut loud_writer) = pipe().expect("pipe");
        let mut fds = [PollFd::new(&quiet, Events::IN), PollFd::new(&loud, Events::IN)];
        assert_eq!(poll(&mut fds, Some(MonoTime::ZERO)), Ok(0));
        loud_writer.write_all(b"x").expect("write");
        assert_eq!(poll(&mut fds, None), Ok(1));
        assert!(!fds[0].is_ready());
        assert_eq!(fds[1].returned(), Events::IN);
    }

    #[test]
    fn a_closed_peer_is_a_hang_up() {
        let (reader, writer) = pipe().expect("pipe");
        let mut fds = [PollFd::from_borrowed(reader.as_fd(), Events::IN)];
        drop(writer);
        assert_eq!(poll(&mut fds, None), Ok(1));
        assert_eq!(fds[0].returned(), Events::HUP);
        assert!(format!("{fds:?}").contains("HUP"));
    }

    #[test]
    fn a_deadline_ends_the_wait() {
        let deadline = MonoTime::now().add_ms(1);
        assert_eq!(poll(&mut [], Some(deadline)), Ok(0));
        assert!(deadline.is_past(MonoTime::now()));
    }
}
