//! The watcher: what the host starts. It starts the supervisor and cleans up after it.
//!
//! ```text
//! name, subreaper, signals → namespace if asked for and permitted → spawn supervisor → wait
//! supervisor gone ─────────────────────────────┐
//! host gone, or SIGTERM → kill supervisor ─────┴→ kill and reap every descendant → exit
//! ```
//! It holds nothing but pidfds: a copy of the command socket or the group would outlive the
//! supervisor.
//!
//! Its own end tells the host who died first: a signal is the watcher's own, exit code 128 + N is
//! signal N of the supervisor, any other code is the supervisor's ([`exit_code`]).

use std::path::Path;

use executor_rt::plan::WATCHER_COMM;
use sys::clock::MonoTime;
use sys::errno::{Errno, Result as SysResult};
use sys::pidfd::{Event, PidFd};
use sys::poll::{Events, PollFd, poll};
use sys::process;
use sys::signal::{self, Signal};
use sys::signalfd::SignalFd;
use sys::spawn::Spawn;

use crate::boot::{Boot, Refused};
use crate::{EXIT_FAILED, strays};

/// Environment of the supervisor: process number of its watcher, where they share a namespace.
pub(crate) const ENV_WATCHER_PID: &str = "DFLOW_WATCHER_PID";

/// Runs until the supervisor or the host is gone and nothing is left; the supervisor's exit code.
pub(crate) fn run(boot: Boot) -> Result<u8, Refused> {
    process::set_name(WATCHER_COMM)?;
    // The interrupt of a terminal is the host's business: it ends the flow in order. A session's
    // leader has a group of its own already.
    let _leader = process::new_process_group();
    process::set_child_subreaper(true)?;
    // A dump of a group's mappings would delay the sweep after a crash by as long as it takes to
    // write.
    process::limit_core_dumps()?;
    signal::ignore(Signal::XFSZ)?;
    let signals = SignalFd::new(&[Signal::TERM, Signal::INT, Signal::HUP])?;
    let namespace = boot.plan.namespace && enter_namespace()?;
    let supervisor = start(&boot, namespace)?;
    let host = PidFd::from_owned(
        boot.host()?.try_clone_to_owned().map_err(|e| sys::SysError::from_io("dup", &e))?,
    );
    drop(boot);
    let asked = wait(&supervisor, &host, &signals);
    if asked.is_err() || !supervisor.is_ready() {
        // It may have ended meanwhile.
        let _gone = supervisor.signal(Signal::KILL);
    }
    let event = supervisor.wait_end();
    strays::kill_all();
    if let Err(error) = asked {
        let text = format_args!("dflow-watcher: {error}; ended the supervisor and all executors");
        crate::say(text);
        return Ok(EXIT_FAILED);
    }
    Ok(exit_code(event))
}

/// True when the next child is process 1 of a namespace of its own; false where that is not
/// permitted.
fn enter_namespace() -> Result<bool, Refused> {
    match process::enter_pid_namespace() {
        Ok(_) => Ok(true),
        // Only the maps are written: now in a user namespace without a user, with no way back.
        Err(error) if error.call.starts_with("write") => Err(Refused::Plan(format!(
            "namespace: {error} while mapping the user; set `namespace: false`"
        ))),
        Err(_) => Ok(false),
    }
}

/// The same program again, with everything that was inherited.
fn start(boot: &Boot, namespace: bool) -> Result<PidFd, Refused> {
    let text = |part: std::ffi::OsString| part.into_string().ok();
    let mut env: Vec<(String, String)> = std::env::vars_os()
        .filter_map(|(name, value)| Some((text(name)?, text(value)?)))
        .filter(|(name, _)| name != ENV_WATCHER_PID)
        .collect();
    if !namespace {
        env.push((ENV_WATCHER_PID.to_owned(), process::pid().to_string()));
    }
    let child = Spawn {
        program: Path::new("/proc/self/exe"),
        args: &[],
        env: &env,
        inherit: &boot.files.all(),
        stdin: None,
        stdout: None,
        stderr: None,
        // In a namespace its death takes everything along. Without one it has to clean up first, so
        // it watches us by descriptor.
        death_signal: namespace.then_some(Signal::KILL),
    };
    Ok(child.spawn()?.pidfd)
}

/// Sleeps until supervisor or host are gone, or SIGTERM.
fn wait(supervisor: &PidFd, host: &PidFd, signals: &SignalFd) -> SysResult<()> {
    loop {
        let mut fds = [
            PollFd::new(supervisor, Events::IN),
            PollFd::new(host, Events::IN),
            PollFd::new(signals, Events::IN),
        ];
        match poll(&mut fds, Some(MonoTime::MAX)) {
            Err(error) if error.errno != Errno::INTR => return Err(error),
            _ => {}
        }
        let [supervisor, host, pending] = fds.map(|fd| fd.is_ready());
        let mut end = supervisor || host;
        while pending && let Ok(Some(received)) = signals.read() {
            end |= received.signal == Signal::TERM;
        }
        if end {
            return Ok(());
        }
    }
}

/// The supervisor's exit code; 128 and the signal's number when one ended it, as shells say it.
fn exit_code(event: SysResult<Event>) -> u8 {
    match event {
        Ok(Event::Exited(code)) => u8::try_from(code).unwrap_or(EXIT_FAILED),
        Ok(Event::Signalled { signal, .. }) => {
            u8::try_from(128 + signal.raw()).unwrap_or(EXIT_FAILED)
        }
        _ => EXIT_FAILED,
    }
}
