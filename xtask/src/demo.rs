//! `cargo xtask demo`: sets up, builds, and hands over to the demo of `examples/pages`.

use crate::context::Context;
use crate::{assets, process, setup};

/// Builds the release executors and `dflow`.
pub(crate) fn build_executors(context: &Context) -> Result<(), String> {
    let mut args = vec!["build", "--release", "--bins"];
    for package in ["udf-executor", "npu-executor", "supervisor", "host"] {
        args.extend(["-p", package]);
    }
    process::run_plain(&mut context.cargo("", &args))
}

/// Builds the example libraries and programs; libraries of user functions unwind.
pub(crate) fn build_examples(context: &Context) -> Result<(), String> {
    if !context.has("examples/Cargo.toml") {
        return Err("examples/Cargo.toml: not in this checkout".to_owned());
    }
    process::run_plain(&mut context.cargo("examples", &["build", "--profile", "udf"]))
}

/// Runs the demo with `args`; without a directory it takes the pages of the cache, which it finds
/// in `DFLOW_PAGES_DIR`, as it finds executors and libraries in `DFLOW_BIN_DIR`, `DFLOW_UDF_DIR`.
pub(crate) fn run(context: &Context, args: &[String]) -> Result<(), String> {
    for line in setup::run(context)?.into_iter().chain(assets::fetch(context)?) {
        eprintln!("{line}");
    }
    build_executors(context)?;
    build_examples(context)?;
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    // The demo reads relative directories as the caller meant them.
    let mut command = context.program(&context.udfs().join("pages-demo"), &args);
    if let Ok(here) = std::env::current_dir() {
        command.current_dir(here);
    }
    process::run_plain(&mut command)
}
