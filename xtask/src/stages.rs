//! The stages of `cargo xtask test`, as data: one entry a stage, in the order they run.
//!
//! A stage is added with the thing it tests, never before. Budgets are seconds on two cores from
//! a warm registry cache; a stage that exceeds its own is killed and fails. Their sum may not
//! exceed [`TOTAL_BUDGET_S`], which a test below checks.

use crate::context::Context;
use crate::{assets, avx512, cpp, demo, models, oracle, probe, setup, sizes};

/// Ceiling of the whole run, seconds.
pub(crate) const TOTAL_BUDGET_S: u64 = 1200;

/// Ceiling of what is spent compiling, seconds, within [`TOTAL_BUDGET_S`].
pub(crate) const COMPILE_BUDGET_S: u64 = 600;

/// Tests that have no libtest, which nextest cannot list: `cargo test` runs them in a step of their
/// own, so their packages' other tests still get a process each. And `cpp`, a stage of its own.
pub(crate) const NOT_FOR_NEXTEST: &str = "not binary(/^(interpose|counting_alloc|processes|cpp)$/)";

/// One line of the final table.
#[derive(Debug)]
pub(crate) struct Stage {
    /// What one types after `cargo xtask test`.
    pub(crate) name: &'static str,
    /// What it shows, for `--list`.
    pub(crate) about: &'static str,
    /// Seconds after which it is killed.
    pub(crate) budget_s: u64,
    /// Commands in order; the first failure ends the run.
    pub(crate) steps: &'static [Step],
}

/// One command of a stage.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// What is done.
    pub(crate) action: Action,
    /// What the command is told through its environment.
    pub(crate) env: &'static [(&'static str, &'static str)],
    /// Its own build directory, when its flags differ from everything else's.
    pub(crate) variant: Option<&'static str>,
    /// Workspace it runs in, relative to the repository.
    pub(crate) folder: &'static str,
    /// What the machine must have; a missing one is said plainly and the step is skipped.
    pub(crate) needs: Need,
    /// Its time counts as compiling.
    pub(crate) compiles: bool,
}

/// What a step does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    /// A cargo command of the pinned toolchain; its success counts one.
    Cargo(&'static [&'static str]),
    /// `cargo test` with these arguments; counts its tests, running none is a failure.
    Test(&'static [&'static str]),
    /// The same by `cargo nextest run` where that is installed.
    Nextest(&'static [&'static str]),
    /// `cargo test` of a program that reports `passed N failed N skipped N` and why; counts those.
    /// All may be skipped, none is a failure.
    Report(&'static [&'static str]),
    /// `cargo test` of the nightly toolchain.
    NightlyTest(&'static [&'static str]),
    /// npu's tests on an emulated processor.
    Emulated,
    /// A function of this program; each line it returns counts one.
    Inner(fn(&Context) -> Result<Vec<String>, String>),
}

/// What a machine may lack.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Need {
    /// Nothing beyond the pinned toolchain.
    Nothing,
    /// The nightly toolchain, whose sanitizer runtimes come with it.
    Nightly,
    /// The nightly toolchain with the sources of std, to instrument std too.
    NightlySource,
    /// A Python that the oracle's wheels are pinned for.
    Oracle,
    /// A compilation target of the pinned toolchain.
    Target(&'static str),
}

