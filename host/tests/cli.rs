//! The command: pictures, plan, schema, exit codes.
#![deny(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::{Command, Output};

const PAGES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/graphs/pages.yaml");

fn dflow(args: &[&str]) -> (Output, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_dflow")).args(args).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    (output, out, err)
}

#[test]
fn pictures_show_nodes_instances_and_ports() {
    let (_, mermaid, _) = dflow(&["graph", PAGES]);
    assert!(mermaid.starts_with("flowchart LR\n"), "{mermaid}");
    assert!(mermaid.contains("n0[\"decode x2\"]") && mermaid.contains("n0 -->|image| n1"));
    assert!(mermaid.contains("in0([\"file\"])") && mermaid.contains("n3 -->|row| out0"));
    let (_, dot, _) = dflow(&["graph", PAGES, "--format", "dot"]);
    assert!(dot.contains("digraph \"pages\"") && dot.contains("n0 -> n1 [label=\"image\"]"));
    let (_, svg, _) = dflow(&["graph", PAGES, "--format", "svg"]);
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n") && svg.contains(">decode x2<"));
}

#[test]
fn plan_refuses_a_library_that_is_not_built() {
    let folder = std::env::temp_dir().join(format!("dflow-cli-{}", std::process::id()));
    let library = folder.join("target/udf/libpages.so");
    let graph = folder.join("graphs/pages.yaml");
    std::fs::create_dir_all(library.parent().unwrap()).unwrap();
    std::fs::create_dir_all(graph.parent().unwrap()).unwrap();
    std::fs::copy(PAGES, &graph).unwrap();
    let name = graph.to_str().unwrap();
    let (output, _, err) = dflow(&["plan", name]);
    assert_eq!(output.status.code(), Some(1));
    assert!(err.contains("node `decode`") && err.contains("libpages.so"), "{err}");
    std::fs::write(&library, "").unwrap();
    let (output, out, err) = dflow(&["plan", name]);
    assert!(output.status.success(), "{err}");
    assert!(out.contains("partition of slot 2, decode@1") && out.contains("total"), "{out}");
    let (_, json, _) = dflow(&["plan", name, "--json"]);
    let plan: dflow::DeployPlan = serde_json::from_str(&json).unwrap();
    assert_eq!(plan.executors.len(), 5);
    std::fs::remove_dir_all(&folder).unwrap();
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
