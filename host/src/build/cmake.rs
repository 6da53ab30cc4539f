//! Runs cmake over a project: progress by lines, the compiler's words kept as far as they fit.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;

use sys::clock::MonoTime;

use super::log::Log;
use super::{LOG, Project, RELEASE, child};
use crate::error::{DeployError, io_text};
use crate::notice;

/// Folder that cmake works in, below the build's own.
pub(super) const BUILD: &str = "build";
/// Variables of the environment that change what is built.
pub(super) const FLAGS: [&str; 4] = ["CXXFLAGS", "CPPFLAGS", "LDFLAGS", "CMAKE_GENERATOR"];

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
    pub(super) fn find(
        project: &Project<'_>,
        stop: Option<&AtomicBool>,
    ) -> Result<Tools, DeployError> {
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
            let mut command = Command::new(tool);
            command.arg("--version").stdin(Stdio::null());
            let mut said = Log::default();
            let ran = child::run(command, stop, &mut |bytes| said.hear(bytes, |_| {}));
            ran.map_err(|error| project.io(tool, &error))?;
            said.end();
            version += &tool.display().to_string();
            version += &said.text();
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
    let said = [
        format!("cmake -S {}", project.folder.display()),
        format!("cmake --build {}", build.display()),
    ];
    let mut log = Log::default();
    for (mut command, said, what) in
        [(configure, &said[0], "cmake refuses the project"), (make, &said[1], "it does not build")]
    {
        command.env("ASCEND_HOME_PATH", root).stdin(Stdio::null());
        let good = run_one(project, command, said, &mut log, stop)?;
        let written = std::fs::File::create(work.join(LOG))
            .and_then(|mut file| file.write_all(log.text().as_bytes()));
        written.map_err(|error| project.io(work, &error))?;
        if !good {
            return Err(project.refuse(
                format!("{what}; it says:\n{}", log.shown()),
                "a project that builds with this compiler",
                "correct the project",
            ));
        }
    }
    Ok(log.shown())
}

/// Runs one command to its end; whether it went well.
fn run_one(
    project: &Project<'_>,
    command: Command,
    said: &str,
    log: &mut Log,
    stop: Option<&AtomicBool>,
) -> Result<bool, DeployError> {
    let say = |text: &str| notice::say(&format!("build {}: {text}", project.node));
    let mut quiet = Quiet::new(MonoTime::now());
    let status = child::run(command, stop, &mut |bytes| {
        let now = MonoTime::now();
        log.hear(bytes, |line| {
            if line.starts_with('[') {
                say(line);
                quiet.said(now);
            }
        });
        if let Some(seconds) = quiet.due(now) {
            say(&format!("still running ({seconds} s): {said}"));
        }
    });
    log.end();
    let status = status.map_err(|error| {
        let found = format!("cmake can't be run: {}", io_text(&error));
        project.refuse(found, "cmake", "run `apt-get install cmake make g++`")
    })?;
    Ok(status.success())
}

/// When a command of which the user sees nothing is spoken of.
#[derive(Debug)]
struct Quiet {
    begun: MonoTime,
    /// When the user saw something.
    last: MonoTime,
    /// How long after that there is something to say.
    after_ms: u64,
}

impl Quiet {
    /// Before the first word, and at most between two.
    const FIRST_MS: u64 = 10_000;
    const MOST_MS: u64 = 160_000;

    const fn new(now: MonoTime) -> Quiet {
        Quiet { begun: now, last: now, after_ms: Quiet::FIRST_MS }
    }

    fn said(&mut self, now: MonoTime) {
        self.last = now;
        self.after_ms = Quiet::FIRST_MS;
    }

    /// Seconds since the begin, when it is time to say them.
    fn due(&mut self, now: MonoTime) -> Option<u64> {
        if !self.last.add_ms(self.after_ms).is_past(now) {
            return None;
        }
        self.last = now;
        self.after_ms = (self.after_ms * 2).min(Quiet::MOST_MS);
        Some(now.since_ns(self.begun) / 1_000_000_000)
    }
}

#[cfg(test)]
mod tests {
    use sys::clock::MonoTime;

    use super::{Quiet, program};

    #[test]
    fn programs_are_found_by_name_and_by_path() {
        assert!(program("sh").is_some());
        assert!(program("/bin/sh").is_some());
        assert!(program("no-such-program-anywhere").is_none());
        assert!(program("/no/such").is_none());
    }

    #[test]
    fn a_silent_command_is_spoken_of_less_and_less_often() {
        let begun = MonoTime::now();
        let mut quiet = Quiet::new(begun);
        let spoken = |from: u64, to: u64, quiet: &mut Quiet| -> Vec<u64> {
            (from..to).filter_map(|second| quiet.due(begun.add_ms(second * 1_000 + 1))).collect()
        };
        assert_eq!(spoken(0, 700, &mut quiet), [10, 30, 70, 150, 310, 470, 630]);
        quiet.said(begun.add_ms(700_000));
        assert_eq!(spoken(700, 735, &mut quiet), [710, 730]);
    }
}
