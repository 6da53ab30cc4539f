//! The link probe: executor-core links without an allocator, and a program that wants one does not.

use crate::context::Context;
use crate::process::{self, Line};

const FOLDER: &str = "tests/no-alloc-probe";

/// What the compiler says of a program that allocates without an allocator.
const NO_ALLOCATOR: &str = "no global memory allocator found";

/// Links and runs the probe in both profiles; returns one line for each thing shown.
pub(crate) fn run(context: &Context) -> Result<Vec<String>, String> {
    let mut lines = Vec::new();
    for profile in ["dev", "release"] {
        let args = ["run", "--quiet", "--bin", "probe", "--profile", profile];
        let (success, said) = build(context, &args)?;
        if !success {
            return Err(format!("executor-core does not link without std ({profile}):\n{said}"));
        }
        lines.push(format!("executor-core links without std or an allocator ({profile})"));
    }
    let args = ["build", "--quiet", "--bin", "alloc-user", "--features", "alloc-user"];
    let (success, said) = build(context, &args)?;
    if success || !said.contains(NO_ALLOCATOR) {
        return Err(format!("a program that allocates was to fail with `{NO_ALLOCATOR}`:\n{said}"));
    }
    lines.push("a program that allocates does not link".to_owned());
    Ok(lines)
}

fn build(context: &Context, args: &[&str]) -> Result<(bool, String), String> {
    let mut command = context.cargo(FOLDER, args);
    // Of its own, so that a shared build directory does not mix the two panic strategies.
    command.env("CARGO_TARGET_DIR", context.variant_target("probe"));
    let mut said = String::new();
    let status = process::run_lines(&mut command, None, |line| {
        let (Line::Out(text) | Line::Err(text)) = line;
        said = format!("{said}{text}\n");
    })?;
    Ok((status.success(), said))
}
