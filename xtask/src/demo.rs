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

/// Makes what the flows with models need besides the executors and the example libraries; returns
/// one line each.
pub(crate) fn prepare_examples(context: &Context) -> Result<Vec<String>, String> {
    let mut lines = Vec::new();
    for made in [setup::run, assets::fetch, models::fetch, cpp::install] {
        lines.extend(made(context)?);
    }
    Ok(lines)
}

/// Makes everything that the flows with models need, except the executors.
pub(crate) fn make_examples(context: &Context) -> Result<(), String> {
    prepare_examples(context)?.iter().for_each(|line| eprintln!("{line}"));
    build_examples(context)
}

/// Makes the oracle of the flows with models.
pub(crate) fn make_oracle(context: &Context) -> Result<(), String> {
    oracle::make(context)?.iter().for_each(|line| eprintln!("{line}"));
    Ok(())
}

/// A demo of `examples`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Demo {
    Pages,
    Orientation,
    Ocr,
}

impl Demo {
    const ALL: &[Demo] = &[Demo::Pages, Demo::Orientation, Demo::Ocr];

    fn name(self) -> &'static str {
        match self {
            Demo::Pages => "pages",
            Demo::Orientation => "orientation",
            Demo::Ocr => "ocr",
        }
    }

    fn program(self) -> &'static str {
        match self {
            Demo::Pages => "pages-demo",
            Demo::Orientation => "orientation-demo",
            Demo::Ocr => "ocr-demo",
        }
    }
}

/// Runs all demos, or with arguments the one that the first of them names. Without files or
/// directories they take the pages of the cache, which they find in `DFLOW_PAGES_DIR`, as they find
/// executors and libraries in `DFLOW_BIN_DIR`, `DFLOW_UDF_DIR`.
pub(crate) fn run(context: &Context, args: &[String]) -> Result<(), String> {
    let (demos, args) = chosen(args)?;
    build_executors(context)?;
    if demos == [Demo::Pages] {
        let lines = setup::run(context)?.into_iter().chain(assets::fetch(context)?);
        lines.for_each(|line| eprintln!("{line}"));
        build_examples(context)?;
    } else {
        make_examples(context)?;
        make_oracle(context)?;
    }
    demos.iter().try_for_each(|demo| show(context, demo.program(), args))
}

/// The demos that are asked for, and the arguments of the one.
fn chosen(args: &[String]) -> Result<(&[Demo], &[String]), String> {
    let Some((first, rest)) = args.split_first() else { return Ok((Demo::ALL, args)) };
    if let Some(demo) = Demo::ALL.iter().find(|demo| demo.name() == first) {
        return Ok((std::slice::from_ref(demo), rest));
    }
    if first.starts_with('-') || Path::new(first).exists() {
        return Ok((&[Demo::Pages], args));
    }
    Err(format!(
        "demo `{first}`: no such demo, file or directory; expected `pages`, `orientation`, `ocr`, \
         or what `demo pages` takes: directories of images and options"
    ))
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
        assert_eq!(chosen(&[]), Ok((Demo::ALL, &[][..])));
        for demo in Demo::ALL {
            let given = words(&[demo.name(), "--help"]);
            assert_eq!(chosen(&given), Ok((&[*demo][..], &given[1..])));
        }
        for own in ["--chaos", "src"] {
            let given = words(&[own]);
            assert_eq!(chosen(&given), Ok((&[Demo::Pages][..], &given[..])));
        }
        let given = words(&["pges"]);
        let refused = chosen(&given).unwrap_err();
        assert!(refused.contains("`pges`") && refused.contains("`ocr`"), "{refused}");
    }
}
