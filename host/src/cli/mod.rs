//! The `dflow` command line.
//!
//! Exit codes: 0 done; 1 the graph was refused or something failed; 2 wrong usage.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};

use crate::error::Error;
use crate::plan::Limits;
use crate::{graph_file, render};

#[derive(Debug, Parser)]
#[command(name = "dflow", version, about = "Data-flow graphs of user functions")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
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
    },
    /// Print the JSON schema of graph files, for editors
    Schema,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Picture {
    Mermaid,
    Dot,
    Svg,
}

/// Runs the command of this process.
#[must_use]
pub fn main() -> ExitCode {
    match run(&Cli::parse().command) {
        Ok(text) => print(&text),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: &Command) -> Result<String, Error> {
    match command {
        Command::Graph { file, format } => {
            let flow = graph_file::read(file)?.check_structure()?;
            Ok(match format {
                Picture::Mermaid => render::mermaid(&flow),
                Picture::Dot => render::dot(&flow),
                Picture::Svg => render::svg(&flow),
            })
        }
        Command::Plan { file, json } => {
            let plan = graph_file::read(file)?.check()?.plan(&Limits::of_machine())?;
            if *json {
                return Ok(plan.to_json() + "\n");
            }
            Ok(plan.to_string())
        }
        Command::Schema => Ok(graph_file::SCHEMA.to_owned()),
    }
}

/// Prints the result; a reader that went away (`dflow graph … | head`) is no error.
fn print(text: &str) -> ExitCode {
    use std::io::Write as _;
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            eprintln!("error: can't write the result: {error}");
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}
