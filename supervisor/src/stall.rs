//! Who makes no progress: a set that stays in the function, a queue's lock that stays with its
//! holder.
//!
//! Both are judged by words that change whenever something happens, sampled at the slow tick: the
//! same sample for the whole limit is a stall. A process that sleeps inside a set waits for others:
//! for room, for an mbuf; that is none. One that a signal stopped is one, asleep or not.
//!
//! | lock names | after the limit |
//! |---|---|
//! | a live executor | killed; the sweep after its death breaks the lock |
//! | the host | left: a stopped host is not ours to end, and its own queues are its own business |
//! | nobody, an earlier life, garbage | broken by compare-exchange; its sweep broke a dead one's |
//!
//! The word is a claim: whoever it names is only killed when slot and life fit. A peer that writes
//! the very word of a live process can't be told from its holder.

use executor_core::abi::control::SlotCtl;
use executor_core::owner::Owner;
use executor_core::primitive::{AtomicU64, Ordering};
use executor_core::region::Memory;
use sys::clock::MonoTime;

/// Slot of the host.
const HOST: u32 = 0;
/// The host has one life.
const HOST_GENERATION: u32 = 1;

/// One value and since when it is that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Since<T> {
    sample: T,
    at: MonoTime,
}

/// Milliseconds for which `sample` has not changed; `seen` keeps the memory.
fn unchanged_ms<T: Copy + PartialEq>(
    seen: &mut Option<Since<T>>,
    sample: Option<T>,
    now: MonoTime,
) -> Option<u64> {
    let sample = sample?;
    match seen {
        Some(since) if since.sample == sample => Some(now.since_ns(since.at) / 1_000_000),
        _ => {
            *seen = Some(Since { sample, at: now });
            Some(0)
        }
    }
}

/// Watches one executor's function.
#[derive(Debug, Default)]
pub(crate) struct ProcWatch(Option<Since<(u64, u64)>>);

impl ProcWatch {
    /// Milliseconds that a set has been in the function without progress; `None` when none is, and
    /// while the process sleeps (`asleep`): it waits for others then, for room or a free mbuf.
    pub(crate) fn stalled_ms(&mut self, ctl: &SlotCtl, asleep: bool, now: MonoTime) -> Option<u64> {
        let delivered = ctl.set_delivered.load(Ordering::Acquire);
        let inside = !asleep && delivered > ctl.set_done.load(Ordering::Acquire);
        let sample = inside.then(|| (delivered, ctl.progress.load(Ordering::Acquire)));
        if sample.is_none() {
            self.0 = None;
        }
        unchanged_ms(&mut self.0, sample, now)
    }
}

/// A lock at a moment: its word, and what its holder's words were.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Held {
    word: u64,
    progress: u64,
    operation: u64,
    detail: u64,
}

/// A lock that has been held for too long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct StalledLock {
    /// Number in the watch: queues first, then the lane locks of the slots.
    pub(crate) index: usize,
    /// The word that was seen all the time.
    pub(crate) word: u64,
    /// Slot that it names, if it names one of the group.
    pub(crate) holder: Option<u32>,
    /// For how long.
    pub(crate) held_ms: u64,
}

/// Watches all locks of a group.
#[derive(Debug)]
pub(crate) struct LockWatch {
    memory: Memory<'static>,
    limit_ms: u64,
    seen: Vec<Option<Since<Held>>>,
}

impl LockWatch {
    /// `limit_ms` = 0 watches nothing.
    pub(crate) fn new(memory: &Memory<'static>, limit_ms: u64) -> Self {
        let count = memory.queues.len() + memory.slot_shared.len();
        let count = if limit_ms == 0 { 0 } else { count };
        Self { memory: *memory, limit_ms, seen: vec![None; count] }
    }

