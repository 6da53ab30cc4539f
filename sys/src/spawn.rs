//! Starting a program.
//!
//! Everything the child needs is laid out before the fork; between fork and exec it makes
//! async-signal-safe calls only, because other threads of the parent may have held any lock.
//!
//! ```text
//! parent: strings, descriptors ≥ 3, block signals ── fork ── unblock, read the report until its
//! end child:      death signal → parent alive? → signals → stdio → inherited descriptors → execve
//! killed before exec: the report ends without a word, and the pidfd shows the death like any other
//! ```
#![allow(unsafe_code, reason = "fork, execve and what lies between")]

use std::ffi::CString;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::ptr;

use crate::errno::{Errno, Result, SysError, check};
use crate::pidfd::PidFd;
use crate::process;
use crate::signal::{self, Signal};

mod child;

/// What to start. Nothing is taken from the parent but what is named here, the standard streams
/// where they are `None`, the working directory, limits and credentials.
#[derive(Clone, Copy, Debug)]
pub struct Spawn<'a> {
    /// The file to execute, which is also `argv[0]`; there is no search along `PATH`.
    pub program: &'a Path,
    /// Arguments after `argv[0]`.
    pub args: &'a [String],
    /// The whole environment, as name and value.
    pub env: &'a [(String, String)],
    /// Descriptors the program gets under their own numbers, which must be above 2.
    pub inherit: &'a [BorrowedFd<'a>],
    /// Standard input; `None`: the parent's.
    pub stdin: Option<BorrowedFd<'a>>,
    /// Standard output; `None`: the parent's.
    pub stdout: Option<BorrowedFd<'a>>,
    /// Standard error; `None`: the parent's.
    pub stderr: Option<BorrowedFd<'a>>,
    /// Sent to the child when the *thread* that called [`Spawn::spawn`] ends.
    pub death_signal: Option<Signal>,
}

/// A started program. Dropping it neither ends nor reaps the process.
#[derive(Debug)]
pub struct Child {
    /// Its number, in the parent's PID namespace.
    pub pid: u32,
    /// Its descriptor.
    pub pidfd: PidFd,
}

impl Spawn<'_> {
    /// `pid_t fork(void);` then `int execve(const char *path, char *const argv[], char *const
    /// envp[]);`
    ///
    /// Returns when the program runs or has failed to. The child starts with an empty signal mask
    /// and default dispositions.
    ///
    /// # Errors
    /// The failed step's name and reason, for example `execve: ENOENT`; `EINVAL`: a zero byte in a
    /// string, or an inherited descriptor below 3. After an error there is no child left.
    ///
    /// # References
    /// fork(2), execve(2), PR_SET_PDEATHSIG(2const), signal-safety(7)
    pub fn spawn(&self) -> Result<Child> {
        let program = c_string(self.program.as_os_str().as_bytes())?;
        let mut args = vec![program.clone()];
        for arg in self.args {
            args.push(c_string(arg.as_bytes())?);
        }
        let mut env = Vec::with_capacity(self.env.len());
        for (name, value) in self.env {
            env.push(c_string(format!("{name}={value}").as_bytes())?);
        }
        let argv = pointers(&args);
        let envp = pointers(&env);
        let inherit: Vec<RawFd> = self.inherit.iter().map(AsRawFd::as_raw_fd).collect();
        if inherit.iter().any(|&raw| raw <= 2) {
            return Err(SysError::new("spawn(inherit)", Errno::INVAL));
        }
        let streams = [self.stdin, self.stdout, self.stderr].map(|fd| fd.map(above_streams));
        let streams = transpose(streams)?;
        let (report, report_writer) = report_pipe()?;
        let parent = if self.death_signal.is_some() { Some(PidFd::of_self()?) } else { None };
        let plan = child::Plan {
            program: program.as_ptr(),
            argv: argv.as_ptr(),
            envp: envp.as_ptr(),
            inherit: &inherit,
            streams: [0, 1, 2].map(|index: usize| streams[index].as_ref().map(AsRawFd::as_raw_fd)),
            death_signal: self.death_signal,
            parent_pid: process::pid(),
            parent: parent.as_ref().map(|pidfd| pidfd.as_fd().as_raw_fd()),
            report: report_writer.as_raw_fd(),
        };
        let pid = fork(&plan)?;
        drop(report_writer);
        finish(pid, report)
    }
}

