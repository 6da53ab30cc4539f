//! `npu-executor`: one process for one device; runs all its compiled models between their queues
//! (executor-deployer §1, §2).
//!
//! arguments → setup (may allocate) → seal → message server, with one thread a model → exit code.
//! Everything it needs is inherited: the descriptors of the memory group by environment
//! (`DFLOW_*`), load file and models as `/proc/self/fd/N`.
//!
//! | file | what |
//! |---|---|
//! | `setup` | attach, message queues, places, load file |
//! | `device`, `requests` | the main thread: waits, executes requests |
//! | `load`, `model` | what a load request must fit, files of models |
//! | `place` | one model's thread and the orders it gets |
//! | `task`, `tensor` | one run: inputs and outputs bound in place |
#![deny(unsafe_code)]

mod device;
mod load;
mod model;
mod place;
mod requests;
mod setup;
mod task;
mod tensor;

use std::process::ExitCode;

use executor_core::error::Code;
use executor_rt::node::{End, Failure};
use executor_rt::server::Dialect;
use executor_rt::{environment, interpose, report};

executor_rt::interpose_malloc!();

/// Environment: the runtime allocates once after seal, to show that the counter counts
/// (`figures alloc`); a debug build aborts then.
const ALLOCATE_ONCE: &str = "DFLOW_ALLOCATE_ONCE";

fn main() -> ExitCode {
    let logger = environment::logger("npu-executor");
    let words: Vec<String> = std::env::args_os()
        .map(|word| word.into_string().unwrap_or_else(|word| word.to_string_lossy().into_owned()))
        .collect();
    let code = match setup::start(&words, logger) {
        Ok((device, bell)) => {
            let once = std::env::var_os(ALLOCATE_ONCE).is_some();
            interpose::seal();
            if once {
                drop(std::hint::black_box(Box::new(0_u64)));
            }
            match device.run(bell) {
                End::Clean => Code::SUCCESS,
                End::Code(code) => code,
            }
        }
        Err(Failure::Clean) => Code::SUCCESS,
        Err(Failure::Code(code, text)) => {
            report::error(logger, None, format_args!("start-up failed: {text}: {code}"));
            code
        }
    };
    logger.report_dropped(&mut std::io::stderr(), executor_rt::log::Stamp::now());
    ExitCode::from(executor_rt::exit::exit_code(Dialect::BuiltIn, code))
}
