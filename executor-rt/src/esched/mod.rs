//! Event scheduler of one process (device-runtime §2.6): groups of threads wait for events by id,
//! by priority, with an exact timeout. docs/adr/0008 says where it differs from the
//! specification's.
//!
//! ```text
//! submit ──► store of the group ──► waiting thread of the group whose bitmap has the id
//! queues ──► (edges, `queues`) ──┘
//! ```
//! One mechanism: threads sleep on futex words. Of all waiting threads one, the *leader*, sleeps on
//! the process's shared waiter, which producers and consumers of queues ring; the others sleep on
//! words of their own. Whoever turns an edge into an event wakes the thread it is for; a leader
//! that leaves wakes another waiting thread to take its place.
//!
//! Everything is allocated in [`Scheduler::new`]; no verb allocates.
//!
//! Invariants: E1 who sleeps is marked waiting, under the lock, before its word is read. E2 an
//! event that is pending and that a waiting thread could take has a notified thread, or the
//! submitter notifies one. E3 while threads wait and queues are subscribed there is a leader, or a
//! notified thread that becomes it.

mod event;
mod queues;
mod store;
mod sync;
mod wait;

use core::sync::atomic::AtomicU32;
use std::sync::{Mutex, MutexGuard, PoisonError};

use executor_core::region::Memory;

use crate::waiter::Waiter;

pub use event::{
    Delivered, Event, EventError, EventId, GroupKind, MESSAGE_MAX, Priority, SubscribeKind,
    THREADS_MAX,
};
use queues::Subscription;
use store::{Store, Stored};
use sync::Pending;

/// Device numbers that mean this process (device-runtime §2.1).
const DEVICES: [i32; 2] = [0, 65_535];

/// Sizes of a scheduler: everything it will ever hold.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Groups.
    pub groups: u32,
    /// Threads of each group, at most [`THREADS_MAX`].
    pub threads: u32,
    /// Events each group keeps.
    pub events: u32,
    /// Synchronous submits under way at once.
    pub syncs: u32,
    /// Queue subscriptions.
    pub subscriptions: u32,
}

impl Default for Config {
    fn default() -> Self {
        Config { groups: 8, threads: 64, events: 128, syncs: 16, subscriptions: 64 }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Thread {
    bitmap: u64,
    waiting: bool,
    notified: bool,
}

#[derive(Debug)]
struct Group {
    kind: Option<GroupKind>,
    store: Store,
    threads: Vec<Thread>,
}

#[derive(Debug)]
struct State {
    attached: bool,
    /// Grows with every detach: whoever slept across one learns it.
    epoch: u64,
    groups: Vec<Group>,
    levels: [Priority; 64],
    subscriptions: Vec<Option<Subscription>>,
    pending: Vec<Pending>,
    acks: u64,
    leader: Option<(u32, u32)>,
    waiting: u32,
}

/// The scheduler; shared by the threads of a process.
#[derive(Debug)]
pub struct Scheduler<'g> {
    memory: Memory<'g>,
    waiter: Waiter<'g>,
    pid: u32,
    threads: usize,
    /// First word of the synchronous submits.
    sync_first: usize,
    state: Mutex<State>,
    /// One futex word a thread, group by group; then one a synchronous submit.
    words: Vec<AtomicU32>,
}

impl<'g> Scheduler<'g> {
    /// A scheduler that sleeps on `waiter`, which nobody else uses. Allocates everything.
    ///
    /// # Errors
    /// [`EventError::Invalid`] for a group without threads or with more than 1024.
    pub fn new(
        memory: Memory<'g>,
        waiter: Waiter<'g>,
        config: &Config,
    ) -> Result<Scheduler<'g>, EventError> {
        if config.threads == 0 || config.threads > THREADS_MAX {
            return Err(EventError::Invalid("a group has 1 to 1024 threads"));
        }
        let group = |_| Group {
            kind: None,
            store: Store::new(config.events),
            threads: vec![Thread::default(); config.threads as usize],
        };
        let threads = config.threads as usize;
        let sync_first = config.groups as usize * threads;
        let words = sync_first + config.syncs as usize;
        let state = State {
            attached: false,
            epoch: 0,
            groups: (0..config.groups).map(group).collect(),
            levels: [Priority::DEFAULT; 64],
            subscriptions: vec![None; config.subscriptions as usize],
            pending: vec![Pending::Free; config.syncs as usize],
            acks: 0,
            leader: None,
            waiting: 0,
        };
        Ok(Scheduler {
            memory,
            waiter,
            pid: std::process::id(),
            threads,
            sync_first,
            state: Mutex::new(state),
            words: (0..words).map(|_| AtomicU32::new(0)).collect(),
        })
    }

    /// Joins device 0 (or 65535, the host's CPU). Repeating it is no error.
    ///
    /// # Errors
    /// [`EventError::Invalid`] for another device.
    pub fn attach_device(&self, device: i32) -> Result<(), EventError> {
        if !DEVICES.contains(&device) {
            return Err(EventError::Invalid("expected device 0 or 65535"));
        }
        self.lock().attached = true;
        Ok(())
    }

