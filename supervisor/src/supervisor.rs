//! The supervisor's loop: one thread that starts, waits, reaps, sweeps, restarts and ends.
//!
//! ```text
//! start due nodes → ready? timeouts? → slow tick (stalls) → logs → all over? → ppoll → reap
//! ```
//! Killed at any point, the watcher or the namespace ends the executors (table in `main`); nothing
//! that is half done here outlives them. Between a death and the end of its sweep the slot's state
//! is `Dead`.

use executor_core::owner::SlotState;
use executor_core::region::Memory;
use executor_core::sweep::Inputs;
use executor_rt::attach::{Role, attach};
use executor_rt::log::Level;
use executor_rt::plan::{SUPERVISOR_COMM, command, phase};
use sys::clock::MonoTime;
use sys::doorbell::EventFd;
use sys::pidfd::{Event, PidFd};
use sys::process;
use sys::signal::{self, Signal};
use sys::signalfd::SignalFd;
use sys::socket;

use crate::board::Board;
use crate::boot::{Boot, Files, Refused, check_slots};
use crate::logs::Trimmer;
use crate::node::{Live, Node, Run};
use crate::spawn::{Starter, pid_in_proc};
use crate::stall::{LockWatch, ProcWatch};
use crate::sweeping::Sweeping;
use crate::wake::Sources;
use crate::watcher::ENV_WATCHER_PID;
use crate::{EXIT_ENDED, EXIT_FAILED, strays};

mod checks;
mod reaper;

/// The slow tick when nothing asks for a faster one.
const TICK_MS_MAX: u64 = 1000;
const TICK_MS_MIN: u64 = 5;
/// A stall is seen after at most this many parts of its limit too late.
const TICKS_A_LIMIT: u64 = 4;
/// Time between SIGTERM and SIGKILL when the flow ends.
const GRACE_MS: u64 = 10_000;
/// A starting node rings when it is ready. One that can't is looked at all the same, more seldom as
/// its start goes on.
const STARTING_MS_MIN: u64 = 10;
const STARTING_MS_MAX: u64 = 50;

/// Runs until the flow has ended; the exit code.
pub(crate) fn run(boot: Boot) -> Result<u8, Refused> {
    process::set_name(SUPERVISOR_COMM)?;
    process::set_child_subreaper(true)?;
    // A line in a log at its limit is lost, and must not end the flow.
    signal::ignore(Signal::XFSZ)?;
    let signals = SignalFd::new(&[Signal::CHLD, Signal::TERM, Signal::INT, Signal::HUP])?;
    let watcher = open_watcher()?;
    let (control, arena) = boot.group()?;
    let attached = attach(control, arena, Role::Supervisor)?;
    check_slots(&boot.plan, attached.group.slot_count())?;
    let command = boot.command()?;
    socket::set_nonblocking(command, true)?;
    let ready = EventFd::new()?;
    let mut sources =
        Sources { host: boot.host()?, watcher, command: Some(command), signals, ready };
    let plan = &boot.plan;
    let memory = attached.group.memory;
    let mut supervisor = Supervisor {
        memory,
        files: &boot.files,
        board: Board::new(&memory),
        sweeping: Sweeping::new(&attached.group, plan.sabotage),
        locks: LockWatch::new(&memory, plan.lock_stall_ms),
        trimmer: Trimmer::new(plan.log_keep_bytes, process::file_size_limit(), &plan.log_fds),
        starter: Starter::new(),
        tick_ms: tick_ms(plan.nodes.iter().map(|node| node.stall_ms).chain([plan.lock_stall_ms])),
        nodes: plan.nodes.iter().cloned().map(Node::new).collect(),
        next_tick: MonoTime::ZERO,
        next_nudge: MonoTime::ZERO,
        ending: None,
        strays: false,
    };
    supervisor.board.set_phase(phase::RUNNING);
    let code = supervisor.serve(&mut sources);
    strays::kill_all();
    Ok(code)
}

/// The watcher's pidfd; `None` as process 1 of a namespace, which dies with its watcher by
/// PDEATHSIG.
fn open_watcher() -> Result<Option<PidFd>, Refused> {
    if process::pid() == 1 {
        return Ok(None);
    }
    let found = std::env::var(ENV_WATCHER_PID).ok();
    let pid = found.as_deref().and_then(|text| text.parse().ok());
    let watcher = PidFd::open(pid.ok_or(Refused::Environment(ENV_WATCHER_PID, found))?)?;
    if pid != Some(process::parent_pid()) {
        return Err(Refused::Plan("the watcher died before the supervisor started".to_owned()));
    }
    Ok(Some(watcher))
}

/// Fast enough for the smallest limit that is set.
fn tick_ms(limits: impl Iterator<Item = u64>) -> u64 {
    let smallest = limits.filter(|ms| *ms != 0).min().unwrap_or(u64::MAX);
    (smallest / TICKS_A_LIMIT).clamp(TICK_MS_MIN, TICK_MS_MAX)
}

