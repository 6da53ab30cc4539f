//! The gate of a device: who may compute on one of its cores, and who is next.
//!
//! A device has a declared number of cores. A *place* (one of the threads that share the device)
//! goes in before it computes and out behind it; while all cores are taken it stands in the
//! [`Line`], most urgent [`Level`] first, in order of arrival within a level. The gate decides;
//! the caller keeps the line behind a lock and rings the places that are named. Nothing allocates.
//!
//! All is in one number: cores that are free, or, below zero, how many stand in the line.
//! ```text
//! go in:   number > 0?  -= 1, in                  else, with the line: -= 1, stand in it
//! go out:  number >= 0? += 1, the core is free    else, with the line: += 1, the first one has it
//! ```
//! G1 What lies below zero changes only by somebody who has the line, so while nobody has it the
//!    number is `-line.len()`, or the line is empty.
//! G2 A core is free only when nobody stands in the line; nobody who comes overtakes it.
//! G3 A core that is given back is handed over inside: between two it belongs to nobody else.
//! G4 Who leaves the line either was handed a core before, and has to give it back, or takes only
//!    its place in the line along: no core is lost and none is made.

use crate::primitive::{AtomicU32, AtomicU64, Ordering};

/// Most places of a gate.
pub const PLACES: usize = 64;
/// Number of levels.
pub const LEVELS: usize = 9;

/// How urgent something is: made of the priorities of process and event, 0 first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Level(u8);

impl Level {
    /// What has no priority.
    pub const LOWEST: Level = Level(8);

    /// Of the priorities of process and event, each 0 (first) to 2 or -1 (unset, the lowest); the
    /// process's counts first. `None` for other numbers.
    #[must_use]
    pub fn of(process: i32, event: i32) -> Option<Level> {
        let part = |value: i32| match value {
            -1 => Some(2),
            value => u8::try_from(value).ok().filter(|value| *value <= 2),
        };
        Some(Level(part(process)? * 3 + part(event)?))
    }

    /// 0 to 8.
    #[must_use]
    pub fn number(self) -> u8 {
        self.0
    }
}

/// Places that wait for a core, first to be served first.
#[derive(Debug, Default)]
pub struct Line(heapless::Vec<(Level, u8), PLACES>);

impl Line {
    fn insert(&mut self, place: u8, level: Level) -> bool {
        let behind = self.0.iter().position(|(other, _)| *other > level);
        self.0.insert(behind.unwrap_or(self.0.len()), (level, place)).is_ok()
    }

    fn first(&mut self) -> Option<u8> {
        (!self.0.is_empty()).then(|| self.0.remove(0).1)
    }

    fn remove(&mut self, place: u8) -> bool {
        let at = self.0.iter().position(|(_, other)| *other == place);
        at.map(|at| self.0.remove(at)).is_some()
    }
}

/// See the module.
#[derive(Debug)]
#[repr(align(64))]
pub struct Gate {
    /// Free cores; below zero, as two's complement, how many wait.
    number: AtomicU32,
    /// Bit n: place n was handed a core in the line and has not taken it yet.
    handed: AtomicU64,
}

fn bit(place: u8) -> u64 {
    1_u64.checked_shl(u32::from(place)).unwrap_or(0)
}

impl Gate {
    /// A gate with so many free cores.
    #[must_use]
    pub fn new(cores: u32) -> Gate {
        let gate = Gate { number: AtomicU32::default(), handed: AtomicU64::default() };
        gate.number.store(cores.min(i32::MAX.cast_unsigned()), Ordering::Relaxed);
        gate
    }

    /// One step of the number while `may` holds; the number before it.
    fn change(&self, by: i32, may: impl Fn(i32) -> bool) -> Option<i32> {
        let mut now = self.number.load(Ordering::Relaxed);
        while may(now.cast_signed()) {
            let next = now.wrapping_add_signed(by);
            // SYNC: acquire and release: what was computed on a core lies behind what is next.
            match self.number.compare_exchange(now, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(before) => return Some(before.cast_signed()),
                Err(other) => now = other,
            }
        }
        None
    }

    /// Takes `cores` at once if so many are free.
    #[inline]
    pub fn try_enter(&self, cores: u32) -> bool {
        let cores = cores.cast_signed();
        cores > 0 && self.change(-cores, |free| free >= cores).is_some()
    }

    /// Takes a core; false: stands in the line until [`Gate::is_handed`], then [`Gate::take`] it. A
    /// place that waits must not come again.
    pub fn enter(&self, line: &mut Line, place: u8, level: Level) -> bool {
        match self.change(-1, |_| true) {
            Some(free) if free > 0 => true,
            _ if bit(place) != 0 && line.insert(place, level) => false,
            // No such place: it would never be rung.
            _ => {
                let _undone = self.change(1, |_| true);
                false
            }
        }
    }

    /// Whether a place that waits was handed a core.
    #[inline]
    pub fn is_handed(&self, place: u8) -> bool {
        // SYNC: acquire, pairs with the release in `leave`: it is the core of who left.
        self.handed.load(Ordering::Acquire) & bit(place) != 0
    }

