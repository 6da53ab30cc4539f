//! Nodes with `project`: built by cmake with a cache, run, and what is said when that fails.

use std::path::{Path, PathBuf};

use super::build;
use super::support::{Folder, command, library};

/// Where the programs are; the headers and libflow_func.so are installed there.
pub(crate) fn root() -> PathBuf {
    let _programs_are_there = library();
    let beside = Path::new(env!("CARGO_BIN_EXE_dflow")).parent().unwrap().to_owned();
    std::env::var_os("DFLOW_BIN_DIR").map_or(beside, PathBuf::from)
}

fn sample(name: &str) -> PathBuf {
    build::install(&root());
    build::sources().join("cpp/samples").join(name)
}

/// A project in a folder of its own.
fn copy(folder: &Folder, sample_name: &str) -> String {
    for file in std::fs::read_dir(sample(sample_name)).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        folder.file(&format!("project/{name}"), &std::fs::read(&path).unwrap());
    }
    folder.path("project")
}

/// Exit code, stdout, stderr of a run with a cache of its own.
fn run(folder: &Folder, graph: &str, more: &[&str], path: Option<&str>) -> (i32, String, String) {
    let file = folder.file("a.bin", &0.25f32.to_le_bytes().repeat(4));
    let args = [&["run", graph, "--input", &file], more].concat();
    let mut command = command(&args);
    command.env("DFLOW_CACHE_DIR", folder.path("cache"));
    if let Some(path) = path {
        command.env("PATH", path);
    }
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

fn builds(err: &str) -> usize {
    err.lines().filter(|line| line.starts_with("build ") && line.contains("done in")).count()
}

#[test]
fn a_project_is_built_once_and_again_when_it_changes() {
    let folder = Folder::new("cpp-once");
    let project = copy(&folder, "arith");
    let lines = format!("identity;project: {project}");
    let nodes = [("one", lines.as_str()), ("two", lines.as_str())];
    let graph = folder.chain("once", &nodes, Path::new("libmine.so"));
    let (exit, out, err) = run(&folder, &graph, &[], None);
    assert_eq!(exit, 0, "{out}{err}");
    assert!(out.contains("uint8[16]"), "{out}");
    assert!(err.contains("build one: [100%]"), "progress: {err}");
    assert_eq!(builds(&err), 1, "the second node has the same library: {err}");
    let (exit, _, err) = run(&folder, &graph, &[], None);
    assert_eq!((exit, builds(&err)), (0, 0), "{err}");
    let source = Path::new(&project).join("arith.cpp");
    let text = std::fs::read_to_string(&source).unwrap();
    std::fs::write(&source, text + "// Another version.\n").unwrap();
    let (exit, _, err) = run(&folder, &graph, &[], None);
    assert_eq!((exit, builds(&err)), (0, 1), "{err}");
    let kept = std::fs::read_dir(folder.path("cache/udf")).unwrap().count();
    assert_eq!(kept, 2, "nothing but finished builds");
}

#[test]
fn the_orientation_sample_answers_from_a_graph_file() {
    let folder = Folder::new("cpp-orientation");
    let text = format!(
        "name: o\ninputs:\n  p: {{dtype: float32, shape: [1, 4]}}\nnodes:\n  label:\n    \
         project: {}\n    library: liborientation.so\n    function: orientation\n    \
         inputs: [p]\n    outputs: {{r: {{dtype: uint8, shape: [1, 32]}}}}\n    \
         attrs: {{labels: [up, right, down, left]}}\noutputs: {{r: label.r}}\n",
        sample("orientation").display()
    );
    let graph = folder.file("graph.yaml", text.as_bytes());
    let out_dir = folder.path("out");
    let (exit, out, err) = run(&folder, &graph, &["--out", &out_dir], None);
    assert_eq!(exit, 0, "{out}{err}");
    let file = std::fs::read_dir(&out_dir).unwrap().next().unwrap().unwrap().path();
    let record = std::fs::read(file).unwrap();
    assert_eq!(record[..8], [&0i32.to_le_bytes()[..], &0.25f32.to_le_bytes()].concat());
    assert_eq!(record[8..], *b"up\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
}

#[test]
fn the_compilers_words_come_through_with_the_node() {
    let folder = Folder::new("cpp-errors");
    let project = copy(&folder, "arith");
    let lines = format!("identity;project: {project}");
    let graph = folder.chain("errors", &[("one", &lines)], Path::new("libmine.so"));
    let source = Path::new(&project).join("arith.cpp");
    let text = std::fs::read_to_string(&source).unwrap();
    std::fs::write(&source, text.replace("AddFunc : public", "AddFunc : pubic")).unwrap();
    let (exit, out, err) = run(&folder, &graph, &[], None);
    assert_eq!((exit, out.as_str()), (1, ""), "{err}");
    for word in ["node `one`", "`project`", "arith.cpp:", "error: expected", "pubic"] {
        assert!(err.contains(word), "{word}: {err}");
    }
    // cmake's own, and a library of another name.
    folder.file("project/CMakeLists.txt", b"project(x CXX)\ninclude(nowhere.cmake)\n");
    let (exit, _, err) = run(&folder, &graph, &[], None);
    assert!(exit == 1 && err.contains("CMake Error at CMakeLists.txt:2"), "{err}");
    let lists = b"cmake_minimum_required(VERSION 3.5)\nproject(x CXX)\n\
        set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/${RELEASE_DIR})\n\
        add_library(other SHARED other.cpp)\n";
    folder.file("project/CMakeLists.txt", lists);
    folder.file("project/other.cpp", b"int Other() { return 1; }\n");
    let (exit, _, err) = run(&folder, &graph, &[], None);
    assert!(exit == 1 && err.contains("left libother.so in its RELEASE_DIR"), "{err}");
    assert!(err.contains("`libmine.so`, the node's `library`"), "{err}");
    assert_eq!(std::fs::read_dir(folder.path("cache/udf")).unwrap().count(), 0, "nothing is kept");
}

#[test]
fn missing_tools_are_named_with_their_packages() {
    let folder = Folder::new("cpp-tools");
    let project = copy(&folder, "arith");
    let lines = format!("identity;project: {project}");
    let graph = folder.chain("tools", &[("one", &lines)], Path::new("libmine.so"));
    let (exit, _, err) = run(&folder, &graph, &[], Some("/nowhere"));
    assert_eq!(exit, 1);
    for word in ["node `one`", "no `cmake` in PATH", "no `g++` in PATH", "apt-get install cmake"] {
        assert!(err.contains(word), "{word}: {err}");
    }
    // Only the compiler is missing.
    let tools = Path::new(&folder.path("tools")).to_owned();
    std::fs::create_dir_all(&tools).unwrap();
    for tool in ["cmake", "make"] {
        std::os::unix::fs::symlink("/bin/true", tools.join(tool)).unwrap();
    }
    let (_, _, err) = run(&folder, &graph, &[], Some(tools.to_str().unwrap()));
    assert!(err.contains("no `g++` in PATH") && !err.contains("no `cmake`"), "{err}");
}
