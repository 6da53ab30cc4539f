//! `cargo xtask demo`: sets up, builds, and hands over to a demo of `examples`.

use crate::context::Context;
use crate::{assets, cpp, models, oracle, process, setup};

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

/// Makes what the page-orientation flow needs besides the executors and the example libraries;
/// returns one line each.
pub(crate) fn prepare_orientation(context: &Context) -> Result<Vec<String>, String> {
    let mut lines = Vec::new();
    for made in [setup::run, assets::fetch, models::fetch, cpp::install] {
        lines.extend(made(context)?);
    }
    Ok(lines)
}

/// Makes everything that the page-orientation flow needs, except the executors.
pub(crate) fn make_orientation(context: &Context) -> Result<(), String> {
    prepare_orientation(context)?.iter().for_each(|line| eprintln!("{line}"));
    build_examples(context)
}

/// Makes the oracle of the page-orientation flow.
pub(crate) fn make_oracle(context: &Context) -> Result<(), String> {
    oracle::make(context)?.iter().for_each(|line| eprintln!("{line}"));
    Ok(())
}

/// Runs both demos, pages and page orientation, or with arguments one of them: that of page
/// orientation when the first one is `orientation`. Without a directory they take the pages of the
/// cache, which they find in `DFLOW_PAGES_DIR`, as they find executors and libraries in
/// `DFLOW_BIN_DIR`, `DFLOW_UDF_DIR`.
pub(crate) fn run(context: &Context, args: &[String]) -> Result<(), String> {
    build_executors(context)?;
    match args.split_first() {
        Some((first, rest)) if first == "orientation" => orientation(context, rest),
        Some((first, rest)) if first == "pages" => pages(context, rest),
        Some(_) => pages(context, args),
        None => pages(context, &[]).and_then(|()| orientation(context, &[])),
    }
}

fn pages(context: &Context, args: &[String]) -> Result<(), String> {
    for line in setup::run(context)?.into_iter().chain(assets::fetch(context)?) {
        eprintln!("{line}");
    }
    build_examples(context)?;
    show(context, "pages-demo", args)
}

fn orientation(context: &Context, args: &[String]) -> Result<(), String> {
    make_orientation(context)?;
    make_oracle(context)?;
    show(context, "orientation-demo", args)
}

fn show(context: &Context, program: &str, args: &[String]) -> Result<(), String> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    // The demo reads relative directories as the caller meant them.
    let mut command = context.program(&context.udfs().join(program), &args);
    if let Ok(here) = std::env::current_dir() {
        command.current_dir(here);
    }
    process::run_plain(&mut command)
}
