//! One executor as the supervisor keeps it: one process with one slot or, for a device, several.
//!
//! ```text
//! Waiting(t) ── t came: spawn ──→ Live ── ready ──→ Live (Running) ⇄ stopped
//!     ↑                            │ reaped, swept
//!     └────── policy: Restart ─────┴───── Fail, or ending ──→ Over
//! ```

use std::fmt;
use std::fs::File;

use executor_core::owner::SlotState;
use executor_rt::log::Level;
use executor_rt::plan::NodePlan;
use sys::clock::MonoTime;
use sys::pidfd::PidFd;
use sys::signal::Signal;

use crate::boot::Files;
use crate::logs;
use crate::policy::Policy;
use crate::stall::ProcWatch;

/// A running process.
#[derive(Debug)]
pub(crate) struct Live {
    /// Its number in the supervisor's PID namespace.
    pub(crate) pid: u32,
    /// Its descriptor.
    pub(crate) pidfd: PidFd,
    /// When it was started.
    pub(crate) started: MonoTime,
    /// It said that it is ready.
    pub(crate) ready: bool,
    /// A signal stopped it.
    pub(crate) stopped: bool,
    /// The supervisor killed it, for this [`executor_rt::plan::exit_kind`].
    pub(crate) killed: Option<u32>,
    /// What each of its slots was last seen doing.
    pub(crate) watches: Vec<ProcWatch>,
}

impl Live {
    /// What the status says of it.
    pub(crate) fn state(&self) -> SlotState {
        match (self.stopped, self.ready) {
            (true, _) => SlotState::Stopped,
            (false, true) => SlotState::Running,
            (false, false) => SlotState::Starting,
        }
    }
}

/// Where a node stands.
#[derive(Debug)]
pub(crate) enum Run {
    /// To be started at this time.
    Waiting(MonoTime),
    /// Its process lives.
    Live(Live),
    /// Not started any more.
    Over,
}

/// One executor.
#[derive(Debug)]
pub(crate) struct Node {
    /// What the host wants.
    pub(crate) plan: NodePlan,
    /// Processes so far.
    pub(crate) generation: u32,
    /// Restarts in a row.
    pub(crate) policy: Policy,
    /// Where it stands.
    pub(crate) run: Run,
}

impl Node {
    /// A node that starts at once.
    pub(crate) fn new(plan: NodePlan) -> Self {
        Self { plan, generation: 0, policy: Policy::default(), run: Run::Waiting(MonoTime::ZERO) }
    }

    /// Its slots, its own first.
    pub(crate) fn slots(&self) -> impl Iterator<Item = u32> + Clone + use<> {
        let all: Vec<u32> = self.plan.slots().collect();
        all.into_iter()
    }

    /// Its process, if it lives.
    pub(crate) fn live(&self) -> Option<&Live> {
        if let Run::Live(live) = &self.run { Some(live) } else { None }
    }

    /// Its process, if it lives.
    pub(crate) fn live_mut(&mut self) -> Option<&mut Live> {
        if let Run::Live(live) = &mut self.run { Some(live) } else { None }
    }

    /// Its stderr, where lines about it go.
    pub(crate) fn log<'f>(&self, files: &'f Files) -> Option<&'f File> {
        files.get(self.plan.stderr_fd)
    }

    /// Writes a line about it.
    pub(crate) fn say(&self, files: &Files, level: Level, text: fmt::Arguments<'_>) {
        logs::line(self.log(files), &self.plan.name, level, text);
    }

    /// Sends a signal to its process. One that ended meanwhile is reaped soon: not an error.
    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(live) = self.live() {
            let _gone = live.pidfd.signal(signal);
        }
    }

    /// Kills its process once, with the reason in its log; its status will show `kind`, an
    /// [`executor_rt::plan::exit_kind`].
    pub(crate) fn kill(&mut self, files: &Files, kind: u32, why: fmt::Arguments<'_>) {
        let pid = match self.live_mut() {
            Some(live) if live.killed.is_none() => {
                live.killed = Some(kind);
                live.pid
            }
            _ => return,
        };
        let slots = Slots(&self.plan);
        self.say(files, Level::Error, format_args!("{slots}, process {pid}: {why}; killed"));
        self.signal(Signal::KILL);
    }
}

/// The slots of a plan in a log line: `slot 3`, or `slots 3, 4 (resize), 5 (angle)`.
#[derive(Debug)]
pub(crate) struct Slots<'p>(pub(crate) &'p NodePlan);

impl fmt::Display for Slots<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plan = self.0;
        let word = if plan.also.is_empty() { "slot" } else { "slots" };
        write!(f, "{word} {}", plan.slot)?;
        for also in &plan.also {
            match also.name.as_str() {
                "" => write!(f, ", {}", also.slot)?,
                name => write!(f, ", {} ({name})", also.slot)?,
            }
        }
        Ok(())
    }
}
