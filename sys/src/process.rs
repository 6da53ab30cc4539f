//! The calling process: identity, name, limits, parents, children, namespaces, end.
#![allow(unsafe_code, reason = "prctl, setrlimit, unshare, _exit")]

use std::ffi::CString;
use std::fs;

use crate::errno::{Errno, Result, SysError, check, retry_on_intr};
use crate::pidfd::{Event, waitid};
use crate::signal::Signal;

/// `pid_t getpid(void);`, in the process's own PID namespace.
///
/// # References
/// getpid(2)
#[must_use]
pub fn pid() -> u32 {
    std::process::id()
}

/// `pid_t getppid(void);`; zero when the parent is outside of this PID namespace.
///
/// # References
/// getppid(2)
#[must_use]
pub fn parent_pid() -> u32 {
    // SAFETY: no arguments, no failure.
    u32::try_from(unsafe { libc::getppid() }).unwrap_or(0)
}

/// `int prctl(PR_SET_PDEATHSIG, long sig);`
///
/// The calling process gets `signal` when the thread that created it ends. A parent that died
/// before the call sends nothing: compare [`parent_pid`] afterwards.
///
/// # Errors
/// None in practice.
///
/// # References
/// PR_SET_PDEATHSIG(2const)
pub fn set_parent_death_signal(signal: Signal) -> Result<()> {
    prctl("prctl(PR_SET_PDEATHSIG)", libc::PR_SET_PDEATHSIG, signal.raw().unsigned_abs().into())
}

/// `int prctl(PR_SET_CHILD_SUBREAPER, long set);`
///
/// Descendants whose parent ends become children of this process.
///
/// # Errors
/// None in practice.
///
/// # References
/// PR_SET_CHILD_SUBREAPER(2const)
pub fn set_child_subreaper(enabled: bool) -> Result<()> {
    let call = "prctl(PR_SET_CHILD_SUBREAPER)";
    prctl(call, libc::PR_SET_CHILD_SUBREAPER, enabled.into())
}

/// `int prctl(PR_SET_NAME, const char *name);`
///
/// Names the calling thread, and the process where that is the main thread: what `/proc/<pid>/comm`
/// shows. Longer names are cut to 15 bytes.
///
/// # Errors
/// `EINVAL`: a zero byte in the name.
///
/// # References
/// PR_SET_NAME(2const)
pub fn set_name(name: &str) -> Result<()> {
    let call = "prctl(PR_SET_NAME)";
    let name = CString::new(name).map_err(|_| SysError::new(call, Errno::INVAL))?;
    // SAFETY: a live C string, of which the kernel copies up to 16 bytes.
    check(call, unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) }).map(drop)
}

/// `int setpgid(pid_t pid, pid_t pgid);` with zeroes: this process leads a process group of its
/// own.
///
/// What a terminal sends to the group of its parent (`SIGINT`, `SIGTSTP`) passes it and its future
/// descendants by, and what they send to their own (`kill(0, …)`, common in shell scripts) reaches
/// nobody else.
///
/// # Errors
/// `EPERM`: it leads a session, and so has a group of its own already.
///
/// # References
/// setpgid(2)
pub fn new_process_group() -> Result<()> {
    // SAFETY: two numbers; changes the group of the calling process only.
    check("setpgid", unsafe { libc::setpgid(0, 0) }).map(drop)
}

/// `int kill(pid_t -leader, int sig);`: to every process of the group that `leader` leads.
///
/// The number stays the group's as long as the leader is not reaped, or a process of it lives.
///
/// # Errors
/// `ESRCH`: no process is in the group; `EINVAL`: no number of a leader; `EPERM`: others' only.
///
/// # References
/// kill(2)
pub fn signal_group(leader: u32, signal: Signal) -> Result<()> {
    // 0 and 1 would mean the caller's own group, and everybody.
    let group = i32::try_from(leader).ok().filter(|&group| group > 1);
    let group = group.ok_or(SysError::new("kill", Errno::INVAL))?;
    // SAFETY: two numbers.
    check("kill", unsafe { libc::kill(-group, signal.raw()) }).map(drop)
}

/// `int setrlimit(RLIMIT_CORE, {0, 0});`
///
/// No core dump of this process and its descendants: a dump of a large shared mapping would take
/// long.
///
/// # Errors
/// None in practice: lowering a limit needs no right.
///
/// # References
/// setrlimit(2), core(5)
pub fn limit_core_dumps() -> Result<()> {
    let limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a live structure.
    check("setrlimit", unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const limit) }).map(drop)
}

/// `int getrlimit(RLIMIT_FSIZE, struct rlimit *rlim);`
///
/// Bytes beyond which no file may grow by a write of this process and, until they change it, of its
/// descendants; `None` without a limit. Such a write fails with `EFBIG`, after a `SIGXFSZ`.
///
/// # References
/// getrlimit(2)
#[must_use]
pub fn file_size_limit() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is writable and of the type the call expects.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) };
    (result == 0 && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

/// `[[noreturn]] void _exit(int status);`
///
/// Ends the process at once: no exit handlers, no destructors, no flush. Async-signal-safe.
///
/// # References
/// _exit(2)
pub fn exit_immediately(status: i32) -> ! {
    // SAFETY: does not return, so nothing can observe what was left undone.
    unsafe { libc::_exit(status) }
}

/// `int waitid(P_ALL, 0, siginfo_t *infop, WEXITED | WNOHANG);`
///
/// Reaps one child that has ended, adopted ones included; `None` when no child has ended, or there
/// is none. It takes the end away from [`crate::pidfd::PidFd::try_wait`] of the same child; stops
/// and continues stay there.
///
/// # Errors
/// None in practice.
///
/// # References
/// waitid(2)
pub fn reap_any() -> Result<Option<(u32, Event)>> {
    match waitid(libc::P_ALL, 0, libc::WEXITED | libc::WNOHANG) {
        Err(error) if error.errno == Errno::CHILD => Ok(None),
        other => other,
    }
}

/// Reaps a child that is about to end, or kills it first if it is not; errors mean it is gone.
pub(crate) fn discard_child(pid: u32) {
    if let Ok(raw) = i32::try_from(pid) {
        // SAFETY: an unreaped child of this process, so the number can't be another process's.
        unsafe { libc::kill(raw, libc::SIGKILL) };
        let _ = retry_on_intr(|| waitid(libc::P_PID, pid, libc::WEXITED));
    }
}

/// Which namespaces [`enter_pid_namespace`] made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamespaceKind {
    /// A PID namespace, by privilege.
    Pid,
    /// A PID namespace inside of a new user namespace with the same uid and gid.
    UserAndPid,
}

