//! Waiting: take a pending event, or sleep as leader or follower until there is one.

use core::sync::atomic::Ordering;
use std::sync::MutexGuard;

use sys::clock::MonoTime;
use sys::futex;

use super::sync::Pending;
use super::{Delivered, EventError, Scheduler, State, wake_word};
use crate::exchange::Limit;

impl Scheduler<'_> {
    /// The next event of thread `thread` of `group`: lowest level first, FIFO within. Its message
    /// goes to
    /// `message`; with `None` it is dropped. 0 = one look, negative = for ever.
    ///
    /// # Errors
    /// [`EventError::TimedOut`]; `TooSmall`, and the event stays; `NotSubscribed`; `Invalid` for an
    /// unknown group, a thread out of range or one that waits already; `Detached` when the device
    /// goes meanwhile.
    pub fn wait(
        &self,
        group: u32,
        thread: u32,
        timeout_ms: i32,
        message: Option<&mut [u8]>,
    ) -> Result<Delivered, EventError> {
        let limit = Limit::from_ms(timeout_ms);
        let mut state = self.lock();
        let epoch = state.epoch;
        let me = state.thread(group, thread)?;
        if me.waiting {
            return Err(EventError::Invalid("this thread waits already"));
        }
        if me.bitmap == 0 {
            return Err(EventError::NotSubscribed);
        }
        me.waiting = true;
        state.waiting += 1;
        loop {
            self.pump(&mut state);
            if state.epoch != epoch {
                self.promote(&mut state);
                return Err(EventError::Detached);
            }
            if state.has_event(group, thread) || limit.is_over() {
                break;
            }
            state = self.sleep(state, group, thread, limit.deadline(), epoch);
        }
        let result = state.take(group, thread, message);
        if let Ok(me) = state.thread(group, thread) {
            (me.waiting, me.notified) = (false, false);
        }
        state.waiting -= 1;
        // This thread may have been woken for an event that it did not take.
        self.notify(&mut state, group);
        self.promote(&mut state);
        result
    }

    /// Sleeps until notified or until `deadline`; the lock is free meanwhile.
    fn sleep<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        group: u32,
        thread: u32,
        deadline: Option<MonoTime>,
        epoch: u64,
    ) -> MutexGuard<'a, State> {
        if state.leader.is_none() {
            state.leader = Some((group, thread));
            drop(state);
            let ready = || {
                let mut state = self.lock();
                self.pump(&mut state);
                state.has_event(group, thread) || state.epoch != epoch
            };
            self.waiter.wait(deadline, || self.register(), ready);
            state = self.lock();
            state.leader = None;
        } else if let Some(word) = self.word(group, thread) {
            let expected = word.load(Ordering::Acquire);
            drop(state);
            futex::wait(word, expected, deadline);
            state = self.lock();
        }
        if state.epoch == epoch
            && let Ok(me) = state.thread(group, thread)
        {
            me.notified = false;
        }
        state
    }

    /// A leader left: another waiting thread takes its place (E3).
    pub(super) fn promote(&self, state: &mut State) {
        let needed = state.subscriptions.iter().any(Option::is_some);
        if state.leader.is_some() || state.waiting == 0 || !needed {
            return;
        }
        for (group, place) in (0u32..).zip(&mut state.groups) {
            let waiting = (0u32..).zip(&mut place.threads).find(|(_, thread)| thread.waiting);
            let Some((index, _)) = waiting else { continue };
            if let Some(word) = self.word(group, index) {
                wake_word(word);
            }
            return;
        }
    }
}

impl State {
    fn has_event(&mut self, group: u32, thread: u32) -> bool {
        let bitmap = self.thread(group, thread).map_or(0, |thread| thread.bitmap);
        self.group(group).is_ok_and(|group| group.store.pending() & bitmap != 0)
    }

    /// Takes the next event of a thread out of the store, unless its message does not fit.
    fn take(
        &mut self,
        group: u32,
        thread: u32,
        message: Option<&mut [u8]>,
    ) -> Result<Delivered, EventError> {
        let bitmap = self.thread(group, thread)?.bitmap;
        let levels = self.levels;
        let store = &mut self.group(group)?.store;
        let event = *store.front(bitmap, &levels).ok_or(EventError::TimedOut)?;
        let bytes = event.bytes();
        if let Some(message) = message {
            let needed = bytes.len();
            let to = message.get_mut(..needed).ok_or(EventError::TooSmall { needed })?;
            to.copy_from_slice(bytes);
        }
        store.pop(event.event);
        if let Some(index) = event.sync.checked_sub(1) {
            self.acks += 1;
            let stamp = self.acks;
            if let Some(pending) = self.pending.get_mut(index as usize) {
                *pending =
                    Pending::Delivered { event: event.event, subevent: event.subevent, stamp };
            }
        }
        let (pid, len) = (event.pid, bytes.len());
        Ok(Delivered { pid, event: event.event, subevent: event.subevent, len })
    }
}
