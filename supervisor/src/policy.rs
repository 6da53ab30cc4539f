//! When an executor that ended is started again. Pure: time is an argument.
//!
//! ```text
//! death ── lived ≥ window? ── yes ─→ count := 0
//!    └─ may it? (never / max) ── no ─→ Fail
//!            └─ count += 1, wait backoff · 2^(count-1), at most backoff_max
//! ```
//! How it ended does not matter: nobody asked for it, so an exit with code 0 (a SIGTERM from
//! outside, an `exit(0)` of the function) is a failure like any other.

use executor_rt::plan::{Restart, RestartWhen};
use sys::clock::MonoTime;

/// What follows a death.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Decision {
    /// Start a successor at this time.
    Restart(MonoTime),
    /// No successor: nobody serves the slot any more.
    Fail,
}

/// Restarts in a row of one node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Policy {
    count: u32,
}

impl Policy {
    /// Decides at `now` about a process that lived `lived_ms` and ended unasked.
    pub(crate) fn decide(&mut self, rule: &Restart, now: MonoTime, lived_ms: u64) -> Decision {
        if rule.window_ms != 0 && lived_ms >= rule.window_ms {
            self.count = 0;
        }
        let wanted = match rule.when {
            RestartWhen::Never => false,
            RestartWhen::OnFailure | RestartWhen::Always => true,
        };
        if !wanted || (rule.max != 0 && self.count >= rule.max) {
            return Decision::Fail;
        }
        let factor = 1u64.checked_shl(self.count).unwrap_or(u64::MAX);
        self.count = self.count.saturating_add(1);
        Decision::Restart(
            now.add_ms(rule.backoff_ms.saturating_mul(factor).min(rule.backoff_max_ms)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::{Decision, MonoTime, Policy, Restart, RestartWhen};

    const RULE: Restart = Restart {
        when: RestartWhen::OnFailure,
        max: 0,
        backoff_ms: 10,
        backoff_max_ms: 55,
        window_ms: 1000,
    };
    const NOW: MonoTime = MonoTime::from_ns(7_000_000);

    fn waits(policy: &mut Policy, rule: &Restart, lived: &[u64]) -> Vec<Option<u64>> {
        let decide = |lived: &u64| match policy.decide(rule, NOW, *lived) {
            Decision::Restart(at) => Some(at.since_ns(NOW) / 1_000_000),
            Decision::Fail => None,
        };
        lived.iter().map(decide).collect()
    }

    #[test]
    fn back_off_doubles_up_to_its_maximum_and_starts_anew_after_the_window() {
        let found = waits(&mut Policy::default(), &RULE, &[0, 1, 999, 2, 1000, 3]);
        assert_eq!(found, [Some(10), Some(20), Some(40), Some(55), Some(10), Some(20)]);
    }

    #[test]
    fn back_off_never_overflows() {
        let rule = Restart { backoff_ms: u64::MAX / 2, backoff_max_ms: u64::MAX, ..RULE };
        let mut policy = Policy { count: 200 };
        assert_eq!(policy.decide(&rule, NOW, 0), Decision::Restart(MonoTime::MAX));
        policy.count = u32::MAX;
        assert_eq!(waits(&mut policy, &RULE, &[0, 0]), [Some(55), Some(55)]);
    }

    #[test]
    fn the_maximum_counts_restarts_in_a_row() {
        let rule = Restart { max: 2, ..RULE };
        let found = waits(&mut Policy::default(), &rule, &[0, 0, 1000, 0, 0]);
        assert_eq!(found, [Some(10), Some(20), Some(10), Some(20), None]);
        let endless = Restart { window_ms: 0, ..rule };
        assert_eq!(waits(&mut Policy::default(), &endless, &[9999, 9999, 9999])[2], None);
    }

    #[test]
    fn an_unasked_end_restarts_unless_never() {
        let end = |when| Policy::default().decide(&Restart { when, ..RULE }, NOW, 0);
        assert_eq!(end(RestartWhen::OnFailure), Decision::Restart(NOW.add_ms(10)));
        assert_eq!(end(RestartWhen::Always), Decision::Restart(NOW.add_ms(10)));
        assert_eq!(end(RestartWhen::Never), Decision::Fail);
    }
}
