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

use executor_rt::process;
use executor_rt::server::Dialect;

executor_rt::interpose_malloc!();

fn main() -> ExitCode {
    let set_up = |logger| setup::start(std::env::args_os(), logger);
    process::run("udf-executor", Dialect::Udf, set_up, |ready| {
        ready.processor.run(ready.resume, ready.bell)
    })
}
