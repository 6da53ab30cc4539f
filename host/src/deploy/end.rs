//! The two processes that keep a flow: whether they live, whether they are stopped, and their end.
//!
//! The watcher is the host's child; the supervisor is the watcher's, found through `/proc`. A
//! stopped one can't end anything, so closing says who is waited for, continues it, and kills what
//! is stopped all the same after `STOPPED_MS`. Whatever happens, [`Keepers::end`] returns in
//! bounded time with both of them gone.

use std::sync::{Mutex, OnceLock, PoisonError};

use sys::clock::MonoTime;
use sys::errno::Errno;
use sys::pidfd::{Event, PidFd};
use sys::poll::{Events, PollFd, poll};
use sys::procfs;
use sys::signal::Signal;
use sys::spawn::Child;

use crate::notice;

/// Who is waited for is said after this, and a stopped process is continued.
const SAY_MS: u64 = 1_000;
/// States are looked at this often while something is waited for.
const LOOK_MS: u64 = 200;
/// A process that is stopped again and again is killed after this.
const STOPPED_MS: u64 = 3_000;
/// Time for the watcher to kill and reap everything.
const CLEAN_UP_MS: u64 = 5_000;
/// The watcher's end may come a moment after the supervisor's, where both have one cause.
const TOGETHER_MS: u64 = 5;

/// Watcher and supervisor of one flow.
#[derive(Debug)]
pub struct Keepers {
    flow: String,
    watcher: Child,
    supervisor: OnceLock<Child>,
    /// How the watcher ended.
    ended: OnceLock<Event>,
    /// One thread ends the flow, a second one waits for it.
    ending: Mutex<()>,
}

/// One of the two.
struct Keeper<'a> {
    name: &'static str,
    process: &'a Child,
}

impl Keeper<'_> {
    fn is_gone(&self) -> bool {
        self.process.pidfd.is_ready()
    }

    /// `T`: by a signal, `t`: by a debugger.
    fn is_stopped(&self) -> bool {
        let state = procfs::state(self.process.pid);
        // The second look: an ended one's number may be another process's by now.
        matches!(state, Some('T' | 't')) && !self.is_gone()
    }

    fn title(&self) -> String {
        format!("the {} (process {})", self.name, self.process.pid)
    }
}

impl Keepers {
    pub(super) fn new(flow: &str, watcher: Child) -> Keepers {
        let flow = flow.to_owned();
        let (supervisor, ended, ending) = (OnceLock::new(), OnceLock::new(), Mutex::new(()));
        Keepers { flow, watcher, supervisor, ended, ending }
    }

    /// The watcher.
    #[must_use]
    pub fn watcher(&self) -> &Child {
        &self.watcher
    }

    /// Looks for the supervisor once more where it is not known yet.
    pub(super) fn find_supervisor(&self) {
        if self.supervisor.get().is_some() || self.watcher.pidfd.is_ready() {
            return;
        }
        for pid in procfs::children(self.watcher.pid) {
            let Ok(pidfd) = PidFd::open(pid) else { continue };
            // The descriptor is of the process that was listed, if that still is its parent.
            if procfs::parent(pid) == Some(self.watcher.pid) {
                let _found = self.supervisor.set(Child { pid, pidfd });
                return;
            }
        }
    }

    /// Whether the supervisor is known and has ended.
    pub(super) fn is_supervisor_gone(&self) -> bool {
        self.supervisor.get().is_some_and(|process| process.pidfd.is_ready())
    }

