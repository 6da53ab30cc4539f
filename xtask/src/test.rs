//! `cargo xtask test`: runs the table of [`crate::stages`], stops at the first failure, counts.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use crate::avx512;
use crate::context::Context;
use crate::oracle;
use crate::process::{self, Line};
use crate::report::{Row, Tally, is_noise, skipped_of};
use crate::stages::{
    Action, BY_NAME, COMPILE_BUDGET_S, NOT_FOR_NEXTEST, Need, STAGES, Stage, Step, TOTAL_BUDGET_S,
};

/// Set by `.ci/run` to the second at which it began, so that building xtask counts too.
const STARTED_VARIABLE: &str = "DFLOW_CI_STARTED";

/// Multiplies every budget, for a slower machine or a cold registry cache.
const FACTOR_VARIABLE: &str = "DFLOW_BUDGET_FACTOR";

/// Runs all stages, or those named in `args`.
pub(crate) fn run(context: &Context, args: &[String]) -> Result<(), String> {
    if args.iter().any(|arg| arg == "--list") {
        for (stages, note) in [(STAGES, ""), (BY_NAME, " (only by name)")] {
            for stage in stages {
                println!("{:<14} {:>4} s  {}{note}", stage.name, stage.budget_s, stage.about);
            }
        }
        return Ok(());
    }
    let verbose = args.iter().any(|arg| arg == "--verbose");
    let chosen = choose(args)?;
    let begun = Instant::now();
    let before = seconds_before_start();
    let mut runner = Runner {
        context,
        verbose,
        factor: budget_factor()?,
        rows: Vec::new(),
        skipped: Vec::new(),
    };
    let mut failure = chosen.into_iter().find_map(|stage| runner.stage(stage).err());
    let total = begun.elapsed() + before;
    failure = failure.or_else(|| runner.over_budget(total));
    runner.summary(total, failure.as_deref());
    // The summary has said it; its count stays the last line.
    failure.map_or(Ok(()), |_| Err(String::new()))
}

fn choose(args: &[String]) -> Result<Vec<&'static Stage>, String> {
    let names: Vec<&String> = args.iter().filter(|arg| !arg.starts_with('-')).collect();
    if names.is_empty() {
        return Ok(STAGES.iter().collect());
    }
    let all = || STAGES.iter().chain(BY_NAME);
    for name in &names {
        if !all().any(|stage| stage.name == **name) {
            let known: Vec<&str> = all().map(|stage| stage.name).collect();
            return Err(format!("no stage `{name}`; there are: {}", known.join(", ")));
        }
    }
    Ok(all().filter(|stage| names.iter().any(|name| *name == stage.name)).collect())
}

fn budget_factor() -> Result<f64, String> {
    let Ok(text) = std::env::var(FACTOR_VARIABLE) else { return Ok(1.0) };
    match text.parse::<f64>() {
        Ok(factor) if factor >= 1.0 => Ok(factor),
        _ => Err(format!("{FACTOR_VARIABLE}={text}: expected a number of at least 1")),
    }
}

fn seconds_before_start() -> Duration {
    let started = std::env::var(STARTED_VARIABLE).ok().and_then(|text| text.parse().ok());
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    started.map_or(Duration::ZERO, |started| now.saturating_sub(Duration::from_secs(started)))
}

struct Runner<'a> {
    context: &'a Context,
    verbose: bool,
    factor: f64,
    rows: Vec<Row>,
    skipped: Vec<String>,
}

