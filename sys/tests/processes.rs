//! What needs a whole process: namespaces without privilege, memory faults, orphans, dead parents.
//!
//! This binary starts itself once per case with the case's name as its argument; a case ends with
//! code 0, or with what its entry below expects. There is no test harness, so a case has one
//! thread.

#![allow(unsafe_code, reason = "a fault on purpose")]

use std::io::{Read, pipe};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use sys::pidfd::{Event, PidFd};
use sys::poll::{Events, PollFd, poll};
use sys::process::{self, NamespaceKind};
use sys::signal::{self, Signal};
use sys::spawn::{Child, Spawn};
use sys::{mapping, memfd, procfs};

/// Name, body, and the status it must end with.
type Case = (&'static str, fn(), fn(ExitStatus) -> bool);

const CASES: [Case; 9] = [
    ("namespace", namespace, |status| status.success()),
    ("namespace-ends", namespace_ends, |status| status.success()),
    ("orphan", orphan, |status| status.success()),
    ("inherited", inherited, |status| status.success()),
    ("fault", fault, |status| status.code() == Some(41)),
    ("fault-dies", fault_dies, |status| status.signal() == Some(Signal::BUS.raw())),
    ("fault-overflow", fault_overflow, |status| status.code() == Some(41)),
    ("fault-thread", fault_thread, |status| status.code() == Some(41)),
    ("fault-sent", fault_sent, |status| status.signal() == Some(Signal::BUS.raw())),
];

/// The user of cases that must not be privileged.
const NOBODY: u32 = 65534;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1).filter(|arg| !arg.starts_with('-'));
    let wanted = args.next();
    if let Some(number) = std::env::var_os("SYS_TEST_FD") {
        let number = number.to_str().and_then(|text| text.parse().ok()).expect("a number");
        let taken = sys::inherited::take(number).expect("take");
        assert_eq!(memfd::read_all(&taken).expect("read"), b"handed down");
        return ExitCode::SUCCESS;
    }
    if let Some((_, body, _)) =
        CASES.iter().find(|(name, ..)| wanted.as_deref() == Some(&format!("case:{name}")))
    {
        body();
        return ExitCode::SUCCESS;
    }
    let mut failed = 0;
    for (name, _, expected) in CASES {
        let status = start(name);
        let verdict = if expected(status) { "ok" } else { "FAILED" };
        println!("test {name} ... {verdict} ({status})");
        failed += u32::from(!expected(status));
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs a case in a process of its own.
fn start(name: &str) -> ExitStatus {
    let mut command = Command::new("/proc/self/exe");
    command.arg(format!("case:{name}")).stdin(Stdio::null());
    if name.starts_with("namespace") && process_is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command.status().expect("start this binary")
}

fn process_is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|data| data.uid() == 0)
}

fn sh(text: &str) -> Child {
    let args = ["-c".to_owned(), text.to_owned()];
    let what = Spawn {
        program: Path::new("/bin/sh"),
        args: &args,
        env: &[],
        inherit: &[],
        stdin: None,
        stdout: None,
        stderr: None,
        death_signal: Some(Signal::KILL),
    };
    what.spawn().expect("spawn")
}

/// Enters a namespace; `None` where the machine permits none, which is said.
fn enter() -> Option<NamespaceKind> {
    match process::enter_pid_namespace() {
        Ok(kind) => Some(kind),
        Err(error) => {
            println!("namespaces are not permitted here, skipped: {error}");
            None
        }
    }
}

fn namespace() {
    let Some(kind) = enter() else { return };
    assert_eq!(kind, NamespaceKind::UserAndPid);
    let child = sh("test $$ = 1 -a $PPID = 0 -a $(id -u) = $(stat -c %u /proc/self)");
    assert_eq!(child.pidfd.wait_end(), Ok(Event::Exited(0)));
}

/// The end of process 1 ends a grandchild that left its session.
fn namespace_ends() {
    let Some(_) = enter() else { return };
    let (mut reader, writer) = pipe().expect("pipe");
    let args = ["-c".to_owned(), "setsid sleep 1000 & echo; read line".to_owned()];
    let (stdin, stdin_writer) = pipe().expect("pipe");
    let what = Spawn {
        program: Path::new("/bin/sh"),
        args: &args,
        env: &[("PATH".to_owned(), "/usr/bin:/bin".to_owned())],
        inherit: &[],
        stdin: Some(stdin.as_fd()),
        stdout: Some(writer.as_fd()),
        stderr: None,
        death_signal: Some(Signal::KILL),
    };
    let child = what.spawn().expect("spawn");
    drop(writer);
    reader.read_exact(&mut [0]).expect("the shell runs");
    child.pidfd.signal(Signal::KILL).expect("kill");
    let end = Event::Signalled { signal: Signal::KILL, core: false };
    assert_eq!(child.pidfd.wait_end(), Ok(end));
    // The grandchild holds the write end, so its end is the end of the stream.
    assert_eq!(reader.read_to_end(&mut Vec::new()).expect("end of the stream"), 0);
    drop(stdin_writer);
}