    fn lock(&self, index: usize) -> Option<&'static AtomicU64> {
        let lane = || self.memory.slot_shared.get(index.checked_sub(self.memory.queues.len())?);
        let queue = self.memory.queues.get(index);
        queue.map(|ctl| &ctl.lock).or_else(|| lane().map(|shared| &shared.lane_lock))
    }

    /// What a lock is for, for a log line.
    pub(crate) fn name(&self, index: usize) -> String {
        let Some(queue) = self.memory.queues.get(index) else {
            let slot = index.saturating_sub(self.memory.queues.len());
            return format!("lane places of slot {slot}");
        };
        format!("queue {index} `{}`", String::from_utf8_lossy(&queue.name_bytes()))
    }

    /// Locks over the limit at `now`.
    pub(crate) fn stalled(&mut self, now: MonoTime) -> Vec<StalledLock> {
        let mut found = Vec::new();
        for index in 0..self.seen.len() {
            let Some(lock) = self.lock(index) else { continue };
            let word = lock.load(Ordering::Acquire);
            let sample = (word != 0).then(|| self.sample(word));
            let Some(seen) = self.seen.get_mut(index) else { continue };
            if sample.is_none() {
                *seen = None;
            }
            if let Some(held_ms) = unchanged_ms(seen, sample, now).filter(|ms| *ms >= self.limit_ms)
            {
                let holder = self.holder(word).map(|(slot, _)| slot);
                found.push(StalledLock { index, word, holder, held_ms });
            }
        }
        found
    }

    fn sample(&self, word: u64) -> Held {
        let holder = self.holder(word);
        let part = holder.and_then(|(slot, worker)| Some((self.memory.private(slot)?, worker)));
        let Some((part, worker)) = part else {
            return Held { word, progress: 0, operation: 0, detail: 0 };
        };
        let journal = part.journals.get(worker as usize);
        Held {
            word,
            progress: part.ctl.progress.load(Ordering::Acquire),
            operation: journal.map_or(0, |journal| journal.operation.load(Ordering::Acquire)),
            detail: journal.map_or(0, |journal| journal.detail.load(Ordering::Acquire)),
        }
    }

    /// Slot and worker of the live process that a lock word names.
    fn holder(&self, word: u64) -> Option<(u32, u32)> {
        let Owner::Worker { slot, worker, generation } = Owner::from_word(word) else {
            return None;
        };
        let lives = match slot {
            HOST => generation == HOST_GENERATION && worker < self.memory.layout.counts.workers,
            _ => {
                let status = self.memory.slot_status.get(slot as usize)?;
                status.generation.load(Ordering::Acquire) == generation
            }
        };
        lives.then_some((slot, worker))
    }

    /// Breaks a lock that still has the word it was seen with.
    pub(crate) fn break_lock(&self, stalled: &StalledLock) -> bool {
        let exchange = |lock: &AtomicU64| {
            // SYNC: release, as an unlock; nobody alive holds it.
            lock.compare_exchange(stalled.word, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        self.lock(stalled.index).is_some_and(exchange)
    }
}

#[cfg(test)]
mod tests {
    use super::{MonoTime, Ordering, ProcWatch, SlotCtl};

    const fn at(ms: u64) -> MonoTime {
        MonoTime::ZERO.add_ms(ms)
    }

    #[test]
    fn only_a_set_in_the_function_without_progress_is_a_stall() {
        let ctl = SlotCtl::default();
        let mut watch = ProcWatch::default();
        assert_eq!(watch.stalled_ms(&ctl, false, at(0)), None);
        ctl.set_delivered.store(1, Ordering::Release);
        assert_eq!(watch.stalled_ms(&ctl, false, at(10)), Some(0));
        assert_eq!(watch.stalled_ms(&ctl, false, at(30)), Some(20));
        ctl.progress.store(1, Ordering::Release);
        assert_eq!(watch.stalled_ms(&ctl, false, at(40)), Some(0));
        ctl.set_done.store(1, Ordering::Release);
        assert_eq!(watch.stalled_ms(&ctl, false, at(90)), None);
        ctl.set_delivered.store(2, Ordering::Release);
        assert_eq!(watch.stalled_ms(&ctl, false, at(95)), Some(0), "another set starts from zero");
        assert_eq!(watch.stalled_ms(&ctl, false, at(98)), Some(3));
        assert_eq!(watch.stalled_ms(&ctl, true, at(99)), None, "it waits for room");
        assert_eq!(watch.stalled_ms(&ctl, false, at(100)), Some(0), "and begins anew after it");
    }
}
