//! Ends of executors: reap, sweep, restart or not, and what they leave.
//!
//! | killed after | the slot shows | who goes on |
//! |---|---|---|
//! | the reaping | `Dead` at most | watcher: the flow ends, all ids are answered by the host |
//! | the sweep | `Dead` | the same; a sweep may be repeated, but nobody has to |
//! | the new state | `BackOff` or `Failed` | the same |

use executor_core::owner::SlotState;
use executor_core::sweep::Inputs;
use executor_rt::log::Level;
use executor_rt::plan::{exit_kind, phase};
use sys::clock::MonoTime;
use sys::pidfd::Event;
use sys::process;
use sys::signal::Signal;

use super::Supervisor;
use crate::node::{Node, Run, Slots};
use crate::policy::Decision;
use crate::strays;

impl Supervisor<'_> {
    /// Takes every change of every child.
    pub(super) fn reap(&mut self, now: MonoTime) {
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
    pub(super) fn kill_strays(&mut self) {
        let keep: Vec<u32> =
            self.nodes.iter().filter_map(Node::live).map(|live| live.pid).collect();
        self.strays = strays::kill_except(&keep) != 0;
    }

    pub(super) fn changed(&mut self, index: usize, event: Event, now: MonoTime) {
        if event.is_end() {
            self.died(index, event, now);
            return;
        }
        let Some(node) = self.nodes.get_mut(index) else { return };
        let slots = node.slots();
        if let Some(live) = node.live_mut() {
            live.stopped = event == Event::Stopped;
            let (state, pid) = (live.state(), live.pid);
            self.board.set_state(slots, state);
            let (level, what) = match event {
                Event::Stopped => (Level::Warn, "stopped by a signal; its messages wait for it"),
                _ => (Level::Info, "continued"),
            };
            let slots = Slots(&node.plan);
            node.say(self.files, level, format_args!("{slots}, process {pid}: {what}"));
        }
    }

    /// A process is reaped, or could not be started: sweep, then restart or not.
    pub(super) fn died(&mut self, index: usize, event: Event, now: MonoTime) {
        let Some(node) = self.nodes.get_mut(index) else { return };
        let slots = node.slots();
        let run = std::mem::replace(&mut node.run, Run::Over);
        let (lived_ms, killed) = match &run {
            Run::Live(live) => (now.since_ns(live.started) / 1_000_000, live.killed),
            _ => (0, None),
        };
        drop(run);
        let (kind, value) = describe(event, killed);
        self.board.died(slots.clone(), kind, value);
        let restart = match self.ending {
            Some(_) => None,
            None => match node.policy.decide(&node.plan.restart, now, lived_ms) {
                Decision::Restart(at) => Some(at),
                Decision::Fail => None,
            },
        };
        let inputs = if restart.is_some() { Inputs::Adopt } else { Inputs::Free };
        let swept = self.sweeping.sweep(&self.board, slots.clone(), inputs, now);
        self.strays = true;
        let (generation, freed, kept) = (node.generation, swept.freed, swept.adopted);
        let ended = self.ending.is_some()
            && matches!(event, Event::Exited(0) | Event::Signalled { signal: Signal::TERM, .. });
        let (state, level, next) = match restart {
            Some(at) => (SlotState::BackOff, Level::Warn, format!("restart in {} ms", ms(at, now))),
            None if ended => (SlotState::Ended, Level::Info, "as asked".to_owned()),
            None => (SlotState::Failed, Level::Error, "no restart".to_owned()),
        };
        let unasked = self.ending.is_none() && event == Event::Exited(0);
        let how = Ended { event, unasked };
        let all = Slots(&node.plan);
        let text = format_args!(
            "{all}, process number {generation}: {how} after {lived_ms} ms; freed {freed} \
             mbufs, kept {kept} inputs; {next}"
        );
        node.say(self.files, level, text);
        if let Some(at) = restart {
            node.run = Run::Waiting(at);
        }
        self.board.set_state(slots, state);
        if state == SlotState::Failed && self.ending.is_none() {
            self.board.set_phase(phase::FAILED);
        }
    }
}

fn ms(later: MonoTime, now: MonoTime) -> u64 {
    later.since_ns(now) / 1_000_000
}

/// The status words of an end.
fn describe(event: Event, killed: Option<u32>) -> (u32, u32) {
    let (kind, value) = match event {
        Event::Exited(code) => (exit_kind::EXITED, code),
        Event::Signalled { signal, .. } => (exit_kind::SIGNALLED, signal.raw()),
        Event::Stopped | Event::Continued => (exit_kind::NONE, 0),
    };
    (killed.unwrap_or(kind), u32::try_from(value).unwrap_or(u32::MAX))
}

/// How a process ended, for a log line.
struct Ended {
    event: Event,
    /// It looks like the end of somebody who was asked to, and nobody did.
    unasked: bool,
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.event {
            Event::Exited(0) if self.unasked => f.write_str(
                "exit code 0, which nobody asked for (SIGTERM from outside, or the function \
                 ended the process)",
            ),
            Event::Exited(code) => write!(f, "exit code {code}"),
            Event::Signalled { signal, core: false } => write!(f, "killed by {signal}"),
            Event::Signalled { signal, core: true } => write!(f, "killed by {signal}, core dumped"),
            Event::Stopped | Event::Continued => f.write_str("still running"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Ended, Event, Signal, describe, exit_kind};

    #[test]
    fn ends_in_status_words() {
        let killed = Event::Signalled { signal: Signal::KILL, core: false };
        assert_eq!(describe(Event::Exited(127), None), (exit_kind::EXITED, 127));
        assert_eq!(describe(killed, None), (exit_kind::SIGNALLED, 9));
        assert_eq!(describe(killed, Some(exit_kind::STALLED)), (exit_kind::STALLED, 9));
    }

    #[test]
    fn an_unasked_exit_0_says_so() {
        let text = |unasked| Ended { event: Event::Exited(0), unasked }.to_string();
        assert_eq!(text(false), "exit code 0");
        assert!(text(true).starts_with("exit code 0, which nobody asked for"));
    }
}