struct Supervisor<'b> {
    memory: Memory<'static>,
    files: &'b Files,
    board: Board,
    sweeping: Sweeping,
    locks: LockWatch,
    trimmer: Trimmer,
    starter: Starter,
    tick_ms: u64,
    nodes: Vec<Node>,
    next_tick: MonoTime,
    /// When sleeping executors look again.
    next_nudge: MonoTime,
    /// When the flow was asked to end: the time for SIGKILL.
    ending: Option<MonoTime>,
    /// An executor died, and its descendants are not all gone.
    strays: bool,
}

impl Supervisor<'_> {
    fn serve(&mut self, sources: &mut Sources<'_>) -> u8 {
        let mut changed = false;
        loop {
            let now = MonoTime::now();
            self.start_due(&sources.ready, now);
            if changed && self.strays {
                // After the successors' start: reading all of /proc takes its time.
                self.kill_strays();
            }
            self.check_starting(now);
            self.sweeping.recheck(&self.board, now);
            self.tick(now);
            self.nudge(now);
            self.trimmer.trim(self.files, now);
            if self.ending.is_some() && self.is_over(now) {
                return EXIT_ENDED;
            }
            let children = self.nodes.iter().filter_map(Node::live).map(|live| &live.pidfd);
            let woken = match sources.wait(children, self.deadline(now)) {
                Ok(woken) => woken,
                Err(error) => {
                    let text = format_args!("dflow-supervisor: {error}; ending all executors");
                    crate::say(text);
                    return EXIT_FAILED;
                }
            };
            if woken.abandoned {
                return EXIT_ENDED;
            }
            let now = MonoTime::now();
            // Whatever woke us: a signal may have come since.
            let (signalled, mut end) = sources.drain_signals();
            changed = woken.children || signalled;
            if changed {
                self.reap(now);
            }
            end |= woken.command && sources.take_command() == Some(command::STOP);
            if end {
                self.end(now);
            }
        }
    }

    fn deadline(&self, now: MonoTime) -> MonoTime {
        let node = |node: &Node| match &node.run {
            Run::Waiting(at) => Some(*at),
            Run::Live(live) if !live.ready && live.killed.is_none() => {
                let elapsed_ms = now.since_ns(live.started) / 1_000_000;
                Some(now.add_ms((elapsed_ms / 8).clamp(STARTING_MS_MIN, STARTING_MS_MAX)))
            }
            _ => None,
        };
        let others = [
            Some(self.next_tick.min(self.next_nudge)),
            self.sweeping.deadline(),
            self.trimmer.deadline(),
            self.ending,
        ];
        let all = self.nodes.iter().filter_map(node).chain(others.into_iter().flatten());
        all.min().unwrap_or(self.next_tick)
    }

    fn start_due(&mut self, ready: &EventFd, now: MonoTime) {
        for index in 0..self.nodes.len() {
            let Some(node) = self.nodes.get_mut(index) else { continue };
            if !matches!(node.run, Run::Waiting(at) if at.is_past(now)) {
                continue;
            }
            let restarts = node.generation;
            node.generation = node.generation.wrapping_add(1);
            self.board.starting(node.slots(), node.generation, restarts, now);
            match self.starter.start(&node.plan, node.generation, ready, self.files) {
                Ok(child) => {
                    let pid = pid_in_proc(&child.pidfd).unwrap_or(child.pid);
                    let watches = node.slots().map(|_| ProcWatch::default()).collect();
                    node.run = Run::Live(Live {
                        pid: child.pid,
                        pidfd: child.pidfd,
                        started: now,
                        ready: false,
                        stopped: false,
                        killed: None,
                        watches,
                    });
                    self.board.started(node.slots(), pid);
                }
                Err(error) => {
                    let program = &node.plan.program;
                    let text = format_args!("could not start {program}: {error}");
                    node.say(self.files, Level::Error, text);
                    self.died(index, Event::Exited(127), now);
                }
            }
        }
    }

    /// Begins the end of the flow: SIGTERM to all; a stopped one is continued so that it gets it.
    fn end(&mut self, now: MonoTime) {
        if self.ending.is_some() {
            return;
        }
        self.ending = Some(now.add_ms(GRACE_MS));
        self.board.set_phase(phase::ENDING);
        for node in &mut self.nodes {
            node.signal(Signal::TERM);
            node.signal(Signal::CONT);
            if matches!(node.run, Run::Waiting(_)) {
                node.run = Run::Over;
                // It had kept its inputs for a successor that will not come.
                self.sweeping.sweep(&self.board, node.slots(), Inputs::Free, now);
                self.board.set_state(node.slots(), SlotState::Ended);
            }
        }
    }

    /// Whether all executors have ended; those that did not in time are killed.
    fn is_over(&mut self, now: MonoTime) -> bool {
        if self.ending.is_some_and(|at| at.is_past(now)) {
            for node in &self.nodes {
                node.signal(Signal::KILL);
            }
            self.ending = Some(MonoTime::MAX);
        }
        self.nodes.iter().all(|node| node.live().is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::tick_ms;

    #[test]
    fn the_tick_follows_the_smallest_limit() {
        assert_eq!(tick_ms([0, 0].into_iter()), 1000);
        assert_eq!(tick_ms([60_000, 0].into_iter()), 1000);
        assert_eq!(tick_ms([60_000, 200].into_iter()), 50);
        assert_eq!(tick_ms([1].into_iter()), 5);
    }
}
