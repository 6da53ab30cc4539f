//! Looking at flows that run: who they are ([`flow`]), what their processes wrote ([`log`]), what
//! their memory groups hold ([`group`]).
//!
//! A running flow has no name on disk. Its supervisor is found by its name in `/proc`, and the
//! memory files it keeps open are opened again through `/proc/<pid>/fd`: plan, control segment,
//! arena, logs. Everything is opened for reading only, and nothing is asked of the flow: a stopped
//! one can be looked at like any other. Other users' flows are invisible.

pub mod flow;
pub mod group;
pub mod log;

use std::fmt;

pub use flow::{Flow, running, select};

/// Why a running flow could not be looked at.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ToolError {
    /// No flow of this user runs.
    None,
    /// No running flow, or no node of it, has this name.
    Unknown {
        /// What was asked for.
        name: String,
        /// What runs, one line a flow.
        running: Vec<String>,
    },
    /// More than one flow fits.
    Ambiguous {
        /// What runs, one line a flow.
        running: Vec<String>,
    },
    /// The flow is there, and something of it can't be read.
    Unreadable {
        /// Flow and file.
        what: String,
        /// Why.
        why: String,
    },
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str(
                "no flow runs\n  expected: a flow of this user\n  \
                 to do:    start one with `dflow run`",
            ),
            Self::Unknown { name, running } => {
                write!(f, "`{name}` is no running flow and no node of one\n  running:")?;
                list(f, running)?;
                f.write_str("\n  to do:    name one of these, by name or by process number")
            }
            Self::Ambiguous { running } => {
                f.write_str("more than one flow fits\n  running:")?;
                list(f, running)?;
                f.write_str("\n  to do:    name one of these, by process number if names are alike")
            }
            Self::Unreadable { what, why } => write!(
                f,
                "can't read {what}\n  found:    {why}\n  expected: a running flow of this user\n  \
                 to do:    see `dflow ps`; it may have ended meanwhile"
            ),
        }
    }
}

impl std::error::Error for ToolError {}

fn list(f: &mut fmt::Formatter<'_>, lines: &[String]) -> fmt::Result {
    if lines.is_empty() {
        return f.write_str("  nothing");
    }
    lines.iter().try_for_each(|line| write!(f, "\n    {line}"))
}
