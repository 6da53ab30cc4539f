//! `figure-alloc`: calls of the malloc family by the runtime of real executors, after `seal`.
//!
//! Messages go through a flow of all kinds of nodes: one that allocates its output, one that
//! forwards, one with two instances, a join of two inputs. A feeder and a fetcher run at once, so
//! queues are full and empty in turn. A second flow has two models of one device and a function in
//! C++. Each executor counts by interposition and publishes what it
//! counted. `user` is what the functions and their libraries allocated, apart.
//!
//! `counter_counts`: in a second session `DFLOW_ALLOCATE_ONCE` makes each executor allocate once in
//! runtime code after `seal`; true when exactly that was counted in each. The host is not counted:
//! a session allocates, and is not on the way between executors.

use benches::Failure;
use benches::args::Args;
use benches::flow::{deploy_with, feed, fetch, graph, message, node};
use benches::report::Report;
use dflow::plan::Work;
use dflow::{DType, FlowGraph, FlowNode, GraphInput, NodeOutput, Session, Tensor};
use npu::DataType;
use npu::ops::add;
use npu::params::{ParamReader, ParamWriter};
use npu::program::{Place, Writer};
use npu::shape::Shape;
use npu::tensor::TensorInfo;
use serde_json::Value;
use std::path::PathBuf;

/// Messages of the measured session.
const MESSAGES: u64 = 120_000;

/// Messages of the session that shows that the counter counts.
const DELIBERATE: u64 = 200;

/// Payload.
const BYTES: usize = 256;

/// Floats of a payload.
const FLOATS: i64 = 64;

/// Makes an executor allocate once after `seal`.
const SWITCH: &str = "DFLOW_ALLOCATE_ONCE";

fn main() -> Result<(), Failure> {
    if benches::play_role()? {
        return Ok(());
    }
    let args = Args::from_env()?;
    let messages = if args.full { 10 * MESSAGES } else { MESSAGES };
    let program = Program::new()?;
    let both = |deliberate: bool, messages: u64| -> Result<Vec<Counts>, Failure> {
        let mut counts = run(functions()?, message, deliberate, messages)?;
        counts.extend(run(models(&program), floats, deliberate, messages)?);
        Ok(counts)
    };
    let (counts, deliberate) = (both(false, messages)?, both(true, DELIBERATE)?);
    let of = |kind: Kind| -> u64 {
        counts.iter().filter(|counts| counts.kind == kind).map(|counts| counts.runtime).sum()
    };
    let mut report = Report::new("alloc");
    report.put("messages", messages);
    report.put("npu_executor", of(Kind::Device));
    report.put("host_cpu_executor", Value::Null);
    report.put("udf_executor_cpp", of(Kind::Cpp));
    report.put("udf_executor_rust", of(Kind::Rust));
    report.put("user", counts.iter().map(|counts| counts.user).sum::<u64>());
    report.put("setup", counts.iter().map(|counts| counts.setup).sum::<u64>());
    report.put("executors", counts.len());
    report.put("counter_counts", deliberate.iter().all(|counts| counts.runtime == 1));
    report.print()?;
    Ok(())
}

/// What runs in a process.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Rust,
    Cpp,
    Device,
}

/// What one executor counted.
struct Counts {
    kind: Kind,
    setup: u64,
    runtime: u64,
    user: u64,
}

fn functions() -> Result<FlowGraph, Failure> {
    let core = sys::affinity::current_cpu();
    let node = |function: &str, from: &str| -> Result<_, Failure> {
        let mut node = node(function, from, BYTES as u64, core)?;
        // Where it runs does not matter here.
        node.cpu.clear();
        Ok(node)
    };
    let first = node("pass", "in")?;
    let (left, right) = (node("pass", "first.out")?, node("forward", "first.out")?);
    let join = node("join", "left.out")?.input("other", "right.out");
    Ok(graph("alloc", BYTES as u64)
        .node("first", first)
        .node("left", left)
        .node("right", right)
        .node("join", join)
        .node("twins", node("forward", "join.out")?.instances(2))
        .output("out", "twins.out"))
}

