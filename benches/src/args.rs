//! What a figure binary is told: `--full`, and places in the environment that `cargo xtask` sets.

use std::path::{Path, PathBuf};

use crate::Failure;
use crate::blocks::Plan;

/// What a figure binary was asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Args {
    /// Many more blocks than fit a minute.
    pub full: bool,
}

impl Args {
    /// Reads the process's arguments.
    ///
    /// # Errors
    /// An argument is unknown.
    pub fn from_env() -> Result<Self, Failure> {
        Self::parse(std::env::args().skip(1))
    }

    fn parse(args: impl Iterator<Item = String>) -> Result<Self, Failure> {
        let mut parsed = Self { full: false };
        for arg in args {
            match arg.as_str() {
                "--full" => parsed.full = true,
                _ => return Err(format!("unknown argument {arg:?}, expected --full").into()),
            }
        }
        Ok(parsed)
    }

    /// Blocks and their length: many short ones, because the speed of the machine changes within
    /// seconds; a figure takes at most a minute, ten times that with `--full`.
    #[must_use]
    pub fn plan(self) -> Plan {
        let times = if self.full { 10 } else { 1 };
        Plan { blocks: 151 * times, block_ms: 4, budget_ms: 20_000 * times as u64 }
    }
}

/// Folder of the built rivals: `DFLOW_RIVALS_DIR`, else where their workspace builds them, seen
/// from the repository's root.
#[must_use]
pub fn rivals_dir() -> PathBuf {
    place("DFLOW_RIVALS_DIR").unwrap_or_else(|| "benches/rivals/target/release".into())
}

/// Folder of the product's executables: `DFLOW_BIN_DIR`, else this binary's own.
#[must_use]
pub fn bin_dir() -> PathBuf {
    place("DFLOW_BIN_DIR").unwrap_or_else(|| {
        let own = std::env::current_exe().unwrap_or_default();
        own.parent().map(Path::to_path_buf).unwrap_or_default()
    })
}

/// Folder of the built user function libraries: `DFLOW_UDF_DIR`, else where the examples' workspace
/// builds them, seen from the repository's root.
#[must_use]
pub fn udf_dir() -> PathBuf {
    place("DFLOW_UDF_DIR").unwrap_or_else(|| "examples/target/udf".into())
}

fn place(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::Args;

    fn parse(args: &[&str]) -> Result<Args, String> {
        let args = args.iter().map(|arg| (*arg).to_owned());
        Args::parse(args).map_err(|error| error.to_string())
    }

    #[test]
    fn full_means_more_blocks() {
        let (full, short) = (parse(&["--full"]).unwrap(), parse(&[]).unwrap());
        assert!(full.full && !short.full && short.plan().blocks < full.plan().blocks);
    }

    #[test]
    fn an_unknown_argument_is_named() {
        assert!(parse(&["--fast"]).unwrap_err().contains("--fast"));
    }
}
