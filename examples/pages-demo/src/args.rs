//! Command line of the demo.

use clap::Parser;
use std::path::PathBuf;

/// Sends pages through processes of user functions and checks each, bit for bit, against the same
/// functions called in one process. Exit code 0: all checks passed.
#[derive(Debug, Parser)]
#[command(name = "pages-demo", version)]
pub(crate) struct Args {
    /// Images (PNG, JPEG) or directories of them; none: those in DFLOW_PAGES_DIR and rendered pages
    #[arg(value_name = "DIR_OR_FILE")]
    pub(crate) paths: Vec<PathBuf>,
    /// Kill a random process (kill -9) every second meanwhile
    #[arg(long)]
    pub(crate) chaos: bool,
    /// Go on for so many seconds with --chaos
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) seconds: u64,
    /// Feed every page so many times
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) repeat: u64,
    /// Render so many pages; 12 without DIR_OR_FILE, else 0
    #[arg(long, value_name = "N")]
    pub(crate) pages: Option<usize>,
    /// Choice of texts, noise and victims
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Don't compare with a run in one process
    #[arg(long)]
    pub(crate) no_check: bool,
    /// Print one JSON object instead of tables
    #[arg(long)]
    pub(crate) json: bool,
    /// Another graph file over the functions of `examples/pages`
    #[arg(long, value_name = "FILE", default_value_os_t = default_graph())]
    pub(crate) graph: PathBuf,
}

impl Args {
    /// Pages to render.
    pub(crate) fn rendered(&self) -> usize {
        self.pages.unwrap_or(if self.paths.is_empty() { 12 } else { 0 })
    }
}

fn default_graph() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../graphs/pages.yaml"))
}