    /// Those that are known, the supervisor first.
    fn all(&self) -> impl Iterator<Item = Keeper<'_>> {
        let supervisor = self.supervisor.get();
        let supervisor = supervisor.map(|process| Keeper { name: "supervisor", process });
        supervisor.into_iter().chain([Keeper { name: "watcher", process: &self.watcher }])
    }

    fn are_gone(&self) -> bool {
        self.all().all(|keeper| keeper.is_gone())
    }

    /// One line about each that is stopped now and was not said to be; `said` remembers.
    pub(crate) fn warn_of_stops(&self, said: &mut Vec<u32>) {
        for keeper in self.all() {
            let pid = keeper.process.pid;
            match (keeper.is_stopped(), said.contains(&pid)) {
                (true, false) => {
                    said.push(pid);
                    notice::say(&format!(
                        "warning: flow `{}`: {} is stopped; messages go on, but a death is not \
                         mended until `kill -CONT {pid}`",
                        self.flow,
                        keeper.title()
                    ));
                }
                (false, true) => said.retain(|known| *known != pid),
                _ => {}
            }
        }
    }

    /// In words, which of the two died first, and how where that is known. The caller has seen the
    /// watcher's end or the command socket's.
    #[must_use]
    pub fn obituary(&self) -> String {
        if !self.all().any(|keeper| keeper.is_stopped()) {
            self.await_watcher(MonoTime::now().add_ms(TOGETHER_MS));
        }
        self.reap();
        let watcher = self.watcher.pid;
        let supervisor = match self.supervisor.get() {
            Some(process) => format!("the supervisor (process {})", process.pid),
            None => "the supervisor".to_owned(),
        };
        match self.ended.get() {
            None => format!("{supervisor} died"),
            Some(Event::Signalled { signal, .. }) => {
                format!("the watcher (process {watcher}) was ended by {}", signal_name(*signal))
            }
            // It ends with the supervisor's code, and 128 and the signal's number for a signal.
            Some(Event::Exited(code)) => match Signal::from_raw(*code - 128) {
                Some(signal) if *code > 128 => {
                    format!("{supervisor} was ended by {}", signal_name(signal))
                }
                _ => format!("{supervisor} ended with exit code {code}"),
            },
            Some(_) => format!("{supervisor} died"),
        }
    }

    /// How the watcher ended, in words, if it did.
    #[must_use]
    pub fn watcher_end(&self) -> Option<String> {
        self.reap();
        Some(match self.ended.get()? {
            Event::Exited(code) => format!("exit code {code}"),
            Event::Signalled { signal, .. } => signal_name(*signal),
            _ => return None,
        })
    }

    /// Waits until the flow has ended by itself, and ends it after `patience_ms`. No process of it
    /// is left then: the watcher is asked first, because only it can wait for all others; one that
    /// does not answer is killed, and they die with it. `others` names further processes that may
    /// be waited for.
    pub fn end(&self, patience_ms: u64, others: &dyn Fn() -> Vec<String>) {
        let _turn = self.ending.lock().unwrap_or_else(PoisonError::into_inner);
        self.find_supervisor();
        let mut patience = Patience::new(others);
        if !self.ends_within(patience_ms, &mut patience) {
            let _ = self.watcher.pidfd.signal(Signal::TERM);
            if !self.ends_within(CLEAN_UP_MS, &mut patience) {
                self.kill();
            }
        }
        self.await_watcher(MonoTime::MAX);
        self.reap();
    }

    /// Looks at the states at once: the supervisor is gone, and a watcher that runs ends by itself.
    pub(crate) fn end_after_death(&self) {
        let continued = self.all().filter(Keeper::is_stopped).map(|keeper| {
            notice::say(&format!(
                "flow `{}`: {} is stopped: continuing it, so that it cleans up",
                self.flow,
                keeper.title()
            ));
            let _ = keeper.process.pidfd.signal(Signal::CONT);
        });
        continued.for_each(drop);
        self.end(SAY_MS, &Vec::new);
    }

    /// Waits; false when the time is over, or when a stopped process does not go on.
    fn ends_within(&self, ms: u64, patience: &mut Patience<'_>) -> bool {
        let deadline = MonoTime::now().add_ms(ms);
        loop {
            self.await_all(deadline.min(patience.look));
            if self.are_gone() {
                return true;
            }
            let now = MonoTime::now();
            if deadline.is_past(now) || patience.look.is_past(now) && self.gives_up(patience) {
                return false;
            }
        }
    }

    /// Says who is waited for, continues what is stopped; true when one is stopped for too long.
    fn gives_up(&self, patience: &mut Patience<'_>) -> bool {
        let now = MonoTime::now();
        self.find_supervisor();
        patience.look = now.add_ms(LOOK_MS);
        let mut stopped = false;
        for keeper in self.all().filter(Keeper::is_stopped) {
            stopped = true;
            if !patience.said.contains(&keeper.process.pid) {
                patience.said.push(keeper.process.pid);
                let (flow, title) = (&self.flow, keeper.title());
                notice::say(&format!(
                    "closing flow `{flow}`: waiting for {title}, which is stopped: continuing it"
                ));
            }
            let _ = keeper.process.pidfd.signal(Signal::CONT);
        }
        if stopped {
            let since = *patience.stopped.get_or_insert(now);
            return since.add_ms(STOPPED_MS).is_past(now);
        }
        if patience.said.is_empty() {
            let mut waited_for = (patience.others)();
            if waited_for.is_empty() {
                waited_for.extend(self.all().filter(|k| !k.is_gone()).map(|k| k.title()));
            }
            patience.said.push(0);
            notice::say(&format!(
                "closing flow `{}`: waiting for {}",
                self.flow,
                waited_for.join(", ")
            ));
        }
        false
    }

    /// The last means: whatever can still be named dies.
    fn kill(&self) {
        let descendants: Vec<PidFd> = descendants(self.watcher.pid);
        notice::say(&format!("closing flow `{}`: killing what is left of it", self.flow));
        // The watcher first: a supervisor that runs cleans up after it.
        for process in self.all().collect::<Vec<_>>().iter().rev() {
            let _ = process.process.pidfd.signal(Signal::KILL);
            self.await_all(MonoTime::now().add_ms(LOOK_MS));
        }
        for process in descendants {
            let _ = process.signal(Signal::KILL);
        }
        self.await_all(MonoTime::now().add_ms(CLEAN_UP_MS));
    }

    /// Sleeps until all are gone or `until` has come.
    fn await_all(&self, until: MonoTime) {
        for keeper in self.all() {
            await_end(&keeper.process.pidfd, until);
        }
    }

    fn await_watcher(&self, until: MonoTime) {
        await_end(&self.watcher.pidfd, until);
    }

    fn reap(&self) {
        if self.ended.get().is_none()
            && self.watcher.pidfd.is_ready()
            && let Ok(event) = self.watcher.pidfd.wait_end()
        {
            let _first = self.ended.set(event);
        }
    }
}

