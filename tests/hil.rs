//! The conformance suite on a device of this machine: when `HIL=1` and one is there. Otherwise it
//! says why not; a device that is there and cannot be driven is a failure.
#![deny(unsafe_code)]

use std::process::ExitCode;

use tests::conformance::Backend;
use tests::conformance::ascend::Ascend;
use tests::conformance::cases;
use tests::conformance::run;

fn main() -> ExitCode {
    let backends: [Box<dyn Backend>; 1] = [Box::new(Ascend::of_environment())];
    run::main(&backends, &cases::all())
}
