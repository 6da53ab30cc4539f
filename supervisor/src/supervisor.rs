//! The supervisor's loop: one thread that starts, waits, reaps, sweeps, restarts and ends.
//!
//! ```text
//! start due nodes → ready? timeouts? → slow tick (stalls, logs) → all over? → ppoll → reap
//! ```
//! Killed at any point, the watcher or the namespace ends the executors (table in `main`); nothing
//! that is half done here outlives them. Between a death and the end of its sweep the slot's state
//! is `Dead`.

use executor_core::owner::SlotState;
use executor_core::region::Memory;
use executor_core::sweep::Inputs;
use executor_rt::attach::{Role, attach};
use executor_rt::log::Level;
use executor_rt::plan::{SUPERVISOR_COMM, command, exit_kind, phase};
use sys::clock::MonoTime;
use sys::pidfd::{Event, PidFd};
use sys::process;
use sys::signal::Signal;
use sys::signalfd::SignalFd;
use sys::socket;

use crate::board::Board;
use crate::boot::{Boot, Files, Refused, check_slots};
use crate::logs::Trimmer;
use crate::node::{Live, Node, Run};
use crate::policy::Decision;
use crate::spawn::{Starter, pid_in_proc};
use crate::stall::{LockWatch, ProcWatch};
use crate::sweeping::Sweeping;
use crate::wake::Sources;
use crate::watcher::ENV_WATCHER_PID;
use crate::{EXIT_ENDED, EXIT_FAILED, strays};

/// The slow tick when nothing asks for a faster one.
const TICK_MS_MAX: u64 = 1000;
const TICK_MS_MIN: u64 = 5;
/// A stall is seen after at most this many parts of its limit too late.
const TICKS_A_LIMIT: u64 = 4;
/// Time between SIGTERM and SIGKILL when the flow ends.
const GRACE_MS: u64 = 10_000;
/// A starting node is looked at every millisecond, later more seldom, as its start goes on.
const STARTING_MS_MAX: u64 = 50;