/// The function in C++, and the library that its project is built into.
const CPP: (&str, &str) = ("cpp", "libfigure_alloc.so");

/// A compiled model in a file that goes with it: doubles a vector.
struct Program(PathBuf);

impl Program {
    fn new() -> Result<Program, Failure> {
        let mut params = ParamWriter::default();
        params.u32(0);
        params.size(0);
        let op = (add::ENTRY.decode)(&mut ParamReader::new(&params.into_bytes()))
            .map_err(|error| format!("{error:?}"))?;
        let shape = Shape::new(&[BYTES / 4]).map_err(|error| error.to_string())?;
        let info = TensorInfo::new(DataType::FLOAT, shape);
        let mut writer = Writer::new();
        let x = writer.tensor("x", &info, Place::Input(0));
        let y = writer.tensor("y", &info, Place::Output(0));
        writer.input(x);
        writer.output(y);
        writer.task("double", &*op, &[x, x], &[y], (0, 0));
        let om = writer.finish(0).ok_or("the program is too large")?;
        let name = format!("figure-alloc-{}.om", std::process::id());
        let program = Program(std::env::temp_dir().join(name));
        std::fs::write(&program.0, &om[..])?;
        Ok(program)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _gone = std::fs::remove_file(&self.0);
    }
}

fn models(program: &Program) -> FlowGraph {
    let shape = vec![FLOATS];
    let project = concat!(env!("CARGO_MANIFEST_DIR"), "/../flow-func/cpp/samples/arith");
    let identity = FlowNode::udf(CPP.1, "identity")
        .project(project)
        .input("in", "two.y")
        .output("out", NodeOutput::new(DType::Float32, shape.clone()));
    FlowGraph::new("alloc-models")
        .input("in", GraphInput::new(DType::Float32, shape))
        .node("one", FlowNode::model(&program.0).input("x", "in"))
        .node("two", FlowNode::model(&program.0).input("x", "one.y"))
        .node(CPP.0, identity)
        .output("out", "cpp.out")
}

fn floats(_id: u64, bytes: usize) -> Tensor {
    Tensor { dtype: DType::Float32, shape: vec![FLOATS], bytes: vec![0; bytes] }
}

fn run(
    graph: FlowGraph,
    message: fn(u64, usize) -> Tensor,
    deliberate: bool,
    messages: u64,
) -> Result<Vec<Counts>, Failure> {
    let session = deploy_with(graph, |plan| {
        for executor in plan.executors.iter_mut().filter(|_| deliberate) {
            // A graph file can't set a variable of the runtime; a plan can.
            executor.env.insert(SWITCH.to_owned(), "1".to_owned());
        }
    })?;
    std::thread::scope(|scope| {
        let session = &session;
        let feeder = scope.spawn(move || feed_all(session, message, messages));
        for _ in 0..messages {
            let _result = fetch(session)?;
        }
        feeder.join().map_err(|_| "the feeder panicked")?.map_err(Failure::from)
    })?;
    let nodes = session.nodes();
    let executors = session.plan().executors.iter().zip(&nodes);
    let counts = executors.filter_map(|(executor, node)| {
        let kind = match executor.work {
            Work::Function if executor.label == CPP.0 => Kind::Cpp,
            Work::Function => Kind::Rust,
            Work::Device(_) => Kind::Device,
            // A part of its device's process.
            Work::Model(_) => return None,
        };
        let (setup, runtime, user) = node.allocations;
        Some(Counts { kind, setup, runtime, user })
    });
    let counts = counts.collect();
    session.close();
    Ok(counts)
}

fn feed_all(
    session: &Session,
    message: fn(u64, usize) -> Tensor,
    messages: u64,
) -> Result<(), String> {
    for id in 1..=messages {
        feed(session, message(id, BYTES)).map_err(|error| error.to_string())?;
    }
    Ok(())
}
