//! `cargo xtask demo`: sets up, builds, and hands over to a demo of `examples`.

use std::path::Path;

use crate::context::Context;
use crate::{assets, cpp, models, oracle, process, setup};

/// Builds the release executors and `dflow`, nothing else: the figures' programs build when they
/// are asked for.
pub(crate) const EXECUTORS: &[&str] = &[
    "build",
    "--release",
    "--bins",
    "-p",
    "udf-executor",
    "-p",
    "npu-executor",
    "-p",
    "supervisor",
    "-p",
    "host",
];

/// Runs [`EXECUTORS`].
pub(crate) fn build_executors(context: &Context) -> Result<(), String> {
    process::run_plain(&mut context.cargo("", EXECUTORS))
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
    let (pages, orientation, args) = chosen(args)?;
    build_executors(context)?;
    if orientation {
        make_orientation(context)?;
        make_oracle(context)?;
    } else {
        let lines = setup::run(context)?.into_iter().chain(assets::fetch(context)?);
        lines.for_each(|line| eprintln!("{line}"));
        build_examples(context)?;
    }
    if pages {
        show(context, "pages-demo", args)?;
    }
    if orientation { show(context, "orientation-demo", args) } else { Ok(()) }
}

/// Whether pages and whether page orientation are asked for, and the arguments of the one.
fn chosen(args: &[String]) -> Result<(bool, bool, &[String]), String> {
    let Some((first, rest)) = args.split_first() else { return Ok((true, true, args)) };
    match first.as_str() {
        "orientation" => Ok((false, true, rest)),
        "pages" => Ok((true, false, rest)),
        other if other.starts_with('-') || Path::new(other).exists() => Ok((true, false, args)),
        other => Err(format!(
            "demo `{other}`: no such demo, file or directory; expected `pages`, `orientation`, \
             or what `demo pages` takes: directories of images and options"
        )),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_demo_is_refused_before_anything_is_built() {
        let words =
            |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        assert_eq!(chosen(&[]), Ok((true, true, &[][..])));
        let given = words(&["pages", "--chaos"]);
        assert_eq!(chosen(&given), Ok((true, false, &given[1..])));
        let given = words(&["orientation"]);
        assert_eq!(chosen(&given), Ok((false, true, &[][..])));
        for own in ["--chaos", "src"] {
            let given = words(&[own]);
            assert_eq!(chosen(&given), Ok((true, false, &given[..])));
        }
        let refused = chosen(&words(&["pges"])).unwrap_err();
        assert!(refused.contains("`pges`") && refused.contains("`orientation`"), "{refused}");
    }
}
