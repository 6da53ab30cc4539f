//! A program that builds, with everything it starts: heard, stopped and ended as a whole.
//!
//! It leads a process group of its own, gets a KILL when the thread that waits for it ends (with
//! dflow, however that ends), and takes its group along when it ends: nothing of a build outlives
//! it but what left the group and was not the program's descendant at a stop.

use std::io::{self, PipeReader, Read};
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sys::clock::MonoTime;
use sys::errno::Errno;
use sys::pidfd::PidFd;
use sys::poll::{Events, PollFd, poll};
use sys::signal::Signal;
use sys::{process, procfs, spawn};

/// Between two looks at the flag that stops.
const LOOK_MS: u64 = 50;
/// From TERM to KILL.
const GRACE_MS: u64 = 2_000;
/// What is read at once, and what is left to read after the end: a pipe holds as much.
const CHUNK: usize = 64 << 10;

/// Leaders of the groups that build in this process, none of them reaped.
static LEADERS: Mutex<Vec<u32>> = Mutex::new(Vec::new());

fn leaders() -> MutexGuard<'static, Vec<u32>> {
    LEADERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether this process builds.
pub(super) fn is_any() -> bool {
    !leaders().is_empty()
}

/// Kills what builds in this process, at once.
pub(super) fn kill_all() {
    for &leader in &*leaders() {
        signal_all(leader, &below(leader), Signal::KILL);
    }
}

/// Runs a command to its end. `hear` gets what it says, at any length; nothing, when nothing came
/// for a moment. Once `stop` is true the command is ended.
pub(super) fn run(
    mut command: Command,
    stop: Option<&AtomicBool>,
    hear: &mut dyn FnMut(&[u8]),
) -> io::Result<ExitStatus> {
    let (reader, writer) = io::pipe()?;
    command.stdout(writer.try_clone()?).stderr(writer);
    spawn::lead_group(&mut command, Signal::KILL);
    let child = command.spawn()?;
    // The command holds the other ends of the pipe.
    drop(command);
    let mut running = Running::new(child, reader);
    running.watch(stop, hear)?;
    running.end(hear)
}

/// A program that was not reaped. Dropping it ends it.
struct Running {
    child: Child,
    /// Ends when nobody holds the other end any more.
    reader: Option<PipeReader>,
    /// Its descendants, when it was told to stop.
    below: Vec<PidFd>,
    reaped: bool,
}

impl Running {
    fn new(child: Child, reader: PipeReader) -> Running {
        leaders().push(child.id());
        Running { child, reader: Some(reader), below: Vec::new(), reaped: false }
    }

    /// Until it has ended, or had its time to do so.
    fn watch(&mut self, stop: Option<&AtomicBool>, hear: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        let pidfd = PidFd::open(self.child.id()).map_err(|error| as_io(error.errno))?;
        let mut until: Option<MonoTime> = None;
        loop {
            let now = MonoTime::now();
            // SYNC: a flag on its own; nothing else is read through it.
            if until.is_none() && stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
                self.below = below(self.child.id());
                signal_all(self.child.id(), &self.below, Signal::TERM);
                until = Some(now.add_ms(GRACE_MS));
            }
            let (ended, readable) = self.wait(&pidfd, now.add_ms(LOOK_MS))?;
            if readable {
                self.read(CHUNK, hear)?;
            } else {
                hear(&[]);
            }
            // Whoever holds the pipe after a TERM is still cleaning up.
            let done = ended && (until.is_none() || self.reader.is_none());
            if done || until.is_some_and(|until| until.is_past(now)) {
                return Ok(());
            }
        }
    }

    /// Whether it has ended, and whether there is something to read, or the end of it.
    fn wait(&self, pidfd: &PidFd, until: MonoTime) -> io::Result<(bool, bool)> {
        let mut fds = vec![PollFd::new(pidfd, Events::IN)];
        fds.extend(self.reader.as_ref().map(|reader| PollFd::new(reader, Events::IN)));
        match poll(&mut fds, Some(until)) {
            Err(error) if error.errno != Errno::INTR => return Err(as_io(error.errno)),
            _ => {}
        }
        Ok((fds.first().is_some_and(PollFd::is_ready), fds.get(1).is_some_and(PollFd::is_ready)))
    }

    /// Reads once, when something is there; how much.
    fn read(&mut self, most: usize, hear: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
        let Some(reader) = &mut self.reader else { return Ok(0) };
        let mut bytes = vec![0; most];
        let count = reader.read(&mut bytes)?;
        if count == 0 {
            self.reader = None;
        }
        hear(bytes.get(..count).unwrap_or_default());
        Ok(count)
    }

    /// Kills what is left of it and hears what it left in the pipe.
    fn end(mut self, hear: &mut dyn FnMut(&[u8])) -> io::Result<ExitStatus> {
        signal_all(self.child.id(), &self.below, Signal::KILL);
        // Who left the group may go on writing.
        let mut left = CHUNK;
        while let Some(reader) = &self.reader {
            let mut fds = [PollFd::new(reader, Events::IN)];
            if left == 0 || !poll(&mut fds, Some(MonoTime::ZERO)).is_ok_and(|ready| ready > 0) {
                break;
            }
            left -= self.read(left, hear)?;
        }
        self.reap()
    }

    fn reap(&mut self) -> io::Result<ExitStatus> {
        self.reaped = true;
        let pid = self.child.id();
        // Before the number may become another's.
        leaders().retain(|&leader| leader != pid);
        self.child.wait()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.reaped {
            signal_all(self.child.id(), &self.below, Signal::KILL);
            let _gone = self.reap();
        }
    }
}

fn as_io(errno: Errno) -> io::Error {
    io::Error::from_raw_os_error(errno.raw())
}

/// Descendants of a process.
fn below(pid: u32) -> Vec<PidFd> {
    let open = |(pid, parent)| {
        let pidfd = PidFd::open(pid).ok()?;
        // Another process may have got the number before it was opened.
        (procfs::parent(pid) == Some(parent)).then_some(pidfd)
    };
    procfs::descendants(pid).into_iter().filter_map(open).collect()
}

/// To a leader's group, and to those who left it.
fn signal_all(leader: u32, below: &[PidFd], signal: Signal) {
    // Errors mean that they are gone.
    let _gone = process::signal_group(leader, signal);
    for pidfd in below {
        let _gone = pidfd.signal(signal);
    }
}
