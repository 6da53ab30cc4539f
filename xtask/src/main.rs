//! `cargo xtask`: the project's commands, the same for people and for CI.
//!
//! It is not a build system: every command ends in an ordinary `cargo` call that is printed first,
//! so that it can be repeated by hand. Standard library only, so that it builds in a second.

#![deny(unsafe_code)]

mod assets;
mod avx512;
mod context;
mod cpp;
mod demo;
mod elf;
mod figures;
mod models;
mod oracle;
mod probe;
mod process;
mod report;
mod setup;
mod sizes;
mod stages;
mod test;
mod wheels;

use std::process::ExitCode;

use crate::context::Context;

const HELP: &str = "\
cargo xtask demo                 all of these
cargo xtask demo pages [ARGS]    real pages through a pipeline of processes (ARGS go to the demo:
                                 a directory of your own images, --chaos, --help)
cargo xtask demo orientation [ARGS]
                                 pages in four rotations through a model; each answer beside that of
                                 the Python package
cargo xtask demo ocr [ARGS]      reads pages by models and functions; text and times beside those
                                 of the Python package (ARGS: your own pages, --help)
cargo xtask test [STAGE…]        all stages or the named ones, with counts, times and budgets
cargo xtask test --list          the stages, and those that run only by name
cargo xtask cpp                  headers and libflow_func.so for functions in C++, beside the
                                 release executors (the root that ASCEND_HOME_PATH names)
cargo xtask figures NAME [--full] [--write]
                                 measures; the last line is one JSON object; --write also
                                 appends it to docs/perf.md
cargo xtask figures --list       the figures
cargo xtask bench [ARGS]         criterion groups (ARGS go to cargo bench)
cargo xtask ci-sizes             sizes of the stripped executors against their ceilings";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let outcome = Context::find().and_then(|context| dispatch(&context, &args));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            if !message.is_empty() {
                eprintln!("xtask: {message}");
            }
            ExitCode::FAILURE
        }
    }
}

fn dispatch(context: &Context, args: &[String]) -> Result<(), String> {
    let (command, rest) = match args.split_first() {
        Some((command, rest)) => (command.as_str(), rest),
        None => ("help", args),
    };
    match command {
        "demo" => demo::run(context, rest),
        "cpp" => cpp::run(context),
        "test" => test::run(context, rest),
        "figures" => figures::run(context, rest),
        "bench" => figures::bench(context, rest),
        "ci-sizes" => sizes::run(context),
        "help" | "--help" | "-h" => {
            println!("{HELP}");
            Ok(())
        }
        other => Err(format!("unknown command `{other}`\n{HELP}")),
    }
}
