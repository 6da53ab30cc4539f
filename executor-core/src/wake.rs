//! Wake protocol: who sleeps on which word, and who has to be rung.
//!
//! A waiter is one sleeping place: `parked`, a futex word `sequence` that is bumped only when
//! `parked` was set, and a ready set of queues. Sleeping, for any condition C (a ring slot filled,
//! room, a free mbuf):
//! ```text
//!   sleeper: s := sequence; parked := 1; register (bit of C); fence; C? -> parked := 0, go on
//!            futex_wait(sequence, s); parked := 0; again
//!   waker:   make C true; fence; registered? -> clear bit; parked.swap(0) == 1?
//!            -> sequence += 1, futex_wake
//! ```
//! W1 With both fences sequentially consistent, either the sleeper sees C or the waker sees it
//! registered. W2 A bump between the sleeper's load of `sequence` and its futex_wait makes that
//! wait return at once. W3 A waker that dies between clearing `parked` and futex_wake loses a wake:
//! after every sweep the supervisor bumps and wakes all waiters.
//!
//! | killed after | state seen | repaired by |
//! |---|---|---|
//! | sleeper: parked, registered | `parked` 1, bits set, nobody | the next waker clears them |
//! | waker: bit of C cleared, unparked | a sleeper that looks awake | W3 |
//! | waker: sequence bumped, not woken | a sleeper whose wait is over | W3 |
//! | waker: pool waiters taken | sleepers that nobody rings | W3 |
//!
//! Cost while the peer is awake: one fence and one load of a line that nobody writes.
//!
//! This file decides; the caller makes the futex calls named by a [`WakeSet`].

use crate::abi::control::{WAITERS, WaiterCtl};
use crate::owner::{SlotId, WaiterId};
use crate::primitive::{Ordering, fence, kill_point};
use crate::region::Memory;

/// Waiters whose futex word was bumped: the caller must futex-wake each.
///
/// One register: seven waiter numbers plus one of nine bits each, or "everybody" (bit 63) when
/// there were more; ringing somebody who was not named costs him one look.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[must_use = "sleeping peers wait for a futex wake"]
pub struct WakeSet(u64);

const PLACES: u32 = 7;
const PLACE_BITS: u32 = 9;
const PLACE_MASK: u64 = (1 << PLACE_BITS) - 1;
const EVERYBODY: u64 = 1 << 63;
/// Most waiters of a group; their numbers fit a place.
const WAITERS_MAX: u32 = crate::abi::control::SLOTS_MAX * WAITERS;
static_assertions::const_assert!((WAITERS_MAX as u64) < PLACE_MASK);

impl WakeSet {
    /// Nobody.
    pub const NONE: WakeSet = WakeSet(0);

    /// True when nobody has to be rung.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0 == 0
    }

    /// Adds a waiter.
    pub fn insert(&mut self, waiter: WaiterId) {
        let number = u64::from(waiter.0) + 1;
        if self.0 & EVERYBODY != 0 || waiter.0 >= WAITERS_MAX {
            return;
        }
        for place in 0..PLACES {
            let there = self.0 >> (place * PLACE_BITS) & PLACE_MASK;
            if there == number {
                return;
            }
            if there == 0 {
                self.0 |= number << (place * PLACE_BITS);
                return;
            }
        }
        self.0 = EVERYBODY;
    }

    /// Adds all of `other`.
    #[inline]
    pub fn merge(&mut self, other: WakeSet) {
        if self.0 == 0 || other.0 & EVERYBODY != 0 {
            self.0 = other.0;
        } else {
            other.iter().for_each(|waiter| self.insert(waiter));
        }
    }

    /// The waiters, each once.
    pub fn iter(&self) -> impl Iterator<Item = WaiterId> + use<> {
        let word = self.0;
        let everybody = word & EVERYBODY != 0;
        let named = (0..PLACES).filter_map(move |place| {
            let number = u32::try_from(word >> (place * PLACE_BITS) & PLACE_MASK).ok()?;
            number.checked_sub(1).filter(|_| !everybody).map(WaiterId)
        });
        let all = (0..WAITERS_MAX).take_while(move |_| everybody).map(WaiterId);
        named.chain(all)
    }
}

/// One announced sleep: the value the futex wait must expect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parking {
    /// Expected value of [`WaiterCtl::sequence`].
    pub expected: u32,
}

/// Announces a sleep. The caller registers for its condition, calls [`recheck`], looks at the
/// condition, and only then waits on `sequence`.
pub fn begin_park(waiter: &WaiterCtl) -> Parking {
    let expected = waiter.sequence.load(Ordering::Acquire);
    waiter.parked.store(1, Ordering::Release);
    Parking { expected }
}