/// A subreaper adopts and reaps the orphan of its child.
fn orphan() {
    process::set_child_subreaper(true).expect("subreaper");
    assert_eq!(process::reap_any(), Ok(None));
    let child = sh("(exec sleep 1000) & exit 3");
    let first = reap(&child.pidfd);
    assert_eq!(first, (child.pid, Event::Exited(3)));
    let orphans = procfs::children(process::pid());
    assert_eq!(orphans.len(), 1, "{orphans:?}");
    let orphan = PidFd::open(orphans[0]).expect("open");
    orphan.signal(Signal::KILL).expect("kill");
    let end = Event::Signalled { signal: Signal::KILL, core: false };
    assert_eq!(reap(&orphan), (orphans[0], end));
    assert_eq!(process::reap_any(), Ok(None));
}

/// Waits for the end of a process, then reaps whichever has ended.
fn reap(pidfd: &PidFd) -> (u32, Event) {
    assert_eq!(poll(&mut [PollFd::new(pidfd, Events::IN)], None), Ok(1));
    process::reap_any().expect("reap").expect("an ended child")
}

fn inherited() {
    let file = memfd::from_bytes("handed-down", b"handed down").expect("memfd");
    let what = Spawn {
        program: Path::new("/proc/self/exe"),
        args: &[],
        env: &[("SYS_TEST_FD".to_owned(), file.as_raw_fd().to_string())],
        inherit: &[file.as_fd()],
        stdin: None,
        stdout: None,
        stderr: None,
        death_signal: None,
    };
    let child = what.spawn().expect("spawn");
    assert_eq!(child.pidfd.wait_end(), Ok(Event::Exited(0)));
}

/// Where the next fault is expected.
static EXPECTED: AtomicUsize = AtomicUsize::new(0);

/// Loads from a mapping behind the end of its file, which raises SIGBUS there.
fn touch_behind_the_end() {
    let fd = memfd::create("short", 0).expect("memfd");
    let page = mapping::page_size();
    let map = mapping::Mapping::shared(fd.as_fd(), page, mapping::Access::Read).expect("map");
    EXPECTED.store(map.as_ptr().addr(), Ordering::Release);
    // SAFETY: an address of the mapping; the fault is what the test wants.
    std::hint::black_box(unsafe { map.as_ptr().read_volatile() });
}

/// The hook learns address and signal, and may end the process itself.
fn fault() {
    fn hook(addr: usize, signal: i32) {
        let right = addr == EXPECTED.load(Ordering::Acquire) && signal == Signal::BUS.raw();
        process::exit_immediately(if right { 41 } else { 42 });
    }
    signal::on_fault(hook).expect("hook");
    touch_behind_the_end();
}

/// After a hook that returns, the process dies of the fault.
fn fault_dies() {
    process::limit_core_dumps().expect("limit");
    signal::on_fault(|_, _| {}).expect("hook");
    touch_behind_the_end();
}

/// A stack overflow leaves no stack but the alternate one, and the hook runs there.
fn fault_overflow() {
    #[expect(unconditional_recursion, reason = "an overflow on purpose")]
    fn deep(seed: &[u8; 512]) -> u8 {
        let next = std::hint::black_box(*seed);
        deep(&next).wrapping_add(next[1])
    }
    signal::on_fault(|_, signal| {
        process::exit_immediately(if signal == Signal::SEGV.raw() { 41 } else { 42 });
    })
    .expect("hook");
    std::hint::black_box(deep(&[1; 512]));
}

/// As [`fault_overflow`] in a thread with an alternate stack of its own.
fn fault_thread() {
    let thread = std::thread::spawn(|| {
        let _stack = signal::AlternateStack::install().expect("stack");
        fault_overflow();
    });
    // The process ends first.
    let _ = thread.join();
}

/// A signal sent by a process reaches the hook with address zero and kills all the same.
fn fault_sent() {
    fn hook(addr: usize, signal: i32) {
        if addr != 0 || signal != Signal::BUS.raw() {
            process::exit_immediately(42);
        }
    }
    process::limit_core_dumps().expect("limit");
    signal::on_fault(hook).expect("hook");
    PidFd::of_self().expect("self").signal(Signal::BUS).expect("signal");
}
