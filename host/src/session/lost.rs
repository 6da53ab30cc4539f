//! Ids that nothing carries any more: looked for after a sweep, and after an overwriting queue
//! dropped something.
//!
//! Ids move while one looks, so an id is lost only when it was absent in [`LOOKS`] scans in a row,
//! [`PAUSE_MS`] apart, and once more. A stateful node may hold ids beyond their messages, so while
//! one lives nothing counts as lost, except what was absent when a stateful node died: that one may
//! have held it. Not seen: an id whose message was dropped while a stateful node lives. It ends by
//! its deadline.

use std::collections::{HashMap, HashSet};

use executor_core::error::Code;
use executor_core::inspect;
use executor_core::owner::{QueueId, SlotState};
use executor_core::primitive::Ordering;

use super::{Shared, lock, watch};
use crate::graph::QueuePolicy;

/// Scans without an id before it counts as lost.
const LOOKS: u32 = 3;
/// Milliseconds between scans.
const PAUSE_MS: u64 = 5;
/// Scans after the last cause: a successor may have to start before it answers what it adopted.
const LOOKS_MAX: u32 = 400;
/// Scans that found nothing missing before looking ends.
const LOOKS_QUIET: u32 = 10;
/// Drops of overwriting queues ring nobody; they are looked at this often.
const DROPS_MS: u64 = 50;

/// What can lose ids, as counts.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Causes {
    sweeps: u64,
    stateful_sweeps: u64,
    drops: u64,
}

/// The search.
#[derive(Debug)]
pub(super) struct Lost {
    seen: Causes,
    missing: HashMap<u64, u32>,
    looks: u32,
    quiet: u32,
    why: (Code, &'static str),
    overwriting: bool,
}

const DIED: (Code, &str) =
    (Code::EXECUTOR_DIED, "an executor died and nothing carries this id any more");
const DROPPED: (Code, &str) = (Code::QUEUE_FULL, "dropped by a queue that overwrites");

impl Lost {
    pub(super) fn new(shared: &Shared) -> Lost {
        let mut queues = shared.plan.queues.iter();
        Lost {
            seen: Causes { sweeps: 0, stateful_sweeps: 0, drops: 0 },
            missing: HashMap::new(),
            looks: 0,
            quiet: 0,
            why: DIED,
            overwriting: queues.any(|queue| queue.policy == QueuePolicy::Overwrite),
        }
    }

    /// Milliseconds to the next look; `None`: when the status changes.
    pub(super) fn pause_ms(&self) -> Option<u64> {
        match (self.looks, self.overwriting) {
            (1.., _) => Some(PAUSE_MS),
            (0, true) => Some(DROPS_MS),
            (0, false) => None,
        }
    }

    /// Looks, if there is a cause; answers what is lost.
    pub(super) fn look(&mut self, shared: &Shared) {
        let now = self.causes(shared);
        let (died, dropped) = (now.sweeps != self.seen.sweeps, now.drops != self.seen.drops);
        let stateful_died = now.stateful_sweeps != self.seen.stateful_sweeps;
        self.seen = now;
        if died || dropped {
            (self.looks, self.quiet) = (LOOKS_MAX, 0);
        }
        if died || dropped && self.missing.is_empty() {
            self.why = if died { DIED } else { DROPPED };
        }
        if self.looks > 0 {
            self.looks -= 1;
            self.scan(shared, stateful_died || !stateful_lives(shared));
            self.quiet = if self.missing.is_empty() { self.quiet + 1 } else { 0 };
            if self.quiet >= LOOKS_QUIET {
                self.looks = 0;
            }
        }
    }

    fn causes(&self, shared: &Shared) -> Causes {
        let memory = shared.attached.group.memory;
        let stateful = shared.plan.executors.iter().filter(|executor| executor.stateful);
        let stateful = stateful.filter_map(|e| memory.slot_status.get(e.slot as usize));
        let queues = shared.plan.queues.iter().filter(|_| self.overwriting);
        let queues = queues.filter(|queue| queue.policy == QueuePolicy::Overwrite);
        let drops = queues.filter_map(|queue| memory.query_queue(QueueId(queue.id)).ok());
        Causes {
            sweeps: memory.status.sweeps.load(Ordering::Acquire),
            stateful_sweeps: stateful.map(|slot| slot.sweeps.load(Ordering::Acquire)).sum(),
            // Wrapping: what a peer wrote may be any number.
            drops: drops.fold(0, |sum, info| sum.wrapping_add(info.drops)),
        }
    }

    /// One scan. Without `more`, only ids that were missing before are looked for.
    fn scan(&mut self, shared: &Shared, more: bool) {
        // Ids count as open once their messages are queued, and they are listed before the messages
        // are.
        let open: HashSet<u64> = lock(&shared.ledger).open_ids().collect();
        let carried = carried(shared);
        self.missing.retain(|id, _| open.contains(id) && !carried.contains(id));
        for id in open.difference(&carried) {
            match self.missing.get_mut(id) {
                Some(looks) => *looks += 1,
                None if more => drop(self.missing.insert(*id, 1)),
                None => {}
            }
        }
        let lost = self.missing.iter().filter(|(_, looks)| **looks >= LOOKS);
        let lost: Vec<u64> = lost.map(|(id, _)| *id).collect();
        if !lost.is_empty() {
            self.answer(shared, &lost);
        }
    }

    fn answer(&mut self, shared: &Shared, lost: &[u64]) {
        let carried = carried(shared);
        let mut ledger = lock(&shared.ledger);
        for id in lost.iter().filter(|id| !carried.contains(id)) {
            self.missing.remove(id);
            if ledger.answer(*id, self.why.0, self.why.1) {
                ledger.counts.lost += 1;
            }
        }
        let answered = ledger.has_answer();
        drop(ledger);
        if answered {
            shared.wake();
        }
    }
}

/// Ids of all live mbufs.
fn carried(shared: &Shared) -> HashSet<u64> {
    inspect::held(&shared.attached.group).map(|mbuf| mbuf.info.trans_id).collect()
}

fn stateful_lives(shared: &Shared) -> bool {
    let mut stateful = shared.plan.executors.iter().filter(|executor| executor.stateful);
    stateful.any(|executor| {
        let state = watch::state_of(shared, executor.slot);
        matches!(state, Some(SlotState::Running | SlotState::Stopped))
    })
}
