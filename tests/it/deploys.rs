//! Deployments that fail: each names node and reason, and leaves no process.

use std::path::{Path, PathBuf};
use std::process::Command;

use dflow::{DeployOptions, FlowNode, Limits};
use tests::fault::left;
use tests::flows;

use crate::support::{act, assert_nothing_left, graph, tagged};

/// Deploys `in → good → bad → out`; the refusal.
fn refusal(bad: FlowNode) -> String {
    let (files, tag) = (left::files(), left::new_tag(0));
    let good = flows::node("pass", &["in"]);
    let graph = graph("failing").node("good", good).node("bad", bad).output("out", "bad.out");
    let checked = tagged(graph, &tag).check().unwrap_or_else(|refused| panic!("{refused}"));
    let plan = checked.plan(&Limits::default()).unwrap();
    let error = plan.deploy(&DeployOptions::default()).expect_err("refused").to_string();
    assert_nothing_left(&tag, &files, &[]);
    assert!(error.contains("node `bad`"), "{error}");
    error
}

fn library_of(path: &Path) -> FlowNode {
    FlowNode { library: path.to_owned(), ..flows::node("pass", &["good.out"]) }
}

#[test]
fn a_function_that_the_library_lacks() {
    let error = refusal(flows::node("pss", &["good.out"]));
    assert!(error.contains("has no function \"pss\"") && error.contains("\"pass\""), "{error}");
}

#[test]
fn a_library_without_functions() {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let libc = maps.split_whitespace().find(|word| word.contains("/libc.so")).unwrap();
    let error = refusal(library_of(Path::new(libc)));
    assert!(error.contains("exports no dflow_library_v1"), "{error}");
    let error = refusal(library_of(Path::new("/bin/sh")));
    assert!(error.contains("dlopen"), "{error}");
}

#[test]
fn an_init_that_fails() {
    let error = refusal(act("good.out", "init", 0).attr("code", 9_900_777));
    assert!(error.contains("init of act failed") && error.contains("9900777"), "{error}");
}

#[test]
fn a_core_that_this_machine_lacks_in_a_plan_from_elsewhere() {
    let files = left::files();
    let node = flows::node("pass", &["in"]).cpu([1023]);
    let graph = crate::support::single(node);
    let plan = graph.check_structure().unwrap().plan(&Limits::default()).unwrap();
    let error = plan.deploy(&DeployOptions::default()).expect_err("refused").to_string();
    assert!(error.contains("node `node`: `cpu`") && error.contains("core 1023"), "{error}");
    assert_eq!(left::files().difference(&files).count(), 0);
}

/// A folder that goes with its value.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("it-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What a library that was built with `panic = "abort"` says of itself.
const ABORTING: &str = r#"
struct library { unsigned long magic; unsigned version, size, panic_strategy, func_count;
    const char *name; unsigned long name_len; const void *funcs; unsigned func_size, reserved[3]; };
static const char funcs[64];
static const struct library record =
    { 0x31464455574c4644, 1, 64, 1, 1, "aborting", 8, funcs, 64, { 0, 0, 0 } };
const struct library *dflow_library_v1(void) { return &record; }
"#;

#[test]
fn a_library_that_was_built_to_abort() {
    let folder = Folder::new("abort");
    let (source, library) = (folder.0.join("aborting.c"), folder.0.join("libaborting.so"));
    std::fs::write(&source, ABORTING).unwrap();
    let built =
        Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status();
    assert!(built.unwrap().success(), "cc, which links Rust programs too");
    let error = refusal(library_of(&library));
    assert!(error.contains("was built with panic = \"abort\""), "{error}");
    assert!(error.contains("--profile udf"), "{error}");
}
