//! Processes by descriptor: a handle that never means another process.
#![allow(unsafe_code, reason = "pidfd_open, pidfd_send_signal, waitid")]

use core::mem::zeroed;
use core::ptr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::clock::MonoTime;
use crate::errno::{Errno, Result, SysError, check, retry_on_intr};
use crate::poll::{Events, PollFd, poll};
use crate::signal::Signal;

/// A change of state of a child process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// It ended by itself, with this exit code.
    Exited(i32),
    /// A signal ended it.
    Signalled {
        /// Which signal.
        signal: Signal,
        /// Whether the kernel wrote (or piped) a core dump.
        core: bool,
    },
    /// It was stopped (`SIGSTOP` and relatives).
    Stopped,
    /// It was continued (`SIGCONT`).
    Continued,
}

impl Event {
    /// Whether the process is gone.
    #[must_use]
    pub const fn is_end(self) -> bool {
        matches!(self, Self::Exited(_) | Self::Signalled { .. })
    }
}

/// A descriptor of a process, closed on exec.
#[derive(Debug)]
pub struct PidFd(OwnedFd);

impl PidFd {
    /// `int pidfd_open(pid_t pid, 0);`
    ///
    /// Free of races for a child that was not reaped; any other number may have been given to
    /// another process meanwhile.
    ///
    /// # Errors
    /// `ESRCH`: no such process; `EINVAL`: zero or out of range; `EMFILE`.
    ///
    /// # References
    /// pidfd_open(2)
    pub fn open(pid: u32) -> Result<Self> {
        let pid = i32::try_from(pid).map_err(|_| SysError::new("pidfd_open", Errno::INVAL))?;
        // SAFETY: no memory is passed.
        let raw = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        let raw = check("pidfd_open", i32::try_from(raw).unwrap_or(-1))?;
        // SAFETY: a fresh descriptor that nothing else owns.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(raw) }))
    }

    /// `int pidfd_open(getpid(), 0);`: a descriptor of the calling process, to hand to others.
    ///
    /// # Errors
    /// `EMFILE`, `ENFILE`, `ENOMEM`.
    ///
    /// # References
    /// pidfd_open(2)
    pub fn of_self() -> Result<Self> {
        Self::open(std::process::id())
    }

    /// Takes over an inherited or received descriptor. One that is no pidfd makes the calls fail
    /// with `EBADF` or `EINVAL`.
    #[must_use]
    pub const fn from_owned(fd: OwnedFd) -> Self {
        Self(fd)
    }

    /// `int pidfd_send_signal(int pidfd, int sig, NULL, 0);`
    ///
    /// # Errors
    /// `ESRCH`: the process was reaped; `EPERM`: another user's.
    ///
    /// # References
    /// pidfd_send_signal(2)
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let raw = self.0.as_raw_fd();
        let info = ptr::null::<libc::siginfo_t>();
        // SAFETY: a null siginfo is permitted and means what kill(2) would send.
        let result =
            unsafe { libc::syscall(libc::SYS_pidfd_send_signal, raw, signal.raw(), info, 0) };
        check("pidfd_send_signal", i32::try_from(result).unwrap_or(-1)).map(drop)
    }

    /// `int waitid(P_PIDFD, id_t fd, siginfo_t *infop, WEXITED | WSTOPPED | WCONTINUED | WNOHANG);`
    ///
    /// Takes the child's next change of state; `None` when there is none. An end is reported once
    /// and reaps the child.
    ///
    /// # Errors
    /// `ECHILD`: not a child of this process, or reaped before.
    ///
    /// # References
    /// waitid(2)
    pub fn try_wait(&self) -> Result<Option<Event>> {
        let any = libc::WEXITED | libc::WSTOPPED | libc::WCONTINUED;
        self.waitid(any | libc::WNOHANG)
    }

    /// `int waitid(P_PIDFD, id_t fd, siginfo_t *infop, WEXITED | WSTOPPED | WCONTINUED);`
    ///
    /// As [`PidFd::try_wait`], but sleeps until there is a change; `None` when a signal handler
    /// ran.
    ///
    /// # Errors
    /// As [`PidFd::try_wait`].
    ///
    /// # References
    /// waitid(2)
    pub fn wait(&self) -> Result<Option<Event>> {
        match self.waitid(libc::WEXITED | libc::WSTOPPED | libc::WCONTINUED) {
            Err(error) if error.errno == Errno::INTR => Ok(None),
            other => other,
        }
    }

    /// `int waitid(P_PIDFD, id_t fd, siginfo_t *infop, WEXITED);`
    ///
    /// Sleeps until the child has ended and reaps it; stops and signal handlers do not end the
    /// wait.
    ///
    /// # Errors
    /// As [`PidFd::try_wait`].
    ///
    /// # References
    /// waitid(2)
    pub fn wait_end(&self) -> Result<Event> {
        let event = retry_on_intr(|| self.waitid(libc::WEXITED))?;
        event.ok_or(SysError::new("waitid", Errno::CHILD))
    }

    /// `int ppoll(struct pollfd *fds, 1, {0, 0}, NULL);`: whether the process has ended.
    ///
    /// Works for any process, also one that is not a child, and does not reap.
    ///
    /// # References
    /// pidfd_open(2), ppoll(2)
    #[must_use]
    pub fn is_ready(&self) -> bool {
        let mut fds = [PollFd::new(self, Events::IN)];
        retry_on_intr(|| poll(&mut fds, Some(MonoTime::ZERO))).is_ok_and(|count| count > 0)
    }

    fn waitid(&self, options: i32) -> Result<Option<Event>> {
        let id = libc::id_t::try_from(self.0.as_raw_fd())
            .map_err(|_| SysError::new("waitid", Errno::BADF))?;
        Ok(waitid(libc::P_PIDFD, id, options)?.map(|(_, event)| event))
    }
}