/// Runs until the flow has ended; the exit code.
pub(crate) fn run(boot: Boot) -> Result<u8, Refused> {
    process::set_name(SUPERVISOR_COMM)?;
    process::set_child_subreaper(true)?;
    let signals = SignalFd::new(&[Signal::CHLD, Signal::TERM, Signal::INT, Signal::HUP])?;
    let watcher = open_watcher()?;
    let (control, arena) = boot.group()?;
    let attached = attach(control, arena, Role::Supervisor)?;
    check_slots(&boot.plan, attached.group.slot_count())?;
    let command = boot.command()?;
    socket::set_nonblocking(command, true)?;
    let mut sources = Sources { host: boot.host()?, watcher, command: Some(command), signals };
    let plan = &boot.plan;
    let memory = attached.group.memory;
    let mut supervisor = Supervisor {
        memory,
        files: &boot.files,
        board: Board::new(&memory),
        sweeping: Sweeping::new(&attached.group, plan.sabotage),
        locks: LockWatch::new(&memory, plan.lock_stall_ms),
        trimmer: Trimmer::new(plan.log_keep_bytes, &plan.log_fds),
        starter: Starter::new(),
        tick_ms: tick_ms(plan.nodes.iter().map(|node| node.stall_ms).chain([plan.lock_stall_ms])),
        nodes: plan.nodes.iter().cloned().map(Node::new).collect(),
        next_tick: MonoTime::ZERO,
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
            self.start_due(now);
            if changed && self.strays {
                // After the successors' start: reading all of /proc takes its time.
                self.kill_strays();
            }
            self.check_starting(now);
            self.sweeping.recheck(&self.board, now);
            self.tick(now);
            if self.ending.is_some() && self.is_over(now) {
                return EXIT_ENDED;
            }
            let children = self.nodes.iter().filter_map(Node::live).map(|live| &live.pidfd);
            let woken = match sources.wait(children, self.deadline(now)) {
                Ok(woken) => woken,
                Err(error) => {
                    eprintln!("dflow-supervisor: {error}; ending all executors");
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
            Run::Live(live) if !live.ready && !live.killed => {
                let elapsed_ms = now.since_ns(live.started) / 1_000_000;
                Some(now.add_ms((elapsed_ms / 64).clamp(1, STARTING_MS_MAX)))
            }
            _ => None,
        };
        let others = [Some(self.next_tick), self.sweeping.deadline(), self.ending];
        let all = self.nodes.iter().filter_map(node).chain(others.into_iter().flatten());
        all.min().unwrap_or(self.next_tick)
    }

    fn start_due(&mut self, now: MonoTime) {
        for index in 0..self.nodes.len() {
            let Some(node) = self.nodes.get_mut(index) else { continue };
            if !matches!(node.run, Run::Waiting(at) if at.is_past(now)) {
                continue;
            }
            let restarts = node.generation;
            node.generation = node.generation.wrapping_add(1);
            self.board.starting(node.plan.slot, node.generation, restarts, now);
            match self.starter.start(&node.plan, node.generation, self.files) {
                Ok(child) => {
                    let pid = pid_in_proc(&child.pidfd).unwrap_or(child.pid);
                    let watch = ProcWatch::default();
                    node.run = Run::Live(Live {
                        pid: child.pid,
                        pidfd: child.pidfd,
                        started: now,
                        ready: false,
                        stopped: false,
                        killed: false,
                        watch,
                    });
                    self.board.started(node.plan.slot, pid);
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

    /// Ready nodes become `Running`; those that take too long are killed.
    fn check_starting(&mut self, now: MonoTime) {
        for node in &mut self.nodes {
            let (slot, limit_ms) = (node.plan.slot, node.plan.init_timeout_ms);
            let Run::Live(live) = &mut node.run else { continue };
            if live.ready {
                continue;
            }
            if self.board.is_ready(slot) {
                live.ready = true;
                let state = live.state();
                self.board.set_state(slot, state);
            } else if limit_ms != 0 && live.started.add_ms(limit_ms).is_past(now) {
                node.kill_stalled(self.files, format_args!("not ready after {limit_ms} ms"));
            }
        }
    }

    fn tick(&mut self, now: MonoTime) {
        if !self.next_tick.is_past(now) {
            return;
        }
        self.next_tick = now.add_ms(self.tick_ms);
        self.check_functions(now);
        self.check_locks(now);
        self.trimmer.trim(self.files);
    }

    fn check_functions(&mut self, now: MonoTime) {
        for node in &mut self.nodes {
            let limit_ms = node.plan.stall_ms;
            let Some(part) = self.memory.private(node.plan.slot) else { continue };
            let Some(live) = node.live_mut().filter(|live| limit_ms != 0 && live.ready) else {
                continue;
            };
            if let Some(ms) = live.watch.stalled_ms(part.ctl, now).filter(|ms| *ms >= limit_ms) {
                let text = format_args!("no progress in the function for {ms} ms");
                node.kill_stalled(self.files, text);
            }
        }
    }

    fn check_locks(&mut self, now: MonoTime) {
        for stalled in self.locks.stalled(now) {
            let name = self.locks.name(stalled.index);
            let holder = self.nodes.iter_mut().find(|n| Some(n.plan.slot) == stalled.holder);
            match holder {
                Some(node) if node.live().is_some() => {
                    let ms = stalled.held_ms;
                    let text = format_args!("holds the lock of {name} for {ms} ms");
                    node.kill_stalled(self.files, text);
                }
                None if stalled.holder == Some(0) => {}
                _ => {
                    if self.locks.break_lock(&stalled) {
                        self.sweeping.ring();
                    }
                }
            }
        }
    }

    /// Takes every change of every child.
    fn reap(&mut self, now: MonoTime) {
        for index in 0..self.nodes.len() {
            let next = |node: &Node| node.live().and_then(|live| live.pidfd.try_wait().ok()?);
            while let Some(event) = self.nodes.get(index).and_then(next) {
                self.changed(index, event, now);
            }
        }
        while let Ok(Some((pid, event))) = process::reap_any() {
            let is_it = |node: &Node| node.live().is_some_and(|live| live.pid == pid);
            if let Some(index) = self.nodes.iter().position(is_it) {
                self.changed(index, event, now);
            }
        }
    }

    /// Kills what dead executors left, as far as it is ours by now; the rest follows its parents.
    fn kill_strays(&mut self) {
        let keep: Vec<u32> =
            self.nodes.iter().filter_map(Node::live).map(|live| live.pid).collect();
        self.strays = strays::kill_except(&keep) != 0;
    }

    fn changed(&mut self, index: usize, event: Event, now: MonoTime) {
        if event.is_end() {
            self.died(index, event, now);
            return;
        }
        let Some(node) = self.nodes.get_mut(index) else { return };
        let slot = node.plan.slot;
        if let Some(live) = node.live_mut() {
            live.stopped = event == Event::Stopped;
            let state = live.state();
            self.board.set_state(slot, state);
        }
    }

    /// A process is reaped, or could not be started: sweep, then restart or not.
    fn died(&mut self, index: usize, event: Event, now: MonoTime) {
        let Some(node) = self.nodes.get_mut(index) else { return };
        let slot = node.plan.slot;
        let run = std::mem::replace(&mut node.run, Run::Over);
        let (lived_ms, killed) = match &run {
            Run::Live(live) => (now.since_ns(live.started) / 1_000_000, live.killed),
            _ => (0, false),
        };
        drop(run);
        let (kind, value) = describe(event, killed);
        self.board.died(slot, kind, value);
        let clean = event == Event::Exited(0);
        let restart = match self.ending {
            Some(_) => None,
            None => match node.policy.decide(&node.plan.restart, now, lived_ms, clean) {
                Decision::Restart(at) => Some(at),
                Decision::Fail => None,
            },
        };
        let inputs = if restart.is_some() { Inputs::Adopt } else { Inputs::Free };
        let swept = self.sweeping.sweep(&self.board, slot, inputs, now);
        self.strays = true;
        let (generation, freed, kept) = (node.generation, swept.freed, swept.adopted);
        let ended = self.ending.is_some()
            && matches!(event, Event::Exited(0) | Event::Signalled { signal: Signal::TERM, .. });
        let (state, level, next) = match restart {
            Some(at) => (SlotState::BackOff, Level::Warn, format!("restart in {} ms", ms(at, now))),
            None if ended => (SlotState::Ended, Level::Info, "as asked".to_owned()),
            None => (SlotState::Failed, Level::Error, "no restart".to_owned()),
        };
        let how = Ended(event);
        let text = format_args!(
            "slot {slot}, process number {generation}: {how} after {lived_ms} ms; freed {freed} \
             mbufs, kept {kept} inputs; {next}"
        );
        node.say(self.files, level, text);
        if let Some(at) = restart {
            node.run = Run::Waiting(at);
        }
        self.board.set_state(slot, state);
        if state == SlotState::Failed && self.ending.is_none() {
            self.board.set_phase(phase::FAILED);
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
                self.sweeping.sweep(&self.board, node.plan.slot, Inputs::Free, now);
                self.board.set_state(node.plan.slot, SlotState::Ended);
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

fn ms(later: MonoTime, now: MonoTime) -> u64 {
    later.since_ns(now) / 1_000_000
}

/// The status words of an end.
fn describe(event: Event, killed: bool) -> (u32, u32) {
    let (kind, value) = match event {
        Event::Exited(code) => (exit_kind::EXITED, code),
        Event::Signalled { signal, .. } => (exit_kind::SIGNALLED, signal.raw()),
        Event::Stopped | Event::Continued => (exit_kind::NONE, 0),
    };
    let kind = if killed { exit_kind::STALLED } else { kind };
    (kind, u32::try_from(value).unwrap_or(u32::MAX))
}

/// How a process ended, for a log line.
struct Ended(Event);

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Event::Exited(code) => write!(f, "exit code {code}"),
            Event::Signalled { signal, core: false } => write!(f, "killed by {signal}"),
            Event::Signalled { signal, core: true } => write!(f, "killed by {signal}, core dumped"),
            Event::Stopped | Event::Continued => f.write_str("still running"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Event, Signal, describe, exit_kind, tick_ms};

    #[test]
    fn the_tick_follows_the_smallest_limit() {
        assert_eq!(tick_ms([0, 0].into_iter()), 1000);
        assert_eq!(tick_ms([60_000, 0].into_iter()), 1000);
        assert_eq!(tick_ms([60_000, 200].into_iter()), 50);
        assert_eq!(tick_ms([1].into_iter()), 5);
    }

    #[test]
    fn ends_in_status_words() {
        let killed = Event::Signalled { signal: Signal::KILL, core: false };
        assert_eq!(describe(Event::Exited(127), false), (exit_kind::EXITED, 127));
        assert_eq!(describe(killed, false), (exit_kind::SIGNALLED, 9));
        assert_eq!(describe(killed, true), (exit_kind::STALLED, 9));
    }
}