/// `int unshare(CLONE_NEWPID);`, or `int unshare(CLONE_NEWUSER | CLONE_NEWPID);` without the right.
///
/// The calling process stays where it is; its next child is process 1 of the new namespace, whose
/// end kills every process in it. The calling thread can't start threads from then on.
///
/// # Errors
/// `EPERM`, `ENOSPC`, `EUSERS`: not permitted here; `EINVAL`: a user namespace is needed and the
/// process has several threads. A failed map leaves the process in the new user namespace: end it.
///
/// # References
/// unshare(2), pid_namespaces(7), user_namespaces(7)
pub fn enter_pid_namespace() -> Result<NamespaceKind> {
    match unshare(libc::CLONE_NEWPID) {
        Ok(()) => return Ok(NamespaceKind::Pid),
        Err(error) if error.errno == Errno::PERM => {}
        Err(error) => return Err(error),
    }
    // SAFETY: no arguments, no failure. Asked before, because the new namespace shows other
    // numbers.
    let uid = unsafe { libc::geteuid() };
    // SAFETY: as above.
    let gid = unsafe { libc::getegid() };
    unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWPID)?;
    write("write(setgroups)", "/proc/self/setgroups", "deny")?;
    write("write(uid_map)", "/proc/self/uid_map", &format!("{uid} {uid} 1\n"))?;
    write("write(gid_map)", "/proc/self/gid_map", &format!("{gid} {gid} 1\n"))?;
    Ok(NamespaceKind::UserAndPid)
}

fn unshare(flags: i32) -> Result<()> {
    // SAFETY: no memory is passed; the flags affect future children and credentials only.
    check("unshare", unsafe { libc::unshare(flags) }).map(drop)
}

fn write(call: &'static str, path: &str, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|error| SysError::from_io(call, &error))
}

fn prctl(call: &'static str, option: i32, value: libc::c_ulong) -> Result<()> {
    // SAFETY: the options of this file take one number and no memory.
    check(call, unsafe { libc::prctl(option, value, 0, 0, 0) }).map(drop)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::thread;

    use super::*;
    use crate::spawn::Spawn;

    #[test]
    fn identity() {
        assert_eq!(pid(), std::process::id());
        assert_eq!(parent_pid(), std::os::unix::process::parent_id());
    }

    #[test]
    fn a_thread_takes_a_name_of_at_most_15_bytes() {
        let named = thread::spawn(|| {
            set_name("sys-a-rather-long-name").expect("name");
            fs::read_to_string("/proc/thread-self/comm").expect("comm")
        });
        assert_eq!(named.join().expect("thread"), "sys-a-rather-lo\n");
        assert_eq!(set_name("a\0b").expect_err("zero byte").errno, Errno::INVAL);
    }

    #[test]
    fn the_limit_on_file_sizes_is_the_one_in_proc() {
        let limits = fs::read_to_string("/proc/self/limits").expect("limits");
        let line = limits.lines().find(|line| line.starts_with("Max file size")).expect("line");
        let soft = line.split_whitespace().nth(3).expect("soft");
        assert_eq!(file_size_limit(), soft.parse().ok(), "{line}");
    }

    #[test]
    fn core_dumps_are_off() {
        limit_core_dumps().expect("limit");
        let limits = fs::read_to_string("/proc/self/limits").expect("limits");
        let line = limits.lines().find(|line| line.starts_with("Max core")).expect("line");
        assert_eq!(line.split_whitespace().nth(4), Some("0"));
    }

    #[test]
    fn the_first_child_after_a_new_namespace_is_process_1() {
        // A thread of its own, which alone is affected.
        let thread = thread::spawn(|| {
            match enter_pid_namespace() {
                Ok(kind) => assert_eq!(kind, NamespaceKind::Pid),
                // Without privilege, a process with several threads gets no user namespace; that
                // way is tested by tests/processes.rs.
                Err(error) => {
                    assert_eq!(error.errno, Errno::INVAL);
                    return;
                }
            }
            let args = ["-c".to_owned(), "test $$ = 1 -a $PPID = 0".to_owned()];
            let child = Spawn {
                program: Path::new("/bin/sh"),
                args: &args,
                env: &[],
                inherit: &[],
                stdin: None,
                stdout: None,
                stderr: None,
                death_signal: Some(Signal::KILL),
            };
            let child = child.spawn().expect("spawn");
            assert_ne!(child.pid, 1);
            assert_eq!(child.pidfd.wait_end(), Ok(Event::Exited(0)));
        });
        thread.join().expect("thread");
    }
}
