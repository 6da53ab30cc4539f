//! Runs cmake over a project: progress by lines, the compiler's words kept.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use super::{LOG, Project, RELEASE};
use crate::error::{DeployError, io_text};
use crate::notice;

/// Folder that cmake works in, below the build's own.
pub(super) const BUILD: &str = "build";
/// Variables of the environment that change what is built.
pub(super) const FLAGS: [&str; 4] = ["CXXFLAGS", "CPPFLAGS", "LDFLAGS", "CMAKE_GENERATOR"];
/// Lines of a failed build that an error shows.
const SHOWN: usize = 60;

/// What builds.
#[derive(Debug)]
pub(super) struct Tools {
    cmake: PathBuf,
    compiler: PathBuf,
    /// Versions of both.
    pub(super) version: String,
}

impl Tools {
    /// Finds cmake, a compiler (`CXX`, else g++) and something that cmake can drive.
    pub(super) fn find(project: &Project<'_>) -> Result<Tools, DeployError> {
        let compiler = std::env::var("CXX").ok().filter(|name| !name.is_empty());
        let compiler = compiler.unwrap_or_else(|| "g++".to_owned());
        let named = |name: &str| program(name).ok_or_else(|| name.to_owned());
        let (cmake, compiler, make) =
            (named("cmake"), named(&compiler), named("make").or_else(|_| named("ninja")));
        let missing: Vec<String> = [&cmake, &compiler, &make]
            .into_iter()
            .filter_map(|tool| Some(format!("no `{}` in PATH", tool.as_ref().err()?)))
            .collect();
        let (Ok(cmake), Ok(compiler), Ok(_)) = (cmake, compiler, make) else {
            return Err(project.refuse(
                missing.join(", "),
                "cmake, make and a C++ compiler, which build this project",
                "run `apt-get install cmake make g++`; CXX names another compiler",
            ));
        };
        let mut version = String::new();
        for tool in [&cmake, &compiler] {
            let said = Command::new(tool).arg("--version").output();
            let said = said.map_err(|error| project.io(tool, &error))?;
            version += &tool.display().to_string();
            version += &String::from_utf8_lossy(&said.stdout);
        }
        Ok(Tools { cmake, compiler, version })
    }
}

/// The file of a program: a path, or a name in PATH.
fn program(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|path| path.is_file());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// What a project for this machine is told (udf §1.0).
const RESOURCE_TYPE: &str = if cfg!(target_arch = "aarch64") { "Aarch" } else { "X86" };

/// Configures and builds below `work`; what was said.
pub(super) fn run(
    project: &Project<'_>,
    tools: &Tools,
    root: &Path,
    work: &Path,
    stop: Option<&AtomicBool>,
) -> Result<String, DeployError> {
    let build = work.join(BUILD);
    let mut configure = Command::new(&tools.cmake);
    configure.arg("-S").arg(project.folder).arg("-B").arg(&build);
    let toolchain = tools.compiler.display();
    for (name, value) in [
        ("TOOLCHAIN", toolchain.to_string()),
        ("CMAKE_CXX_COMPILER", toolchain.to_string()),
        ("UDF_TARGET_LIB", project.target.to_owned()),
        ("RELEASE_DIR", format!("../{RELEASE}")),
        ("RESOURCE_TYPE", RESOURCE_TYPE.to_owned()),
    ] {
        configure.arg(format!("-D{name}={value}"));
    }
    let mut make = Command::new(&tools.cmake);
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    make.arg("--build").arg(&build).arg(format!("-j{workers}"));
    let mut log = Vec::new();
    for (mut command, what) in
        [(configure, "cmake refuses the project"), (make, "it does not build")]
    {
        command.env("ASCEND_HOME_PATH", root).stdin(Stdio::null());
        let good = run_one(project, command, &mut log, stop)?;
        let written = std::fs::File::create(work.join(LOG))
            .and_then(|mut file| file.write_all(log.join("\n").as_bytes()));
        written.map_err(|error| project.io(work, &error))?;
        if !good {
            return Err(project.refuse(
                format!("{what}; it says:\n{}", shown(&log)),
                "a project that builds with this compiler",
                "correct the project",
            ));
        }
    }
    Ok(shown(&log))
}

/// Runs one command to its end; whether it went well.
fn run_one(
    project: &Project<'_>,
    mut command: Command,
    log: &mut Vec<String>,
    stop: Option<&AtomicBool>,
) -> Result<bool, DeployError> {
    let started = std::io::pipe().and_then(|(reader, writer)| {
        command.stdout(writer.try_clone()?).stderr(writer);
        Ok((reader, command.spawn()?))
    });
    // The command holds the other ends of the pipe.
    drop(command);
    let (reader, mut child) = started.map_err(|error| {
        let found = format!("cmake can't be run: {}", io_text(&error));
        project.refuse(found, "cmake", "run `apt-get install cmake make g++`")
    })?;
    for line in BufReader::new(reader).split(b'\n') {
        let Ok(line) = line else { break };
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        if line.starts_with('[') {
            notice::say(&format!("build {}: {line}", project.node));
        }
        log.push(line);
        if stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            // The compilers end by themselves: nobody reads what they say.
            let _gone = child.kill();
            break;
        }
    }
    let status = child.wait().map_err(|error| project.io(Path::new("cmake"), &error))?;
    Ok(status.success())
}

/// From the first error on, else the end.
fn shown(log: &[String]) -> String {
    let error = log.iter().position(|line| {
        let line = line.to_ascii_lowercase();
        line.contains("error:") || line.contains("cmake error") || line.contains("undefined")
    });
    // What stands before a first error says in which file it is.
    let from = error.map_or(log.len().saturating_sub(SHOWN), |at| at.saturating_sub(2));
    let lines = log.iter().skip(from).take(SHOWN);
    lines.map(|line| format!("    {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::{program, shown};

    #[test]
    fn programs_are_found_by_name_and_by_path() {
        assert!(program("sh").is_some());
        assert!(program("/bin/sh").is_some());
        assert!(program("no-such-program-anywhere").is_none());
        assert!(program("/no/such").is_none());
    }

    #[test]
    fn the_first_error_is_shown_and_no_more_than_fits() {
        let mut log: Vec<String> = (0..100).map(|line| format!("line {line}")).collect();
        assert!(shown(&log).starts_with("    line 40\n"));
        log[10] = "a.cpp:3:5: error: no".to_owned();
        assert!(shown(&log).starts_with("    line 8\n    line 9\n    a.cpp:3:5: error: no\n"));
        assert_eq!(shown(&log).lines().count(), 60);
    }
}
