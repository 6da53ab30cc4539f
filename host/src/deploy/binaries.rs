//! Where the executors' programs are.
//!
//! Searched in this order: the directory named by `DFLOW_BIN_DIR`; the directory of the running
//! program; its parent (tests and examples run from `target/*/deps` and `target/*/examples`).

use std::path::{Path, PathBuf};

use crate::error::{DeployError, Place, Problem};

/// Program of the supervisor and the watcher.
pub const SUPERVISOR: &str = "dflow-supervisor";
/// Program of a user function's executor.
pub const UDF_EXECUTOR: &str = "udf-executor";

/// Program of a device with its models.
pub const NPU_EXECUTOR: &str = "npu-executor";

fn places() -> Vec<PathBuf> {
    let mut places = Vec::new();
    if let Some(dir) = std::env::var_os("DFLOW_BIN_DIR") {
        places.push(PathBuf::from(dir));
    }
    if let Ok(program) = std::env::current_exe() {
        places.extend(program.ancestors().skip(1).take(2).map(Path::to_owned));
    }
    places
}

/// The program `name`.
///
/// # Errors
/// [`DeployError::Program`] names where it was looked for.
pub fn find(flow: &str, name: &str) -> Result<PathBuf, DeployError> {
    let places = places();
    if let Some(found) = places.iter().map(|dir| dir.join(name)).find(|path| path.is_file()) {
        return Ok(found);
    }
    let looked: Vec<String> = places.iter().map(|dir| dir.display().to_string()).collect();
    Err(DeployError::Program(Problem::new(
        Place::graph(flow),
        format!("no `{name}` in {}", looked.join(", ")),
        format!("the program `{name}`"),
        "build it (`cargo build --release`), or set DFLOW_BIN_DIR to its directory",
    )))
}

/// Root of the installation, as projects in C++ know it by `ASCEND_HOME_PATH`: it has
/// `include/flow_func` and `devlib/linux/<machine>/libflow_func.so`.
///
/// # Errors
/// [`DeployError::Program`] names where it was looked for.
pub fn install_root(place: &Place) -> Result<PathBuf, DeployError> {
    let header = Path::new("include/flow_func/meta_flow_func.h");
    let places: Vec<PathBuf> = places()
        .into_iter()
        .flat_map(|dir| [Some(dir.clone()), dir.parent().map(Path::to_owned)])
        .flatten()
        .collect();
    if let Some(found) = places.iter().find(|dir| dir.join(header).is_file()) {
        return Ok(std::path::absolute(found).unwrap_or_else(|_| found.clone()));
    }
    let mut looked: Vec<String> = places.iter().map(|dir| dir.display().to_string()).collect();
    looked.dedup();
    Err(DeployError::Program(Problem::new(
        place.clone(),
        format!("no `{}` in {}", header.display(), looked.join(", ")),
        "the headers and libflow_func.so, which functions in C++ are built with",
        "build and install them (`cargo xtask cpp`), or set DFLOW_BIN_DIR to their directory",
    )))
}

/// A program that is there and can't be run, or does not behave as this project's.
pub(super) fn not_runnable(flow: &str, program: &Path, found: &str) -> DeployError {
    DeployError::Program(Problem::new(
        Place::graph(flow),
        format!("{}: {found}", program.display()),
        format!("an executable file: `{SUPERVISOR}` of this version"),
        "build it again (`cargo build --release`), or set DFLOW_BIN_DIR to the directory of the \
         right one",
    ))
}
