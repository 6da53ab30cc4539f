//! Starting the watcher, which starts the supervisor, which starts the executors; and waiting until
//! all are ready.
//!
//! Start-up has a deadline for each executor (its `init_timeout_ms`, enforced by the supervisor)
//! and every way out ends with all processes gone: the host holds only the watcher's pidfd and the
//! command socket.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use executor_core::owner::SlotState;
use executor_core::primitive::Ordering;
use executor_core::region::Memory;
use executor_rt::attach::Created;
use executor_rt::plan::{self as wire, AlsoSlot, NodePlan, RestartWhen, SupervisorPlan, exit_kind};
use sys::clock::MonoTime;
use sys::pidfd::PidFd;
use sys::poll::{Events, PollFd, poll};
use sys::signal::Signal;
use sys::spawn::{Child, Spawn};
use sys::{SysError, futex, memfd, socket};

use super::end::Keepers;
use super::files::Files;
use super::responses::Responses;
use super::tail::tail;
use super::{DeployOptions, binaries};
use crate::error::{DeployError, Place, Problem, system_hint};
use crate::graph::RestartPolicy;
use crate::plan::{DeployPlan, ExecutorPlan, Work};
use crate::tools::group::end_text;

/// The processes of a deployed flow, as far as the host holds them.
#[derive(Debug)]
pub struct Launched {
    /// Watcher and supervisor.
    pub keepers: Keepers,
    /// The supervisor's program.
    pub supervisor: PathBuf,
    /// Commands to the supervisor.
    pub command: OwnedFd,
    /// One a node, in plan order; kept for the tail of a failed node's log.
    pub files: Vec<Files>,
}

impl Launched {
    /// Whether the supervisor is gone: it has the other end of the command socket, alone unless the
    /// watcher was stopped before it let go of its copy.
    #[must_use]
    pub fn lost_supervisor(&self) -> bool {
        if self.keepers.is_supervisor_gone() {
            return true;
        }
        let mut fds = [PollFd::new(&self.command, Events::empty())];
        poll(&mut fds, Some(MonoTime::ZERO)).is_ok_and(|ready| ready > 0)
    }
}

const LOG_KEEP_BYTES: u64 = 8 << 20;

/// The executors' programs, as far as the plan needs them.
struct Programs {
    function: Option<PathBuf>,
    device: Option<PathBuf>,
}

impl Programs {
    fn find(plan: &DeployPlan) -> Result<Programs, DeployError> {
        let find = |wanted: fn(&Work) -> bool, name| {
            let needed = plan.processes().any(|executor| wanted(&executor.work));
            needed.then(|| binaries::find(&plan.name, name)).transpose()
        };
        Ok(Programs {
            function: find(Work::is_function, binaries::UDF_EXECUTOR)?,
            device: find(|work| !work.is_function(), binaries::NPU_EXECUTOR)?,
        })
    }

    fn of(&self, executor: &ExecutorPlan) -> String {
        let program = if executor.work.is_function() { &self.function } else { &self.device };
        program.as_ref().map_or(String::new(), |program| program.display().to_string())
    }
}

/// Starts everything; does not wait.
///
/// # Errors
/// [`DeployError`]: a program is missing, or the system refuses.
pub fn launch(
    plan: &DeployPlan,
    created: &Created,
    options: &DeployOptions,
) -> Result<Launched, DeployError> {
    let supervisor = binaries::find(&plan.name, binaries::SUPERVISOR)?;
    let programs = Programs::find(plan)?;
    let failed = |error: SysError| {
        DeployError::Start(Problem::new(
            Place::graph(&plan.name),
            error.to_string(),
            "shared memory files and the supervisor's process",
            system_hint(&error),
        ))
    };
    let files = Files::of_plan(plan).map_err(failed)?;
    let document = document(plan, created, options, &files, &programs);
    let (watcher, command) =
        start(created, &files, &document, &supervisor).map_err(|error| match error.call {
            "execve" => binaries::not_runnable(&plan.name, &supervisor, &error.to_string()),
            _ => failed(error),
        })?;
    let keepers = Keepers::new(&plan.name, watcher);
    Ok(Launched { keepers, command, files, supervisor })
}