/// Forks; the child runs `plan` and never returns. Signals are blocked around it, so that no
/// handler of the parent runs in the child.
fn fork(plan: &child::Plan<'_>) -> Result<u32> {
    let old_mask = signal::replace_mask(&signal::full_set())?;
    // SAFETY: the child calls only `child::run`, which is async-signal-safe and does not return.
    let forked = check("fork", unsafe { libc::fork() });
    if forked == Ok(0) {
        child::run(plan);
    }
    signal::replace_mask(&old_mask)?;
    forked.map(|pid| u32::try_from(pid).unwrap_or(0))
}

/// Opens the child's descriptor and reads its report: nothing when `execve` succeeded.
fn finish(pid: u32, report: OwnedFd) -> Result<Child> {
    let pidfd = PidFd::open(pid);
    let mut bytes = Vec::with_capacity(child::REPORT_SIZE);
    let read = File::from(report).read_to_end(&mut bytes);
    let failure = match (child::decode(&bytes), read, &pidfd) {
        (Some(failure), ..) => failure,
        (None, Err(error), _) => SysError::from_io("read", &error),
        (None, Ok(_), Err(error)) => *error,
        (None, Ok(_), Ok(_)) => return pidfd.map(|pidfd| Child { pid, pidfd }),
    };
    process::discard_child(pid);
    Err(failure)
}

/// Makes a [`Command`] start as [`Spawn`] does: with default dispositions, an empty signal mask and
/// a death signal, which follows the *thread* that starts it. The program leads a process group of
/// its own ([`process::signal_group`]).
///
/// # References
/// setpgid(2), PR_SET_PDEATHSIG(2const)
pub fn lead_group(command: &mut Command, death_signal: Signal) {
    let parent = process::pid();
    command.process_group(0);
    // SAFETY: the closure is async-signal-safe: `tie` makes system calls only, and an error of a
    // number allocates nothing.
    unsafe {
        command.pre_exec(move || {
            let tied = child::tie(death_signal, parent);
            tied.map_err(|errno| std::io::Error::from_raw_os_error(errno.raw()))
        });
    }
}

fn c_string(bytes: &[u8]) -> Result<CString> {
    CString::new(bytes).map_err(|_| SysError::new("spawn(string)", Errno::INVAL))
}

/// Pointers to strings, ended by null. Valid while `strings` lives unchanged.
fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect()
}

/// A copy of a descriptor above the standard streams, so that no `dup2` overwrites the source of
/// the next.
fn above_streams(fd: BorrowedFd<'_>) -> Result<OwnedFd> {
    // SAFETY: copies an open descriptor.
    let raw = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 3) };
    let raw = check("fcntl(F_DUPFD_CLOEXEC)", raw)?;
    // SAFETY: a fresh descriptor that nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

fn transpose(streams: [Option<Result<OwnedFd>>; 3]) -> Result<[Option<OwnedFd>; 3]> {
    let [stdin, stdout, stderr] = streams.map(Option::transpose);
    Ok([stdin?, stdout?, stderr?])
}

/// A pipe, closed on exec, whose write end is above the standard streams.
fn report_pipe() -> Result<(OwnedFd, OwnedFd)> {
    let (reader, writer) = std::io::pipe().map_err(|error| SysError::from_io("pipe2", &error))?;
    Ok((reader.into(), above_streams(writer.as_fd())?))
}

#[cfg(test)]
pub(crate) mod tests;
