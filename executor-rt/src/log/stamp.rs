//! Time stamps of log lines: wall clock for people, monotonic clock for order.

use core::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use sys::clock::MonoTime;

const NS_PER_S: u64 = 1_000_000_000;
const S_PER_DAY: u64 = 86_400;

/// When a line was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// Nanoseconds since 1970, UTC.
    pub wall_ns: u64,
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    pub mono_ns: u64,
}

impl Stamp {
    /// Both clocks now.
    #[must_use]
    pub fn now() -> Self {
        Self::with_monotonic(MonoTime::now().as_ns())
    }

    /// The wall clock now beside a monotonic time that the caller read.
    #[must_use]
    pub fn with_monotonic(mono_ns: u64) -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { wall_ns: u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX), mono_ns }
    }

    /// Monotonic milliseconds, for the rate limiter.
    #[must_use]
    pub const fn mono_ms(self) -> u64 {
        self.mono_ns / 1_000_000
    }

    pub(super) fn parse(wall: &str, mono: &str) -> Option<Self> {
        Some(Self { wall_ns: parse_wall(wall)?, mono_ns: parse_seconds(mono)? })
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.wall_ns / NS_PER_S;
        let (year, month, day) = date_of(seconds / S_PER_DAY);
        let rest = seconds % S_PER_DAY;
        let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")?;
        write!(f, ".{:09}Z ", self.wall_ns % NS_PER_S)?;
        write!(f, "{}.{:09}", self.mono_ns / NS_PER_S, self.mono_ns % NS_PER_S)
    }
}

/// Proleptic Gregorian date of a day number since 1970-01-01 (years start in March inside).
fn date_of(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468; // since 0000-03-01
    let era = days / 146_097;
    let of_era = days % 146_097;
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

fn days_of(year: u64, month: u64, day: u64) -> Option<u64> {
    let year = year.checked_sub(u64::from(month <= 2))?;
    let from_march = if month > 2 { month - 3 } else { month + 9 };
    let year_of_era = year % 400;
    let of_year = (153 * from_march + 2) / 5 + day.checked_sub(1)?;
    let of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year;
    (year / 400 * 146_097 + of_era).checked_sub(719_468)
}

fn parse_wall(text: &str) -> Option<u64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let mut date = date.split('-').map(digits);
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let (hours, rest) = time.split_once(':')?;
    let (minutes, seconds) = rest.split_once(':')?;
    let (hours, minutes) = (digits(hours)?, digits(minutes)?);
    let in_range = (1..=12).contains(&month) && day <= 31 && hours < 24 && minutes < 60;
    if !in_range || year > 2600 || date.next().is_some() {
        return None;
    }
    let before = days_of(year, month, day)? * S_PER_DAY + hours * 3600 + minutes * 60;
    before.checked_mul(NS_PER_S)?.checked_add(parse_seconds(seconds)?)
}

fn parse_seconds(text: &str) -> Option<u64> {
    let (seconds, fraction) = text.split_once('.')?;
    if fraction.len() != 9 {
        return None;
    }
    digits(seconds)?.checked_mul(NS_PER_S)?.checked_add(digits(fraction)?)
}

fn digits(text: &str) -> Option<u64> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::Stamp;

    #[test]
    fn known_dates() {
        for (wall_ns, text) in [
            (0, "1970-01-01T00:00:00.000000000Z"),
            (951_782_399_000_000_001, "2000-02-28T23:59:59.000000001Z"),
            (951_782_400_000_000_000, "2000-02-29T00:00:00.000000000Z"),
            (1_798_761_599_999_999_999, "2026-12-31T23:59:59.999999999Z"),
            (4_107_542_400_000_000_000, "2100-03-01T00:00:00.000000000Z"),
        ] {
            let stamp = Stamp { wall_ns, mono_ns: 12_000_000_034 };
            let shown = stamp.to_string();
            assert_eq!(shown, format!("{text} 12.000000034"));
            assert_eq!(Stamp::parse(text, "12.000000034"), Some(stamp));
        }
        assert_eq!(Stamp::parse("1970-13-01T00:00:00.000000000Z", "1.000000000"), None);
        assert_eq!(Stamp::parse("1970-01-00T00:00:00.000000000Z", "1.000000000"), None);
        assert!(Stamp::with_monotonic(5).to_string().ends_with("Z 0.000000005"));
    }
}