fn start(
    created: &Created,
    files: &[Files],
    document: &SupervisorPlan,
    supervisor: &Path,
) -> Result<(Child, OwnedFd), SysError> {
    let text = serde_json::to_vec(document).unwrap_or_default();
    let plan_fd = memfd::from_bytes("dflow-plan", &text)?;
    let (command, command_theirs) = socket::seqpacket_pair()?;
    let host = PidFd::of_self()?;
    let env = [
        (wire::ENV_PLAN_FD, plan_fd.as_raw_fd()),
        (wire::ENV_CONTROL_FD, created.control.as_raw_fd()),
        (wire::ENV_ARENA_FD, created.arena.as_raw_fd()),
        (wire::ENV_HOST_PIDFD, host.as_fd().as_raw_fd()),
        (wire::ENV_COMMAND_FD, command_theirs.as_raw_fd()),
    ];
    let env: Vec<(String, String)> =
        env.into_iter().map(|(name, fd)| (name.to_owned(), fd.to_string())).collect();
    let mut inherit = vec![
        plan_fd.as_fd(),
        created.control.as_fd(),
        created.arena.as_fd(),
        host.as_fd(),
        command_theirs.as_fd(),
    ];
    for file in files {
        inherit.extend([&file.load, &file.model].into_iter().flatten().map(AsFd::as_fd));
        // A model has the logs of its device.
        if file.load.is_some() {
            inherit.extend([&file.stdout, &file.stderr].map(|fd| fd.as_fd()));
        }
    }
    let child = Spawn {
        program: supervisor,
        args: &["--watcher".to_owned()],
        env: &env,
        inherit: &inherit,
        stdin: None,
        stdout: None,
        stderr: None,
        // The watcher looks at the host's pidfd: the death signal would follow the deploying
        // thread.
        death_signal: None,
    }
    .spawn()?;
    Ok((child, command))
}

fn document(
    plan: &DeployPlan,
    created: &Created,
    options: &DeployOptions,
    files: &[Files],
    programs: &Programs,
) -> SupervisorPlan {
    let nodes = || plan.executors.iter().zip(files).filter(|(executor, _)| executor.is_process());
    let stalls = plan.processes().map(|e| u64::from(e.stall_ms)).filter(|ms| *ms > 0);
    SupervisorPlan {
        version: SupervisorPlan::VERSION,
        flow: plan.name.clone(),
        nodes: nodes()
            .map(|(e, f)| node(plan, created, options, (e, f), (files, programs)))
            .collect(),
        lock_stall_ms: stalls.min().unwrap_or(1000),
        namespace: options.namespace,
        log_keep_bytes: LOG_KEEP_BYTES,
        log_fds: nodes().flat_map(|(_, f)| [f.stdout.as_raw_fd(), f.stderr.as_raw_fd()]).collect(),
        sabotage: options.sabotage,
    }
}

fn node(
    plan: &DeployPlan,
    created: &Created,
    options: &DeployOptions,
    (executor, files): (&ExecutorPlan, &Files),
    (all, programs): (&[Files], &Programs),
) -> NodePlan {
    let mut inherit = vec![created.control.as_raw_fd(), created.arena.as_raw_fd()];
    inherit.extend([&files.load, &files.model].into_iter().flatten().map(AsRawFd::as_raw_fd));
    let models = executor.work.models().iter();
    let models = models.filter_map(|slot| all.get((*slot as usize).checked_sub(1)?));
    inherit.extend(models.filter_map(|files| Some(files.model.as_ref()?.as_raw_fd())));
    let also: Vec<AlsoSlot> = plan
        .models_of(executor)
        .map(|model| AlsoSlot { slot: model.slot, name: model.label.clone() })
        .collect();
    let own = [
        (wire::ENV_CONTROL_FD, created.control.as_raw_fd().to_string()),
        (wire::ENV_ARENA_FD, created.arena.as_raw_fd().to_string()),
        (wire::ENV_SLOT, executor.slot.to_string()),
        (wire::ENV_NODE, executor.label.clone()),
    ];
    let kept = ["PATH", "HOME", "LD_LIBRARY_PATH", "RUST_BACKTRACE", "TMPDIR", "LANG"];
    let kept =
        kept.into_iter().filter_map(|name| Some((name.to_owned(), std::env::var(name).ok()?)));
    let mut env: Vec<(String, String)> = kept.collect();
    env.extend(executor.env.iter().map(|(name, value)| (name.clone(), value.clone())));
    if options.timing {
        env.push(("DFLOW_TIMING".to_owned(), "1".to_owned()));
    }
    if options.spin > 0 {
        env.push(("DFLOW_SPIN".to_owned(), options.spin.to_string()));
    }
    env.extend(own.map(|(name, value)| (name.to_owned(), value)));
    if !also.is_empty() {
        let slots: Vec<String> = also.iter().map(|also| also.slot.to_string()).collect();
        env.push((wire::ENV_ALSO.to_owned(), slots.join(",")));
    }
    NodePlan {
        slot: executor.slot,
        name: executor.label.clone(),
        program: programs.of(executor),
        args: files.args(executor),
        env,
        inherit,
        stdout_fd: files.stdout.as_raw_fd(),
        stderr_fd: files.stderr.as_raw_fd(),
        restart: wire::Restart {
            when: match executor.restart.policy {
                RestartPolicy::Never => RestartWhen::Never,
                RestartPolicy::OnFailure => RestartWhen::OnFailure,
                RestartPolicy::Always => RestartWhen::Always,
            },
            max: executor.restart.max,
            backoff_ms: u64::from(executor.restart.backoff_ms),
            backoff_max_ms: 32 * u64::from(executor.restart.backoff_ms),
            window_ms: 10_000,
        },
        init_timeout_ms: u64::from(executor.init_timeout_ms),
        stall_ms: u64::from(executor.stall_ms),
        cpu: executor.cpu.and_then(|cpu| usize::try_from(cpu).ok()),
        also,
    }
}

