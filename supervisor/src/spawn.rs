//! Starting one executor: always from the supervisor's main thread, because PDEATHSIG follows the
//! thread.

use std::fs;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;

use executor_rt::log::Level;
use executor_rt::plan::{ENV_GENERATION, ENV_READY_FD, NodePlan};
use sys::doorbell::EventFd;
use sys::pidfd::PidFd;
use sys::signal::Signal;
use sys::spawn::{Child, Spawn};
use sys::{SysError, affinity};

use crate::boot::Files;
use crate::logs;

/// What every start needs.
#[derive(Debug)]
pub(crate) struct Starter {
    /// Standard input of every executor: at its end.
    stdin: Option<File>,
    /// Processors of the supervisor, restored after a pinned start.
    cpus: Vec<usize>,
}

impl Starter {
    pub(crate) fn new() -> Self {
        let stdin = File::open("/dev/null").ok();
        Self { stdin, cpus: affinity::allowed().unwrap_or_default() }
    }

    /// Starts `node` as `generation`; it rings `ready`.
    ///
    /// # Errors
    /// The step that failed; no process is left.
    pub(crate) fn start(
        &self,
        node: &NodePlan,
        generation: u32,
        ready: &EventFd,
        files: &Files,
    ) -> Result<Child, SysError> {
        let mut env = node.env.clone();
        env.retain(|(name, _)| name != ENV_GENERATION && name != ENV_READY_FD);
        env.push((ENV_GENERATION.to_owned(), generation.to_string()));
        env.push((ENV_READY_FD.to_owned(), ready.as_fd().as_raw_fd().to_string()));
        let mut inherit: Vec<BorrowedFd<'_>> =
            node.inherit.iter().filter_map(|fd| files.get(*fd)).map(AsFd::as_fd).collect();
        inherit.push(ready.as_fd());
        let stderr = files.get(node.stderr_fd);
        let pinned = self.pin(node, stderr);
        let child = Spawn {
            program: Path::new(&node.program),
            args: &node.args,
            env: &env,
            inherit: &inherit,
            stdin: self.stdin.as_ref().map(AsFd::as_fd),
            stdout: files.get(node.stdout_fd).map(AsFd::as_fd),
            stderr: stderr.map(AsFd::as_fd),
            death_signal: Some(Signal::KILL),
        }
        .spawn();
        if pinned {
            // It worked a moment ago; if not, the supervisor stays on that core, which is harmless.
            let _ok = affinity::set_current(&self.cpus);
        }
        child
    }

    /// Puts this thread, and so the child, on the node's core.
    fn pin(&self, node: &NodePlan, log: Option<&File>) -> bool {
        let Some(cpu) = node.cpu else { return false };
        match affinity::pin_current(cpu) {
            Ok(()) => true,
            Err(error) => {
                let (name, cpus) = (&node.name, &self.cpus);
                let text = format_args!("cpu {cpu}: {error}; allowed are {cpus:?}; not pinned");
                logs::line(log, name, Level::Warn, text);
                false
            }
        }
    }
}

/// The number of a process as the mounted `/proc`, and so the host, knows it. In a PID namespace of
/// its own the supervisor sees other numbers.
pub(crate) fn pid_in_proc(pidfd: &PidFd) -> Option<u32> {
    let path = format!("/proc/self/fdinfo/{}", pidfd.as_fd().as_raw_fd());
    let text = fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| line.strip_prefix("Pid:"))?.trim().parse().ok()
}
