//! Descriptors that the parent left open for this process.
#![allow(unsafe_code, reason = "takes ownership of a descriptor by number")]

use std::os::fd::{FromRawFd, OwnedFd};

use crate::errno::{Errno, Result, SysError, check};

/// `int fcntl(int fd, F_SETFD, FD_CLOEXEC);` after a check that the flag was clear.
///
/// Takes a descriptor that was inherited through `execve`, by the number the parent announced. Such
/// a descriptor is recognised by its clear close-on-exec flag: everything this process opens
/// through std or this crate has the flag set, and so has a descriptor that was taken before.
///
/// # Errors
/// `EBADF`: not open; `EBUSY`: opened by this process, or taken before; `EINVAL`: a standard
/// stream.
///
/// # References
/// F_GETFD(2const), execve(2)
pub fn take(number: i32) -> Result<OwnedFd> {
    if (0..=2).contains(&number) {
        return Err(SysError::new("fcntl(F_GETFD)", Errno::INVAL));
    }
    // SAFETY: a query about a number, open or not.
    let flags = check("fcntl(F_GETFD)", unsafe { libc::fcntl(number, libc::F_GETFD) })?;
    if flags & libc::FD_CLOEXEC != 0 {
        return Err(SysError::new("fcntl(F_GETFD)", Errno::BUSY));
    }
    let flags = flags | libc::FD_CLOEXEC;
    // SAFETY: sets a flag of an open descriptor.
    check("fcntl(F_SETFD)", unsafe { libc::fcntl(number, libc::F_SETFD, flags) })?;
    // SAFETY:
    // - the descriptor is open, checked above;
    // - nothing else owns it: it came through execve, because the flag was clear, and it was not
    //   taken before, because taking sets the flag.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsRawFd, IntoRawFd};

    use super::*;
    use crate::memfd;

    #[test]
    fn only_an_inherited_descriptor_can_be_taken_and_only_once() {
        let number = memfd::from_bytes("left", b"left").expect("memfd").into_raw_fd();
        assert_eq!(take(number).expect_err("opened here").errno, Errno::BUSY);
        // SAFETY: makes the descriptor look as after an exec; it has no owner now.
        assert_eq!(unsafe { libc::fcntl(number, libc::F_SETFD, 0) }, 0);
        let taken = take(number).expect("take");
        assert_eq!(taken.as_raw_fd(), number);
        assert_eq!(memfd::read_all(&taken).expect("read"), b"left");
        assert_eq!(take(number).expect_err("taken").errno, Errno::BUSY);
    }

    #[test]
    fn closed_numbers_and_standard_streams_are_refused() {
        assert_eq!(take(-1).expect_err("closed").errno, Errno::BADF);
        assert_eq!(take(1).expect_err("stdout").errno, Errno::INVAL);
    }
}
