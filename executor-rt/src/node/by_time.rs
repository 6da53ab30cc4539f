//! Inputs that are put together by time instead of by position (device-runtime §3.5, batch
//! alignment): one message of each is near the others, or the oldest leaves and the next one of its
//! input is read.
//!
//! Messages of a set can have different ids then. The *first input* names the set: its message's id
//! is the outputs'. So each id ends once, by its message at the first input: with the set that it
//! names, or with a code when that message is the oldest, has no time, or waits too long for others
//! near it. A message of another input that leaves is dropped and counted (`late`): its id ends by
//! the first input, too.
//!
//! At most one message of each input is in hand, marked as in a set by position. Before a message
//! of the first input is answered alone, the others are marked as of the next set, so a successor
//! keeps them; the time that one may wait begins anew there.

use executor_core::error::Code;
use executor_core::near::{Nearness, nearness};
use executor_core::pool::Worker;
use sys::clock::MonoTime;

use super::add;
use super::align::{Lack, TIMEOUT_MAX_MS};
use super::reader::{Collected, Formed, Input};
use crate::proto::InputAlignTime;
use crate::waiter::ring;

/// How inputs are aligned by time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Most distance of a set's times.
    pub interval: u64,
    /// What is subtracted from the times of each input.
    pub offsets: Box<[u64]>,
    /// How long a message of the first input waits for the others, milliseconds; `None`: for ever.
    pub timeout_ms: Option<u32>,
}

impl Settings {
    /// What a load request says for so many inputs; `Ok(None)`: nothing is aligned by time.
    ///
    /// # Errors
    /// What is out of its range.
    pub fn of(attrs: Option<&InputAlignTime>, inputs: usize) -> Result<Option<Settings>, String> {
        let Some(attrs) = attrs else { return Ok(None) };
        let timeout_ms = (attrs.timeout_ms != 0).then_some(attrs.timeout_ms);
        if timeout_ms.is_some_and(|ms| ms > TIMEOUT_MAX_MS) {
            let found = attrs.timeout_ms;
            return Err(format!("timeout_ms: found {found}, expected 0 to 600000"));
        }
        let offsets: Box<[u64]> = match attrs.offsets.len() {
            0 => vec![0; inputs].into(),
            count if count == inputs => attrs.offsets.clone().into(),
            count => return Err(format!("{count} offsets for {inputs} inputs")),
        };
        Ok(Some(Settings { interval: attrs.interval, offsets, timeout_ms }))
    }
}

/// Codes of messages that are answered alone.
#[derive(Clone, Copy, Debug)]
pub struct Codes {
    /// Nothing near its time came.
    pub apart: Code,
    /// It has no time.
    pub timeless: Code,
}

/// See the module.
#[derive(Debug)]
pub(super) struct ByTime {
    settings: Settings,
    codes: Codes,
    /// When the message of the first input was seen.
    since: Option<MonoTime>,
    /// The ports hold a set that was not given back yet.
    pub(super) formed: Option<Formed>,
}

impl ByTime {
    pub(super) fn new(settings: Settings, codes: Codes) -> ByTime {
        ByTime { settings, codes, since: None, formed: None }
    }

    /// When the message of the first input has waited too long.
    pub(super) fn due(&self) -> Option<MonoTime> {
        Some(self.since?.add_ms(u64::from(self.settings.timeout_ms?)))
    }

    /// The set was given back, or everything was.
    pub(super) fn begin(&mut self) {
        (self.since, self.formed) = (None, None);
    }

    /// All that is missing was read, until `missing` was found empty.
    pub(super) fn form(
        &mut self,
        inputs: &mut [Input],
        worker: &mut Worker<'static>,
        (set, missing): (u64, Option<usize>),
    ) -> Collected {
        if self.settings.timeout_ms.is_some() && self.since.is_none() {
            let first = inputs.first().is_some_and(|input| input.held.is_some());
            self.since = first.then(MonoTime::now);
        }
        if let Some(port) = missing {
            if self.due().is_none_or(|due| !due.is_past(MonoTime::now())) {
                return Collected::Missing(port);
            }
            return self.alone(inputs, worker, (set, self.codes.apart, Lack::Expired));
        }
        let held = inputs.iter().zip(&self.settings.offsets).enumerate();
        let times = held.filter_map(|(port, (input, offset))| {
            let info = worker.of(input.held.as_ref()?).msg_info();
            Some((port, (info.start_time, info.end_time), *offset))
        });
        match nearness(times, self.settings.interval) {
            Nearness::Near => {
                self.formed = Some(Formed::Whole);
                Collected::Ready
            }
            Nearness::Oldest(0) => self.alone(inputs, worker, (set, self.codes.apart, Lack::Apart)),
            Nearness::Timeless(0) => {
                self.alone(inputs, worker, (set, self.codes.timeless, Lack::Timeless))
            }
            Nearness::Oldest(port) => {
                leave(inputs, worker, port);
                Collected::Again
            }
            Nearness::Timeless(port) => {
                leave(inputs, worker, port);
                Collected::Timeless(port)
            }
        }
    }

    /// The message of the first input is a set by itself; the others are of the next one.
    fn alone(
        &mut self,
        inputs: &[Input],
        worker: &Worker<'static>,
        (set, code, lack): (u64, Code, Lack),
    ) -> Collected {
        for (port, input) in (0u32..).zip(inputs).skip(1) {
            if let Some(mbuf) = &input.held {
                worker.of(mbuf).mark_input(Some(port), set.wrapping_add(1));
            }
        }
        // One that has a code already keeps it.
        let first = inputs.first().and_then(|input| input.held.as_ref());
        let own = first.map_or(0, |mbuf| worker.of(mbuf).msg_info().ret_code);
        let code = if own == 0 { code } else { Code::from_ret_code(own) };
        self.formed = Some(Formed::Dropped(code, lack));
        Collected::Ready
    }
}

/// Drops the message of a port that is not the first.
fn leave(inputs: &mut [Input], worker: &mut Worker<'static>, port: usize) {
    let Some(mbuf) = inputs.get_mut(port).and_then(|input| input.held.take()) else { return };
    add(&worker.private.ctl.late, 1);
    let wakes = worker.free(mbuf);
    ring(&worker.memory, wakes);
}

#[cfg(test)]
#[path = "by_time_tests.rs"]
mod tests;
