//! The command: pictures, plan, schema, usage and refusals (here), whole runs ([`run`]), exit
//! codes.
#![deny(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../udf-executor/tests/cpp/build.rs"]
mod build;
mod cpp;
mod cpp_stop;
mod model;
#[path = "../common/onnx.rs"]
mod onnx;
mod run;
mod support;

use support::{Folder, dflow};

const PAGES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/graphs/pages.yaml");

#[test]
fn pictures_show_nodes_instances_and_ports() {
    let (_, mermaid, _) = dflow(&["graph", PAGES]);
    assert!(mermaid.starts_with("flowchart LR\n"), "{mermaid}");
    assert!(mermaid.contains("n1[\"deskew x2\"]") && mermaid.contains("n0 -->|image| n1"));
    assert!(mermaid.contains("in0([\"file\"])") && mermaid.contains("n3 -->|row| out0"));
    let (_, dot, _) = dflow(&["graph", PAGES, "--format", "dot"]);
    assert!(dot.contains("digraph \"pages\"") && dot.contains("n0 -> n1 [label=\"image\"]"));
    let (_, svg, _) = dflow(&["graph", PAGES, "--format", "svg"]);
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n") && svg.contains(">deskew x2<"));
}

#[test]
fn plan_refuses_a_library_that_is_not_built() {
    let folder = Folder::new("plan");
    let name = folder.file("graphs/pages.yaml", &std::fs::read(PAGES).unwrap());
    let (output, _, err) = dflow(&["plan", &name]);
    assert_eq!(output.status.code(), Some(1));
    assert!(err.contains("node `decode`") && err.contains("libpages.so"), "{err}");
    folder.file("target/udf/libpages.so", b"");
    let (output, out, err) = dflow(&["plan", &name]);
    assert!(output.status.success(), "{err}");
    assert!(out.contains("partition of slot 3, deskew@1") && out.contains("total"), "{out}");
    let (_, json, _) = dflow(&["plan", &name, "--json"]);
    let plan: dflow::DeployPlan = serde_json::from_str(&json).unwrap();
    assert_eq!(plan.executors.len(), 5);
}

#[test]
fn run_refuses_before_anything_is_started() {
    let folder = Folder::new("refuse");
    let code = |args: &[&str]| {
        let (output, out, err) = dflow(args);
        assert_eq!(out, "", "{err}");
        (output.status.code(), err)
    };
    let (exit, err) = code(&["run", "nothing.yaml", "--input", "a=b"]);
    assert!(exit == Some(1) && err.contains("nothing.yaml"), "{err}");
    let graph = folder.graph("refuse", &[("one", "identity")], b"not a library");
    let file = folder.file("a.bin", b"12345678");
    let (exit, err) = code(&["run", &graph]);
    assert!(exit == Some(2) && err.contains("--input file=PATH"), "{err}");
    let (exit, err) = code(&["run", &graph, "--input", &format!("flie={file}")]);
    assert!(exit == Some(2) && err.contains("did you mean `file`?"), "{err}");
    let (exit, err) = code(&["run", &graph, "--input", "file=/no/such/file"]);
    assert!(exit == Some(2) && err.contains("/no/such/file"), "{err}");
    let (exit, err) = code(&["run", &graph, "--input", &file, "--repeat", "0"]);
    assert!(exit == Some(2) && err.contains("--repeat"), "{err}");
    let (exit, err) = code(&["run", &graph, "--input", &file, "--deadline-ms", "0"]);
    assert!(exit == Some(2) && err.contains("--deadline-ms"), "{err}");
    for option in ["--out", "--keep-logs"] {
        for (path, what) in [
            (format!("{file}/sub"), "can't make the folder"),
            ("/proc".to_owned(), "can't write to"),
        ] {
            let (exit, err) = code(&["run", &graph, "--input", &file, option, &path]);
            assert!(exit == Some(1) && err.contains(what) && err.contains("to do:"), "{err}");
            assert!(!err.contains("os error"), "{err}");
        }
    }
}