impl Runner<'_> {
    fn budget(&self, seconds: u64) -> Duration {
        Duration::from_secs(seconds).mul_f64(self.factor)
    }

    /// Runs one stage and keeps its row, also when it fails.
    fn stage(&mut self, stage: &'static Stage) -> Result<(), String> {
        println!("== {}: {}", stage.name, stage.about);
        let begun = Instant::now();
        let budget = self.budget(stage.budget_s);
        let (mut tally, mut compiling, mut outcome) = (Tally::default(), Duration::ZERO, Ok(()));
        for step in stage.steps {
            let step_begun = Instant::now();
            outcome = self.step(step, begun + budget, &mut tally);
            if step.compiles {
                compiling += step_begun.elapsed();
            }
            if outcome.is_err() {
                break;
            }
        }
        if outcome.is_err() && tally.failed == 0 {
            tally.add(Tally::FAIL);
        }
        let row = Row { stage: stage.name, tally, took: begun.elapsed(), compiling, budget };
        println!("{}\n", row.line());
        let late = row.took > budget;
        self.rows.push(row);
        match outcome {
            Ok(()) if late => Err(format!("stage {}: over its budget", stage.name)),
            outcome => outcome.map_err(|message| format!("stage {}: {message}", stage.name)),
        }
    }

    fn step(&mut self, step: &Step, deadline: Instant, tally: &mut Tally) -> Result<(), String> {
        if let Some(missing) = missing(step.needs) {
            println!("{missing}, skipped");
            self.skipped.push(missing);
            return Ok(());
        }
        let (mut command, counts) = match step.action {
            Action::Inner(function) => {
                for line in function(self.context)? {
                    println!("{line}");
                    tally.add(Tally::PASS);
                }
                return Ok(());
            }
            Action::Emulated => return self.emulated(deadline, tally),
            Action::Cargo(args) => (self.context.cargo(step.folder, args), false),
            Action::Test(args) => (self.tests("test", step.folder, args), !step.compiles),
            Action::Report(args) => (self.tests("test", step.folder, args), false),
            Action::Nextest(args) if has_nextest() => {
                let args = [&["-E", NOT_FOR_NEXTEST], args].concat();
                (self.tests("nextest run", step.folder, &args), !step.compiles)
            }
            Action::Nextest(args) => (self.tests("test", step.folder, args), !step.compiles),
            Action::NightlyTest(args) => {
                let args: Vec<&str> = [&["test"], args].concat();
                (self.context.cargo_of("nightly", step.folder, &args), !step.compiles)
            }
        };
        command.envs(step.env.iter().copied());
        if let Some(variant) = step.variant {
            command.env("CARGO_TARGET_DIR", self.context.variant_target(variant));
        }
        println!("$ {}{}", step.prefix(), process::show(&command));
        if matches!(step.action, Action::Report(_)) {
            return self.report(&mut command, deadline, tally);
        }
        let counted = self.command(&mut command, deadline, tally)?;
        match counts {
            true if counted.passed == 0 => {
                Err(format!("`{}` ran no test", process::show(&command)))
            }
            true => Ok(()),
            false => {
                tally.add(Tally::PASS);
                Ok(())
            }
        }
    }

    /// Runs npu's tests on an emulated processor; each is printed when it has ended, for they are
    /// slow.
    fn emulated(&self, deadline: Instant, tally: &mut Tally) -> Result<(), String> {
        let counted = avx512::run(self.context, deadline, |line| println!("  {line}"))?;
        tally.add(counted);
        match counted {
            Tally { passed: 0, failed: 0 } => Err("the emulated machine ran no test".to_owned()),
            Tally { failed: 0, .. } => Ok(()),
            Tally { failed, .. } => Err(format!("{failed} tests failed with AVX-512")),
        }
    }

    fn tests(&self, verb: &str, folder: &str, args: &[&str]) -> Command {
        let all: Vec<&str> = verb.split(' ').chain(args.iter().copied()).collect();
        self.context.cargo(folder, &all)
    }

    /// Runs a command with its noise removed; adds what its lines count.
    fn command(
        &self,
        command: &mut Command,
        deadline: Instant,
        tally: &mut Tally,
    ) -> Result<Tally, String> {
        let mut counted = Tally::default();
        let by_nextest = command.get_args().any(|arg| arg == "nextest");
        let status = process::run_lines(command, Some(deadline), |line| {
            let (Line::Out(text) | Line::Err(text)) = line;
            if let Some(count) = count_of(&text, by_nextest) {
                counted.add(count);
            }
            if self.verbose || !is_noise(&text) {
                println!("  {text}");
            }
        });
        tally.add(counted);
        match status? {
            status if status.success() => Ok(counted),
            status => Err(format!("`{}` failed: {status}", process::show(command))),
        }
    }

    /// Runs a command that reports; what it skips is listed at the end, and is not counted.
    fn report(
        &mut self,
        command: &mut Command,
        deadline: Instant,
        tally: &mut Tally,
    ) -> Result<(), String> {
        let (mut reports, mut skipped) = (0, Vec::new());
        let status = process::run_lines(command, Some(deadline), |line| {
            let (Line::Out(text) | Line::Err(text)) = line;
            if let Some(count) = Tally::of_report(&text) {
                reports += 1;
                tally.add(count);
            }
            skipped.extend(skipped_of(&text));
            if self.verbose || !is_noise(&text) {
                println!("  {text}");
            }
        });
        self.skipped.extend(skipped);
        match status? {
            status if status.success() && reports > 0 => Ok(()),
            status if status.success() => {
                Err(format!("`{}` reported nothing", process::show(command)))
            }
            status => Err(format!("`{}` failed: {status}", process::show(command))),
        }
    }

    fn compiling(&self) -> Duration {
        self.rows.iter().map(|row| row.compiling).sum()
    }

    fn over_budget(&self, total: Duration) -> Option<String> {
        if total > self.budget(TOTAL_BUDGET_S) {
            return Some(format!("the whole run took {} s, over its budget", total.as_secs()));
        }
        let compiling = self.compiling();
        (compiling > self.budget(COMPILE_BUDGET_S))
            .then(|| format!("compiling took {} s, over its budget", compiling.as_secs()))
    }

    fn summary(&self, total: Duration, failure: Option<&str>) {
        let mut tally = Tally::default();
        println!("== summary");
        for row in &self.rows {
            tally.add(row.tally);
            println!("{}", row.line());
        }
        for missing in &self.skipped {
            println!("skipped: {missing}");
        }
        println!(
            "total {} s of {} s, compiling {} s of {} s",
            total.as_secs(),
            self.budget(TOTAL_BUDGET_S).as_secs(),
            self.compiling().as_secs(),
            self.budget(COMPILE_BUDGET_S).as_secs()
        );
        if let Some(message) = failure {
            println!("FAILED {message}");
            if tally.failed == 0 {
                tally.add(Tally::FAIL);
            }
        }
        println!("{} passed, {} failed", tally.passed, tally.failed);
    }
}