/// An executor whose first so many starts failed fails the deployment, whatever its restart policy.
const START_TRIES: u32 = 3;

/// While a start takes, it is looked at this often: whether the supervisor is stopped.
const LOOK_MS: u64 = 2_000;
/// The supervisor's program names its process at once; after so long it is another program.
const OURS_MS: u64 = 10_000;

/// A start as seen from outside the executors.
struct Start {
    foreign: MonoTime,
    look: MonoTime,
    stopped: Vec<u32>,
}

impl Start {
    fn new() -> Start {
        let now = MonoTime::now();
        let (foreign, look) = (now.add_ms(OURS_MS), now.add_ms(LOOK_MS));
        Start { foreign, look, stopped: Vec::new() }
    }

    /// Whether supervisor and watcher live and are this project's.
    fn look(
        &mut self,
        plan: &DeployPlan,
        memory: &Memory<'_>,
        launched: &Launched,
    ) -> Result<(), DeployError> {
        let slots = memory.slot_status.iter();
        let mut slots = slots.map(|slot| slot.state.load(Ordering::Acquire));
        let begun = slots.any(|state| SlotState::try_from(state) != Ok(SlotState::Vacant));
        let foreign = |what: &str| {
            let found = format!("{what} before it started anything");
            Err(binaries::not_runnable(&plan.name, &launched.supervisor, &found))
        };
        if let Some(how) = launched.keepers.watcher_end() {
            if !begun {
                return foreign(&format!("the supervisor ended ({how})"));
            }
            return Err(DeployError::Start(Problem::new(
                Place::graph(&plan.name),
                format!("the supervisor ended ({how})"),
                "a running supervisor",
                "its messages are on this program's stderr",
            )));
        }
        let now = MonoTime::now();
        if self.look.is_past(now) {
            self.look = now.add_ms(LOOK_MS);
            launched.keepers.find_supervisor();
            launched.keepers.warn_of_stops(&mut self.stopped);
            if launched.lost_supervisor() {
                // The watcher would have ended by now: it is stopped.
                launched.keepers.end_after_death();
            }
            let comm = sys::procfs::comm(launched.keepers.watcher().pid);
            if self.foreign.is_past(now)
                && !begun
                && comm.is_some_and(|comm| comm != wire::WATCHER_COMM)
            {
                return foreign("nothing came of it for 10 s");
            }
        }
        Ok(())
    }
}

/// Waits until every executor is ready.
///
/// # Errors
/// [`DeployError::Start`] with the end of the failed node's log; the caller ends everything then.
pub fn wait_ready(
    plan: &DeployPlan,
    memory: &Memory<'_>,
    launched: &Launched,
    options: &DeployOptions,
    responses: &mut Responses,
) -> Result<(), DeployError> {
    let mut was_ready = vec![false; plan.executors.len()];
    let mut start = Start::new();
    loop {
        let sequence = memory.status.sequence.load(Ordering::Acquire);
        responses.drain();
        let mut ready = true;
        for (executor, was_ready) in plan.processes().zip(&mut was_ready) {
            let Some(status) = memory.slot_status.get(executor.slot as usize) else { continue };
            match SlotState::try_from(status.state.load(Ordering::Acquire)) {
                Ok(SlotState::Running | SlotState::Stopped) => *was_ready = true,
                Ok(SlotState::Failed) => return Err(not_ready(plan, memory, executor, launched)),
                // It gave up by itself before it was ever ready: starting it again would not help.
                _ if status.exit_kind.load(Ordering::Relaxed) == exit_kind::EXITED => {
                    return Err(not_ready(plan, memory, executor, launched));
                }
                _ if !*was_ready && status.restarts.load(Ordering::Acquire) >= START_TRIES => {
                    return Err(not_ready(plan, memory, executor, launched));
                }
                _ => ready = false,
            }
        }
        if ready {
            return Ok(());
        }
        // SYNC: Relaxed, a flag on its own.
        if options.stop.is_some_and(|stop| stop.load(std::sync::atomic::Ordering::Relaxed)) {
            return Err(stopped(plan, memory));
        }
        start.look(plan, memory, launched)?;
        let _ = futex::wait(&memory.status.sequence, sequence, Some(MonoTime::now().add_ms(50)));
    }
}

