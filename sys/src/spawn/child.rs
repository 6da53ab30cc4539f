//! The child's side of a spawn: from the fork to `execve`.
//!
//! Every call here is async-signal-safe; nothing allocates, locks, panics or unwinds.
#![allow(unsafe_code, reason = "the calls between fork and exec")]

use core::mem::zeroed;
use core::ptr;

use crate::errno::{Errno, SysError};
use crate::signal::{SIGNAL_COUNT, Signal};

/// What the child does; all of it prepared by the parent.
pub(super) struct Plan<'a> {
    pub(super) program: *const libc::c_char,
    pub(super) argv: *const *const libc::c_char,
    pub(super) envp: *const *const libc::c_char,
    pub(super) inherit: &'a [i32],
    pub(super) streams: [Option<i32>; 3],
    pub(super) death_signal: Option<Signal>,
    pub(super) parent_pid: u32,
    pub(super) parent: Option<i32>,
    pub(super) report: i32,
}

/// Steps that can fail, in the order of [`CALLS`].
#[derive(Clone, Copy)]
enum Step {
    DeathSignal,
    ParentDied,
    SignalMask,
    Streams,
    Inherit,
    Exec,
}

/// Names of the steps as errors show them.
const CALLS: [&str; 6] = [
    "prctl(PR_SET_PDEATHSIG)",
    "spawn(parent died)",
    "sigprocmask",
    "dup2",
    "fcntl(F_SETFD)",
    "execve",
];

/// Bytes of a report: a step and an error number, each of four bytes.
pub(super) const REPORT_SIZE: usize = 8;

/// Reads a report; `None` when it is empty, as after a successful `execve`.
pub(super) fn decode(bytes: &[u8]) -> Option<SysError> {
    let (step, errno) = bytes.split_first_chunk::<4>()?;
    let errno = i32::from_ne_bytes(*errno.first_chunk::<4>()?);
    let step = usize::try_from(u32::from_ne_bytes(*step)).ok()?;
    Some(SysError::new(CALLS.get(step).copied()?, Errno::from_raw(errno)))
}

/// Becomes the program, or reports why not and ends with code 127.
pub(super) fn run(plan: &Plan<'_>) -> ! {
    let (step, errno) = attempt(plan);
    let [s0, s1, s2, s3] = (step as u32).to_ne_bytes();
    let [e0, e1, e2, e3] = errno.raw().to_ne_bytes();
    let report = [s0, s1, s2, s3, e0, e1, e2, e3];
    // SAFETY: eight readable bytes; a pipe takes so few at once or the parent is gone.
    unsafe { libc::write(plan.report, report.as_ptr().cast(), REPORT_SIZE) };
    // SAFETY: ends the process without running anything of the parent's.
    unsafe { libc::_exit(127) }
}

/// Does every step; returns only at a failure.
fn attempt(plan: &Plan<'_>) -> (Step, Errno) {
    if let Some(signal) = plan.death_signal {
        let number = libc::c_ulong::from(signal.raw().unsigned_abs());
        // SAFETY: no memory is passed.
        if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, number) } == -1 {
            return (Step::DeathSignal, Errno::last());
        }
        // A parent that died before the line above sends nothing.
        if !parent_lives(plan) {
            return (Step::ParentDied, Errno::SRCH);
        }
    }
    if let Err(errno) = reset_signals() {
        return (Step::SignalMask, errno);
    }
    for (target, source) in (0..).zip(plan.streams) {
        let Some(source) = source else { continue };
        // SAFETY: both are plain numbers; the source is above 2, so the copy loses the exec flag.
        if unsafe { libc::dup2(source, target) } == -1 {
            return (Step::Streams, Errno::last());
        }
    }
    for &fd in plan.inherit {
        // SAFETY: changes the flags of this process's copy only: a fork has its own table.
        if unsafe { libc::fcntl(fd, libc::F_SETFD, 0) } == -1 {
            return (Step::Inherit, Errno::last());
        }
    }
    // SAFETY: the parent built null-ended arrays of C strings, which this process has a copy of.
    unsafe { libc::execve(plan.program, plan.argv, plan.envp) };
    (Step::Exec, Errno::last())
}

/// The death signal and the signals' state of a program that something else executes.
pub(super) fn tie(death_signal: Signal, parent_pid: u32) -> Result<(), Errno> {
    let number = libc::c_ulong::from(death_signal.raw().unsigned_abs());
    // SAFETY: no memory is passed.
    if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, number) } == -1 {
        return Err(Errno::last());
    }
    // SAFETY: no arguments, no failure.
    let seen = u32::try_from(unsafe { libc::getppid() }).unwrap_or(0);
    // A parent that died before the call sends nothing; one outside of the namespace is no number.
    if seen != 0 && seen != parent_pid {
        return Err(Errno::SRCH);
    }
    reset_signals()
}

/// Whether the parent is still the process that forked. A parent outside of the child's PID
/// namespace has the number 0 here; then its descriptor tells.
fn parent_lives(plan: &Plan<'_>) -> bool {
    // SAFETY: no arguments, no failure.
    let seen = u32::try_from(unsafe { libc::getppid() }).unwrap_or(0);
    if seen != 0 {
        return seen == plan.parent_pid;
    }
    let Some(parent) = plan.parent else { return true };
    let mut fds = libc::pollfd { fd: parent, events: libc::POLLIN, revents: 0 };
    // SAFETY: one writable structure; a zero timeout only looks.
    unsafe { libc::poll(&raw mut fds, 1, 0) == 0 }
}

/// Default dispositions (an ignored signal would stay ignored after exec) and an empty mask.
fn reset_signals() -> Result<(), Errno> {
    // SAFETY: integers and an optional pointer; all zeroes is SIG_DFL with an empty mask and no
    // flags.
    let default: libc::sigaction = unsafe { zeroed() };
    for number in (1..).take(SIGNAL_COUNT - 1) {
        // SAFETY: `default` is complete. KILL, STOP and libc's own signals refuse, which is fine.
        unsafe { libc::sigaction(number, &raw const default, ptr::null_mut()) };
    }
    // SAFETY: an array of integers; all zeroes is the empty set.
    let empty: libc::sigset_t = unsafe { zeroed() };
    // SAFETY: `empty` is a valid set; a null old set is permitted.
    let result = unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const empty, ptr::null_mut()) };
    if result == 0 { Ok(()) } else { Err(Errno::last()) }
}
