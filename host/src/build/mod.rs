//! Builds the C++ projects that nodes name (`project: folder`) into libraries, before a deployment.
//!
//! A project is a folder with a CMakeLists.txt that takes what CANN's build hands it (udf §1.0):
//! `RESOURCE_TYPE`, `TOOLCHAIN`, `UDF_TARGET_LIB`, `RELEASE_DIR`, and in the environment
//! `ASCEND_HOME_PATH`, which is the root of this installation. The node's `library` is the file
//! that it leaves below `${PROJECT_BINARY_DIR}/${RELEASE_DIR}`.
//!
//! What was built is kept in a cache, by the content of the project, the headers and the compiler
//! (`key`): `$DFLOW_CACHE_DIR`, else `$XDG_CACHE_HOME/dflow`, else `~/.cache/dflow`. Nothing in
//! it is ever changed: a build ends by renaming its folder (`part`). It may be deleted at any time
//! while no flow is being deployed.
//!
//! What builds is stopped and ended with everything that it started (`child`).

mod child;
mod cmake;
mod key;
mod log;
mod part;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::deploy::binaries;
use crate::error::{DeployError, Place, Problem, io_text};
use crate::notice;
use crate::plan::DeployPlan;
use part::Part;

/// Folder of what a project leaves, in a folder of the cache.
const RELEASE: &str = "release";
/// What cmake and the compiler said (the end of it, if it is long), beside it.
const LOG: &str = "build.log";

/// One build.
#[derive(Debug)]
struct Project<'a> {
    /// For errors.
    place: Place,
    /// Name of the node, for progress.
    node: &'a str,
    /// Folder of the CMakeLists.txt.
    folder: &'a Path,
    /// File name of the library.
    library: &'a str,
    /// `library` without `lib` and `.so`.
    target: &'a str,
}

impl Project<'_> {
    fn refuse(&self, found: impl Into<String>, expected: &str, hint: &str) -> DeployError {
        let place = self.place.clone().port("`project`");
        DeployError::Build(Problem::new(place, found, expected, hint))
    }

    fn io(&self, path: &Path, error: &std::io::Error) -> DeployError {
        let found = format!("{}: {}", path.display(), io_text(error));
        self.refuse(found, "a folder that can be read and a cache that can be written", CACHE_HINT)
    }
}

const CACHE_HINT: &str = "check the permissions, or set DFLOW_CACHE_DIR to another folder";

/// Whether a library name can be handed to a project (spec/host.md §2.1).
#[must_use]
pub fn is_library_name(name: &str) -> bool {
    target_of(name).is_some_and(|target| {
        let known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        !target.is_empty() && target.chars().all(known)
    })
}

/// `x` of `libx.so`.
fn target_of(library: &str) -> Option<&str> {
    library.strip_prefix("lib")?.strip_suffix(".so")
}

/// Builds what is not in the cache, and puts the libraries' paths into the plan.
///
/// # Errors
/// [`DeployError::Build`] with the compiler's own words; [`DeployError::Stopped`] once `stop` is
/// true.
pub fn projects(plan: &mut DeployPlan, stop: Option<&AtomicBool>) -> Result<(), DeployError> {
    for executor in &mut plan.executors {
        let Some(folder) = &executor.project else { continue };
        let library = executor.library.to_string_lossy();
        let project = Project {
            place: Place::graph(&plan.name).node(&executor.node),
            node: &executor.node,
            folder,
            library: &library,
            target: target_of(&library).unwrap_or(&library),
        };
        let built = build(&project, stop)?;
        executor.library = built;
        executor.project = None;
    }
    Ok(())
}

/// Whether this process builds.
#[must_use]
pub fn is_running() -> bool {
    child::is_any()
}

/// Kills what builds in this process, at once: for a process that is about to end.
pub fn kill() {
    child::kill_all();
}

fn build(project: &Project<'_>, stop: Option<&AtomicBool>) -> Result<PathBuf, DeployError> {
    let tools = cmake::Tools::find(project, stop)?;
    let root = binaries::install_root(&project.place)?;
    let key = key::of(project, &tools, &root)?;
    let cache = cache(project)?;
    let kept = cache.join(key);
    let library = kept.join(RELEASE).join(project.library);
    if library.is_file() {
        return Ok(library);
    }
    let start = Instant::now();
    notice::say(&format!("build {}: {}", project.node, project.folder.display()));
    part::remove_forgotten(&cache);
    let part = Part::create(&kept).map_err(|error| project.io(&kept, &error))?;
    let work = &part.path;
    let done = cmake::run(project, &tools, &root, work, stop).and_then(|log| {
        let built = work.join(RELEASE).join(project.library);
        if built.is_file() { Ok(()) } else { Err(no_library(project, &built, &log)) }
    });
    if let Err(error) = done {
        part.remove();
        return Err(match stop {
            Some(stop) if stop.load(Ordering::Relaxed) => stopped(project),
            _ => error,
        });
    }
    let _gone = std::fs::remove_dir_all(work.join(cmake::BUILD));
    if let Err(error) = std::fs::rename(work, &kept) {
        part.remove();
        // Another process was faster: what it left is the same.
        if !library.is_file() {
            return Err(project.io(&kept, &error));
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    notice::say(&format!("build {}: done in {seconds:.1} s", project.node));
    Ok(library)
}

fn stopped(project: &Project<'_>) -> DeployError {
    DeployError::Stopped(Problem::new(
        project.place.clone(),
        "the library was being built",
        "time to build",
        "start it again; nothing was started",
    ))
}

fn no_library(project: &Project<'_>, built: &Path, log: &str) -> DeployError {
    let folder = built.parent().unwrap_or(built);
    let names = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    let left = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
    project.refuse(
        format!("the build went well and left {left} in its RELEASE_DIR\n{log}"),
        &format!("`{}`, the node's `library`", project.library),
        "name the library after what the project builds; it gets the name as UDF_TARGET_LIB and \
         the folder as RELEASE_DIR, below PROJECT_BINARY_DIR",
    )
}

/// Folder of built libraries.
fn cache(project: &Project<'_>) -> Result<PathBuf, DeployError> {
    let folder = crate::cache::folder("udf").ok_or_else(|| {
        project.refuse(crate::cache::NONE, "a folder for built libraries", CACHE_HINT)
    })?;
    std::fs::create_dir_all(&folder).map_err(|error| project.io(&folder, &error))?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::{is_library_name, target_of};

    #[test]
    fn library_names_are_those_a_project_can_build() {
        assert_eq!(target_of("libadd_func.so"), Some("add_func"));
        for good in ["liba.so", "liba.b-c_9.so"] {
            assert!(is_library_name(good), "{good}");
        }
        for bad in ["lib.so", "add.so", "libadd", "libadd.so.1", "x/libadd.so", "liba b.so", ""] {
            assert!(!is_library_name(bad), "{bad}");
        }
    }
}
