//! Notifies: one bit that a task sets and another one waits for and clears.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use crate::codes::{Error, NO_NOTIFY, Result};
use crate::context::Context;
use crate::device::Inner;
use crate::lock::lock;
use crate::sched::Sched;
use crate::stream::Core;

/// Notifies a device has: their number has 13 bits.
pub(crate) const NOTIFIES_MAX: u32 = 1 << crate::sqe::NOTIFY_BITS;

/// What tasks know of a notify.
#[derive(Debug)]
pub(crate) struct Bit {
    pub(crate) id: u32,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    set: bool,
    waiters: VecDeque<Arc<Core>>,
    /// Wait tasks that were submitted, and so the room that `waiters` needs.
    tasks: usize,
}

impl Bit {
    pub(crate) fn new(id: u32) -> Self {
        Self { id, state: Mutex::default() }
    }

    /// Makes room, so that waiting allocates nothing: each stream of the device waits once.
    pub(crate) fn expect_wait(&self, streams: usize) {
        let mut state = lock(&self.state);
        state.tasks = (state.tasks + 1).min(streams);
        let more = state.tasks.saturating_sub(state.waiters.len());
        state.waiters.reserve(more);
    }

    pub(crate) fn record(&self, sched: &Sched) {
        let mut state = lock(&self.state);
        state.set = true;
        let first = state.waiters.pop_front();
        drop(state);
        if let Some(stream) = first {
            sched.wake(&stream);
        }
    }

    /// Takes the bit, or registers the stream.
    pub(crate) fn take_or_wait(&self, stream: &Arc<Core>) -> bool {
        let mut state = lock(&self.state);
        state.waiters.retain(|other| !Arc::ptr_eq(other, stream));
        let set = std::mem::take(&mut state.set);
        if !set {
            state.waiters.push_back(stream.clone());
        }
        set
    }

    /// The stream no longer waits; if the bit was meant for it, the next one has it.
    pub(crate) fn give_up(&self, sched: &Sched, stream: &Arc<Core>) {
        let mut state = lock(&self.state);
        state.waiters.retain(|other| !Arc::ptr_eq(other, stream));
        let next = if state.set { state.waiters.pop_front() } else { None };
        drop(state);
        if let Some(next) = next {
            sched.wake(&next);
        }
    }

    pub(crate) fn clear(&self) {
        lock(&self.state).set = false;
    }

    pub(crate) fn is_set(&self) -> bool {
        lock(&self.state).set
    }
}

/// A notify of a device. It is there until [`Notify::destroy`].
#[derive(Clone, Debug)]
pub struct Notify {
    pub(crate) bit: Arc<Bit>,
    pub(crate) context: Context,
}

impl Notify {
    pub(crate) fn create(context: &Context) -> Result<Self> {
        let bit =
            context.device().notifies.insert(Bit::new).ok_or_else(|| no_notify(NOTIFIES_MAX))?;
        Ok(Self { bit, context: context.clone() })
    }

    /// Its number on the device.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.bit.id
    }

    /// Whether it is set and nobody has taken it.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.bit.is_set()
    }

    /// Ends it; a task that still names it fails.
    pub fn destroy(self) {
        self.context.device().notifies.remove(self.bit.id);
    }
}

pub(crate) fn no_notify(max: u32) -> Error {
    Error::new(NO_NOTIFY, format!("the device has {max} notifies and all are used"))
}

impl Inner {
    pub(crate) fn new_bit(&self) -> Result<Arc<Bit>> {
        self.notifies.insert(Bit::new).ok_or_else(|| no_notify(NOTIFIES_MAX))
    }
}
