//! The rate limiter of flow function logs (udf §1.17), pure: time is an argument.
//!
//! A token bucket gets `rate` tokens per full 1000 ms, at most `burst`; it starts full. Once it is
//! empty nothing passes until the next refill. Each limited class has its own bucket, so a flood of
//! warnings can't silence errors.

use super::{Level, Stream};

/// Milliseconds between two refills.
pub const REFILL_MS: u64 = 1000;

/// What to do with one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Write it.
    Pass,
    /// Drop it, and write one warning that messages are being dropped.
    DropAndWarn,
    /// Drop it.
    Drop,
}

/// One token bucket.
#[derive(Clone, Copy, Debug)]
pub struct TokenBucket {
    rate: u32,
    burst: u32,
    tokens: u32,
    refilled_ms: Option<u64>,
    warned: bool,
    dropped: u64,
}

impl TokenBucket {
    /// A full bucket with `rate` tokens per refill and `burst` at most.
    #[must_use]
    pub const fn new(rate: u32, burst: u32) -> Self {
        Self { rate, burst, tokens: burst, refilled_ms: None, warned: false, dropped: 0 }
    }

    /// Takes a token at `now_ms`, a monotonic time. The first call starts the refill clock.
    pub fn take(&mut self, now_ms: u64) -> Verdict {
        let since = *self.refilled_ms.get_or_insert(now_ms);
        let refills = now_ms.saturating_sub(since) / REFILL_MS;
        if refills > 0 {
            self.refill(refills);
            self.refilled_ms = Some(since.saturating_add(refills.saturating_mul(REFILL_MS)));
        }
        if let Some(left) = self.tokens.checked_sub(1) {
            self.tokens = left;
            return Verdict::Pass;
        }
        self.dropped = self.dropped.saturating_add(1);
        if core::mem::replace(&mut self.warned, true) {
            Verdict::Drop
        } else {
            Verdict::DropAndWarn
        }
    }

    /// Messages dropped so far.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    fn refill(&mut self, refills: u64) {
        let added = u64::from(self.rate).saturating_mul(refills);
        let tokens = u64::from(self.tokens).saturating_add(added).min(u64::from(self.burst));
        self.tokens = u32::try_from(tokens).unwrap_or(self.burst);
        self.warned = false;
    }
}

/// The buckets of one process.
#[derive(Clone, Copy, Debug)]
pub struct Limiter {
    info: TokenBucket,
    warn: TokenBucket,
    error: TokenBucket,
    run: TokenBucket,
}

impl Limiter {
    /// Full buckets with the rates of the specification.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            info: TokenBucket::new(100, 1000),
            warn: TokenBucket::new(50, 400),
            error: TokenBucket::new(50, 400),
            run: TokenBucket::new(50, 400),
        }
    }

    /// Decides about one message. The runtime's own lines and DEBUG are never limited.
    pub fn take(&mut self, stream: Stream, level: Level, now_ms: u64) -> Verdict {
        match (stream, level) {
            (Stream::Runtime, _) | (Stream::Debug, Level::Debug) => Verdict::Pass,
            (Stream::Debug, Level::Info) => self.info.take(now_ms),
            (Stream::Debug, Level::Warn) => self.warn.take(now_ms),
            (Stream::Debug, Level::Error) => self.error.take(now_ms),
            (Stream::Run, _) => self.run.take(now_ms),
        }
    }

    /// Dropped messages by class, for the line at shutdown.
    #[must_use]
    pub const fn dropped(&self) -> Dropped {
        Dropped {
            info: self.info.dropped(),
            warn: self.warn.dropped(),
            error: self.error.dropped(),
            run: self.run.dropped(),
        }
    }
}

impl Default for Limiter {
    fn default() -> Self {
        Self::new()
    }
}

/// How many messages the limiter dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// DEBUG_LOG messages of level INFO.
    pub info: u64,
    /// DEBUG_LOG messages of level WARN.
    pub warn: u64,
    /// DEBUG_LOG messages of level ERROR.
    pub error: u64,
    /// RUN_LOG messages.
    pub run: u64,
}

impl Dropped {
    /// True when nothing was dropped.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::{Limiter, Verdict};
    use crate::log::{Level, Stream};

    /// Messages out of 2000 that pass at `now_ms`.
    fn passed(limiter: &mut Limiter, stream: Stream, level: Level, now_ms: u64) -> usize {
        (0..2000).filter(|_| limiter.take(stream, level, now_ms) == Verdict::Pass).count()
    }

    /// Edge case 45, INFO: 1000, then 100 per refill up to 1000.
    #[test]
    fn info_has_a_burst_of_1000() {
        let mut limiter = Limiter::new();
        let mut at = |now_ms| passed(&mut limiter, Stream::Debug, Level::Info, now_ms);
        assert_eq!(at(5000), 1000);
        assert_eq!(at(5999), 0);
        assert_eq!(at(6000), 100);
        assert_eq!(at(8000), 200);
        assert_eq!(at(18_000), 1000);
        assert_eq!(at(99_000), 1000);
        assert_eq!(at(0), 0, "a clock that went back refills nothing");
    }

    /// Edge case 45, WARN, ERROR and RUN: 400, then 50 per refill.
    #[test]
    fn the_others_have_a_burst_of_400() {
        for (stream, level) in [
            (Stream::Debug, Level::Warn),
            (Stream::Debug, Level::Error),
            (Stream::Run, Level::Info),
            (Stream::Run, Level::Error),
        ] {
            let mut limiter = Limiter::new();
            assert_eq!(passed(&mut limiter, stream, level, 0), 400);
            assert_eq!(passed(&mut limiter, stream, level, 1000), 50);
            assert_eq!(passed(&mut limiter, stream, level, 3500), 100);
            assert_eq!(passed(&mut limiter, stream, level, 60_000), 400);
        }
    }

    #[test]
    fn debug_and_the_runtime_are_unlimited() {
        let mut limiter = Limiter::new();
        assert_eq!(passed(&mut limiter, Stream::Debug, Level::Debug, 0), 2000);
        assert_eq!(passed(&mut limiter, Stream::Runtime, Level::Error, 0), 2000);
        assert!(limiter.dropped().is_none());
    }

    #[test]
    fn one_warning_per_dry_spell_and_drops_are_counted() {
        let mut limiter = Limiter::new();
        let mut warnings = 0;
        for second in 0..3_u64 {
            for _ in 0..1000 {
                let verdict = limiter.take(Stream::Run, Level::Info, second * 1000);
                warnings += usize::from(verdict == Verdict::DropAndWarn);
            }
        }
        assert_eq!(warnings, 3);
        assert_eq!(limiter.dropped().run, 3000 - 400 - 50 - 50);
        assert_eq!(limiter.dropped().error, 0, "classes are apart");
    }
}