impl Step {
    /// What one types before the command to repeat it by hand.
    pub(crate) fn prefix(&self) -> String {
        let variables = self.env.iter().map(|(name, value)| format!("{name}='{value}' "));
        let folder = if self.folder.is_empty() { "" } else { &format!("cd {} && ", self.folder) };
        variables.fold(folder.to_owned(), |prefix, variable| prefix + &variable)
    }
    const fn new(action: Action) -> Self {
        let (env, needs): (&'static [(&'static str, &'static str)], Need) = (&[], Need::Nothing);
        Self { action, env, variant: None, folder: "", needs, compiles: false }
    }
    const fn compiles(self) -> Self {
        Self { compiles: true, ..self }
    }
    const fn needs(self, needs: Need) -> Self {
        Self { needs, ..self }
    }
    const fn folder(self, folder: &'static str) -> Self {
        Self { folder, ..self }
    }
    const fn variant(
        self,
        variant: &'static str,
        env: &'static [(&'static str, &'static str)],
    ) -> Self {
        Self { variant: Some(variant), env, ..self }
    }
}

const fn cargo(args: &'static [&'static str]) -> Step {
    Step::new(Action::Cargo(args))
}
const fn test(args: &'static [&'static str]) -> Step {
    Step::new(Action::Test(args))
}
const fn nextest(args: &'static [&'static str]) -> Step {
    Step::new(Action::Nextest(args))
}
const fn nightly_test(args: &'static [&'static str]) -> Step {
    Step::new(Action::NightlyTest(args)).needs(Need::Nightly)
}
const fn report(args: &'static [&'static str]) -> Step {
    Step::new(Action::Report(args))
}
const fn inner(function: fn(&Context) -> Result<Vec<String>, String>) -> Step {
    Step::new(Action::Inner(function))
}
const fn check_target(triple: &'static str, args: &'static [&'static str]) -> Step {
    cargo(args).compiles().needs(Need::Target(triple))
}

/// Sanitizers want the target named, so that build scripts are built without them.
const SANITIZED: &str = "x86_64-unknown-linux-gnu";
const ASAN: &[(&str, &str)] = &[("RUSTFLAGS", "-Zsanitizer=address")];
const TSAN: &[(&str, &str)] = &[("RUSTFLAGS", "-Zsanitizer=thread")];

/// Thin LTO of loom's generated code costs more than it brings.
const LOOM: &[(&str, &str)] = &[("RUSTFLAGS", "--cfg loom"), ("CARGO_PROFILE_RELEASE_LTO", "off")];

/// The libraries, whose documentation has examples.
const DOC_TESTS: &[&str] = &[
    "--doc",
    "-p",
    "executor-core",
    "-p",
    "executor-rt",
    "-p",
    "flow-func",
    "-p",
    "host",
    "-p",
    "sys",
];

/// Everything `cargo xtask test` runs.
pub(crate) const STAGES: &[Stage] = &[
    Stage {
        name: "setup",
        about: "Debian packages, test images, models and the oracle that later stages need",
        budget_s: 70,
        steps: &[
            inner(setup::run),
            inner(assets::fetch),
            inner(models::fetch),
            inner(oracle::make).needs(Need::Oracle),
        ],
    },
    Stage {
        name: "fmt",
        about: "rustfmt changes nothing",
        budget_s: 10,
        steps: &[
            cargo(&["fmt", "--all", "--check"]),
            cargo(&["fmt", "--all", "--check"]).folder("examples"),
            cargo(&["fmt", "--check"]).folder("benches/rivals"),
            cargo(&["fmt", "--check"]).folder("tests/no-alloc-probe"),
        ],
    },
    Stage {
        name: "tidy",
        about: "rooms and arrows, sizes, words, unsafe files, licences, docs",
        budget_s: 50,
        steps: &[
            test(&["-p", "tests", "--test", "tidy", "--no-run"]).compiles(),
            test(&["-p", "tests", "--test", "tidy", "--", "--nocapture"]),
        ],
    },
    Stage {
        name: "clippy",
        about: "no warning in any target of the workspace",
        budget_s: 60,
        steps: &[
            cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]).compiles()
        ],
    },
    Stage {
        name: "build",
        about: "release executors under their size ceilings, libflow_func.so beside them",
        budget_s: 180,
        steps: &[
            cargo(demo::EXECUTORS).compiles(),
            cargo(&["build", "--profile", "udf", "-p", "faultfuncs", "-p", "testfuncs"]).compiles(),
            inner(sizes::check),
            inner(cpp::install).compiles(),
        ],
    },
    Stage {
        name: "probe",
        about: "executor-core links without std and without an allocator",
        budget_s: 30,
        steps: &[inner(probe::run).compiles()],
    },
    Stage {
        name: "unit",
        about: "unit, property and documentation tests of every package",
        budget_s: 130,
        steps: &[
            nextest(&["--workspace", "--exclude", "tests", "--no-run"]).compiles(),
            nextest(&["--workspace", "--exclude", "tests"]),
            cargo(&[
                "test",
                "-p",
                "executor-rt",
                "-p",
                "sys",
                "--test",
                "interpose",
                "--test",
                "counting_alloc",
                "--test",
                "processes",
            ]),
            test(DOC_TESTS),
        ],
    },
    Stage {
        name: "cpp",
        about: "functions in C++: headers, both string ABIs, samples in real executors",
        budget_s: 40,
        steps: &[
            test(&["-p", "udf-executor", "--test", "cpp", "--no-run"]).compiles(),
            test(&["-p", "udf-executor", "--test", "cpp"]),
        ],
    },
    Stage {
        name: "examples",
        about: "the examples, a workspace of their own: no warning, libraries unwind, tests",
        budget_s: 210,
        steps: &[
            cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])
                .folder("examples")
                .compiles(),
            cargo(&["build", "--workspace", "--profile", "udf"]).folder("examples").compiles(),
            test(&["--workspace", "--no-run"]).folder("examples").compiles(),
            test(&["--workspace"]).folder("examples"),
        ],
    },
    Stage {
        name: "loom",
        about: "models of core's algorithms and of every kill point, preemption bound 2",
        budget_s: 110,
        steps: &[
            test(&["-p", "executor-core", "--release", "--test", "loom", "--no-run"])
                .variant("loom", LOOM)
                .compiles(),
            test(&["-p", "executor-core", "--release", "--test", "loom"]).variant("loom", LOOM),
        ],
    },
    Stage {
        name: "flows",
        about: "whole flows of real processes: integration, and hostile peers fuzzed",
        budget_s: 50,
        steps: &[
            nextest(&["-p", "tests", "--test", "it", "--test", "fuzz", "--no-run"]).compiles(),
            nextest(&["-p", "tests", "--test", "it", "--test", "fuzz"]),
        ],
    },
    Stage {
        name: "conformance",
        about: "one suite for what runs models: in this process, and in real executors",
        budget_s: 30,
        steps: &[
            test(&["-p", "tests", "--lib", "--test", "conformance", "--test", "hil", "--no-run"])
                .compiles(),
            test(&["-p", "tests", "--lib"]),
            report(&["-p", "tests", "--test", "conformance"]),
        ],
    },
    Stage {
        name: "hil",
        about: "the same suite on a device of this machine, with HIL=1 and where one is",
        budget_s: 20,
        // A build step would count as passed where nothing is.
        steps: &[report(&["-p", "tests", "--test", "hil"])],
    },
    Stage {
        name: "fault",
        about: "every kind of process killed and stopped: nothing lost, nothing left, no hang",
        budget_s: 40,
        steps: &[
            inner(demo::prepare_examples).compiles(),
            cargo(&["build", "--workspace", "--profile", "udf"]).folder("examples").compiles(),
            cargo(&["build", "--release", "-p", "tests", "--bin", "figure-fault"]).compiles(),
            cargo(&["run", "--release", "-p", "tests", "--bin", "figure-fault", "--", "--smoke"]),
        ],
    },
    Stage {
        name: "bench",
        about: "every benchmark runs once",
        budget_s: 40,
        steps: &[
            // Unoptimised: what counts here is that each runs; times come from `cargo xtask bench`.
            cargo(&["test", "-p", "benches", "--benches"]).compiles(),
        ],
    },
    Stage {
        name: "sanitizers",
        about: "the core's tests under AddressSanitizer; ThreadSanitizer where std can be built",
        budget_s: 60,
        steps: &[
            nightly_test(&["-p", "executor-core", "--target", SANITIZED, "--no-run"])
                .variant("asan", ASAN)
                .compiles(),
            nightly_test(&["-p", "executor-core", "--target", SANITIZED]).variant("asan", ASAN),
            // An uninstrumented std makes ThreadSanitizer report races inside libtest.
            nightly_test(&["-Zbuild-std", "-p", "executor-core", "--target", SANITIZED])
                .variant("tsan", TSAN)
                .needs(Need::NightlySource),
        ],
    },
    Stage {
        name: "doc",
        about: "documentation builds without a warning",
        budget_s: 40,
        steps: &[Step {
            env: &[("RUSTDOCFLAGS", "-D warnings")],
            ..cargo(&["doc", "--workspace", "--no-deps"]).compiles()
        }],
    },
    Stage {
        name: "aarch64",
        about: "the workspace type-checks for 64-bit Arm, where that target is installed",
        budget_s: 30,
        steps: &[
            check_target(
                "aarch64-unknown-linux-gnu",
                &["check", "--workspace", "--target", "aarch64-unknown-linux-gnu"],
            ),
            check_target(
                "aarch64-unknown-linux-musl",
                &["check", "--workspace", "--target", "aarch64-unknown-linux-musl"],
            ),
        ],
    },
];

/// What runs only by its name: too slow for every run.
pub(crate) const BY_NAME: &[Stage] = &[Stage {
    name: "avx512",
    about: "npu's unit tests with AVX-512, on a processor that Bochs emulates",
    budget_s: 900,
    steps: &[inner(avx512::prepare), inner(avx512::build).compiles(), Step::new(Action::Emulated)],
}];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_add_up_to_no_more_than_the_total() {
        let sum: u64 = STAGES.iter().map(|stage| stage.budget_s).sum();
        assert!(sum <= TOTAL_BUDGET_S, "stages may take {sum} s of {TOTAL_BUDGET_S} s");
    }

    #[test]
    fn names_are_unique_and_every_stage_does_something() {
        let all: Vec<&Stage> = STAGES.iter().chain(BY_NAME).collect();
        for (index, stage) in all.iter().enumerate() {
            assert!(!stage.steps.is_empty(), "{} has no step", stage.name);
            assert!(all[..index].iter().all(|other| other.name != stage.name));
        }
    }
}
