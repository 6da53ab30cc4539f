//! Synchronous submits: events 25 and 56 whose submitter sleeps until somebody acknowledges them.

use core::sync::atomic::{AtomicU32, Ordering};

use sys::futex;

use super::{Event, EventError, EventId, MESSAGE_MAX, Scheduler, wake_word};

/// A synchronous submit under way.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pending {
    /// No submit.
    Free,
    /// In a store.
    Submitted,
    /// A thread has it; the oldest stamp is acknowledged first.
    Delivered { event: EventId, subevent: u32, stamp: u64 },
    /// Acknowledged.
    Done { len: u32, reply: [u8; MESSAGE_MAX] },
}

impl Scheduler<'_> {
    /// Submits and sleeps until a thread acknowledges; the bytes of its answer, copied to `reply`.
    ///
    /// # Errors
    /// As [`Scheduler::submit`]; [`EventError::NotSupported`] for other events than 25 and 56;
    /// `OverLimit` when too many wait; `TooSmall` when the answer does not fit; `Detached`.
    pub fn submit_sync(&self, event: &Event<'_>, reply: &mut [u8]) -> Result<usize, EventError> {
        if ![EventId::QS_MSG, EventId::PROXY].contains(&event.event) {
            return Err(EventError::NotSupported(
                "only events 25 and 56 can be submitted and waited for",
            ));
        }
        let mut stored = self.to_store(event)?;
        let mut state = self.lock();
        let epoch = state.epoch;
        let free = state.pending.iter().position(|pending| matches!(pending, Pending::Free));
        let index = free.ok_or(EventError::OverLimit)?;
        let word = self.sync_word(index).ok_or(EventError::OverLimit)?;
        stored.sync = u32::try_from(index).unwrap_or(u32::MAX - 1) + 1;
        self.submit_stored(&mut state, event.group, &stored)?;
        if let Some(pending) = state.pending.get_mut(index) {
            *pending = Pending::Submitted;
        }
        loop {
            if state.epoch != epoch {
                return Err(EventError::Detached);
            }
            if let Some(pending) = state.pending.get_mut(index)
                && let Pending::Done { len, reply: answer } = *pending
            {
                *pending = Pending::Free;
                let answer = answer.get(..len as usize).unwrap_or(&[]);
                let needed = answer.len();
                let to = reply.get_mut(..needed).ok_or(EventError::TooSmall { needed })?;
                to.copy_from_slice(answer);
                return Ok(needed);
            }
            let expected = word.load(Ordering::Acquire);
            drop(state);
            futex::wait(word, expected, None);
            state = self.lock();
        }
    }

    /// Answers the oldest delivered synchronous submit of this event and sub-event.
    ///
    /// # Errors
    /// [`EventError::Invalid`] when none was delivered, or for an answer above 128 bytes.
    pub fn ack(&self, event: EventId, subevent: u32, message: &[u8]) -> Result<(), EventError> {
        let mut reply = [0; MESSAGE_MAX];
        let place = reply.get_mut(..message.len());
        let place = place.ok_or(EventError::Invalid("an answer has at most 128 bytes"))?;
        place.copy_from_slice(message);
        let len = u32::try_from(message.len()).unwrap_or(0);
        let mut state = self.lock();
        let delivered =
            state.pending.iter().enumerate().filter_map(|(index, pending)| match *pending {
                Pending::Delivered { event: e, subevent: s, stamp }
                    if (e, s) == (event, subevent) =>
                {
                    Some((stamp, index))
                }
                _ => None,
            });
        let oldest = delivered.min();
        let (_, index) = oldest.ok_or(EventError::Invalid("nobody waits for this answer"))?;
        if let Some(pending) = state.pending.get_mut(index) {
            *pending = Pending::Done { len, reply };
        }
        if let Some(word) = self.sync_word(index) {
            wake_word(word);
        }
        Ok(())
    }

    fn sync_word(&self, index: usize) -> Option<&AtomicU32> {
        self.words.get(self.sync_first + index)
    }
}
