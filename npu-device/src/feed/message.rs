//! Messages and the queues that they come in.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use executor_core::abi::head::{EOS_VALUE, USER_DATA_SIZE};
use executor_core::abi::{DataFlag, MsgInfo};

use crate::codes::{
    AICPU_DRIVER, AICPU_PARAM_INVALID, PARAM_INVALID, QUEUE_EMPTY, QUEUE_FULL, Result, refuse,
};
use crate::lock::lock;

/// Least messages that a queue holds.
const DEPTH_MIN: usize = 2;

/// What stands before the data of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The user's.
    pub user: [u8; USER_DATA_SIZE],
    /// [`EOS_VALUE`] at the end of a sequence.
    pub eos: u8,
    /// The system's.
    pub info: MsgInfo,
}

impl Default for Head {
    fn default() -> Self {
        Self { user: [0; USER_DATA_SIZE], eos: 0, info: MsgInfo::default() }
    }
}

impl Head {
    pub(super) fn ends_sequence(&self) -> bool {
        self.eos == EOS_VALUE
    }

    pub(super) fn set_null(&mut self) {
        self.info.data_flag |= DataFlag::NULL_DATA.bits();
    }
}

/// A message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// Its head.
    pub head: Head,
    /// Its data.
    pub data: Vec<u8>,
}

type Wake = Arc<dyn Fn() + Send + Sync>;

/// Who is told that a queue is no longer empty, or full, and by whom it was asked.
#[derive(Default)]
struct Told(Option<(u64, Wake)>);

impl fmt::Debug for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Told").field(&self.0.as_ref().map(|(who, _)| who)).finish()
    }
}

#[derive(Debug, Default)]
struct State {
    line: VecDeque<Message>,
    not_empty: Told,
    not_full: Told,
    closed: bool,
}

#[derive(Debug)]
struct Inner {
    depth: usize,
    state: Mutex<State>,
    changed: Condvar,
}

/// A queue of messages, of a fixed depth.
#[derive(Clone, Debug)]
pub struct MessageQueue {
    inner: Arc<Inner>,
}

impl MessageQueue {
    /// A queue.
    ///
    /// # Errors
    /// 107000 for a depth below 2.
    pub fn new(depth: usize) -> Result<Self> {
        if depth < DEPTH_MIN {
            return refuse(PARAM_INVALID, format!("a queue of depth {depth}: {DEPTH_MIN} or more"));
        }
        let state = State { line: VecDeque::with_capacity(depth), ..State::default() };
        let inner = Inner { depth, state: Mutex::new(state), changed: Condvar::new() };
        Ok(Self { inner: Arc::new(inner) })
    }

    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Puts a message at the end, or gives it back where there is no room.
    ///
    /// # Errors
    /// 21003 when the queue is closed.
    pub fn try_enqueue(&self, message: Message) -> Result<Option<Message>> {
        let wake = {
            let mut state = lock(&self.inner.state);
            if state.closed {
                return refuse(AICPU_DRIVER, "the queue is closed");
            }
            if state.line.len() == self.inner.depth {
                return Ok(Some(message));
            }
            state.line.push_back(message);
            let first = state.line.len() == 1;
            state.not_empty.0.as_ref().filter(|_| first).map(|(_, wake)| wake.clone())
        };
        self.tell(wake);
        Ok(None)
    }

    /// Takes the first message; `None` from an empty queue.
    ///
    /// # Errors
    /// 21003 when the queue is closed and empty.
    pub fn try_dequeue(&self) -> Result<Option<Message>> {
        let (message, wake) = {
            let mut state = lock(&self.inner.state);
            let full = state.line.len() == self.inner.depth;
            let Some(message) = state.line.pop_front() else {
                if state.closed {
                    return refuse(AICPU_DRIVER, "the queue is closed");
                }
                return Ok(None);
            };
            (message, state.not_full.0.as_ref().filter(|_| full).map(|(_, wake)| wake.clone()))
        };
        self.tell(wake);
        Ok(Some(message))
    }

    /// The same, waiting for room.
    ///
    /// # Errors
    /// 207014 after the timeout; as [`MessageQueue::try_enqueue`].
    pub fn enqueue(&self, message: Message, timeout: Duration) -> Result<()> {
        let mut given = Some(message);
        let done = self.wait(timeout, |queue| {
            if let Some(message) = given.take() {
                given = queue.try_enqueue(message)?;
            }
            Ok(given.is_none().then_some(()))
        })?;
        done.map_or_else(|| refuse(QUEUE_FULL, "the queue is full"), Ok)
    }

    /// The same, waiting for a message.
    ///
    /// # Errors
    /// 207013 after the timeout; as [`MessageQueue::try_dequeue`].
    pub fn dequeue(&self, timeout: Duration) -> Result<Message> {
        let taken = self.wait(timeout, Self::try_dequeue)?;
        taken.map_or_else(|| refuse(QUEUE_EMPTY, "the queue is empty"), Ok)
    }

    fn wait<T>(
        &self,
        timeout: Duration,
        mut attempt: impl FnMut(&Self) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let deadline = Instant::now() + timeout;
        loop {
            let seen = lock(&self.inner.state).line.len();
            if let Some(done) = attempt(self)? {
                return Ok(Some(done));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            let state = lock(&self.inner.state);
            let same = |state: &mut State| state.line.len() == seen && !state.closed;
            let woken = self.inner.changed.wait_timeout_while(state, left, same);
            drop(woken.unwrap_or_else(PoisonError::into_inner));
        }
    }

    fn tell(&self, wake: Option<Wake>) {
        self.inner.changed.notify_all();
        if let Some(wake) = wake {
            wake();
        }
    }

    /// Messages in it.
    #[must_use]
    pub fn len(&self) -> usize {
        lock(&self.inner.state).line.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Nothing can be put in any more.
    pub fn close(&self) {
        let (not_empty, not_full) = {
            let mut state = lock(&self.inner.state);
            state.closed = true;
            let wake = |told: &Told| told.0.as_ref().map(|(_, wake)| wake.clone());
            (wake(&state.not_empty), wake(&state.not_full))
        };
        self.tell(not_empty);
        self.tell(not_full);
    }

    pub(super) fn clear(&self) {
        while let Ok(Some(_)) = self.try_dequeue() {}
    }

    /// Asks to be told when it is no longer empty; now, if it is not.
    pub(super) fn on_not_empty(&self, who: u64, wake: Wake) -> Result<()> {
        subscribe(&mut lock(&self.inner.state).not_empty, who, wake)
    }

    /// Asks to be told when it is no longer full.
    pub(super) fn on_not_full(&self, who: u64, wake: Wake) -> Result<()> {
        subscribe(&mut lock(&self.inner.state).not_full, who, wake)
    }

    /// What `who` asked for no longer counts.
    pub(super) fn forget(&self, who: u64) {
        let mut state = lock(&self.inner.state);
        let State { not_empty, not_full, .. } = &mut *state;
        for told in [not_empty, not_full] {
            if told.0.as_ref().is_some_and(|(own, _)| *own == who) {
                told.0 = None;
            }
        }
    }
}

fn subscribe(told: &mut Told, who: u64, wake: Wake) -> Result<()> {
    if told.0.is_some() {
        return refuse(AICPU_PARAM_INVALID, "the queue is another feed's already");
    }
    told.0 = Some((who, wake));
    Ok(())
}
