//! Nodes with models: ports, refusals before anything is forked, plans.
#![deny(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "common/onnx.rs"]
mod onnx;

use std::path::PathBuf;

use dflow::plan::{DeployPlan, Work};
use dflow::{DType, FlowGraph, FlowNode, GraphInput, Limits, NodeOutput, Refused, graph_file};

/// A file of its own, removed in the end.
struct Model(PathBuf);

impl Model {
    fn new(name: &str, bytes: &[u8]) -> Model {
        let name = format!("dflow-models-{name}-{}.onnx", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, bytes).unwrap();
        Model(path)
    }

    fn node(&self) -> FlowNode {
        FlowNode::model(&self.0)
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        let _gone = std::fs::remove_file(&self.0);
    }
}

/// `a, b → node → out`, without the cache.
fn graph(node: FlowNode, from: &str) -> FlowGraph {
    let input = || GraphInput::new(DType::Float32, [2, 3]);
    let mut graph = FlowGraph::new("m")
        .input("a", input())
        .input("b", input())
        .node("sum", node)
        .output("out", from);
    graph.no_cache = true;
    graph
}

fn plan(graph: FlowGraph) -> DeployPlan {
    graph.check().unwrap().plan(&Limits::default()).unwrap()
}

fn words(refused: &Refused) -> String {
    refused.to_string()
}

#[test]
fn ports_are_the_models_by_name_or_number() {
    let model = Model::new("ports", &onnx::model("Add", &["p", "q"], None));
    let bound = |node: FlowNode| {
        node.tensor_desc("p", DType::Float32, [2, 3]).tensor_desc("q", DType::Float32, [2, 3])
    };
    // Out of order, one by number; an output whose name is no word of a graph has its number.
    for from in ["sum.0", "sum.y/out"] {
        let node = bound(model.node()).input("q", "b").input("0", "a");
        let checked = graph(node, from).check();
        if from == "sum.y/out" {
            let error = words(&checked.unwrap_err());
            assert!(error.contains("`sum.y/out`") && error.contains("to do:"), "{error}");
            continue;
        }
        let plan = checked.unwrap().plan(&Limits::default()).unwrap();
        let sum = &plan.executors[0];
        let names: Vec<_> = sum.inputs.iter().map(|port| (&*port.name, &*port.source)).collect();
        assert_eq!(names, [("p", "a"), ("q", "b")]);
        assert_eq!(
            (sum.outputs[0].dtype, &sum.outputs[0].shape.0[..]),
            (DType::Float32, &[2, 3][..])
        );
        assert_eq!(sum.outputs[0].max_bytes, 24);
    }
}

