//! Eventfd bridge: queue messages as readiness of a file descriptor, for tokio, asyncio or epoll.
//!
//! A thread of the consumer's process sleeps on the waiter that the queues ring, takes their ready
//! bits (cleared first, drained later: `executor_core::wake`) and rings an eventfd. The owner of
//! the queues polls the descriptor, drains it, then drains the queues until they are empty. A
//! message that arrives in between sets its bit again, so no wake-up is lost; a spurious one costs
//! an empty look.
//!
//! | killed | state seen | repaired by |
//! |---|---|---|
//! | between taking the bits and ringing | its whole process | the successor looks first |
//!
//! Cost: one more wake-up a burst (2.3 us on one core); processes that can sleep on the waiter
//! itself should.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use executor_core::abi::control::WaiterCtl;
use executor_core::primitive::Ordering as Core;
use executor_core::wake;
use sys::SysError;
use sys::doorbell::EventFd;

use crate::waiter::Waiter;

#[derive(Debug)]
struct Shared {
    bell: EventFd,
    stop: AtomicBool,
}

/// A running bridge. Dropping it ends its thread.
#[derive(Debug)]
pub struct Bridge {
    shared: Arc<Shared>,
    waiter: Waiter<'static>,
    thread: Option<JoinHandle<()>>,
}

impl Bridge {
    /// Starts the bridge on `waiter`, which nothing else may sleep on, for the queues whose ready
    /// bits are in `mask` (`Consumer::ready_mask`). Allocates and starts a thread: before seal
    /// only.
    ///
    /// # Errors
    /// The system refuses a descriptor or a thread.
    pub fn start(waiter: Waiter<'static>, mask: u64) -> Result<Bridge, SysError> {
        let shared = Arc::new(Shared { bell: EventFd::new()?, stop: AtomicBool::new(false) });
        let theirs = Arc::clone(&shared);
        let ctl = waiter.ctl();
        let thread = std::thread::Builder::new()
            .name("dflow-bridge".to_owned())
            .spawn(move || {
                crate::interpose::adopt_thread();
                run(&theirs, &waiter, ctl, mask);
            })
            .map_err(|e| SysError::from_io("clone", &e))?;
        Ok(Bridge { shared, waiter, thread: Some(thread) })
    }

    /// Takes the readiness: call it before draining the queues. True when it was ready.
    #[must_use]
    pub fn drain(&self) -> bool {
        self.shared.bell.drain() != 0
    }
}

impl AsFd for Bridge {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.bell.as_fd()
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.waiter.kick();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(shared: &Shared, waiter: &Waiter<'_>, ctl: &WaiterCtl, mask: u64) {
    let stopped = || shared.stop.load(Ordering::Acquire);
    // What was queued before the first bit was taken counts as ready.
    shared.bell.ring();
    while !stopped() {
        waiter.wait(None, || {}, || ctl.ready.load(Core::Acquire) & mask != 0 || stopped());
        if wake::take_ready(ctl, mask) != 0 {
            shared.bell.ring();
        }
    }
}