impl AsFd for PidFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<PidFd> for OwnedFd {
    fn from(pidfd: PidFd) -> Self {
        pidfd.0
    }
}

/// One `waitid`: the process and what happened to it; `None` when nothing did.
pub(crate) fn waitid(
    kind: libc::idtype_t,
    id: libc::id_t,
    options: i32,
) -> Result<Option<(u32, Event)>> {
    // SAFETY: siginfo_t is integers; all zeroes is a value, and the one that means "nothing
    // happened".
    let mut info: libc::siginfo_t = unsafe { zeroed() };
    // SAFETY: `info` is writable and of the type the call expects.
    check("waitid", unsafe { libc::waitid(kind, id, &raw mut info, options) })?;
    // SAFETY: waitid fills the SIGCHLD fields; a zero pid says it filled none.
    let pid = unsafe { info.si_pid() };
    if pid == 0 {
        return Ok(None);
    }
    // SAFETY: as above.
    let status = unsafe { info.si_status() };
    let signal = Signal::from_raw(status).unwrap_or(Signal::KILL);
    let event = match info.si_code {
        libc::CLD_EXITED => Event::Exited(status),
        libc::CLD_KILLED => Event::Signalled { signal, core: false },
        libc::CLD_DUMPED => Event::Signalled { signal, core: true },
        libc::CLD_CONTINUED => Event::Continued,
        _ => Event::Stopped,
    };
    Ok(Some((u32::try_from(pid).unwrap_or(0), event)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spawn::tests::{sh, sleeper};

    #[test]
    fn an_exit_code_is_reported_once() {
        let child = sh("exit 7");
        assert_eq!(child.pidfd.wait(), Ok(Some(Event::Exited(7))));
        assert_eq!(child.pidfd.try_wait().expect_err("reaped").errno, Errno::CHILD);
        assert_eq!(child.pidfd.signal(Signal::KILL).expect_err("reaped").errno, Errno::SRCH);
    }

    #[test]
    fn stop_continue_kill_are_seen_in_turn() {
        let child = sleeper();
        assert_eq!(child.pidfd.try_wait(), Ok(None));
        assert!(!child.pidfd.is_ready());
        child.pidfd.signal(Signal::STOP).expect("stop");
        assert_eq!(child.pidfd.wait(), Ok(Some(Event::Stopped)));
        child.pidfd.signal(Signal::CONT).expect("continue");
        assert_eq!(child.pidfd.wait(), Ok(Some(Event::Continued)));
        child.pidfd.signal(Signal::STOP).expect("stop");
        child.pidfd.signal(Signal::KILL).expect("kill");
        let end = child.pidfd.wait_end().expect("end");
        assert_eq!(end, Event::Signalled { signal: Signal::KILL, core: false });
        assert!(end.is_end());
    }

    #[test]
    fn the_end_of_any_process_makes_its_descriptor_ready() {
        let child = sleeper();
        let other = PidFd::open(child.pid).expect("open");
        assert!(!other.is_ready());
        child.pidfd.signal(Signal::TERM).expect("terminate");
        let mut fds = [PollFd::new(&other, Events::IN)];
        assert_eq!(poll(&mut fds, None), Ok(1));
        assert!(other.is_ready());
        assert_eq!(
            PidFd::from_owned(other.into()).wait_end(),
            Ok(Event::Signalled { signal: Signal::TERM, core: false })
        );
    }

    #[test]
    fn self_and_nobody() {
        let own = PidFd::of_self().expect("self");
        assert!(!own.is_ready());
        assert_eq!(own.try_wait().expect_err("not a child").errno, Errno::CHILD);
        assert_eq!(PidFd::open(0).expect_err("zero").errno, Errno::INVAL);
        assert_eq!(PidFd::open(u32::MAX).expect_err("range").errno, Errno::INVAL);
        assert_eq!(PidFd::open(0x3fff_ffff).expect_err("nobody").errno, Errno::SRCH);
    }
}
