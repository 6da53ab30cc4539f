//! Deployed flows of the test functions, through the API that applications use: real executors,
//! a real supervisor, a session.
//!
//! Every node's process is pinned to a core by its graph, the host's threads by the caller before
//! it deploys. Executors do not spin: they sleep whenever there is nothing to do.

use std::path::PathBuf;

use dflow::{
    DType, DeployOptions, DeployPlan, Feed, FlowGraph, FlowNode, GraphInput, Limits, MonoTime,
    NodeOutput, Output, Restart, RestartPolicy, Session, SessionSettings, Tensor,
};

use crate::Failure;

pub mod chain;
pub mod pipeline;
pub mod start;

/// Longest wait for one message, milliseconds.
const PATIENCE_MS: u64 = 20_000;

/// Ids that may be open in a session.
const OPEN_MAX: u32 = 64;

/// The library of the test functions: in `DFLOW_UDF_DIR`, or where `cargo build --profile udf` puts
/// it.
///
/// # Errors
/// It is not built.
pub fn library() -> Result<PathBuf, Failure> {
    let mut places: Vec<PathBuf> = Vec::new();
    places.extend(std::env::var_os("DFLOW_UDF_DIR").map(PathBuf::from));
    let program = std::env::current_exe()?;
    places.extend(program.ancestors().skip(1).take(3).map(|dir| dir.join("udf")));
    let mut files = places.iter().map(|dir| dir.join("libfaultfuncs.so"));
    files.find(|path| path.is_file()).ok_or_else(|| {
        let build = "cargo build --profile udf -p faultfuncs";
        format!("no libfaultfuncs.so in {places:?}; build it with `{build}`").into()
    })
}

/// A node of a test function whose messages have at most `bytes`, pinned to `core`.
///
/// # Errors
/// The library is not built.
pub fn node(function: &str, from: &str, bytes: u64, core: usize) -> Result<FlowNode, Failure> {
    let output = NodeOutput::new(DType::Uint64, [-1]).max_bytes(bytes);
    // Without a pause: a figure that kills measures the restart, not the policy.
    let restart = Restart { policy: RestartPolicy::OnFailure, max: 1_000_000, backoff_ms: 0 };
    Ok(FlowNode::udf(library()?, function)
        .input("in", from)
        .output("out", output)
        .restart(restart)
        .cpu([u32::try_from(core)?]))
}

/// A graph with the input `in` for messages of at most `bytes`.
#[must_use]
pub fn graph(name: &str, bytes: u64) -> FlowGraph {
    FlowGraph::new(name)
        .input("in", GraphInput::new(DType::Uint64, [-1]).max_bytes(bytes))
        .session(SessionSettings { max_open: OPEN_MAX, ..SessionSettings::default() })
}

/// `in → one node a function → out`; node `n` runs on `cores[n]`.
///
/// # Errors
/// The library is not built.
pub fn line(
    name: &str,
    functions: &[&str],
    cores: &[usize],
    bytes: u64,
) -> Result<FlowGraph, Failure> {
    let mut flow = graph(name, bytes);
    let mut from = "in".to_owned();
    for (index, (function, core)) in functions.iter().zip(cores).enumerate() {
        let label = format!("n{index}");
        flow = flow.node(&label, node(function, &from, bytes, *core)?);
        from = format!("{label}.out");
    }
    Ok(flow.output("out", from.as_str()))
}

/// Deploys a graph; executors park at once.
///
/// # Errors
/// The graph is refused, or a process did not start.
pub fn deploy(graph: FlowGraph) -> Result<Session, Failure> {
    deploy_with(graph, |_| {})
}

/// The same with a change of the plan.
///
/// # Errors
/// As [`deploy`].
pub fn deploy_with(
    graph: FlowGraph,
    change: impl FnOnce(&mut DeployPlan),
) -> Result<Session, Failure> {
    let mut plan = graph.check()?.plan(&Limits::of_machine())?;
    change(&mut plan);
    Ok(plan.deploy(&DeployOptions::default())?)
}

/// A message of `bytes` whose elements are `id + index`, as the test functions check it.
#[must_use]
pub fn message(id: u64, bytes: usize) -> Tensor {
    let elements = (0u64..).take(bytes / 8).flat_map(|index| (id + index).to_ne_bytes());
    let bytes: Vec<u8> = elements.collect();
    let len = i64::try_from(bytes.len() / 8).unwrap_or(0);
    Tensor { dtype: DType::Uint64, shape: vec![len], bytes }
}

/// Feeds one tensor; its id.
///
/// # Errors
/// The session refused it.
pub fn feed(session: &Session, tensor: Tensor) -> Result<u64, Failure> {
    Ok(session.feed(Feed::of(vec![tensor]), None)?)
}

/// Fetches the next result.
///
/// # Errors
/// The session ended, or the result is a code.
pub fn fetch(session: &Session) -> Result<(u64, Output), Failure> {
    let event = session.fetch(None)?;
    match event.outcome {
        Ok(output) => Ok((event.trans_id, output)),
        Err(failure) => Err(format!("id {}: {failure}", event.trans_id).into()),
    }
}

/// The time at which waiting ends.
#[must_use]
pub fn patience() -> MonoTime {
    MonoTime::now().add_ms(PATIENCE_MS)
}

/// Payload bytes that the runtimes of a session's executors copied.
#[must_use]
pub fn bytes_copied(session: &Session) -> u64 {
    session.nodes().iter().map(|node| node.bytes_copied).sum()
}