#[test]
fn run_names_a_missing_program_and_where_it_looked() {
    let folder = Folder::new("programs");
    let graph = folder.graph("programs", &[("one", "identity")], b"not a library");
    let file = folder.file("a.bin", b"12345678");
    // A copy far from the programs that are built beside it.
    let program = folder.file("a/b/dflow", &std::fs::read(env!("CARGO_BIN_EXE_dflow")).unwrap());
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&program, permissions).unwrap();
    let run = std::process::Command::new(program)
        .args(["run", &graph, "--input", &file])
        .env_remove("DFLOW_BIN_DIR")
        .output()
        .unwrap();
    let err = String::from_utf8(run.stderr).unwrap();
    assert_eq!(run.status.code(), Some(1));
    assert!(err.contains("dflow-supervisor") && err.contains("DFLOW_BIN_DIR"), "{err}");
}

#[test]
fn run_names_a_program_that_can_not_be_run_or_is_another_one() {
    let folder = Folder::new("foreign");
    let graph = folder.graph("foreign", &[("one", "identity")], b"not a library");
    let file = folder.file("a.bin", b"12345678");
    let mode = |path: &str, bits| {
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(bits);
        std::fs::set_permissions(path, permissions).unwrap();
    };
    for (case, bytes, bits, words) in [
        ("plain", &b"\x7fnothing"[..], 0o755, "execve: ENOEXEC"),
        ("locked", b"#!/bin/sh\nexit 0\n", 0o644, "execve: EACCES"),
        ("other", b"#!/bin/sh\nexit 3\n", 0o755, "ended (exit code 3) before it started anything"),
    ] {
        let program = folder.file(&format!("{case}/dflow-supervisor"), bytes);
        mode(&program, bits);
        mode(&folder.file(&format!("{case}/udf-executor"), b""), 0o755);
        let mut run = support::command(&["run", &graph, "--input", &file]);
        let run = run.env("DFLOW_BIN_DIR", folder.path(case)).output().unwrap();
        let err = String::from_utf8(run.stderr).unwrap();
        assert_eq!(run.status.code(), Some(1), "{err}");
        for word in [words, &program, "of this version", "DFLOW_BIN_DIR"] {
            assert!(err.contains(word), "{word}: {err}");
        }
    }
}

#[test]
fn too_few_descriptors_are_named_with_the_limit() {
    let folder = Folder::new("descriptors");
    let names: Vec<String> = (0..12).map(|number| format!("n{number}")).collect();
    let nodes: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "identity")).collect();
    let graph = folder.graph("descriptors", &nodes, b"not a library");
    let file = folder.file("a.bin", b"12345678");
    let run =
        format!("ulimit -n 24; exec {} run {graph} --input {file}", env!("CARGO_BIN_EXE_dflow"));
    let run = std::process::Command::new("sh").args(["-c", &run]).output().unwrap();
    let err = String::from_utf8(run.stderr).unwrap();
    assert_eq!(run.status.code(), Some(1), "{err}");
    assert!(err.contains("EMFILE") && err.contains("`ulimit -n`"), "{err}");
}

#[test]
fn tools_say_what_runs_when_a_name_is_unknown() {
    for command in ["logs", "held"] {
        let (output, out, err) = dflow(&[command, "no-flow-has-this-name"]);
        assert_eq!((output.status.code(), out.as_str()), (Some(1), ""));
        assert!(err.contains("no flow runs") || err.contains("is no running flow"), "{err}");
    }
    assert_eq!(dflow(&["logs", "--stderr", "--stdout"]).0.status.code(), Some(2));
    assert!(dflow(&["ps"]).0.status.success());
}

#[test]
fn help_names_the_exit_codes() {
    let (output, out, _) = dflow(&["run", "--help"]);
    assert!(output.status.success());
    for code in ["    0  ", "    1  ", "    2  ", "    3  ", "    4  ", "  130  "] {
        assert!(out.contains(code), "{out}");
    }
}

#[test]
fn schema_and_usage() {
    let (output, schema, _) = dflow(&["schema"]);
    assert!(output.status.success());
    assert_eq!(schema, dflow::graph_file::SCHEMA);
    assert_eq!(dflow(&["grap", PAGES]).0.status.code(), Some(2));
    let (output, _, err) = dflow(&["graph", "nothing.yaml"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(err.contains("nothing.yaml"), "{err}");
}
