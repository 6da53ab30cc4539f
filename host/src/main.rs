//! The `dflow` command; everything is in [`dflow::cli`].
#![deny(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    dflow::cli::main()
}
