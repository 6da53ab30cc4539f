//! Runs the suite on a backend and says what came of it.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::cases::Case;
use super::{Backend, Presence, Step, Stop};

/// What came of the cases of one backend.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Its name.
    pub backend: &'static str,
    /// Names of the cases that held.
    pub passed: Vec<&'static str>,
    /// Those that did not, and why.
    pub failed: Vec<(&'static str, String)>,
    /// Those that were not run, and why.
    pub skipped: Vec<(&'static str, String)>,
}

impl Report {
    fn add(&mut self, name: &'static str, outcome: Step) {
        match outcome {
            Ok(()) => self.passed.push(name),
            Err(Stop::Skipped(why)) => self.skipped.push((name, why)),
            Err(Stop::Refused(why)) => self.failed.push((name, format!("refused: {why}"))),
            Err(Stop::Failed(why)) => self.failed.push((name, why)),
        }
    }
}

/// Reasons with the cases they hold for.
fn by_reason<'a>(cases: &'a [(&'static str, String)]) -> BTreeMap<&'a str, Vec<&'static str>> {
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    cases.iter().for_each(|(name, why)| reasons.entry(why).or_default().push(name));
    reasons
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.passed.len() + self.failed.len() + self.skipped.len();
        for (kind, cases) in [("failed", &self.failed), ("skipped", &self.skipped)] {
            for (why, names) in by_reason(cases) {
                let all = names.len() == count && count > 1;
                let which = if all { "all cases".to_owned() } else { names.join(", ") };
                writeln!(f, "{}: {kind} {} ({which}): {why}", self.backend, names.len())?;
            }
        }
        let (passed, failed) = (self.passed.len(), self.failed.len());
        let skipped = self.skipped.len();
        write!(f, "{}: passed {passed} failed {failed} skipped {skipped}", self.backend)
    }
}

/// Runs those of `cases` whose name contains `only`.
#[must_use]
pub fn run(backend: &dyn Backend, cases: &[Case], only: &str) -> Report {
    let mut report = Report { backend: backend.name(), ..Report::default() };
    let presence = backend.presence();
    for case in cases.iter().filter(|case| case.name.contains(only)) {
        let outcome = match &presence {
            Presence::Absent(why) => Err(Stop::Skipped(why.clone())),
            Presence::Unusable(why) => Err(Stop::Failed(why.clone())),
            Presence::Present => catch_unwind(AssertUnwindSafe(|| case.run(backend)))
                .unwrap_or_else(|_| Err(Stop::failed("it panicked"))),
        };
        report.add(case.name, outcome);
    }
    report
}

/// Runs the suite on each backend, for a program whose arguments are parts of names of cases;
/// prints the reports and gives its exit code.
#[must_use]
pub fn main(backends: &[Box<dyn Backend>], cases: &[Case]) -> std::process::ExitCode {
    let only = std::env::args().skip(1).find(|arg| !arg.starts_with('-')).unwrap_or_default();
    let mut clean = true;
    for backend in backends {
        let report = run(&**backend, cases, &only);
        println!("{report}");
        clean &= report.failed.is_empty();
    }
    std::process::ExitCode::from(u8::from(!clean))
}
