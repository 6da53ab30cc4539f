//! Graphs that `dflow run` refuses, each before anything is started: the programs that it would
//! start do nothing but fail, and that would be seen.

use std::process::Command;

use tests::flows;

fn good() -> String {
    let library = flows::library();
    let library = library.display();
    format!(
        "name: refused
inputs:
  in: {{dtype: uint64, shape: [-1], max_bytes: 2048}}
nodes:
  one:
    library: {library}
    function: pass
    inputs: {{in0: in}}
    outputs:
      out: {{dtype: uint64, shape: [-1], max_bytes: 2048}}
  two:
    library: {library}
    function: pass
    inputs: {{in0: {{from: one.out, dtype: uint64}}}}
    outputs:
      out: {{dtype: uint64, shape: [-1], max_bytes: 2048}}
outputs:
  result: two.out
"
    )
}

/// Exit code and stderr of `dflow run` on this graph.
fn run(name: &str, text: &str) -> (Option<i32>, String) {
    run_after(name, "true", text)
}

/// As [`run`], after a command of the shell that starts it.
fn run_after(name: &str, command: &str, text: &str) -> (Option<i32>, String) {
    let folder = std::env::temp_dir().join(format!("it-refusals-{name}-{}", std::process::id()));
    let programs = folder.join("programs");
    std::fs::create_dir_all(&programs).unwrap();
    let graph = folder.join("graph.yaml");
    std::fs::write(&graph, text).unwrap();
    let input = folder.join("in.bin");
    std::fs::write(&input, [0; 64]).unwrap();
    for name in ["dflow-supervisor", "udf-executor"] {
        std::os::unix::fs::symlink("/bin/false", programs.join(name)).unwrap();
    }
    let output = Command::new("/bin/sh")
        .args(["-c", &format!("{command}; exec \"$0\" \"$@\"")])
        .arg(flows::program("dflow"))
        .args(["run".as_ref(), graph.as_os_str(), "--input".as_ref()])
        .arg(format!("in={}", input.display()))
        .env("DFLOW_BIN_DIR", &programs)
        .output()
        .unwrap();
    let _ = std::fs::remove_dir_all(&folder);
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[track_caller]
fn refused(name: &str, old: &str, new: &str, words: &[&str]) {
    let good = good();
    assert!(good.contains(old), "{old}");
    let (exit, err) = run(name, &good.replacen(old, new, 1));
    assert_eq!(exit, Some(1), "{err}");
    for word in ["graph.yaml"].iter().chain(words) {
        assert!(err.contains(word), "{word:?} is not in:\n{err}");
    }
    assert!(!err.contains("the supervisor ended"), "it went on to start something:\n{err}");
}

#[test]
fn the_good_graph_gets_as_far_as_starting() {
    let (exit, err) = run("good", &good());
    assert_eq!(exit, Some(1), "{err}");
    assert!(err.contains("the supervisor ended"), "{err}");
}

#[test]
fn an_unknown_key() {
    refused("key", "function: pass", "functoin: pass", &["functoin", "function"]);
}

#[test]
fn a_missing_library() {
    let library = flows::library().display().to_string();
    refused("library", &library, "/no/such/lib.so", &["one", "/no/such/lib.so"]);
}

#[test]
fn an_unknown_source() {
    refused("source", "from: one.out", "from: one.uot", &["two", "in0", "one.uot", "`out`"]);
}

#[test]
fn another_element_type() {
    let old = "from: one.out, dtype: uint64";
    refused("dtype", old, "from: one.out, dtype: float32", &["two", "in0", "float32", "uint64"]);
}

#[test]
fn another_shape() {
    let old = "from: one.out, dtype: uint64";
    let new = "from: one.out, dtype: uint64, shape: [-1, 4]";
    refused("shape", old, new, &["two", "in0", "[-1, 4]", "[-1]"]);
}

#[test]
fn a_core_that_is_not_there() {
    let words = ["node `one`: `cpu`", "core 1023", "cores that this process may use"];
    refused("cpu", "    function: pass", "    cpu: 1023\n    function: pass", &words);
}

#[test]
fn a_cycle() {
    refused("cycle", "inputs: {in0: in}", "inputs: {in0: two.out}", &["one", "two"]);
}

#[test]
fn an_impossible_budget() {
    let old = "inputs:\n  in:";
    let new = "session: {memory: \"4096\"}\ninputs:\n  in:";
    refused("budget", old, new, &["at most 4 KiB (session `memory`)"]);
}

#[test]
fn a_limit_on_file_sizes_below_the_group() {
    let (exit, err) = run_after("fsize", "ulimit -f 16", &good());
    assert_eq!(exit, Some(1), "{err}");
    assert!(
        err.contains("memory group") && err.contains("EFBIG") && err.contains("ulimit -f"),
        "{err}"
    );
}
