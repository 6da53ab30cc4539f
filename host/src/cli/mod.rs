//! The `dflow` command line.
//!
//! Results go to stdout, everything else to stderr. Exit codes are in `exit.rs` and in `dflow help
//! run`.

mod exit;
mod inputs;
mod inspect;
mod interrupt;
mod logs;
mod model;
mod progress;
mod ps;
mod report;
mod run;
mod stats;
mod values;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};

use crate::error::{DeployError, Error, PlanError, ReadError, Refused, shown_up_to};
use crate::plan::Limits;
use crate::tools::ToolError;
use crate::{graph_file, notice, render};

#[derive(Debug, Parser)]
#[command(
    name = "dflow",
    version,
    about = "Data-flow graphs of user functions and models",
    after_help = "Exit codes: 0 done, 1 refused or failed, 2 wrong usage; see also `dflow help run`"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a graph file here: deploy it, feed files, print what comes out
    Run(run::Args),
    /// Show what the nodes of a running flow wrote
    Logs(logs::Args),
    /// List running flows with their processes
    Ps,
    /// List every live mbuf of a running flow: who holds it, which id it carries
    Held {
        /// Flow name or process number of its supervisor; not needed while only one runs
        flow: Option<String>,
    },
    /// Check a graph file and draw it
    Graph {
        /// Graph file (.yaml, .yml or .json)
        file: PathBuf,
        /// What to draw as
        #[arg(long, value_enum, default_value_t = Picture::Mermaid)]
        format: Picture,
    },
    /// Plan a graph file and show processes, queues and the budget arithmetic
    Plan {
        /// Graph file (.yaml, .yml or .json)
        file: PathBuf,
        /// Print the plan as JSON
        #[arg(long)]
        json: bool,
        /// Compile models anew, without looking at or adding to the cache
        #[arg(long)]
        no_cache: bool,
    },
    /// Compile a model
    Compile {
        #[command(flatten)]
        source: model::Source,
        /// File to write; default: the model's name with `.om`
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Machines to pack weights for besides what every machine reads; a machine that finds none
        /// of its own packs them at load
        #[arg(long, value_name = "ISA", value_delimiter = ',')]
        isa: Vec<model::For>,
        /// Print what became of each node: which task, what it is a part of, and why not; compiles
        /// anew
        #[arg(long)]
        explain: bool,
    },
    /// Show what is in a model: tasks with shapes and FLOPs, weights, arena; how long they take
    Inspect(inspect::Args),
    /// Print the JSON schema of graph files, for editors
    Schema,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Picture {
    Mermaid,
    Dot,
    Svg,
}

/// Why a command failed; its text goes to stderr.
#[derive(Debug)]
enum Failure {
    /// A stage refused.
    Stage(Error),
    /// A running flow can't be looked at.
    Tool(ToolError),
    /// The command line does not fit the graph.
    Usage(String),
    /// Something of the system, in words.
    System(String),
}

impl Failure {
    /// Wrong usage, with the facts of every refusal.
    fn usage(what: &str, found: &str, expected: &str, hint: &str) -> Failure {
        Failure::Usage(facts(what, found, expected, hint))
    }

    /// The system refuses something.
    fn system(what: &str, found: &str, expected: &str, hint: &str) -> Failure {
        Failure::System(facts(what, found, expected, hint))
    }

    fn code(&self) -> u8 {
        match self {
            Self::Usage(_) => exit::USAGE,
            Self::Stage(Error::Deploy(DeployError::Stopped(_))) => exit::INTERRUPTED,
            _ => exit::FAILED,
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Stage(error) => error.fmt(f),
            Self::Tool(error) => error.fmt(f),
            Self::Usage(text) | Self::System(text) => f.write_str(text),
        }
    }
}

fn facts(what: &str, found: &str, expected: &str, hint: &str) -> String {
    format!("{what}\n  found:    {found}\n  expected: {expected}\n  to do:    {hint}")
}

macro_rules! stages {
    ($($error:ident),*) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::Stage(error.into())
            }
        })*
    };
}

stages!(ReadError, Refused, PlanError, DeployError);

impl From<ToolError> for Failure {
    fn from(error: ToolError) -> Self {
        Self::Tool(error)
    }
}

/// Runs the command of this process.
#[must_use]
pub fn main() -> ExitCode {
    match command(&Cli::parse().command) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            notice::to_stderr(&format!("error: {failure}\n"));
            ExitCode::from(failure.code())
        }
    }
}

fn command(command: &Command) -> Result<u8, Failure> {
    match command {
        Command::Run(args) => run::run(args),
        Command::Logs(args) => logs::run(args),
        Command::Ps => ps::ps(),
        Command::Held { flow } => ps::held(flow.as_deref()),
        Command::Graph { file, format } => {
            let flow = graph_file::read(file)?.check_structure()?;
            print(&match format {
                Picture::Mermaid => render::mermaid(&flow),
                Picture::Dot => render::dot(&flow),
                Picture::Svg => render::svg(&flow),
            })
        }
        Command::Compile { source, output, isa, explain } => {
            model::compile(source, output.as_deref(), isa, *explain)
        }
        Command::Inspect(args) => inspect::run(args),
        Command::Plan { file, json, no_cache } => {
            let mut graph = graph_file::read(file)?;
            graph.no_cache = *no_cache;
            let plan = graph.check()?.plan(&Limits::of_machine())?;
            if *json {
                return print(&(plan.to_json() + "\n"));
            }
            print(&plan.to_string())
        }
        Command::Schema => print(graph_file::SCHEMA),
    }
}

/// Prints a result; a reader that went away (`dflow graph … | head`) is no error.
fn print(text: &str) -> Result<u8, Failure> {
    write_out(text).map(|_| exit::DONE)
}

/// As [`print`]; false when nobody reads any more.
fn write_out(text: &str) -> Result<bool, Failure> {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::System(format!("can't write the result: {error}"))),
    }
}

/// Most characters of a cell.
const CELL_MAX: usize = 100;

/// A text that may come from a file, for a terminal: no control characters, and cut where it is
/// long.
fn shown(text: &str) -> String {
    shown_up_to(CELL_MAX, text)
}

/// Rows as columns two blanks apart; the first row is the heading. Numbers are set to the right.
fn table(rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| shown(cell)).collect()).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let is_number = |cell: &str| cell.starts_with(|c: char| c.is_ascii_digit());
    let right = |column: usize| {
        let mut body = rows.iter().skip(1).filter_map(|row| row.get(column));
        rows.len() > 1 && body.all(|cell| is_number(cell) || cell == "-")
    };
    let rights: Vec<bool> = (0..columns).map(right).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).zip(&rights);
        let cells: Vec<String> = cells
            .map(|((cell, width), right)| match right {
                true => format!("{cell:>width$}"),
                false => format!("{cell:<width$}"),
            })
            .collect();
        format!("{}\n", cells.join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn columns_line_up() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let text = table(&[row(["node", "n", "x"]), row(["a", "100", ""]), row(["bc", "7", "y"])]);
        assert_eq!(text, "node    n  x\na     100\nbc      7  y\n");
    }
}