/// What a line counts. Nextest shows what a failed test printed, and with it libtest's result of
/// that one test, which its own summary counts again.
fn count_of(line: &str, by_nextest: bool) -> Option<Tally> {
    let counts = !by_nextest || line.trim_start().starts_with("Summary [");
    counts.then(|| Tally::of_line(line)).flatten()
}

fn has_nextest() -> bool {
    process::output_of("cargo", &["nextest", "--version"]).is_some()
}

fn nightly_sysroot() -> Option<PathBuf> {
    process::output_of("rustup", &["run", "nightly", "rustc", "--print", "sysroot"])
        .map(PathBuf::from)
}

/// What the machine lacks of `need`, or `None` when it has all.
fn missing(need: Need) -> Option<String> {
    match need {
        Need::Nothing => None,
        Need::Nightly => nightly_sysroot()
            .is_none()
            .then(|| "AddressSanitizer: nightly toolchain not installed".to_owned()),
        Need::NightlySource => {
            let source = nightly_sysroot().map(|root| root.join("lib/rustlib/src/rust/library"));
            let present = source.is_some_and(|source| source.exists());
            (!present).then(|| "ThreadSanitizer: nightly rust-src not installed".to_owned())
        }
        Need::Oracle => oracle::unsupported(),
        Need::Target(triple) => {
            let installed =
                process::output_of("rustc", &["--print", "target-libdir", "--target", triple])
                    .is_some_and(|dir| PathBuf::from(dir).exists());
            (!installed).then(|| format!("{triple} target not installed"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_stage_is_refused_with_the_known_ones() {
        let error = choose(&["claims".to_owned()]).unwrap_err();
        assert!(error.contains("no stage `claims`") && error.contains("tidy"), "{error}");
    }

    #[test]
    fn no_name_means_every_stage() {
        assert_eq!(choose(&[]).unwrap().len(), STAGES.len());
        assert_eq!(choose(&["--verbose".to_owned(), "fmt".to_owned()]).unwrap().len(), 1);
        assert_eq!(choose(&["avx512".to_owned()]).unwrap().len(), 1);
    }

    #[test]
    fn a_failure_that_nextest_shows_counts_once() {
        let lines = [
            "        FAIL [   0.162s] (225/443) host::command run::a_fifo_is_read_to_its_end",
            "  stdout ───",
            "    running 1 test",
            "    test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 18 filtered out",
            "     Summary [   7.211s] 226/443 tests run: 225 passed, 1 failed, 0 skipped",
            "        FAIL [   0.162s] (225/443) host::command run::a_fifo_is_read_to_its_end",
            "error: test run failed",
        ];
        let mut tally = Tally::default();
        lines.iter().filter_map(|line| count_of(line, true)).for_each(|count| tally.add(count));
        assert_eq!(tally, Tally { passed: 225, failed: 1 });
        let by_libtest = "test result: FAILED. 2 passed; 1 failed; 0 ignored";
        assert_eq!(count_of(by_libtest, false), Some(Tally { passed: 2, failed: 1 }));
    }

    #[test]
    fn a_target_that_cannot_exist_is_said_to_be_missing() {
        assert!(missing(Need::Target("no-such-target")).unwrap().contains("not installed"));
        assert!(missing(Need::Nothing).is_none());
    }
}
