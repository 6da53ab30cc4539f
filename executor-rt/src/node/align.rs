//! Which messages of several inputs belong together: the aligner (executor-deployer §3.8, udf §6).
//!
//! Messages are put together by *key*, trans_id and data_label; what can't be put together yet is
//! cached. The next message is read from the input with the fewest cached; while that one is empty,
//! from another one, as long as that can't be one key too many. A key is complete when each input
//! has a message of it; several of one key and input are matched in order. While none is complete,
//! a key is given up that waited too long, else the lowest one when too many wait: what is there of
//! it is a set without the rest.
//!
//! A message that comes after its key was given up without it is late: it belongs to nothing any
//! more. Of each key that was given up the inputs are remembered that it lacked, of the last
//! [`LATE_MAX`] ones.
//!
//! All cached messages lie in one sorted vector that is as long as it can ever be: a key is a range
//! of it. It decides only; clock, queues and mbufs are the reader's.

use core::ops::Range;

use sys::clock::MonoTime;

use crate::proto::InputAlignAttrs;

/// Most keys that may be cached.
pub const CACHE_MAX: u32 = 1024;
/// Longest time that a key may wait, milliseconds.
pub const TIMEOUT_MAX_MS: u32 = 600_000;

/// Keys that were given up and are remembered for what comes of them later.
pub const LATE_MAX: usize = 1024;

/// How inputs are aligned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Keys that may wait, 1 to [`CACHE_MAX`].
    pub max_cache: u32,
    /// How long one may wait, milliseconds; `None`: for ever.
    pub timeout_ms: Option<u32>,
    /// A set that lacks something is answered with a code instead of executed.
    pub drop: bool,
}

impl Settings {
    /// What a load request says; `Ok(None)`: nothing is aligned.
    ///
    /// # Errors
    /// What is out of its range.
    pub fn of(attrs: Option<&InputAlignAttrs>) -> Result<Option<Settings>, String> {
        let Some(attrs) = attrs.filter(|attrs| attrs.align_max_cache_num != 0) else {
            return Ok(None);
        };
        let (max_cache, timeout) = (attrs.align_max_cache_num, attrs.align_timeout);
        if max_cache > CACHE_MAX {
            return Err(format!("align_max_cache_num: found {max_cache}, expected 0 to 1024"));
        }
        let timeout_ms = u32::try_from(timeout).ok().filter(|ms| (1..=TIMEOUT_MAX_MS).contains(ms));
        if timeout_ms.is_none() && timeout != -1 {
            return Err(format!("align_timeout: found {timeout}, expected -1 or 1 to 600000"));
        }
        Ok(Some(Settings { max_cache, timeout_ms, drop: attrs.drop_when_not_align }))
    }

    /// Most messages of one input that are cached at a time: one more than keys may wait, so that
    /// it is seen when too many do.
    #[must_use]
    pub fn messages(&self) -> usize {
        self.max_cache as usize + 1
    }
}

/// What messages are put together by.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Key {
    /// The message's trans_id.
    pub trans_id: u64,
    /// The message's data_label.
    pub label: u32,
}

/// Why a set lacks something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lack {
    /// Its key waited too long.
    Expired,
    /// Too many keys wait.
    OverLimit,
    /// By time: it is too old for the others.
    Apart,
    /// By time: it has none.
    Timeless,
}

#[derive(Debug)]
struct Cached<T> {
    key: Key,
    input: usize,
    /// When the first of its key came.
    since: Option<MonoTime>,
    message: T,
}

/// A set that was given up.
#[derive(Clone, Copy, Debug)]
struct GivenUp {
    key: Key,
    /// Bit n: nothing of input n was there, and nothing came since.
    lacks: u64,
    /// The how-manieth it is.
    number: u64,
}

/// See the module.
#[derive(Debug)]
pub struct Aligner<T> {
    settings: Settings,
    /// By key, input and arrival; never longer than its capacity.
    cached: Vec<Cached<T>>,
    /// Messages cached of each input.
    totals: Box<[usize]>,
    keys: usize,
    complete: usize,
    /// The key that became complete last: the one, mostly.
    last: Option<Key>,
    /// By key and number; never longer than its capacity.
    given_up: Vec<GivenUp>,
    /// Sets that were given up.
    count: u64,
}

