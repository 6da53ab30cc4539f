//! An executor's process from its first instruction to its exit code: what is the same in all of
//! them.
//!
//! prepare → set-up (may allocate) → seal → work → exit code. Set-up and work are the executor's.

use std::process::ExitCode;
use std::sync::atomic::Ordering;

use executor_core::error::Code;
use sys::process;
use sys::signal::{Signal, install_flag};

use crate::log::{Logger, Stamp};
use crate::node::{End, Failure, TERMINATED, WRITE_REFUSED};
use crate::server::Dialect;
use crate::{environment, exit, interpose, report};

/// Environment: the runtime allocates once after seal, to show that the counter counts
/// (`figures alloc`); a debug build aborts then.
const ALLOCATE_ONCE: &str = "DFLOW_ALLOCATE_ONCE";

/// All of an executor: what `set_up` makes, `work` runs after seal. Its log is named after its node
/// or `name`.
pub fn run<R>(
    name: &str,
    dialect: Dialect,
    set_up: impl FnOnce(&'static Logger) -> Result<R, Failure>,
    work: impl FnOnce(R) -> End,
) -> ExitCode {
    let logger = environment::logger(name);
    let code = match prepare(dialect).and_then(|()| set_up(logger)) {
        Ok(ready) => {
            let once = std::env::var_os(ALLOCATE_ONCE).is_some();
            interpose::seal();
            if once {
                drop(std::hint::black_box(Box::new(0_u64)));
            }
            match work(ready) {
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
    logger.report_dropped(&mut std::io::stderr(), Stamp::now());
    ExitCode::from(exit::exit_code(dialect, code))
}

/// Limits, process group and signals.
fn prepare(dialect: Dialect) -> Result<(), Failure> {
    let system = |e: sys::SysError| Failure::new(dialect.failed(), e.to_string());
    process::limit_core_dumps().map_err(system)?;
    // EPERM: it leads a session, and so a group, already.
    let _leads = process::new_process_group();
    install_flag(Signal::TERM, &TERMINATED).map_err(system)?;
    // Not ignored but handled: programs that a function executes keep the default.
    install_flag(Signal::XFSZ, &WRITE_REFUSED).map_err(system)
}

/// Why the process ends, as a line; with `id` where a set under way made it end.
pub fn say_end(logger: &Logger, end: End, id: Option<u64>) {
    match end {
        End::Code(code) => report::error(logger, id, format_args!("the process ends: {code}")),
        End::Clean => {
            let term = TERMINATED.load(Ordering::Relaxed);
            let why = if term { "SIGTERM" } else { "a finalize message" };
            report::info(logger, None, format_args!("the process ends: {why}"));
        }
    }
}
