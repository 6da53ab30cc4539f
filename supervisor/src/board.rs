//! The status section: what the host and tools read of the slots. The supervisor is its only
//! writer.
//!
//! Every change ends in [`Board::publish`]: the sequence is bumped and all who wait on it are
//! woken. A reader that saw sequence `s`, then read the words, and finds `s` again has read one
//! state; else it reads again.

use executor_core::abi::control::{SlotCtl, SlotStatus};
use executor_core::owner::SlotState;
use executor_core::primitive::Ordering;
use executor_core::region::Memory;
use executor_core::sweep::Swept;
use executor_rt::plan::process_state::{READY_MIN, STARTING};
use sys::clock::MonoTime;
use sys::futex;

/// Writer of the status section.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Board {
    memory: Memory<'static>,
}

impl Board {
    pub(crate) fn new(memory: &Memory<'static>) -> Self {
        Self { memory: *memory }
    }

    fn slot(&self, slot: u32) -> Option<&'static SlotStatus> {
        self.memory.slot_status.get(slot as usize)
    }

    fn process(&self, slot: u32) -> Option<&'static SlotCtl> {
        self.memory.private(slot).map(|part| part.ctl)
    }

    /// Tells everybody that something changed.
    pub(crate) fn publish(&self) {
        // SYNC: release, pairs with the acquire load of readers: the words before it are seen.
        self.memory.status.sequence.fetch_add(1, Ordering::AcqRel);
        futex::wake(&self.memory.status.sequence, u32::MAX);
    }

    pub(crate) fn set_phase(&self, phase: u32) {
        self.memory.status.phase.store(phase, Ordering::Release);
        self.publish();
    }

    /// One state for every slot of a process.
    pub(crate) fn set_state(&self, slots: impl Iterator<Item = u32>, state: SlotState) {
        for status in slots.filter_map(|slot| self.slot(slot)) {
            status.state.store(state as u32, Ordering::Release);
        }
        self.publish();
    }

    /// Before a start: what the predecessor said of itself is not the successor's, except for the
    /// code it died of, by which the successor answers what it left.
    pub(crate) fn starting(
        &self,
        slots: impl Iterator<Item = u32> + Clone,
        generation: u32,
        restarts: u32,
        now: MonoTime,
    ) {
        for slot in slots.clone() {
            if let Some(ctl) = self.process(slot) {
                ctl.pid.store(0, Ordering::Relaxed);
                ctl.state.store(STARTING, Ordering::Release);
            }
            let Some(status) = self.slot(slot) else { continue };
            status.pid.store(0, Ordering::Relaxed);
            status.restarts.store(restarts, Ordering::Relaxed);
            status.started_ns.store(now.as_ns(), Ordering::Relaxed);
            status.generation.store(generation, Ordering::Release);
        }
        self.set_state(slots, SlotState::Starting);
    }

    /// After a start: the number by which the host knows the process.
    pub(crate) fn started(&self, slots: impl Iterator<Item = u32>, pid: u32) {
        for status in slots.filter_map(|slot| self.slot(slot)) {
            status.pid.store(pid, Ordering::Release);
        }
        self.publish();
    }

    /// A process is gone and reaped; its slots will be swept.
    pub(crate) fn died(
        &self,
        slots: impl Iterator<Item = u32> + Clone,
        exit_kind: u32,
        exit_value: u32,
    ) {
        for status in slots.clone().filter_map(|slot| self.slot(slot)) {
            status.exit_kind.store(exit_kind, Ordering::Relaxed);
            status.exit_value.store(exit_value, Ordering::Relaxed);
            status.pid.store(0, Ordering::Relaxed);
        }
        self.set_state(slots, SlotState::Dead);
    }

    /// Counts a sweep; published with the state that follows.
    pub(crate) fn swept(&self, slot: u32, swept: &Swept) {
        let status = self.memory.status;
        status.sweeps.fetch_add(1, Ordering::AcqRel);
        status.swept.fetch_add(u64::from(swept.freed), Ordering::AcqRel);
        status.suspects.store(u64::from(swept.suspects), Ordering::Release);
        if let Some(status) = self.slot(slot) {
            status.sweeps.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Blocks that still wait for their last reader.
    pub(crate) fn set_suspects(&self, suspects: u32) {
        self.memory.status.suspects.store(u64::from(suspects), Ordering::Release);
        self.publish();
    }

    /// Whether the process whose own slot is `slot` says that it is ready: a processor state of
    /// udf §3.5.
    pub(crate) fn is_ready(&self, slot: u32) -> bool {
        let state = self.process(slot).map(|ctl| ctl.state.load(Ordering::Acquire));
        state.is_some_and(|state| (READY_MIN..STARTING).contains(&state))
    }
}