#[test]
fn all_models_of_a_device_share_one_process() {
    let model = Model::new("share", &onnx::model("Add", &["p", "q"], Some(2)));
    let single = Model::new("single", &onnx::model("HardSwish", &["p"], Some(2)));
    let add = |p: &str, q: &str| model.node().input("p", p).input("q", q);
    let graph = graph(add("a", "b"), "third.0")
        .node("twins", add("sum.0", "a").instances(2).priority(0, 1))
        .node("third", single.node().input("p", "twins.0").device(3).threads(2).cores(3));
    let plan = plan(graph);
    let all: Vec<_> = plan.executors.iter().map(|one| (one.slot, one.label.as_str())).collect();
    let expected = [
        (1, "sum"),
        (2, "twins@0"),
        (3, "twins@1"),
        (4, "third"),
        (5, "device:0"),
        (6, "device:3"),
    ];
    assert_eq!(all, expected);
    assert_eq!(plan.executors[4].work.models(), [1, 2, 3]);
    assert_eq!(plan.executors[5].work.models(), [4]);
    assert_eq!(plan.processes().map(|one| one.slot).collect::<Vec<_>>(), [5, 6]);
    assert_eq!(plan.title(&plan.executors[4]), "`device:0` (models sum, twins@0, twins@1)");
    // Only processes have message queues; each model a partition for its outputs.
    let requests: Vec<_> =
        plan.queues.iter().filter(|queue| queue.name.starts_with("request")).collect();
    assert_eq!(requests.iter().map(|queue| queue.consumer_slot).collect::<Vec<_>>(), [5, 6]);
    assert_eq!(plan.partitions.len(), 7);
    // sum: twins@0:p and twins@1:p 4 each, 2 in hand each, being written 2; no model forwards.
    let pool = &plan.partitions[1].pools[1];
    assert_eq!((pool.block_size, pool.block_count), (4096, 8 + 4 + 2));
    let text = plan.to_string();
    for line in [
        "flow m: 2 executor(s)",
        "slot 5  device:0: one process for sum, twins@0, twins@1",
        "in the process of device:3",
        "in the process of device:0; process priority 0, event priority 1",
        "slot 6  device:3: one process for third; 3 cores; 2 threads a run",
        "answers without data: depth 3 + 2",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    let again: DeployPlan = serde_json::from_str(&plan.to_json()).unwrap();
    assert!(matches!(&again.executors[0].work, Work::Model(model) if model.program.is_none()));
    assert_eq!(again.executors[4], plan.executors[4]);
}

#[test]
fn what_does_not_fit_is_refused_with_its_place() {
    let open = Model::new("open", &onnx::model("Add", &["p", "q"], None));
    let known = Model::new("known", &onnx::model("Add", &["p", "q"], Some(2)));
    let unknown = Model::new("unknown", &onnx::model("Frobnicate", &["p", "q"], Some(2)));
    let garbage = Model::new("garbage", b"no model");
    let both = |model: &Model| model.node().input("p", "a").input("q", "b");
    let cases: [(FlowNode, &[&str]); 12] = [
        (both(&open), &["input `p`", "`inputs_tensor_desc`"]),
        (both(&unknown), &["the_node", "Frobnicate", "opset 15", "is not supported"]),
        (both(&garbage), &["not an ONNX model"]),
        (FlowNode::model("/no/such.onnx"), &["/no/such.onnx: No such file"]),
        (known.node().input("p", "a"), &["input `q`", "no source for this input"]),
        (both(&known).input("r", "a"), &["input `r`", "one of the model's inputs: p, q"]),
        (both(&known).input("0", "a"), &["input `0`", "each input once"]),
        (
            both(&known).output("y/out", NodeOutput::new(DType::Int8, [2, 3])),
            &["output `y/out`", "int8", "float32, the model's"],
        ),
        (both(&known).tensor_desc("p", DType::Float32, [3, 3]), &["input `p`", "3"]),
        (
            both(&known).tensor_desc("p", DType::Int32, [2, 3]),
            &["`inputs_tensor_desc` p", "int32", "float32, the model's"],
        ),
        (both(&known).stateful().env("A", "b"), &["`stateful`", "`env`"]),
        (
            both(&known).tensor_desc("p", DType::Float32, [-1, 3]),
            &["`inputs_tensor_desc`", "[-1, 3]", "bind every dimension"],
        ),
    ];
    for (node, expected) in cases {
        let error = words(&graph(node, "sum.0").check().unwrap_err());
        for word in expected.iter().chain(&["node `sum`", "found:", "expected:", "to do:"]) {
            assert!(error.contains(word), "{word:?} is not in:\n{error}");
        }
    }
}

#[test]
fn cores_and_priorities_have_their_range_and_a_device_one_number_of_cores() {
    let model = Model::new("cores", &onnx::model("Add", &["p", "q"], Some(2)));
    let node = || model.node().input("p", "a").input("q", "b");
    let cases: [(FlowNode, &[&str]); 7] = [
        (node().cores(0), &["`cores`", "found:    0\n", "1 to 64 cores"]),
        (node().cores(65), &["`cores`", "found:    65\n", "1 to 64 cores"]),
        (node().priority(0, 3), &["`priority.event`", "found:    3\n", "from 0 (first) to 2"]),
        (node().priority(7, 0), &["`priority.process`", "found:    7\n", "from 0 (first) to 2"]),
        (FlowNode { threads: 65, ..node() }, &["`threads`", "found:    65\n", "1 to 64"]),
        (node().device(63), &["`device`", "found:    63\n", "a device from 0 to 62"]),
        (FlowNode::udf("libx.so", "F").priority(0, 0).cores(1), &["`cores`", "`priority`"]),
    ];
    for (node, expected) in cases {
        let error = words(&graph(node, "sum.0").check().unwrap_err());
        for word in expected.iter().chain(&["node `sum`", "found:", "expected:", "to do:"]) {
            assert!(error.contains(word), "{word:?} is not in:\n{error}");
        }
    }
    let two = |cores, device| {
        graph(node().cores(2), "next.0").node(
            "next",
            model.node().input("p", "sum.0").input("q", "b").cores(cores).device(device),
        )
    };
    let error = words(&two(3, 0).check().unwrap_err());
    for word in ["node `next`", "`cores`", "3 cores of device 0", "2, as node `sum` has it"] {
        assert!(error.contains(word), "{word:?} is not in:\n{error}");
    }
    assert!(two(2, 0).check().is_ok() && two(3, 1).check().is_ok());
}

#[test]
fn what_models_need_beside_the_partitions_is_in_the_budget() {
    let model = Model::new("private", &onnx::model("HardSwish", &["p"], Some(2)));
    let flow = || {
        let node = model.node().input("p", "a").instances(2);
        let mut graph = FlowGraph::new("m")
            .input("a", GraphInput::new(DType::Float32, [2, 3]))
            .node("act", node)
            .output("out", "act.0");
        graph.no_cache = true;
        graph.check().unwrap()
    };
    let plan = flow().plan(&Limits::default()).unwrap();
    let Work::Model(own) = &plan.executors[0].work else { panic!("no model") };
    assert!(own.program_bytes > 0);
    assert_eq!(plan.private_bytes(), 2 * (own.program_bytes + own.arena_bytes));
    let text = plan.to_string();
    assert!(text.contains("private to slot 2, act@1: ") && text.contains("program and weights"));
    let enough = plan.bytes() + plan.private_bytes();
    let limits = |machine| Limits { machine: Some(machine), ..Limits::default() };
    assert!(flow().plan(&limits(enough)).is_ok());
    let error = flow().plan(&limits(enough - 1)).unwrap_err().to_string();
    for word in [
        "impossible budget",
        "node `act@",
        "dflow-models-private",
        "program and weights",
        "(the memory of this machine or control group)",
        "`inputs_tensor_desc`",
    ] {
        assert!(error.contains(word), "{word:?} is not in:\n{error}");
    }
}

#[test]
fn a_neighbour_that_does_not_fit_is_named_with_both_ends() {
    let model = Model::new("edge", &onnx::model("Add", &["p", "q"], Some(4)));
    let node = model.node().input("p", "a").input("q", "b");
    let error = words(&graph(node, "sum.0").check().unwrap_err());
    for word in ["node `sum`", "input `p`", "[2, 3] from `a`", "[4, 3]", "shape mismatch"] {
        assert!(error.contains(word), "{word:?} is not in:\n{error}");
    }
}

#[test]
fn a_graph_file_says_the_same() {
    let model = Model::new("file", &onnx::model("Add", &["p", "q"], None));
    let text = format!(
        "name: f\ninputs:\n  a: {{dtype: float32, shape: [2, 3]}}\nnodes:\n  sum:\n    \
         model: {}\n    inputs_tensor_desc:\n      - {{dtype: float32, shape: [2, 3]}}\n      \
         - {{name: q, dtype: float32, shape: [2, 3]}}\n    device: 1\n    threads: 2\n    \
         cores: 2\n    priority: {{event: 1}}\n    inputs: [a, a]\noutputs:\n  out: sum.0\n",
        model.0.display()
    );
    let mut graph = graph_file::from_yaml(&text, "f.yaml").unwrap();
    graph.no_cache = true;
    let again = graph_file::from_yaml(&graph_file::to_yaml(&graph).unwrap(), "g.yaml").unwrap();
    assert_eq!(again.nodes, graph.nodes);
    let plan = plan(graph);
    assert_eq!((plan.executors.len(), plan.executors[1].label.as_str()), (2, "device:1"));
    let keys = "    function: f\n    outputs: {o: {dtype: int8, shape: [1]}}";
    let function = text
        .replace("model:", "library:")
        .replace("    device: 1\n    threads: 2\n    cores: 2", keys);
    let error = graph_file::from_yaml(&function, "f.yaml").unwrap().check().unwrap_err();
    assert!(words(&error).contains("only models have it"), "{error}");
}
