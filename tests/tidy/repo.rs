//! The repository's files: those git tracks or would track.

use std::fmt;
use std::path::PathBuf;
use std::process::Command;

/// Crates that ship.
pub(crate) const PRODUCT: &[&str] = &[
    "executor-core",
    "sys",
    "executor-rt",
    "npu",
    "npu-device",
    "npu-c",
    "compiler",
    "flow-func",
    "udf-executor",
    "npu-executor",
    "supervisor",
    "host",
];

/// One violation, as `file:line: what`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    path: String,
    line: usize,
    what: String,
}

impl Finding {
    /// A finding in a line, counted from 1; 0 stands for the whole file.
    pub(crate) fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// A checkout.
pub(crate) struct Repo {
    root: PathBuf,
    files: Vec<String>,
}

impl Repo {
    /// The checkout that this test was built in.
    pub(crate) fn open() -> Self {
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
        let output = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(&root)
            .output()
            .expect("git is installed");
        assert!(output.status.success(), "git ls-files: {output:?}");
        let list = String::from_utf8(output.stdout).expect("file names are UTF-8");
        let tracked = list.split('\0').filter(|path| !path.is_empty());
        let mut files: Vec<String> =
            tracked.filter(|path| root.join(path).is_file()).map(str::to_owned).collect();
        files.sort();
        files.dedup();
        Self { root, files }
    }

    /// Root of the checkout.
    pub(crate) fn root(&self) -> &PathBuf {
        &self.root
    }

    /// Paths relative to the root.
    pub(crate) fn files(&self) -> &[String] {
        &self.files
    }

    /// A file's text; bytes that are no UTF-8 are replaced.
    pub(crate) fn read(&self, path: &str) -> String {
        let bytes = std::fs::read(self.root.join(path));
        String::from_utf8_lossy(&bytes.unwrap_or_else(|error| panic!("{path}: {error}")))
            .into_owned()
    }
}

/// Folder directly under the root.
pub(crate) fn room(path: &str) -> &str {
    path.split_once('/').map_or("", |(room, _)| room)
}

/// Rust source.
pub(crate) fn is_rust(path: &str) -> bool {
    path.ends_with(".rs")
}

/// Test, bench or example, by folder or by name.
pub(crate) fn is_test(path: &str) -> bool {
    path.split('/').any(|part| matches!(part, "tests" | "benches" | "examples" | "tests.rs"))
}

/// Rust source of a crate that ships.
pub(crate) fn is_product(path: &str) -> bool {
    is_rust(path) && PRODUCT.contains(&room(path))
}

/// Root file of a crate of this workspace: of a library, or of a package's binary.
pub(crate) fn is_crate_root(path: &str) -> bool {
    let ours = PRODUCT.contains(&room(path)) || matches!(room(path), "xtask");
    ours && (path.ends_with("/src/lib.rs") || path.ends_with("/src/main.rs"))
}

/// Programs, which have a line width.
pub(crate) fn is_code(path: &str) -> bool {
    const ENDINGS: [&str; 5] = [".rs", ".py", ".sh", ".h", ".cpp"];
    ENDINGS.iter().any(|ending| path.ends_with(ending)) || path == ".ci/run"
}

/// Text of any kind, except lock files, which are generated.
pub(crate) fn is_text(path: &str) -> bool {
    const ENDINGS: [&str; 6] = [".md", ".json", ".txt", ".toml", ".yaml", ".yml"];
    is_code(path) || ENDINGS.iter().any(|ending| path.ends_with(ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rooms_and_kinds() {
        assert_eq!(room("sys/src/futex.rs"), "sys");
        assert_eq!(room("README.md"), "");
        assert!(is_product("host/src/plan.rs") && !is_product("xtask/src/main.rs"));
        assert!(is_test("executor-core/tests/loom.rs") && !is_test("host/src/plan.rs"));
        assert!(is_text("docs/layout.md") && !is_text("Cargo.lock"));
    }
}
