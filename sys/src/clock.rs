//! The monotonic clock: the same value in every process of the machine, so a deadline may be
//! shared.
//!
//! It does not stop while a process is stopped, and it does not count suspended time.
#![allow(unsafe_code, reason = "clock_gettime")]

use core::fmt;
use core::time::Duration;

/// Nanoseconds per millisecond.
const NS_PER_MS: u64 = 1_000_000;
/// Nanoseconds per second.
const NS_PER_S: u64 = 1_000_000_000;

/// A point in time on `CLOCK_MONOTONIC`, in nanoseconds. Arithmetic saturates.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MonoTime(u64);

impl MonoTime {
    /// The earliest time.
    pub const ZERO: Self = Self(0);
    /// The latest time: a deadline that never comes.
    pub const MAX: Self = Self(u64::MAX);

    /// `int clock_gettime(clockid_t clockid, struct timespec *tp);` with `CLOCK_MONOTONIC`.
    ///
    /// # References
    /// clock_gettime(2)
    #[must_use]
    pub fn now() -> Self {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` is a valid timespec to write to; the call has no other effect.
        let result = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
        assert_eq!(result, 0, "CLOCK_MONOTONIC exists on every Linux");
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        let nanoseconds = u64::try_from(time.tv_nsec).unwrap_or(0);
        Self(seconds.saturating_mul(NS_PER_S).saturating_add(nanoseconds))
    }

    /// A time from nanoseconds of the clock.
    #[must_use]
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns)
    }

    /// Nanoseconds of the clock.
    #[must_use]
    pub const fn as_ns(self) -> u64 {
        self.0
    }

    /// This time plus milliseconds.
    #[must_use]
    pub const fn add_ms(self, ms: u64) -> Self {
        self.add_ns(ms.saturating_mul(NS_PER_MS))
    }

    /// This time plus nanoseconds.
    #[must_use]
    pub const fn add_ns(self, ns: u64) -> Self {
        Self(self.0.saturating_add(ns))
    }

    /// This time plus a duration.
    #[must_use]
    pub fn add_duration(self, duration: Duration) -> Self {
        self.add_ns(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Time since `earlier`; zero when `earlier` is later.
    #[must_use]
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.since_ns(earlier))
    }

    /// Nanoseconds since `earlier`; zero when `earlier` is later.
    #[must_use]
    pub const fn since_ns(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Whether this deadline has come at `now`.
    #[must_use]
    pub const fn is_past(self, now: Self) -> bool {
        self.0 <= now.0
    }

    /// The same time as the kernel's structure.
    pub(crate) fn as_timespec(self) -> libc::timespec {
        timespec(self.0)
    }
}

/// A span of nanoseconds as the kernel's structure.
pub(crate) fn timespec(ns: u64) -> libc::timespec {
    libc::timespec {
        tv_sec: libc::time_t::try_from(ns / NS_PER_S).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::try_from(ns % NS_PER_S).unwrap_or(0),
    }
}

impl fmt::Debug for MonoTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}s", self.0 / NS_PER_S, self.0 % NS_PER_S)
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, MonoTime};

    #[test]
    fn the_clock_does_not_go_back() {
        let first = MonoTime::now();
        let second = MonoTime::now();
        assert!(second >= first);
        assert!(first > MonoTime::ZERO);
    }

    #[test]
    fn arithmetic_saturates() {
        let time = MonoTime::from_ns(1_500_000_000);
        assert_eq!(time.add_ms(2).as_ns(), 1_502_000_000);
        assert_eq!(time.add_duration(Duration::from_millis(2)), time.add_ms(2));
        assert_eq!(MonoTime::MAX.add_ms(1), MonoTime::MAX);
        assert_eq!(time.add_ms(1).saturating_since(time), Duration::from_millis(1));
        assert_eq!(time.saturating_since(time.add_ms(1)), Duration::ZERO);
        assert!(time.is_past(time));
        assert!(!time.add_ns(1).is_past(time));
    }

    #[test]
    fn timespec_splits_seconds_and_nanoseconds() {
        let spec = MonoTime::from_ns(1_500_000_007).as_timespec();
        assert_eq!((spec.tv_sec, spec.tv_nsec), (1, 500_000_007));
        assert!(MonoTime::MAX.as_timespec().tv_sec > 0);
    }

    #[test]
    fn debug_shows_seconds() {
        assert_eq!(format!("{:?}", MonoTime::from_ns(1_000_000_001)), "1.000000001s");
    }
}
