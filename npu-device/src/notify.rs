//! Notifies: one bit that a task sets and another one waits for and clears.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use crate::codes::{Error, NO_NOTIFY, Result};
use crate::context::Context;
use crate::device::Inner;
use crate::lock::lock;
use crate::sched::Sched;
use crate::sqe::Sqe;
use crate::stream::Core;
use crate::table::Name;

/// Notifies a device has: their number has 13 bits.
pub(crate) const NOTIFIES_MAX: u32 = 1 << crate::sqe::NOTIFY_BITS;

/// Word of an entry that says which of the notifies that had this number it names.
const TURN: usize = 3;

/// What tasks know of a notify.
#[derive(Debug)]
pub(crate) struct Bit {
    pub(crate) id: u32,
    turn: u32,
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
    pub(crate) fn new(name: Name) -> Self {
        Self { id: name.id, turn: name.turn, state: Mutex::default() }
    }

    /// An entry that sets it, or waits for it; `timeout` in seconds is of waits.
    pub(crate) fn entry(&self, kind: u8, timeout: u32) -> Sqe {
        let mut sqe = Sqe::notify(kind, self.id, timeout);
        sqe.payload[TURN] = u64::from(self.turn);
        sqe
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
        self.context.device().drop_bit(&self.bit);
    }
}

pub(crate) fn no_notify(max: u32) -> Error {
    Error::new(NO_NOTIFY, format!("the device has {max} notifies and all are used"))
}

impl Inner {
    /// The notify that an entry names, unless it is gone.
    pub(crate) fn notify(&self, sqe: &Sqe) -> Option<Arc<Bit>> {
        self.notifies.named(sqe.payload[TURN] << 32 | u64::from(sqe.object))
    }

    /// It is gone; whoever waits for it looks for it once more, and fails.
    pub(crate) fn drop_bit(&self, bit: &Bit) {
        let name = Name { id: bit.id, turn: bit.turn };
        if let Some(bit) = self.notifies.remove_named(name.word()) {
            let mut state = lock(&bit.state);
            while let Some(stream) = state.waiters.pop_front() {
                self.sched.wake(&stream);
            }
        }
    }

    pub(crate) fn new_bit(&self) -> Result<Arc<Bit>> {
        self.notifies.insert(Bit::new).ok_or_else(|| no_notify(NOTIFIES_MAX))
    }
}