    /// Takes the core that the place was handed; false when it still waits.
    pub fn take(&self, place: u8) -> bool {
        self.is_handed(place)
            && self.handed.fetch_and(!bit(place), Ordering::AcqRel) & bit(place) != 0
    }

    /// Leaves the line. True: a core was handed over meanwhile, and now is the caller's.
    pub fn withdraw(&self, line: &mut Line, place: u8) -> bool {
        if line.remove(place) {
            let _one_less = self.change(1, |_| true);
            return false;
        }
        self.take(place)
    }

    /// Gives `cores` back if nobody waits for one.
    #[inline]
    pub fn try_leave(&self, cores: u32) -> bool {
        self.change(cores.cast_signed(), |number| number >= 0).is_some()
    }

    /// Gives one core back; `Some`: to this place, which has to be rung.
    pub fn leave(&self, line: &mut Line) -> Option<u8> {
        let first = line.first();
        if let Some(place) = first {
            // SYNC: release, pairs with the acquire of the place that looks.
            self.handed.fetch_or(bit(place), Ordering::Release);
        }
        let _one_less = self.change(1, |_| true);
        first
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Gate, Level, Line, PLACES};

    #[test]
    fn levels_count_the_process_first_and_unset_is_the_lowest() {
        let level = |process, event| Level::of(process, event).map(Level::number);
        assert_eq!(level(0, 0), Some(0));
        assert_eq!(level(0, 2), Some(2));
        assert_eq!(level(1, 0), Some(3));
        assert_eq!(level(2, -1), Some(8));
        assert_eq!(Level::of(-1, -1), Some(Level::LOWEST));
        for (process, event) in [(3, 0), (0, 3), (-2, 0), (0, i32::MIN)] {
            assert_eq!(level(process, event), None, "{process}, {event}");
        }
    }

    #[test]
    fn a_free_core_goes_to_the_most_urgent_and_to_the_first_of_a_level() {
        let (gate, mut line) = (Gate::new(1), Line::default());
        let level = |number: i32| Level::of(number / 3, number % 3).unwrap();
        assert!(gate.try_enter(1) && !gate.try_enter(1));
        for (place, number) in [(0, 8), (1, 3), (2, 8), (63, 0), (4, 3)] {
            assert!(!gate.enter(&mut line, place, level(number)));
            assert!(!gate.is_handed(place) && !gate.take(place));
        }
        for place in [63, 1, 4, 0, 2] {
            assert!(!gate.try_leave(1), "somebody waits");
            assert_eq!(gate.leave(&mut line), Some(place));
            assert!(gate.is_handed(place));
            assert!(gate.take(place) && !gate.take(place));
            assert!(!gate.try_enter(1), "it was handed over inside");
        }
        assert_eq!(gate.leave(&mut line), None);
        assert!(gate.try_enter(1) && gate.try_leave(1));
    }

    #[test]
    fn who_withdraws_loses_no_core() {
        let (gate, mut line) = (Gate::new(1), Line::default());
        assert!(gate.try_enter(1));
        assert!(!gate.enter(&mut line, 5, Level::LOWEST));
        assert!(!gate.withdraw(&mut line, 5), "it only waited");
        assert!(gate.try_leave(1), "nobody waits any more");
        assert!(gate.try_enter(1));
        assert!(!gate.enter(&mut line, 5, Level::LOWEST));
        assert_eq!(gate.leave(&mut line), Some(5));
        assert!(gate.withdraw(&mut line, 5), "it was handed one in between");
        assert!(!gate.withdraw(&mut line, 5));
        assert!(gate.try_leave(1) && gate.try_enter(1) && !gate.try_enter(1));
    }

    #[test]
    fn several_cores_are_taken_only_together() {
        let (gate, mut line) = (Gate::new(3), Line::default());
        assert!(!gate.try_enter(4) && !gate.try_enter(0));
        assert!(gate.try_enter(1) && !gate.try_enter(3) && gate.try_enter(2));
        assert!(!gate.enter(&mut line, 1, Level::LOWEST));
        assert!(!gate.try_leave(2));
        assert_eq!([gate.leave(&mut line), gate.leave(&mut line)], [Some(1), None]);
        assert!(gate.try_enter(1) && !gate.try_enter(1));
    }

    #[test]
    fn every_place_can_wait_and_others_are_refused() {
        let (gate, mut line) = (Gate::new(0), Line::default());
        for place in 0..PLACES {
            assert!(!gate.enter(&mut line, u8::try_from(place).unwrap(), Level::LOWEST));
        }
        assert!(!gate.enter(&mut line, 64, Level::LOWEST));
        for place in 0..PLACES {
            assert_eq!(gate.leave(&mut line), Some(u8::try_from(place).unwrap()));
        }
        assert_eq!(gate.leave(&mut line), None);
        assert!(gate.try_enter(1), "the one that was refused is not counted");
    }
}