impl<T> Aligner<T> {
    /// An empty one for so many inputs. Allocates all that it will ever need.
    #[must_use]
    pub fn new(inputs: usize, settings: Settings) -> Aligner<T> {
        // One more of each input: a successor takes back the set that was being put together.
        let capacity = inputs * (settings.messages() + 1);
        Aligner {
            settings,
            cached: Vec::with_capacity(capacity),
            totals: vec![0; inputs].into(),
            keys: 0,
            complete: 0,
            last: None,
            given_up: Vec::with_capacity(LATE_MAX),
            count: 0,
        }
    }

    /// How it aligns.
    #[must_use]
    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// The input that is read next: with the fewest cached, the lowest of several.
    #[must_use]
    pub fn next_input(&self) -> usize {
        self.next_after(None).unwrap_or(0)
    }

    /// The input that is read next while `input` and those before it in this order are empty. One
    /// with more cached than another is, while a further key is not one too many: so all that came
    /// waits in the cache and gets its time, and a fast input does not push others out.
    #[must_use]
    pub fn next_after(&self, input: Option<usize>) -> Option<usize> {
        let place = |input: usize| (self.totals.get(input).copied(), input);
        let after = input.map(place);
        let fewest = self.totals.iter().min().copied().unwrap_or(0);
        let room = self.keys < self.settings.max_cache as usize;
        let may = |total| total == fewest || (room && total < self.settings.messages());
        let inputs = self.totals.iter().enumerate().filter(|(_, total)| may(**total));
        let inputs = inputs.map(|(input, _)| place(input));
        inputs.filter(|place| Some(*place) > after).min().map(|(_, input)| input)
    }

