//! What the supervisor sleeps on, in one `ppoll`.

use std::os::fd::BorrowedFd;

use sys::clock::MonoTime;
use sys::doorbell::EventFd;
use sys::errno::{Errno, Result};
use sys::pidfd::PidFd;
use sys::poll::{Events, PollFd, poll};
use sys::signal::Signal;
use sys::signalfd::SignalFd;
use sys::socket;

/// Place of the ready bell among the descriptors.
const READY: usize = 2;

/// Descriptors that end or command the supervisor.
#[derive(Debug)]
pub(crate) struct Sources<'a> {
    /// The host's pidfd.
    pub(crate) host: BorrowedFd<'a>,
    /// The watcher's pidfd; in a PID namespace its death is ours.
    pub(crate) watcher: Option<PidFd>,
    /// Commands; `None` after the host closed its end.
    pub(crate) command: Option<BorrowedFd<'a>>,
    /// SIGCHLD, SIGTERM and what a terminal sends.
    pub(crate) signals: SignalFd,
    /// Rung by executors that got ready. Whatever rings it, all that start are looked at.
    pub(crate) ready: EventFd,
}

/// Why the sleep ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Woken {
    /// Host or watcher are gone.
    pub(crate) abandoned: bool,
    /// The command socket has something.
    pub(crate) command: bool,
    /// A child ended.
    pub(crate) children: bool,
}

impl Sources<'_> {
    /// Sleeps until something happens or `deadline`.
    ///
    /// # Errors
    /// Only for want of kernel memory or descriptors.
    pub(crate) fn wait<'p>(
        &'p self,
        children: impl Iterator<Item = &'p PidFd>,
        deadline: MonoTime,
    ) -> Result<Woken> {
        let mut fds = vec![
            PollFd::from_borrowed(self.host, Events::IN),
            PollFd::new(&self.signals, Events::IN),
            PollFd::new(&self.ready, Events::IN),
        ];
        fds.extend(self.watcher.iter().map(|watcher| PollFd::new(watcher, Events::IN)));
        let command = self.command.map(|fd| PollFd::from_borrowed(fd, Events::IN));
        let fixed = fds.len();
        fds.extend(command);
        let first_child = fds.len();
        fds.extend(children.map(|child| PollFd::new(child, Events::IN)));
        match poll(&mut fds, Some(deadline)) {
            Err(error) if error.errno != Errno::INTR => return Err(error),
            Err(_) => return Ok(Woken::default()),
            Ok(_) => {}
        }
        let ready = |index: usize| fds.get(index).is_some_and(PollFd::is_ready);
        if ready(READY) {
            let _rings = self.ready.drain();
        }
        Ok(Woken {
            abandoned: ready(0) || (READY + 1..fixed).any(ready),
            command: (fixed..first_child).any(ready),
            children: (first_child..fds.len()).any(ready),
        })
    }

    /// Takes pending signals: whether a child may have changed, and whether one asks to end. Those
    /// of a terminal are the host's business. Children are looked at *after* this, so that a change
    /// that comes later finds its signal pending.
    pub(crate) fn drain_signals(&self) -> (bool, bool) {
        let (mut children, mut end) = (false, false);
        while let Ok(Some(received)) = self.signals.read() {
            children |= received.signal == Signal::CHLD;
            end |= received.signal == Signal::TERM;
        }
        (children, end)
    }

    /// Takes one command; a closed socket is not looked at again.
    pub(crate) fn take_command(&mut self) -> Option<u8> {
        let mut bytes = [0];
        match socket::recv(self.command?, &mut bytes) {
            Ok(1) => bytes.first().copied(),
            Err(error) if matches!(error.errno, Errno::AGAIN | Errno::INTR) => None,
            _ => {
                self.command = None;
                None
            }
        }
    }
}
