//! Which messages of several inputs belong together: by time, or by id.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use executor_core::abi::DataFlag;
use executor_core::near::{Nearness, nearness};

use crate::codes::{AICPU_DISCARD_DATA, AICPU_PARAM_INVALID, Result, refuse};
use crate::feed::message::{Head, Message};

/// What inner codes are raised by when they leave in a head.
pub(super) const REPORTED: u32 = 500_000;

/// The set under way: of each input queue its message.
pub(super) type Set = Vec<Option<Message>>;

/// The input whose message is too old; `None` when all are near each other.
///
/// # Errors
/// 21001 for a time that is none: begin and end differ, or it lies before its offset.
pub(super) fn oldest(set: &Set, offsets: &[u64], interval: u64) -> Result<Option<usize>> {
    let of = |port: usize| set.get(port)?.as_ref().map(|message| &message.head.info);
    let messages = offsets.iter().enumerate().filter_map(|(port, offset)| {
        let info = of(port)?;
        Some((port, (info.start_time, info.end_time), *offset))
    });
    match nearness(messages, interval) {
        Nearness::Near => Ok(None),
        Nearness::Oldest(port) => Ok(Some(port)),
        Nearness::Timeless(port) => {
            let (from, to) = of(port).map_or((0, 0), |info| (info.start_time, info.end_time));
            let what = format!("input {port} is of the time {from} to {to}");
            refuse(AICPU_PARAM_INVALID, what)
        }
    }
}

/// What is there of an id.
#[derive(Debug)]
struct Waiting {
    set: Set,
    /// When its first message came.
    since: Instant,
}

/// Messages that wait for others of their id and route.
#[derive(Debug, Default)]
pub(super) struct Gather {
    waiting: BTreeMap<(u64, u32), Waiting>,
}

impl Gather {
    pub(super) fn add(&mut self, port: usize, ports: usize, message: Message) {
        let info = &message.head.info;
        let entry = self.waiting.entry((info.trans_id, info.route_label));
        let none = || (0..ports).map(|_| None).collect();
        let waiting = entry.or_insert_with(|| Waiting { set: none(), since: Instant::now() });
        waiting.set[port] = Some(message);
    }

    /// A set of which nothing is missing.
    pub(super) fn ready(&mut self) -> Option<Set> {
        let whole = |waiting: &Waiting| waiting.set.iter().all(Option::is_some);
        let key = self.waiting.iter().find(|(_, waiting)| whole(waiting)).map(|(key, _)| *key)?;
        self.waiting.remove(&key).map(|waiting| waiting.set)
    }

    /// The id that has waited longest, and when its time is over.
    fn oldest(&self, limit: Duration) -> Option<((u64, u32), Instant)> {
        let oldest = self.waiting.iter().min_by_key(|(_, waiting)| waiting.since)?;
        Some((*oldest.0, oldest.1.since + limit))
    }

    /// When the next id has waited too long.
    pub(super) fn due(&self, limit: Duration) -> Option<Instant> {
        self.oldest(limit).map(|(_, due)| due)
    }

    /// With more than `max` ids (0 is any number) the lowest, which misses something; else one that
    /// has waited longer than its limit.
    pub(super) fn forced_out(&mut self, max: usize, limit: Option<Duration>) -> Option<Set> {
        let key = if max != 0 && self.waiting.len() > max {
            *self.waiting.first_key_value()?.0
        } else {
            let (key, due) = self.oldest(limit?)?;
            (due <= Instant::now()).then_some(key)?
        };
        let Waiting { mut set, .. } = self.waiting.remove(&key)?;
        let (trans_id, route_label) = key;
        let mut head = Head::default();
        (head.info.trans_id, head.info.route_label) = (trans_id, route_label);
        head.info.ret_code = (AICPU_DISCARD_DATA.0 + REPORTED).cast_signed();
        head.info.data_flag = DataFlag::NULL_DATA.bits();
        for missing in set.iter_mut().filter(|message| message.is_none()) {
            *missing = Some(Message { head, data: Vec::new() });
        }
        Some(set)
    }
}
