//! Why a file is no program that can run here.

use std::fmt;

use crate::ops::OpError;
use crate::program::packed::isa_name;
use crate::program::{FORMAT_VERSION, Section};

/// Why a program is refused. Texts name the section and the value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OmError {
    /// The memory does not begin at a multiple of 64.
    Misaligned,
    /// The file is shorter than it has to be.
    Truncated {
        /// What would have been read.
        what: &'static str,
        /// Bytes that there are.
        found: usize,
        /// Bytes that there should be.
        expected: usize,
    },
    /// The file is no program.
    Magic,
    /// Written by a newer compiler.
    Newer {
        /// Version of the file.
        found: u32,
    },
    /// A value of the header or of the section table is impossible.
    Header(String),
    /// Bytes have changed since they were written.
    Checksum {
        /// Where; `None` for header and section table.
        section: Option<Section>,
    },
    /// A record holds an impossible value.
    Value {
        /// Its section.
        section: Section,
        /// Index of the record.
        index: usize,
        /// What is wrong with it.
        what: String,
    },
    /// Weights for one kind of machine are damaged, or do not fit the tasks.
    Packed {
        /// Number of that kind.
        isa: u32,
        /// Index of the entry; `None` for the section.
        entry: Option<usize>,
        /// What is wrong with it.
        what: String,
    },
    /// A task's op refuses its parameters or tensors.
    Op {
        /// Index of the task.
        task: usize,
        /// Name of the node that it was compiled from.
        name: String,
        /// Name of the op.
        op: &'static str,
        /// Why.
        error: OpError,
    },
}

impl OmError {
    pub(super) fn value(section: Section, index: usize, what: impl Into<String>) -> Self {
        Self::Value { section, index, what: what.into() }
    }

    pub(super) fn packed(isa: u32, entry: Option<usize>, what: String) -> Self {
        Self::Packed { isa, entry, what }
    }
}

impl fmt::Display for OmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let again = "compile the model again";
        match self {
            Self::Misaligned => {
                f.write_str("program: does not begin at a multiple of 64; map the file")
            }
            Self::Truncated { what, found, expected } => write!(
                f,
                "program: truncated in the {what}: {found} bytes, expected {expected}; {again}"
            ),
            Self::Magic => f.write_str("program: not an OM file of dflow (wrong magic)"),
            Self::Newer { found } => write!(
                f,
                "program: format version {found}; this build reads up to {FORMAT_VERSION}; {again} \
                 with this build, or use a newer one"
            ),
            Self::Header(what) => write!(f, "program: header: {what}; {again}"),
            Self::Checksum { section: None } => {
                write!(f, "program: header or section table damaged (checksum); {again}")
            }
            Self::Checksum { section: Some(section) } => {
                write!(f, "program: section {section} damaged (checksum); {again}")
            }
            Self::Value { section, index, what } => {
                write!(f, "program: section {section}, entry {index}: {what}; {again}")
            }
            Self::Packed { isa, entry, what } => {
                let entry = entry.map_or(String::new(), |entry| format!(", entry {entry}"));
                let isa = isa_name(*isa);
                write!(f, "program: section PACKED for isa {isa}{entry}: {what}; {again}")
            }
            Self::Op { task, name, op, error } => {
                write!(f, "program: task {task} `{name}` ({op}): {error}; {again}")
            }
        }
    }
}

impl std::error::Error for OmError {}
