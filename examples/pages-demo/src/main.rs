//! `pages-demo`: scanned pages through several processes of user functions, each page compared, bit
//! for bit, with the same functions in one process; with `--chaos` while processes are killed.
//!
//! ```text
//! input ──► flow (graph, sized for the pages) ──► reference (this process)
//!             └──► session ──► run (feed, fetch)  ──► table, verdict ──► report
//!                                 ▲ chaos
//! ```

mod args;
mod chaos;
mod demo;
mod flow;
mod hop;
mod input;
mod outcome;
mod processes;
mod reference;
mod report;
mod run;
mod style;
mod table;
mod verdict;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    match demo::run(&args::Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
