//! Wheels that are data: downloaded by pip, which checks their hashes, and never installed.

use std::path::{Path, PathBuf};

use crate::context::Context;
use crate::process::{self, Line};

/// One wheel for every machine: its data do not depend on the platform it was built for.
const TAGS: &[&str] = &[
    "--only-binary=:all:",
    "--implementation=cp",
    "--python-version=3.12",
    "--abi=cp312",
    "--platform=manylinux2014_x86_64",
];

/// Says what a complete folder was made of.
const STAMP: &str = ".complete";

/// Downloads what a requirements file of the repository pins; returns the folder of the wheels,
/// which holds nothing else.
pub(crate) fn download(context: &Context, requirements: &str) -> Result<PathBuf, String> {
    let venv = context.cache().join("venv");
    let python = venv.join("bin/python");
    if !python.exists() {
        quiet(context, Path::new("python3"), &["-m", "venv", &venv.to_string_lossy()])?;
    }
    let downloads = context.cache().join("wheels");
    remove_dir(&downloads)?;
    let requirements = context.root.join(requirements);
    let (folder, requirements) = (downloads.to_string_lossy(), requirements.to_string_lossy());
    let mut args = vec!["-m", "pip", "download", "--quiet", "--disable-pip-version-check"];
    args.extend(["--no-deps", "--require-hashes", "-r", &requirements, "-d", &folder]);
    args.extend(TAGS);
    quiet(context, &python, &args)?;
    Ok(downloads)
}

/// True when `folder` was made of what `wanted` says.
pub(crate) fn is_complete(folder: &Path, wanted: &str) -> bool {
    std::fs::read_to_string(folder.join(STAMP)).is_ok_and(|found| found == wanted)
}

/// Makes [`is_complete`] true; the last step of making a folder.
pub(crate) fn set_complete(folder: &Path, wanted: &str) -> Result<(), String> {
    let stamp = folder.join(STAMP);
    std::fs::write(&stamp, wanted).map_err(|error| format!("{}: {error}", stamp.display()))
}

/// Removes a folder and all in it, if it is there.
pub(crate) fn remove_dir(dir: &Path) -> Result<(), String> {
    match std::fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("{}: {error}", dir.display()))
        }
        _ => Ok(()),
    }
}

/// Runs a command whose output matters only when it fails.
pub(crate) fn quiet(context: &Context, program: &Path, args: &[&str]) -> Result<(), String> {
    let mut said = Vec::new();
    let mut command = context.program(program, args);
    let status = process::run_lines(&mut command, None, |line| {
        let (Line::Out(text) | Line::Err(text)) = line;
        said.push(text);
    })?;
    if status.success() {
        return Ok(());
    }
    let what = args.get(..3).unwrap_or(args).join(" ");
    Err(format!("`{} {what} …` failed: {status}\n{}", program.display(), said.join("\n")))
}
