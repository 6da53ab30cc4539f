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
//! | `cores` | who computes, who waits for a core |
//! | `task`, `tensor` | one run: inputs and outputs bound in place |
#![deny(unsafe_code)]

mod cores;
mod device;
mod load;
mod model;
mod place;
mod requests;
mod setup;
mod task;
mod tensor;

use std::process::ExitCode;

use executor_rt::process;
use executor_rt::server::Dialect;

executor_rt::interpose_malloc!();

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args_os()
        .map(|word| word.into_string().unwrap_or_else(|word| word.to_string_lossy().into_owned()))
        .collect();
    let set_up = |logger| setup::start(&words, logger);
    process::run("npu-executor", Dialect::BuiltIn, set_up, |(device, bell)| device.run(bell))
}
