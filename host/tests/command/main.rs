//! The command: pictures, plan, schema, usage and refusals (here), whole runs ([`run`]), exit
//! codes.
#![deny(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

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
    let (exit, err) = code(&["run", &graph, "--input", &file, "--out", &format!("{file}/sub")]);
    assert!(exit == Some(1) && err.contains("can't make the folder"), "{err}");
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
