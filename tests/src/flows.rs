//! Flows of the test functions.

use std::path::PathBuf;

use dflow::{
    DType, FlowGraph, FlowNode, GraphInput, NodeOutput, Restart, RestartPolicy, SessionSettings,
    Tensor,
};

/// Elements of a message.
pub const ELEMENTS: usize = 256;

/// The library of the test functions: in `DFLOW_UDF_DIR`, or where `cargo build --profile udf` puts
/// it.
///
/// # Panics
/// When it is not built, with the command that builds it.
#[must_use]
pub fn library() -> PathBuf {
    let file = "libfaultfuncs.so";
    let mut places: Vec<PathBuf> = Vec::new();
    places.extend(std::env::var_os("DFLOW_UDF_DIR").map(PathBuf::from));
    if let Ok(program) = std::env::current_exe() {
        places.extend(program.ancestors().skip(1).take(3).map(|dir| dir.join("udf")));
    }
    let found = places.iter().map(|dir| dir.join(file)).find(|path| path.is_file());
    found.unwrap_or_else(|| {
        panic!("{file} is not in {places:?}: run `cargo build --profile udf -p faultfuncs` first")
    })
}

/// A program of the workspace: in `DFLOW_BIN_DIR`, or above the running one.
///
/// # Panics
/// When it is not built.
#[must_use]
pub fn program(name: &str) -> PathBuf {
    let mut places: Vec<PathBuf> = Vec::new();
    places.extend(std::env::var_os("DFLOW_BIN_DIR").map(PathBuf::from));
    if let Ok(own) = std::env::current_exe() {
        places.extend(own.ancestors().skip(1).take(2).map(PathBuf::from));
    }
    let found = places.iter().map(|dir| dir.join(name)).find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("no {name} in {places:?}: `cargo build --bins` first"))
}

fn restart() -> Restart {
    Restart { policy: RestartPolicy::OnFailure, max: 1_000_000, backoff_ms: 1 }
}

/// A node of a test function with one output `out`.
#[must_use]
pub fn node(function: &str, inputs: &[&str]) -> FlowNode {
    let mut node = FlowNode::udf(library(), function);
    for (index, from) in inputs.iter().enumerate() {
        node = node.input(format!("in{index}"), *from);
    }
    node.output("out", NodeOutput::new(DType::Uint64, [-1]).max_bytes(ELEMENTS as u64 * 8))
        .restart(restart())
}

fn graph(name: &str) -> FlowGraph {
    FlowGraph::new(name)
        .input("in", GraphInput::new(DType::Uint64, [-1]).max_bytes(ELEMENTS as u64 * 8))
        .session(SessionSettings { max_open: 64, ..SessionSettings::default() })
}

/// Fan-out, a join, two instances, a grandchild, and two outputs:
/// `in → first → {left, right} → join → twins ×2 → main`, and `right → side`.
#[must_use]
pub fn diamond() -> FlowGraph {
    graph("diamond")
        .node("first", node("pass", &["in"]).redeliver(2))
        .node("left", node("pass", &["first.out"]))
        .node("right", node("mother", &["first.out"]))
        .node("join", node("join", &["left.out", "right.out"]).redeliver(2))
        .node("twins", node("forward", &["join.out"]).instances(2))
        .output("main", "twins.out")
        .output("side", "right.out")
}

/// `in → n × function → out`.
#[must_use]
pub fn chain(function: &str, count: usize) -> FlowGraph {
    let mut flow = graph("chain");
    let mut from = "in".to_owned();
    for index in 0..count {
        let name = format!("n{index}");
        flow = flow.node(&name, node(function, &[&from]));
        from = format!("{name}.out");
    }
    flow.output("out", from.as_str())
}

/// The message of an id: elements `id + index`.
#[must_use]
pub fn message(id: u64, elements: usize) -> Tensor {
    let elements = (0u64..).take(elements).flat_map(|index| id.wrapping_add(index).to_le_bytes());
    let bytes: Vec<u8> = elements.collect();
    let len = i64::try_from(bytes.len() / 8).unwrap_or(0);
    Tensor { dtype: DType::Uint64, shape: vec![len], bytes }
}

/// Whether a payload is the message of `id`.
#[must_use]
pub fn is_message(id: u64, bytes: &[u8]) -> bool {
    let words = bytes.chunks_exact(8);
    words.remainder().is_empty()
        && (0u64..).zip(words).all(|(index, word)| word == id.wrapping_add(index).to_le_bytes())
}