    /// Keys that wait.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.keys
    }

    /// Messages that wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.cached.len()
    }

    /// True when nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.cached.is_empty()
    }

    fn range(&self, key: Key) -> Range<usize> {
        let from = self.cached.partition_point(|cached| cached.key < key);
        let rest = self.cached.get(from..).unwrap_or_default();
        from..from + rest.partition_point(|cached| cached.key == key)
    }

    fn is_complete(&self, range: &Range<usize>) -> bool {
        self.has_all_inputs(self.cached.get(range.clone()).unwrap_or_default())
    }

    fn has_all_inputs(&self, of_key: &[Cached<T>]) -> bool {
        let further = of_key.windows(2).filter(|two| matches!(two, [a, b] if a.input != b.input));
        !of_key.is_empty() && further.count() + 1 == self.totals.len()
    }

    /// Whether a message of `input` that comes now was lacking when its key was given up. Such a
    /// message is not cached; each is told once.
    pub fn is_late(&mut self, input: usize, key: Key) -> bool {
        let from = self.given_up.partition_point(|own| own.key < key);
        let of_key = self.given_up.get_mut(from..).unwrap_or_default();
        let mut of_key = of_key.iter_mut().take_while(|own| own.key == key).zip(from..);
        let Some((own, at)) = of_key.find(|(own, _)| own.lacks & bit(input) != 0) else {
            return false;
        };
        own.lacks &= !bit(input);
        if own.lacks == 0 {
            self.given_up.remove(at);
        }
        true
    }

    /// Remembers what a set lacks; forgets the oldest one where there is no room.
    fn remember(&mut self, key: Key, lacks: u64) {
        if self.given_up.len() == LATE_MAX {
            let numbers = self.given_up.iter().map(|own| own.number).enumerate();
            if let Some((oldest, _)) = numbers.min_by_key(|(_, number)| *number) {
                self.given_up.remove(oldest);
            }
        }
        let at = self.given_up.partition_point(|own| own.key <= key);
        self.given_up.insert(at, GivenUp { key, lacks, number: self.count });
        self.count += 1;
    }

    /// Caches a message of `input`; `now` is not looked at without a time limit.
    ///
    /// # Errors
    /// No such input, or no room, which the reader never lets happen: the message.
    pub fn push(
        &mut self,
        input: usize,
        key: Key,
        now: Option<MonoTime>,
        message: T,
    ) -> Result<(), T> {
        let room = self.cached.len() < self.cached.capacity();
        let Some(total) = self.totals.get_mut(input).filter(|_| room) else { return Err(message) };
        *total += 1;
        let mut range = self.range(key);
        let before = self.is_complete(&range);
        let first = self.cached.get(range.start).filter(|_| !range.is_empty());
        let since = first.map_or(now, |first| first.since);
        let of_key = self.cached.get(range.clone()).unwrap_or_default();
        let at = range.start + of_key.partition_point(|cached| cached.input <= input);
        self.keys += usize::from(range.is_empty());
        self.cached.insert(at, Cached { key, input, since, message });
        range.end += 1;
        if !before && self.is_complete(&range) {
            self.complete += 1;
            self.last = Some(key);
        }
        Ok(())
    }

    /// The lowest key that is complete.
    #[must_use]
    pub fn complete(&self) -> Option<Key> {
        if self.complete == 0 {
            return None;
        }
        let last = self.last.filter(|key| self.is_complete(&self.range(*key)));
        if self.complete == 1 && last.is_some() {
            return last;
        }
        let mut of_keys = self.cached.chunk_by(|a, b| a.key == b.key);
        of_keys.find(|all| self.has_all_inputs(all))?.first().map(|first| first.key)
    }

    /// The key that is given up now, if one has to be: the first that waited too long, else the
    /// lowest when too many wait.
    #[must_use]
    pub fn given_up(&self, now: Option<MonoTime>) -> Option<(Key, Lack)> {
        let is_late =
            |cached: &&Cached<T>, now| self.due(cached).is_some_and(|due| due.is_past(now));
        let expired = now.and_then(|now| self.cached.iter().find(|cached| is_late(cached, now)));
        if let Some(expired) = expired {
            return Some((expired.key, Lack::Expired));
        }
        let full = self.totals.iter().all(|total| *total >= self.settings.messages());
        let over = full || self.keys > self.settings.max_cache as usize;
        let lowest = self.cached.first().filter(|_| over)?;
        Some((lowest.key, Lack::OverLimit))
    }

    fn due(&self, cached: &Cached<T>) -> Option<MonoTime> {
        let limit = u64::from(self.settings.timeout_ms?);
        Some(cached.since?.add_ms(limit))
    }

    /// When the next key has waited too long.
    #[must_use]
    pub fn next_due(&self) -> Option<MonoTime> {
        self.settings.timeout_ms?;
        self.cached.iter().filter_map(|cached| self.due(cached)).min()
    }

    /// Takes the oldest message of each input that has one of `key`. If others have none, that one
    /// is given up.
    pub fn take(&mut self, key: Key, mut to: impl FnMut(usize, T)) {
        let mut range = self.range(key);
        self.complete -= usize::from(self.is_complete(&range));
        let (mut at, mut taken) = (range.start, None);
        let mut lacks = (0..self.totals.len()).fold(0, |bits, input| bits | bit(input));
        let whole = lacks;
        while at < range.end {
            let input = self.cached.get(at).map(|cached| cached.input);
            if input == taken {
                at += 1;
                continue;
            }
            taken = input;
            lacks &= !input.map_or(0, bit);
            let Cached { input, message, .. } = self.cached.remove(at);
            range.end -= 1;
            if let Some(total) = self.totals.get_mut(input) {
                *total -= 1;
            }
            to(input, message);
        }
        self.complete += usize::from(self.is_complete(&range));
        self.keys -= usize::from(range.is_empty());
        if lacks != 0 && lacks != whole {
            self.remember(key, lacks);
        }
    }

    /// Takes everything.
    pub fn clear(&mut self, mut to: impl FnMut(T)) {
        self.cached.drain(..).for_each(|cached| to(cached.message));
        self.totals.fill(0);
        (self.keys, self.complete) = (0, 0);
        self.given_up.clear();
    }
}

/// The bit of an input; a node has at most 64.
fn bit(input: usize) -> u64 {
    u32::try_from(input).ok().and_then(|input| 1u64.checked_shl(input)).unwrap_or(0)
}

#[cfg(test)]
#[path = "align_tests.rs"]
mod tests;
