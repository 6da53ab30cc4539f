//! Folders of files and graphs, and the command itself.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Runs the command to its end: output, stdout, stderr.
pub(crate) fn dflow(args: &[&str]) -> (Output, String, String) {
    let output = command(args).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    (output, out, err)
}

/// The command, to be started.
pub(crate) fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dflow"));
    command.args(args);
    command
}

/// The library of the test functions, in `DFLOW_UDF_DIR` or where cargo puts it beside the command.
/// Panics with the command that builds what is missing.
pub(crate) fn library() -> PathBuf {
    let file = "libtestfuncs.so";
    let beside = Path::new(env!("CARGO_BIN_EXE_dflow")).parent().unwrap();
    let programs = std::env::var_os("DFLOW_BIN_DIR").map_or(beside.to_owned(), PathBuf::from);
    for program in ["dflow-supervisor", "udf-executor"] {
        let place = programs.join(program);
        assert!(
            place.is_file(),
            "{} is missing: run `cargo build -p supervisor -p udf-executor` first",
            place.display()
        );
    }
    let mut places: Vec<PathBuf> = Vec::new();
    places.extend(std::env::var_os("DFLOW_UDF_DIR").map(PathBuf::from));
    places.extend([beside.with_file_name("udf"), beside.to_owned()]);
    let found = places.iter().map(|place| place.join(file)).find(|path| path.is_file());
    found.unwrap_or_else(|| {
        panic!("{file} is not in {places:?}: run `cargo build --profile udf -p testfuncs` first")
    })
}

/// A folder of its own, removed in the end.
#[derive(Debug)]
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("dflow-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    /// Writes a file; its path.
    pub(crate) fn file(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// A path in it.
    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    /// A graph file `file -> nodes in a row -> out` of functions in a library with these bytes.
    pub(crate) fn graph(&self, name: &str, nodes: &[(&str, &str)], library: &[u8]) -> String {
        let library = self.file("lib.so", library);
        self.chain(name, nodes, Path::new(&library))
    }

    /// As [`Folder::graph`], with a library that is there. A function may be followed by further
    /// lines of its node, set apart by `;`.
    pub(crate) fn chain(&self, name: &str, nodes: &[(&str, &str)], library: &Path) -> String {
        let tensor = "dtype: uint8, shape: [-1], max_bytes: 4096";
        let mut text = format!("name: {name}\ninputs:\n  file: {{{tensor}}}\nnodes:\n");
        let mut from = "file".to_owned();
        for (node, function) in nodes {
            let mut lines = function.split(';');
            let function = lines.next().unwrap();
            text += &format!("  {node}:\n    library: {}\n", library.display());
            text += &format!("    function: {function}\n    inputs: {{in: {from}}}\n");
            text += &format!("    outputs:\n      out: {{{tensor}}}\n");
            text.extend(lines.map(|line| format!("    {line}\n")));
            from = format!("{node}.out");
        }
        text += &format!("outputs:\n  out: {from}\n");
        self.file("graph.yaml", text.as_bytes())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