/// What one end has said and seen so far.
struct Patience<'a> {
    others: &'a dyn Fn() -> Vec<String>,
    /// The next look at the states.
    look: MonoTime,
    /// Process numbers that were named; 0 stands for all together.
    said: Vec<u32>,
    /// Since when one is stopped.
    stopped: Option<MonoTime>,
}

impl<'a> Patience<'a> {
    fn new(others: &'a dyn Fn() -> Vec<String>) -> Self {
        let look = MonoTime::now().add_ms(SAY_MS);
        Patience { others, look, said: Vec::new(), stopped: None }
    }
}

fn signal_name(signal: Signal) -> String {
    signal.name().map_or_else(|| format!("signal {}", signal.raw()), str::to_owned)
}

fn await_end(process: &PidFd, until: MonoTime) {
    while poll(&mut [PollFd::new(process, Events::IN)], Some(until))
        .is_err_and(|error| error.errno == Errno::INTR)
    {}
}

/// Every process below `pid`.
fn descendants(pid: u32) -> Vec<PidFd> {
    let (mut found, mut parents) = (Vec::new(), vec![pid]);
    while let Some(parent) = parents.pop() {
        for child in procfs::children(parent) {
            let opened = PidFd::open(child).ok();
            if let Some(opened) = opened.filter(|_| procfs::parent(child) == Some(parent)) {
                found.push(opened);
                parents.push(child);
            }
        }
    }
    found
}
