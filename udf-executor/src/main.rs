//! `udf-executor`: one process that runs one user function between its queues (udf §3).
//!
//! arguments → setup (may allocate) → seal → run → exit code. Everything it needs is inherited: the
//! descriptors of the memory group by environment (`DFLOW_*`), files as `/proc/self/fd/N`
//! arguments.
//!
//! | file | what |
//! |---|---|
//! | `setup` | files, library, queues, init |
//! | `state`, `processor` | states as a table, the loop that goes through them |
//! | `reader`, `writer`, `control` | inputs, outputs, message queues |
//! | `call`, `api`, `context`, `handles`, `view` | the C ABI, outwards and back |
//! | `node`, `holders` | what the function works with; waiting; who holds the mbufs |
//! | `adopt`, `fault` | after a death; before one |
#![deny(unsafe_code)]

mod adopt;
mod api;
mod call;
mod context;
mod control;
mod fault;
mod handles;
mod holders;
mod node;
mod processor;
mod reader;
mod report;
mod setup;
mod state;
mod view;
mod writer;

use std::process::ExitCode;

use executor_core::error::Code;
use executor_rt::interpose;
use executor_rt::server::Dialect;

executor_rt::interpose_malloc!();

/// Environment: the runtime allocates once after seal, to show that the counter counts
/// (`figures alloc`); a debug build aborts then.
const ALLOCATE_ONCE: &str = "DFLOW_ALLOCATE_ONCE";

fn main() -> ExitCode {
    let logger = setup::logger();
    let code = match setup::start(std::env::args_os(), logger) {
        Ok(ready) => {
            let once = std::env::var_os(ALLOCATE_ONCE).is_some();
            interpose::seal();
            if once {
                drop(std::hint::black_box(Box::new(0_u64)));
            }
            match ready.processor.run(ready.resume, ready.bell) {
                node::End::Clean => Code::SUCCESS,
                node::End::Code(code) => code,
            }
        }
        Err(setup::Failure::Clean) => Code::SUCCESS,
        Err(setup::Failure::Code(code, text)) => {
            report::error(logger, None, format_args!("start-up failed: {text}: {code}"));
            code
        }
    };
    logger.report_dropped(&mut std::io::stderr(), executor_rt::log::Stamp::now());
    ExitCode::from(executor_rt::exit::exit_code(Dialect::Udf, code))
}
