//! Counts: what the lines of test runners say, and the table at the end of a run.

use std::time::Duration;

/// Passed and failed, of tests or of steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Things that were run and held.
    pub(crate) passed: u64,
    /// Things that were run and did not.
    pub(crate) failed: u64,
}

impl Tally {
    /// One thing that held.
    pub(crate) const PASS: Self = Self { passed: 1, failed: 0 };
    /// One thing that did not.
    pub(crate) const FAIL: Self = Self { passed: 0, failed: 1 };

    /// Adds `other` to this one.
    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }

    /// What the last line of a report counts: `suite: passed N failed N skipped N`.
    pub(crate) fn of_report(line: &str) -> Option<Self> {
        let (_, counts) = line.split_once(": passed ")?;
        let words: Vec<&str> = counts.split(' ').collect();
        let [passed, "failed", failed, "skipped", _] = words[..] else { return None };
        Some(Self { passed: passed.parse().ok()?, failed: failed.parse().ok()? })
    }

    /// What a line of libtest or of nextest counts, if it is such a line.
    pub(crate) fn of_line(line: &str) -> Option<Self> {
        let counts = match line.trim().strip_prefix("test result: ") {
            Some(result) => result.split_once(". ").map_or(result, |(_, counts)| counts),
            None => line.split_once(" tests run: ").or(line.split_once(" test run: "))?.1,
        };
        let mut tally = Self::default();
        for part in counts.split([',', ';']) {
            let mut words = part.split_whitespace();
            let (Some(count), Some(word)) = (words.next(), words.next()) else { continue };
            let Ok(count) = count.parse::<u64>() else { continue };
            match word {
                "passed" => tally.passed += count,
                "failed" | "timed" | "exec" => tally.failed += count,
                _ => {}
            }
        }
        Some(tally)
    }
}

/// A finished stage.
#[derive(Debug)]
pub(crate) struct Row {
    /// Its name.
    pub(crate) stage: &'static str,
    /// What it counted.
    pub(crate) tally: Tally,
    /// How long it took, and how much of that was compiling.
    pub(crate) took: Duration,
    /// Time spent compiling.
    pub(crate) compiling: Duration,
    /// Its ceiling.
    pub(crate) budget: Duration,
}

impl Row {
    /// The row as a line of the table.
    pub(crate) fn line(&self) -> String {
        format!(
            "{:<14} {:>6} passed {:>4} failed {:>7.1} s of {:>4} s",
            self.stage,
            self.tally.passed,
            self.tally.failed,
            self.took.as_secs_f64(),
            self.budget.as_secs()
        )
    }
}

/// What a line of a report says was skipped, and why: `suite: skipped N (which): why`.
pub(crate) fn skipped_of(line: &str) -> Option<String> {
    let (suite, rest) = line.split_once(": skipped ")?;
    Some(format!("{suite}: {rest}"))
}

/// Lines of a command that say only that all is well.
pub(crate) fn is_noise(line: &str) -> bool {
    let text = line.trim_start();
    let cargo =
        ["Compiling ", "Checking ", "Downloading ", "Downloaded ", "Documenting ", "Fresh "];
    let tests = ["PASS [", "Finished ", "Running ", "Executable ", "Starting ", "Nextest run ID"];
    let rule = text.chars().all(|character| matches!(character, '─' | '-'));
    rule || cargo.iter().chain(&tests).any(|start| text.starts_with(start))
        || (text.starts_with("test ") && text.ends_with(" ... ok"))
        || text == "running 0 tests"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_libtest_lines() {
        let line =
            "test result: FAILED. 12 passed; 3 failed; 1 ignored; 0 measured; 0 filtered out";
        assert_eq!(Tally::of_line(line), Some(Tally { passed: 12, failed: 3 }));
    }

    #[test]
    fn counts_nextest_lines() {
        let good = "     Summary [   0.015s] 1 test run: 1 passed, 4 skipped";
        assert_eq!(Tally::of_line(good), Some(Tally { passed: 1, failed: 0 }));
        let bad =
            "Summary [ 9.1s] 5/9 tests run: 2 passed (1 slow, 1 leaky), 2 failed, 1 timed out";
        assert_eq!(Tally::of_line(bad), Some(Tally { passed: 2, failed: 3 }));
    }

    #[test]
    fn counts_reports_and_what_they_skip() {
        let line = "hil ascend: passed 3 failed 1 skipped 49";
        assert_eq!(Tally::of_report(line), Some(Tally { passed: 3, failed: 1 }));
        let why = "hil ascend: skipped 49 (all cases): HIL=1 is not set";
        assert_eq!(Tally::of_report(why), None);
        let listed = "hil ascend: 49 (all cases): HIL=1 is not set";
        assert_eq!(skipped_of(why).as_deref(), Some(listed));
        assert_eq!((skipped_of(line), Tally::of_line(line)), (None, None));
    }

    #[test]
    fn other_lines_count_nothing() {
        assert_eq!(Tally::of_line("test queue::full ... ok"), None);
        assert_eq!(Tally::of_line("5 passed, 0 failed"), None);
    }

    #[test]
    fn a_failure_is_never_noise() {
        assert!(is_noise("   Compiling sys v0.1.0"));
        assert!(is_noise("test a::b ... ok"));
        assert!(!is_noise("test a::b ... FAILED"));
        assert!(!is_noise("error[E0308]: mismatched types"));
    }
}
