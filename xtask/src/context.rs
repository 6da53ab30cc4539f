//! Where things are: the repository, its build directories and its git-ignored cache.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Paths of this checkout. Each workspace keeps cargo's own default build directory unless
/// `CARGO_TARGET_DIR` says otherwise, so that a build by hand and one from here share their work.
#[derive(Debug)]
pub(crate) struct Context {
    /// Root of the repository.
    pub(crate) root: PathBuf,
    target_override: Option<PathBuf>,
}

impl Context {
    /// Finds the repository above this crate's manifest.
    pub(crate) fn find() -> Result<Self, String> {
        let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = manifest
            .parent()
            .ok_or_else(|| format!("{}: expected to lie in the repository", manifest.display()))?
            .to_path_buf();
        let target_override = match std::env::var_os("CARGO_TARGET_DIR") {
            Some(dir) if !dir.is_empty() => Some(root.join(dir)),
            _ => None,
        };
        Ok(Self { root, target_override })
    }

    /// Build directory of the workspace in `folder` (`""` is the root workspace).
    pub(crate) fn target(&self, folder: &str) -> PathBuf {
        self.target_override.clone().unwrap_or_else(|| self.root.join(folder).join("target"))
    }

    /// Build directory for a variant (loom, a sanitizer) whose flags differ from everything else.
    pub(crate) fn variant_target(&self, variant: &str) -> PathBuf {
        self.target("").join(variant)
    }

    /// Git-ignored folder for downloads.
    pub(crate) fn cache(&self) -> PathBuf {
        self.root.join(".cache")
    }

    /// Folder of the pages that were unpacked from the wheel.
    pub(crate) fn pages(&self) -> PathBuf {
        self.cache().join("pages")
    }

    /// Folder of the wheels that models come out of, unzipped.
    pub(crate) fn models(&self) -> PathBuf {
        self.cache().join("models")
    }

    /// Python interpreter of the oracle.
    pub(crate) fn oracle(&self) -> PathBuf {
        self.cache().join("oracle/bin/python")
    }

    /// Folder of the release executors and of `dflow`.
    pub(crate) fn executors(&self) -> PathBuf {
        self.target("").join("release")
    }

    /// Folder of the example libraries built with the `udf` profile.
    pub(crate) fn udfs(&self) -> PathBuf {
        self.target("examples").join("udf")
    }

    /// Folder of the rivals, a workspace of its own.
    pub(crate) fn rivals(&self) -> PathBuf {
        self.target("benches/rivals").join("release")
    }

    /// True when `path` (relative to the repository) exists.
    pub(crate) fn has(&self, path: impl AsRef<Path>) -> bool {
        self.root.join(path).exists()
    }

    /// A cargo command in `folder`, told where executors, functions, rivals, data are.
    pub(crate) fn cargo(&self, folder: &str, args: &[&str]) -> Command {
        self.locate(Command::new("cargo"), folder, args)
    }

    /// A command of a toolchain other than the pinned one.
    pub(crate) fn cargo_of(&self, toolchain: &str, folder: &str, args: &[&str]) -> Command {
        let mut command = Command::new("rustup");
        command.args(["run", toolchain, "cargo"]);
        self.locate(command, folder, args)
    }

    /// Any command, with the same working directory and places as [`Context::cargo`].
    pub(crate) fn program(&self, program: &Path, args: &[&str]) -> Command {
        self.locate(Command::new(program), "", args)
    }

    fn locate(&self, mut command: Command, folder: &str, args: &[&str]) -> Command {
        command.args(args).current_dir(self.root.join(folder));
        command.env("DFLOW_BIN_DIR", self.executors());
        command.env("DFLOW_UDF_DIR", self.udfs());
        command.env("DFLOW_RIVALS_DIR", self.rivals());
        command.env("DFLOW_PAGES_DIR", self.pages());
        command.env("DFLOW_MODELS_DIR", self.models());
        // Without one, whatever would compare says that it is skipped.
        if self.oracle().is_file() {
            command.env("DFLOW_ORACLE", self.oracle());
        }
        // What `cargo run` set for this program would mislead the cargo that is started here.
        for name in ["CARGO", "CARGO_MANIFEST_DIR", "CARGO_MANIFEST_PATH", "RUSTUP_TOOLCHAIN"] {
            command.env_remove(name);
        }
        command
    }
}
