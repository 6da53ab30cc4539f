//! SIGINT and SIGTERM: the first asks to stop, the second ends this process at once.
//!
//! Ending at once is safe: the supervisor watches this process and leaves nothing behind. The
//! signals are blocked and read by a thread of their own, so no wait of the others is cut short.

use std::io::IsTerminal as _;
use std::sync::atomic::{AtomicBool, Ordering};

use sys::poll::{Events, PollFd};
use sys::signal::Signal;
use sys::signalfd::SignalFd;
use sys::{process, signal};

use super::{Failure, exit};
use crate::{build, notice};

static ASKED: AtomicBool = AtomicBool::new(false);

/// Whether the user asked to stop.
pub(super) fn asked() -> bool {
    // SYNC: a flag on its own; nothing else is read through it.
    ASKED.load(Ordering::Relaxed)
}

/// The flag behind [`asked`].
pub(super) fn flag() -> &'static AtomicBool {
    &ASKED
}

/// Asks to stop, as the first signal does.
pub(super) fn ask() {
    ASKED.store(true, Ordering::Relaxed);
}

/// Takes the signals over; called before any other thread is started.
pub(super) fn install() -> Result<(), Failure> {
    let failed = |what: &str, why: &dyn std::fmt::Display| {
        Failure::System(format!("can't watch for SIGINT: {what}: {why}"))
    };
    let set = [Signal::INT, Signal::TERM];
    signal::block(&set).map_err(|e| failed("mask", &e))?;
    let signals = SignalFd::new(&set).map_err(|e| failed("descriptor", &e))?;
    let thread = std::thread::Builder::new().name("dflow-signals".to_owned());
    thread.spawn(move || watch(&signals)).map_err(|e| failed("thread", &e))?;
    Ok(())
}

fn watch(signals: &SignalFd) {
    loop {
        let _ = sys::poll::poll(&mut [PollFd::new(signals, Events::IN)], None);
        while let Ok(Some(_)) = signals.read() {
            if asked() {
                // The supervisor knows of no build.
                build::kill();
                process::exit_immediately(i32::from(exit::INTERRUPTED));
            }
            let builds = build::is_running();
            let what = if builds { "ending the build" } else { "fetching what is open" };
            ask();
            // Over the progress bar, without its lock: its holder may wait for stdout's reader.
            let clear = if std::io::stderr().is_terminal() { "\r\x1b[2K" } else { "" };
            let text = format!("{clear}stopping: {what}; once more to end at once\n");
            notice::to_stderr(&text);
        }
    }
}