fn stopped(plan: &DeployPlan, memory: &Memory<'_>) -> DeployError {
    let starting = plan.processes().filter(|executor| {
        let status = memory.slot_status.get(executor.slot as usize);
        let state = status.map(|status| status.state.load(Ordering::Acquire));
        state.and_then(|state| SlotState::try_from(state).ok()) != Some(SlotState::Running)
    });
    let starting: Vec<String> = starting.map(|e| plan.title(e)).collect();
    DeployError::Stopped(Problem::new(
        Place::graph(&plan.name),
        format!("not ready yet: {}", starting.join(", ")),
        "time to start",
        "start it again; nothing was fed, and no process is left",
    ))
}

/// What to do about an executor that ended before it was ready: with this log, in this way.
fn start_hint(log: &str, (kind, value): (u32, u32), work: &Work) -> &'static str {
    let signal = (kind == exit_kind::SIGNALLED).then_some(value);
    let code = (kind == exit_kind::EXITED).then_some(value);
    let kill = u32::try_from(Signal::KILL.raw()).ok();
    if log.contains("EMFILE") || log.contains("ENFILE") {
        return "allow more open files (`ulimit -n`)";
    }
    if log.contains("ENOMEM") {
        return "free memory, or allow more (`ulimit -v`, the limits of its control group)";
    }
    if kind == exit_kind::LATE {
        return "raise the node's `init_timeout_ms`, or make the start shorter";
    }
    match (log.is_empty(), work) {
        // It never exits with 0 by itself before it is ready.
        (_, Work::Function) if code == Some(0) => {
            "the library called `exit`: look for it in what runs when it is loaded (constructors \
             of static objects) and in the function's Init; to refuse, return a code from Init"
        }
        _ if signal.is_some() && signal == kill => {
            "somebody killed it, or the kernel for want of memory (`dmesg` tells); start it again"
        }
        (false, Work::Function) => "correct the library, the function or its attributes",
        (false, _) => "see what the log says of the models",
        (true, _) => {
            "see that the executors are of this version (DFLOW_BIN_DIR), and what the library does \
             when it is loaded"
        }
    }
}

fn not_ready(
    plan: &DeployPlan,
    memory: &Memory<'_>,
    executor: &ExecutorPlan,
    launched: &Launched,
) -> DeployError {
    let status = memory.slot_status.get(executor.slot as usize);
    let how = status.map_or((exit_kind::NONE, 0), |status| {
        let (kind, value) = (&status.exit_kind, &status.exit_value);
        (kind.load(Ordering::Relaxed), value.load(Ordering::Relaxed))
    });
    let end = end_text(how.0, how.1);
    let end = end.map_or(String::new(), |end| format!(" ({end})"));
    let files = plan.executors.iter().zip(&launched.files);
    let log = files.filter(|(e, _)| e.slot == executor.slot).map(|(_, f)| tail(&f.stderr)).next();
    let log = log.unwrap_or_default();
    let says = match log.trim_end() {
        "" => "nothing is in its log".to_owned(),
        log => format!("its log says:\n{log}"),
    };
    let hint = start_hint(&log, how, &executor.work);
    let expected = match &executor.work {
        Work::Function => {
            format!("function `{}` of `{}` ready", executor.function, executor.library.display())
        }
        Work::Model(_) | Work::Device(_) => format!("{} ready", plan.title(executor)),
    };
    DeployError::Start(Problem::new(
        Place::graph(&plan.name).node(&executor.node),
        format!("the executor ended{end} before it was ready; {says}"),
        expected,
        hint,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_that_failed_says_what_its_end_and_its_log_mean() {
        let work = Work::Function;
        let (exited, signalled) = (exit_kind::EXITED, exit_kind::SIGNALLED);
        let hint = |log, how| start_hint(log, how, &work);
        assert!(hint("memfd_create: EMFILE (…)", (exited, 1)).contains("ulimit -n"));
        assert!(hint("mmap: ENOMEM (…)", (exited, 1)).contains("free memory"));
        assert!(hint("hello", (signalled, 9)).contains("somebody killed it"));
        assert!(hint("hello", (signalled, 11)).contains("correct the library"));
        assert!(hint("", (exited, 127)).contains("of this version"));
        assert!(hint("hello", (exit_kind::LATE, 9)).contains("`init_timeout_ms`"));
        for log in ["", "hello"] {
            assert!(hint(log, (exited, 0)).contains("the library called `exit`"));
        }
    }
}