/// The sleeper's fence (W1): between registering and looking at the condition.
#[inline]
pub fn recheck() {
    // SYNC: SeqCst fence, pairs with the fence in `Memory::wake_*`.
    fence(Ordering::SeqCst);
}

/// Ends a sleep, woken or not.
pub fn end_park(waiter: &WaiterCtl) {
    waiter.parked.store(0, Ordering::Release);
}

/// Clears `bits` of the ready set before the queues behind them are drained; the set bits that were
/// there.
pub fn take_ready(waiter: &WaiterCtl, bits: u64) -> u64 {
    let ready = waiter.ready.fetch_and(!bits, Ordering::AcqRel) & bits;
    recheck();
    ready
}

impl<'g> Memory<'g> {
    /// The words of a waiter.
    #[must_use]
    pub fn waiter(&self, waiter: WaiterId) -> Option<&'g WaiterCtl> {
        self.waiters.get(waiter.0 as usize)
    }

    /// Unparks `waiter`; true when it slept or was about to, and must be rung.
    #[inline]
    pub(crate) fn unpark(waiter: &WaiterCtl) -> bool {
        if waiter.parked.load(Ordering::Relaxed) == 0 {
            return false;
        }
        if waiter.parked.swap(0, Ordering::AcqRel) == 0 {
            return false;
        }
        kill_point!("unparked, sequence not bumped");
        waiter.sequence.fetch_add(1, Ordering::Release);
        kill_point!("sequence bumped, futex not woken");
        true
    }

    /// After a block or an entry of `slot` became free: wakes its pool's waiters.
    #[inline]
    pub(crate) fn wake_pool(&self, slot: u32, wakes: &mut WakeSet) {
        let Some(shared) = self.slot_shared.get(slot as usize) else { return };
        // SYNC: SeqCst fence, pairs with `recheck` (the caller fenced after its store).
        if shared.pool_waiting.load(Ordering::Relaxed) == 0 {
            return;
        }
        let waiting = shared.pool_waiting.swap(0, Ordering::AcqRel);
        kill_point!("pool waiters taken");
        for index in (0..WAITERS).filter(|index| waiting & 1 << index != 0) {
            let id = WaiterId(slot * WAITERS + index);
            if self.waiter(id).is_some_and(Self::unpark) {
                wakes.insert(id);
            }
        }
    }

    /// Registers waiter `index` of `slot` for the next free mbuf of its partition.
    pub fn register_pool_wait(&self, slot: SlotId, index: u32) {
        if let Some(shared) = self.slot_shared.get(slot.0 as usize) {
            shared.pool_waiting.fetch_or(1 << index, Ordering::AcqRel);
        }
    }

    /// Withdraws [`Memory::register_pool_wait`].
    pub fn withdraw_pool_wait(&self, slot: SlotId, index: u32) {
        if let Some(shared) = self.slot_shared.get(slot.0 as usize) {
            shared.pool_waiting.fetch_and(!(1 << index), Ordering::AcqRel);
        }
    }

    /// All sleeping places of the group.
    #[must_use]
    pub fn waiters(&self) -> &'g [WaiterCtl] {
        self.waiters
    }

    /// After a sweep: bumps every waiter (W3). The caller futex-wakes all of them, parked or not.
    pub fn wake_all(&self) -> impl Iterator<Item = &'g WaiterCtl> + use<'g> {
        self.waiters.iter().inspect(|waiter| {
            waiter.parked.store(0, Ordering::Release);
            waiter.sequence.fetch_add(1, Ordering::AcqRel);
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    extern crate std;
    use super::{WaiterId, WakeSet};
    use std::vec::Vec;

    #[test]
    fn wake_set_holds_every_waiter_once() {
        let mut set = WakeSet::NONE;
        assert!(set.is_empty());
        for id in [0, 63, 64, 255, 63] {
            set.insert(WaiterId(id));
        }
        let ids: Vec<u32> = set.iter().map(|w| w.0).collect();
        assert_eq!(ids, [0, 63, 64, 255]);
        let mut other = WakeSet::NONE;
        other.merge(set);
        assert_eq!(other, set);
        for id in [7, 8, 9] {
            other.insert(WaiterId(id));
        }
        set.merge(other);
        assert_eq!(set.iter().count(), 7);
        set.insert(WaiterId(100));
        assert_eq!(set.iter().count(), 256, "more than seven ring everybody");
        other.merge(set);
        assert_eq!(other, set);
    }
}
