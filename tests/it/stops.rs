//! A stopped supervisor or watcher: said, worked around when the other one dies, and no hindrance
//! to closing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, Once};

use dflow::{DeployOptions, notice};
use executor_core::error::Code;
use sys::pidfd::PidFd;
use sys::procfs;
use sys::signal::Signal;
use tests::flows;

use crate::support::{Flow, act, message, single};

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn lines() -> MutexGuard<'static, Vec<String>> {
    LINES.lock().unwrap()
}

/// Whether a session of this program has said a line with both words.
fn said(word: &str, pid: u32) -> bool {
    let process = format!("(process {pid})");
    lines().iter().any(|line| line.contains(word) && line.contains(&process))
}

/// A flow whose two processes can be stopped and killed.
struct Kept {
    flow: Flow,
    watcher: (u32, PidFd),
    supervisor: (u32, PidFd),
}

impl Kept {
    fn start(node: dflow::FlowNode, namespace: bool) -> Kept {
        static SINK: Once = Once::new();
        SINK.call_once(|| notice::to(|line| lines().push(line.to_owned())));
        let options = DeployOptions { namespace, ..DeployOptions::default() };
        let flow = Flow::start_with(single(node), &options);
        let open = |pid: u32| (pid, PidFd::open(pid).unwrap());
        let watcher = flow.session.watcher_pid();
        let supervisor = procfs::children(watcher)[0];
        Kept { flow, watcher: open(watcher), supervisor: open(supervisor) }
    }

    fn stop(&self, process: &(u32, PidFd)) {
        process.1.signal(Signal::STOP).unwrap();
        self.flow.wait_until(|_| procfs::state(process.0) == Some('T'));
    }

    /// The next event is the answer to everything; why the session ended.
    fn died(&self) -> String {
        assert_eq!(self.flow.next(), (1, Err(Code::SUPERVISOR_DIED.0)));
        self.flow.session.ended().unwrap().reason
    }
}

#[test]
fn a_supervisor_that_dies_while_the_watcher_is_stopped_is_noticed() {
    for namespace in [true, false] {
        let kept = Kept::start(act("in", "wait", 1), namespace);
        kept.flow.feed(1);
        kept.stop(&kept.watcher);
        kept.supervisor.1.signal(Signal::KILL).unwrap();
        let reason = kept.died();
        assert!(
            reason.contains(&format!("supervisor (process {})", kept.supervisor.0)),
            "{reason}"
        );
        kept.flow.end();
        assert!(said("is stopped: continuing it, so that it cleans up", kept.watcher.0));
    }
}

#[test]
fn a_watcher_that_dies_while_the_supervisor_is_stopped_leaves_nothing() {
    for namespace in [true, false] {
        let kept = Kept::start(act("in", "wait", 1), namespace);
        kept.flow.feed(1);
        kept.stop(&kept.supervisor);
        kept.watcher.1.signal(Signal::KILL).unwrap();
        let reason = kept.died();
        let named = format!("the watcher (process {}) was ended by SIGKILL", kept.watcher.0);
        assert!(reason.contains(&named), "{reason}");
        kept.flow.end();
    }
}

#[test]
fn the_process_that_died_is_the_one_that_is_named() {
    for namespace in [true, false] {
        let kept = Kept::start(act("in", "wait", 1), namespace);
        kept.flow.feed(1);
        kept.watcher.1.signal(Signal::KILL).unwrap();
        let reason = kept.died();
        assert!(reason.contains("the watcher (process"), "{reason}");
        kept.flow.end();
        let kept = Kept::start(act("in", "wait", 1), namespace);
        kept.flow.feed(1);
        kept.supervisor.1.signal(Signal::KILL).unwrap();
        let reason = kept.died();
        assert!(reason.contains("the supervisor (process"), "{reason}");
        kept.flow.end();
    }
}

#[test]
fn closing_says_who_is_stopped_and_continues_it() {
    let kept = Kept::start(flows::node("pass", &["in"]), true);
    kept.flow.feed(1);
    assert_eq!(kept.flow.next(), (1, message(1)));
    kept.stop(&kept.supervisor);
    kept.flow.end();
    assert!(said("waiting for the supervisor", kept.supervisor.0));
    let kept = Kept::start(flows::node("pass", &["in"]), false);
    kept.stop(&kept.watcher);
    kept.flow.abandon();
    assert!(said("waiting for the watcher", kept.watcher.0));
}

#[test]
fn closing_kills_what_is_stopped_again_and_again() {
    for namespace in [true, false] {
        let kept = Kept::start(flows::node("pass", &["in"]), namespace);
        // Before the closing begins: it may be over before the thread below has its first turn.
        kept.stop(&kept.supervisor);
        let closed = AtomicBool::new(false);
        let Kept { flow, supervisor, .. } = kept;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !closed.load(Ordering::Acquire) && supervisor.1.signal(Signal::STOP).is_ok() {
                    std::thread::yield_now();
                }
            });
            flow.end();
            closed.store(true, Ordering::Release);
        });
        assert!(said("which is stopped", supervisor.0));
    }
}

#[test]
fn a_stop_during_the_run_is_a_warning() {
    let kept = Kept::start(flows::node("pass", &["in"]), true);
    for process in [&kept.supervisor, &kept.watcher] {
        kept.stop(process);
        kept.flow.wait_until(|_| said("is stopped; messages go on", process.0));
        process.1.signal(Signal::CONT).unwrap();
    }
    kept.flow.feed(1);
    assert_eq!(kept.flow.next(), (1, message(1)));
    kept.flow.end();
}
