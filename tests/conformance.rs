//! The conformance suite on what runs everywhere: the software NPU in this process, and real
//! executors. `cargo test -p tests --test conformance -- NAME` runs the cases whose name contains
//! NAME.
#![deny(unsafe_code)]

use std::process::ExitCode;

use tests::conformance::Backend;
use tests::conformance::cases;
use tests::conformance::executors::Executors;
use tests::conformance::run;
use tests::conformance::software_npu::SoftwareNpu;
use tests::flows;

fn main() -> ExitCode {
    // One of these a case would hide the rest.
    dflow::notice::to(|line| {
        if !line.starts_with("compile ") {
            eprintln!("{line}");
        }
    });
    // Not built by this test's build: an old one would be tested without a word.
    println!("executors: {}", flows::program("npu-executor").display());
    let backends: [Box<dyn Backend>; 2] = [Box::new(SoftwareNpu), Box::new(Executors)];
    run::main(&backends, &cases::all())
}
