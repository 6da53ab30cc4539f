//! `udf-executor`: one process that runs one user function between its queues (udf §3).
//!
//! arguments → setup (may allocate) → seal → run → exit code. Everything it needs is inherited: the
//! descriptors of the memory group by environment (`DFLOW_*`), files as `/proc/self/fd/N`
//! arguments.
//!
//! | file | what |
//! |---|---|
//! | `setup` | files, library, queues, init |
//! | `processor` | the function as a task of the loop that all executors share |
//! | `control` | control messages |
//! | `call`, `api`, `context`, `handles`, `view` | the C ABI, outwards and back |
//! | `node` | what the function works with |
//! | `fault` | before a death by a memory fault |
#![deny(unsafe_code)]

mod api;
mod call;
mod context;
mod control;
mod cpp;
mod fault;
mod handles;
mod node;
mod processor;
mod setup;
mod view;

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
    let logger = environment::logger("udf-executor");
    let code = match setup::start(std::env::args_os(), logger) {
        Ok(ready) => {
            let once = std::env::var_os(ALLOCATE_ONCE).is_some();
            interpose::seal();
            if once {
                drop(std::hint::black_box(Box::new(0_u64)));
            }
            match ready.processor.run(ready.resume, ready.bell) {
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
    ExitCode::from(executor_rt::exit::exit_code(Dialect::Udf, code))
}
