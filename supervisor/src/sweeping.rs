//! Sweeps and their follow-up: repair, count, ring, look again at suspects.
//!
//! After a death the peers may sleep on what the dead process would have rung, so everybody is rung
//! after every sweep. A suspect block is looked at again after 10 ms, then twice as late each time,
//! up to 1 s.

use executor_core::group::Group;
use executor_core::owner::SlotId;
use executor_core::region::Memory;
use executor_core::sweep::{Inputs, Sweeper, Swept, suspect_words};
use executor_rt::waiter::ring_all;
use sys::clock::MonoTime;

use crate::board::Board;

const RECHECK_MS_MIN: u64 = 10;
const RECHECK_MS_MAX: u64 = 1000;

/// `SupervisorPlan::sabotage`: a sweep repairs nothing.
const SABOTAGE_SWEEP: u32 = 1;
/// `SupervisorPlan::sabotage`: nobody is rung after a sweep.
const SABOTAGE_RING: u32 = 2;

/// The supervisor's one sweeper.
#[derive(Debug)]
pub(crate) struct Sweeping {
    sweeper: Sweeper<'static, 'static>,
    memory: Memory<'static>,
    sabotage: u32,
    recheck: Option<MonoTime>,
    recheck_ms: u64,
}

impl Sweeping {
    pub(crate) fn new(group: &Group<'static>, sabotage: u32) -> Self {
        let suspects = vec![0; suspect_words(group)].leak();
        let sweeper = Sweeper::new(group, suspects);
        Self { sweeper, memory: group.memory, sabotage, recheck: None, recheck_ms: RECHECK_MS_MIN }
    }

    /// Sweeps the slots of a process that was reaped, then rings everybody, once; what was done in
    /// all of them.
    pub(crate) fn sweep(
        &mut self,
        board: &Board,
        slots: impl Iterator<Item = u32>,
        inputs: Inputs,
        now: MonoTime,
    ) -> Swept {
        let mut all = Swept::default();
        for slot in slots {
            let mut swept = Swept::default();
            if self.sabotage != SABOTAGE_SWEEP {
                swept = self.sweeper.sweep(SlotId(slot), inputs);
            }
            board.swept(slot, &swept);
            add(&mut all, &swept);
        }
        if self.sabotage != SABOTAGE_RING {
            ring_all(&self.memory);
        }
        self.recheck_ms = RECHECK_MS_MIN;
        self.plan_recheck(&all, now);
        all
    }

    /// When [`Sweeping::recheck`] wants to be called.
    pub(crate) fn deadline(&self) -> Option<MonoTime> {
        self.recheck
    }

    /// Looks at the suspects again when it is time.
    pub(crate) fn recheck(&mut self, board: &Board, now: MonoTime) {
        if !self.recheck.is_some_and(|at| at.is_past(now)) {
            return;
        }
        let mut swept = Swept::default();
        self.sweeper.recheck(&mut swept);
        board.set_suspects(swept.suspects);
        if swept.blocks != 0 {
            // Somebody may wait for a free block of that partition.
            ring_all(&self.memory);
        }
        self.recheck_ms = self.recheck_ms.saturating_mul(2).min(RECHECK_MS_MAX);
        self.plan_recheck(&swept, now);
    }

    fn plan_recheck(&mut self, swept: &Swept, now: MonoTime) {
        self.recheck = (swept.suspects != 0).then(|| now.add_ms(self.recheck_ms));
    }

    /// Rings everybody, after a lock was broken outside of a sweep.
    pub(crate) fn ring(&self) {
        ring_all(&self.memory);
    }
}

/// Adds the counts of one more slot; suspects are those of the whole group.
fn add(all: &mut Swept, swept: &Swept) {
    let Swept { freed, adopted, undone, finished, locks, blocks, suspects } = *swept;
    all.freed += freed;
    all.adopted += adopted;
    all.undone += undone;
    all.finished += finished;
    all.locks += locks;
    all.blocks += blocks;
    all.suspects = suspects;
}