    /// Leaves the device: groups, subscriptions and events are gone, whoever waits gets
    /// [`EventError::Detached`].
    ///
    /// # Errors
    /// [`EventError::Invalid`] for a device that is not attached.
    pub fn detach_device(&self, device: i32) -> Result<(), EventError> {
        let mut state = self.lock();
        if !state.attached || !DEVICES.contains(&device) {
            return Err(EventError::Invalid("the device is not attached"));
        }
        state.attached = false;
        state.epoch += 1;
        state.subscriptions.fill(None);
        state.pending.fill(Pending::Free);
        for group in &mut state.groups {
            group.kind = None;
            group.store.clear();
            group.threads.fill(Thread::default());
        }
        state.waiting = 0;
        drop(state);
        self.words.iter().for_each(wake_word);
        self.waiter.kick();
        Ok(())
    }

    /// Creates group `group`, of kind 1, 2 or 3.
    ///
    /// # Errors
    /// [`EventError::Invalid`] for another kind, a number out of range or no device; `Exists`.
    pub fn create_group(&self, group: u32, kind: u32) -> Result<(), EventError> {
        let kind = GroupKind::try_from(kind)?;
        let mut state = self.lock();
        if !state.attached {
            return Err(EventError::Invalid("attach the device first"));
        }
        let place = state.groups.get_mut(group as usize);
        let place = place.ok_or(EventError::Invalid("group number is out of range"))?;
        if place.kind.is_some() {
            return Err(EventError::Exists);
        }
        place.kind = Some(kind);
        Ok(())
    }

    /// Thread `thread` of `group` wants the events whose bits are set; replaces what it wanted
    /// before.
    ///
    /// # Errors
    /// [`EventError::Invalid`] for an unknown group or a thread out of range.
    pub fn subscribe(&self, group: u32, thread: u32, bitmap: u64) -> Result<(), EventError> {
        let mut state = self.lock();
        state.thread(group, thread)?.bitmap = bitmap;
        self.notify(&mut state, group);
        Ok(())
    }

    /// Level of an event id for all groups.
    pub fn set_priority(&self, event: EventId, level: Priority) {
        if let Some(place) = self.lock().levels.get_mut(event.index()) {
            *place = level;
        }
    }

    /// Hands an event to its group.
    ///
    /// # Errors
    /// [`EventError::Full`] when the group keeps as many as it can; `Invalid` for a message above
    /// 128 bytes or an unknown group; `NotSupported` for another process.
    pub fn submit(&self, event: &Event<'_>) -> Result<(), EventError> {
        let stored = self.to_store(event)?;
        let mut state = self.lock();
        self.submit_stored(&mut state, event.group, &stored)
    }

    fn to_store(&self, event: &Event<'_>) -> Result<Stored, EventError> {
        if event.pid != 0 && event.pid != self.pid {
            return Err(EventError::NotSupported("events reach this process only: use a queue"));
        }
        Stored::new(event.event, event.subevent, self.pid, event.message)
            .ok_or(EventError::Invalid("a message has at most 128 bytes"))
    }

    fn submit_stored(
        &self,
        state: &mut State,
        group: u32,
        event: &Stored,
    ) -> Result<(), EventError> {
        if !state.group(group)?.store.push(event) {
            return Err(EventError::Full);
        }
        self.notify(state, group);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn word(&self, group: u32, thread: u32) -> Option<&AtomicU32> {
        self.words.get(group as usize * self.threads + thread as usize)
    }

    /// Wakes one waiting thread of `group` that can take a pending event and was not woken yet
    /// (E2).
    fn notify(&self, state: &mut State, group: u32) {
        let leader = state.leader;
        let Ok(place) = state.group(group) else { return };
        let pending = place.store.pending();
        let can_take = |t: &&mut Thread| t.waiting && !t.notified && t.bitmap & pending != 0;
        let found = (0u32..).zip(&mut place.threads).find(|(_, thread)| can_take(thread));
        let Some((index, thread)) = found else { return };
        thread.notified = true;
        if leader == Some((group, index)) {
            self.waiter.kick();
        } else if let Some(word) = self.word(group, index) {
            wake_word(word);
        }
    }
}

impl State {
    /// A group that was created.
    fn group(&mut self, group: u32) -> Result<&mut Group, EventError> {
        let place = self.groups.get_mut(group as usize).filter(|group| group.kind.is_some());
        place.ok_or(EventError::Invalid("the group was not created"))
    }

    fn thread(&mut self, group: u32, thread: u32) -> Result<&mut Thread, EventError> {
        let place = self.group(group)?.threads.get_mut(thread as usize);
        place.ok_or(EventError::Invalid("thread number is out of range"))
    }
}

/// Changes a word and wakes who sleeps on it.
fn wake_word(word: &AtomicU32) {
    word.fetch_add(1, core::sync::atomic::Ordering::AcqRel);
    sys::futex::wake(word, u32::MAX);
}
