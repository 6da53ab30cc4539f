//! `dflow-supervisor`: starts a flow's executors, watches them, and leaves nothing behind.
//!
//! One program, two roles. The *watcher* (`--watcher`) is what the host starts; it starts the
//! *supervisor*, which starts the executors. Each watches the other and the host, so the death of
//! any one process ends or heals the rest:
//!
//! | killed | who sees it | what happens |
//! |---|---|---|
//! | executor | supervisor: pidfd | reaped, swept, waiters rung; restart by policy or `Failed` |
//! | its descendant, orphaned | supervisor: new parent | killed when an executor dies |
//! | supervisor | watcher: pidfd | executors die by PDEATHSIG, all else by namespace or watcher |
//! | watcher | supervisor: PDEATHSIG, pidfd | dies with the namespace, or kills all and exits |
//! | host | both: its pidfd | executors and descendants are killed, both exit |
//! | watcher before its spawn | nobody is there yet | nothing to clean |
//! | supervisor between spawn and status | watcher | executors die by PDEATHSIG, nobody reads on |
//! | supervisor in a sweep | watcher | the group ends with the flow, unrepaired and unused |
//! | watcher and supervisor at once | kernel | without a namespace a `setsid` orphan survives |
//!
//! A *stopped* host changes nothing: status goes out through shared memory, logs into memory files.
//! What is not here: any way to the payload of a message. The supervisor maps partitions read-only.
#![deny(unsafe_code)]

use std::fmt;
use std::io::Write;
use std::process::ExitCode;

mod board;
mod boot;
mod logs;
mod node;
mod policy;
mod spawn;
mod stall;
mod strays;
mod supervisor;
mod sweeping;
mod wake;
mod watcher;

use executor_rt::plan::WATCHER_ARGUMENT;
use sys::clock::MonoTime;
use sys::poll::{Events, PollFd, poll};

/// Ended as asked, or with the host.
const EXIT_ENDED: u8 = 0;
/// A call to the system failed while executors ran; all of them were ended.
const EXIT_FAILED: u8 = 1;
/// Plan, environment or memory group refused; nothing was started.
const EXIT_REFUSED: u8 = 2;

/// Writes a line to stderr, which is the host's. One that nobody reads any more, or that is full
/// because its reader is stopped, costs the line and nothing else.
fn say(text: fmt::Arguments<'_>) {
    let stderr = std::io::stderr();
    let mut fds = [PollFd::new(&stderr, Events::OUT)];
    if poll(&mut fds, Some(MonoTime::ZERO)).is_ok_and(|count| count > 0) {
        let _nowhere_to_report_it = writeln!(&stderr, "{text}");
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let ended = match arguments.as_slice() {
        [] => boot::load().and_then(supervisor::run),
        [role] if role == WATCHER_ARGUMENT => boot::load().and_then(watcher::run),
        other => Err(boot::Refused::Arguments(other.join(" "))),
    };
    match ended {
        Ok(code) => ExitCode::from(code),
        Err(refused) => {
            say(format_args!("dflow-supervisor: {refused}"));
            ExitCode::from(EXIT_REFUSED)
        }
    }
}
