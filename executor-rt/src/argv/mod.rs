//! Command lines of the executors, as pure functions from words to a typed configuration.
//!
//! It is not the environment (descriptor numbers and slot come from there) and opens nothing.
//! Every refusal names the argument, what was found and what was expected.

mod builtin;
mod udf;

use core::fmt;
use std::ffi::OsString;

use executor_core::error::Code;

pub use builtin::{BuiltinArgs, parse_builtin};
pub use udf::{UdfArgs, parse_udf};

/// Why a command line was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ArgError {
    /// A required argument is missing or empty.
    Missing {
        /// The code of this executable's dialect.
        code: Code,
        /// The argument.
        name: &'static str,
    },
    /// A value that can't be read or is out of range.
    Invalid {
        /// The code of this executable's dialect.
        code: Code,
        /// The argument.
        name: &'static str,
        /// What was found.
        found: OsString,
        /// What is allowed.
        expected: &'static str,
    },
    /// Fewer words than the fixed part needs.
    TooFew {
        /// The code of this executable's dialect.
        code: Code,
        /// Words found, the program's name included.
        found: usize,
        /// Words needed.
        expected: usize,
    },
}

impl ArgError {
    /// The code that the process ends with (see [`crate::exit`]).
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::Missing { code, .. } | Self::Invalid { code, .. } | Self::TooFew { code, .. } => {
                *code
            }
        }
    }
}

impl fmt::Display for ArgError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { name, .. } => {
                write!(f, "argument {name} is missing or empty; it is required")
            }
            Self::Invalid { name, found, expected, .. } => {
                write!(f, "argument {name}: found {found:?}, expected {expected}")
            }
            Self::TooFew { found, expected, .. } => {
                write!(f, "{found} arguments, expected at least {expected}")
            }
        }
    }
}

impl core::error::Error for ArgError {}

/// A whole-string decimal: digits only, with one leading `-` for signed types; no `+`, no blanks.
fn decimal<T: core::str::FromStr>(text: &str) -> Option<T> {
    if text.starts_with('+') { None } else { text.parse().ok() }
}
