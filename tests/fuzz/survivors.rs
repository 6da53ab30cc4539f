//! How the processes of a session ended, and what the session's own threads did.

use std::sync::Mutex;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use dflow::Session;
use sys::memfd;

/// Panics of threads that belong to the host's library.
static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Notes every panic of a thread that a session started; they are the host's.
pub(crate) fn watch_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let thread = std::thread::current();
            if thread.name().is_some_and(|name| name.starts_with("dflow-")) {
                PANICS.lock().unwrap().push(info.to_string());
            }
            before(info);
        }));
    });
}

/// Panics since the last call.
pub(crate) fn take_panics() -> Vec<String> {
    std::mem::take(&mut PANICS.lock().unwrap())
}

/// Text of an executor's stderr log.
pub(crate) fn log_of(session: &Session, index: usize) -> String {
    let (_, stderr) = session.logs(index).unwrap();
    String::from_utf8_lossy(&memfd::read_all(stderr).unwrap()).into_owned()
}

/// Lines in which the supervisor says how a process of this log ended.
pub(crate) fn ends(log: &str) -> impl Iterator<Item = &str> {
    log.lines().filter(|line| line.contains(", process number "))
}

/// True for the end of a process that did not choose it: a fault, an abort or a panic.
pub(crate) fn is_crash(line: &str) -> bool {
    [
        "SIGSEGV",
        "SIGBUS",
        "SIGABRT",
        "SIGILL",
        "SIGFPE",
        "SIGTRAP",
        "exit code 101",
        "exit code 134",
    ]
    .iter()
    .any(|how| line.contains(how))
}

/// Ends the whole test program when it is not dropped in time: a hang shows as a failure that names
/// what hung, not as a run without end.
pub(crate) struct Watchdog {
    done: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Starts the clock.
    pub(crate) fn new(limit: Duration, what: String) -> Watchdog {
        let (done, waits) = channel();
        let thread = std::thread::spawn(move || {
            if waits.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                eprintln!("watchdog: {what} did not end within {limit:?}");
                std::process::exit(101);
            }
        });
        Watchdog { done: Some(done), thread: Some(thread) }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.done.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
