//! Ends that were asked for, and starts that are refused.

use std::io::{Write, pipe};
use std::os::fd::AsFd;
use std::path::Path;

use executor_core::owner::SlotState;
use executor_rt::plan::{exit_kind, phase};
use sys::clock::MonoTime;
use sys::pidfd::Event;
use sys::poll::{Events, PollFd, poll};
use sys::signal::Signal;
use sys::spawn::Spawn;

use crate::support::{BOTH, Flow, node, plan};

/// Ends with code 0 when asked to.
const POLITE: &str = "trap 'exit 0' TERM; echo up; while :; do sleep 100000 & wait $!; done";
/// Does not end when asked to.
const STUBBORN: &str = "trap '' TERM; echo up; while :; do sleep 100000; done";

#[test]
fn a_stop_ends_everything_in_order() {
    for namespace in BOTH {
        let mut waiting = node(2, "exit 1");
        (waiting.restart.backoff_ms, waiting.restart.backoff_max_ms) = (1_000_000, 1_000_000);
        let mut flow = Flow::start(plan(namespace, vec![node(1, POLITE), waiting]));
        assert_eq!(flow.line(), "up");
        flow.until("back-off", |f| f.state(2) == SlotState::BackOff);
        flow.stop();
        assert_eq!(flow.gone(), Event::Exited(0));
        assert_eq!([flow.state(1), flow.state(2)], [SlotState::Ended; 2]);
        assert_eq!((flow.exit(1), flow.phase()), ((exit_kind::EXITED, 0), phase::ENDING));
    }
}

#[test]
fn a_stopped_node_is_continued_to_end() {
    let mut flow = Flow::start(plan(false, vec![node(1, POLITE)]));
    assert_eq!(flow.line(), "up");
    flow.started(1, 1);
    flow.signal(1, Signal::STOP);
    flow.until("stop", |f| f.state(1) == SlotState::Stopped);
    flow.stop();
    assert_eq!(flow.gone(), Event::Exited(0));
    assert_eq!(flow.state(1), SlotState::Ended);
}

#[test]
fn a_node_that_ignores_the_request_is_killed_after_the_grace() {
    let mut flow = Flow::start(plan(true, vec![node(1, STUBBORN)]));
    assert_eq!(flow.line(), "up");
    let asked = MonoTime::now();
    flow.stop();
    assert_eq!(flow.gone(), Event::Exited(0));
    assert!(asked.add_ms(10_000).is_past(MonoTime::now()));
    assert_eq!((flow.state(1), flow.exit(1)), (SlotState::Failed, (exit_kind::SIGNALLED, 9)));
}

/// The node can't print its way to the limit on file sizes, and the supervisor's own lines do not
/// end it there.
#[test]
fn a_log_near_the_limit_on_file_sizes_begins_anew() {
    let script = "trap '' XFSZ; while :; do echo 0123456789 >&2; done";
    let flow = Flow::start_limited(256, plan(false, vec![node(1, script)]));
    flow.running(1, 1);
    for generation in 2..5 {
        flow.until_logged("of this log are gone: it came near the limit on file sizes, 131072");
        flow.signal(1, Signal::KILL);
        flow.running(1, generation);
    }
    assert!(flow.log().len() <= 131_072);
    flow.stop();
    assert_eq!(flow.gone(), Event::Exited(0));
}

#[test]
fn an_impossible_plan_is_refused_before_anything_starts() {
    let mut version = plan(false, Vec::new());
    version.version = 7;
    let outside = plan(true, vec![node(1, "echo up"), node(3, "echo up")]);
    let mut unknown = plan(false, vec![node(1, "echo up")]);
    unknown.nodes[0].inherit = vec![987];
    for (plan, text) in [
        (version, "found version 7, expected 2"),
        (outside, "node node3: slot 3, but the group has 3"),
        (unknown, "node node1: descriptor 987 was not inherited"),
    ] {
        let flow = Flow::start(plan);
        assert_eq!(flow.gone(), Event::Exited(2));
        assert!(flow.log().contains(text), "{}", flow.log());
        assert_eq!(flow.generation(1), 0);
    }
}

/// The host's stderr may be a pipe whose reader is gone, or stopped and the pipe full.
#[test]
fn nobody_has_to_read_what_a_refusal_says() {
    let program = Path::new(env!("CARGO_BIN_EXE_dflow-supervisor"));
    let (reader, gone) = pipe().expect("pipe");
    drop(reader);
    let (_reader, mut full) = pipe().expect("pipe");
    // The pipe takes 64 KiB, and then nothing until somebody reads.
    full.write_all(&vec![b'x'; 1 << 16]).expect("write");
    for stderr in [gone.as_fd(), full.as_fd()] {
        let refused = Spawn {
            program,
            args: &["--nonsense".to_owned()],
            env: &[],
            inherit: &[],
            stdin: None,
            stdout: None,
            stderr: Some(stderr),
            death_signal: Some(Signal::KILL),
        };
        let child = refused.spawn().expect("spawn");
        let mut fds = [PollFd::new(&child.pidfd, Events::IN)];
        let ended = poll(&mut fds, Some(MonoTime::now().add_ms(30_000)));
        assert_eq!(ended, Ok(1), "it waits for a reader");
        assert_eq!(child.pidfd.wait_end(), Ok(Event::Exited(2)));
    }
}
