//! Builds libflow_func.so beside the executors, and the sample projects, with cmake; what is up to
//! date is not built again. Test processes take turns.
#![allow(dead_code, reason = "each user takes its part")]

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Held while something is built.
struct Turn(#[allow(dead_code, reason = "the lock lives as long as the file")] File);

fn turn(folder: &Path, what: &str) -> Turn {
    fs::create_dir_all(folder).unwrap();
    let file = File::create(folder.join(format!("{what}.turn"))).unwrap();
    file.lock().unwrap();
    Turn(file)
}

/// Folder of the C++ side in this checkout.
pub(crate) fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../flow-func").canonicalize().unwrap()
}

/// Folder for what the tests build.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("cpp")
}

/// Runs a command; its output when it fails.
pub(crate) fn run(command: &mut Command) -> Result<String, String> {
    let shown = format!("{command:?}");
    let hint = "the tests of C++ functions need the packages cmake and g++";
    let done = command.output().map_err(|error| format!("{shown}: {error}: {hint}"))?;
    let mut said = String::from_utf8_lossy(&done.stdout).into_owned();
    said += &String::from_utf8_lossy(&done.stderr);
    if done.status.success() { Ok(said) } else { Err(format!("{shown}: {}\n{said}", done.status)) }
}

/// Every file below a folder with its size and time, as text.
fn state_of(folder: &Path, text: &mut String) {
    let mut entries: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()).collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (path, data) = (entry.path(), entry.metadata().unwrap());
        if data.is_dir() {
            state_of(&path, text);
        } else {
            let time = data.modified().unwrap();
            writeln!(text, "{} {} {time:?}", path.display(), data.len()).unwrap();
        }
    }
}

/// Builds with cmake unless `stamp` says that nothing changed since.
fn unless_done(
    (stamp, build): (&Path, &Path),
    root: &Path,
    inputs: &[&Path],
    steps: impl FnOnce(),
) {
    let mut state = format!("{}\n", root.display());
    inputs.iter().for_each(|input| state_of(input, &mut state));
    if fs::read_to_string(stamp).is_ok_and(|before| before == state) {
        return;
    }
    // cmake refuses a folder that was moved, and one of another source.
    let _none = fs::remove_dir_all(build);
    steps();
    fs::write(stamp, state).unwrap();
}

/// libflow_func.so and its headers, installed below `root`, the folder of the executors.
pub(crate) fn install(root: &Path) {
    let installed = root.join("lib64/libflow_func.so");
    let (sources, folder) = (sources(), folder());
    // Before anything is looked at: another process may be half-way.
    let _turn = turn(&folder, "flow_func");
    if std::env::var_os("DFLOW_BIN_DIR").is_some_and(|dir| dir == *root) && installed.exists() {
        // `cargo xtask` has just done it.
        return;
    }
    let build = folder.join("flow_func");
    let stamp = folder.join("flow_func.stamp");
    if !installed.exists() {
        let _none = fs::remove_file(&stamp);
    }
    unless_done((&stamp, &build), root, &[&sources.join("cpp"), &sources.join("include")], || {
        run(Command::new("cmake").arg("-S").arg(sources.join("cpp")).arg("-B").arg(&build))
            .unwrap();
        run(Command::new("cmake").arg("--build").arg(&build).arg("-j2")).unwrap();
        run(Command::new("cmake").arg("--install").arg(&build).arg("--prefix").arg(root)).unwrap();
    });
}

/// The library of a sample project, built as a project for CANN is, with one of the two string
/// ABIs.
pub(crate) fn sample(root: &Path, name: &str, abi: u8, resource: &str) -> PathBuf {
    install(root);
    let (sources, folder) = (sources(), folder());
    let label = format!("{name}-{abi}-{resource}");
    let _turn = turn(&folder, &label);
    let (project, build) = (sources.join("cpp/samples").join(name), folder.join(&label));
    let stamp = folder.join(format!("{label}.stamp"));
    let headers = sources.join("include");
    unless_done((&stamp, &build), root, &[&sources.join("cpp/samples"), &headers], || {
        let mut configure = Command::new("cmake");
        configure.arg("-S").arg(&project).arg("-B").arg(&build);
        configure.args(["-DTOOLCHAIN=g++", "-DRELEASE_DIR=../release"]);
        configure.arg(format!("-DUDF_TARGET_LIB={label}"));
        configure.arg(format!("-DRESOURCE_TYPE={resource}"));
        configure.arg(format!("-DUDF_CXX11_ABI={abi}"));
        run(configure.env("ASCEND_HOME_PATH", root)).unwrap();
        run(Command::new("cmake").arg("--build").arg(&build).env("ASCEND_HOME_PATH", root))
            .unwrap();
    });
    folder.join("release").join(format!("lib{label}.so"))
}

/// Compiles and links with g++; its output when it fails.
pub(crate) fn compile(args: &[&str]) -> Result<String, String> {
    run(Command::new("g++").args(["-std=c++11", "-Wall", "-Wextra", "-Werror"]).args(args))
}
