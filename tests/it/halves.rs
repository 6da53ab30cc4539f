//! Models of float16 and bfloat16 in a flow: their tensors go in and out as they are.

use dflow::{DType, Feed, FlowGraph, FlowNode, GraphInput, Tensor};
use npu::DataType;
use npu::half::{Bf16, F16};

use crate::support::{Flow, watchdog};

#[path = "../../host/tests/common/onnx.rs"]
mod onnx;

/// An ONNX file, removed in the end.
struct File(std::path::PathBuf);

impl Drop for File {
    fn drop(&mut self) {
        let _gone = std::fs::remove_file(&self.0);
    }
}

/// Feeds `x` to a model of one op; what comes out.
fn through(dtype: DType, number: u64, op: &str, x: [u16; 3]) -> Vec<u16> {
    let path = std::env::temp_dir().join(format!("it-halves-{op}-{}.onnx", std::process::id()));
    std::fs::write(&path, onnx::model_of(number, op, &["x"], Some(1))).unwrap();
    let file = File(path);
    let mut graph = FlowGraph::new("halves")
        .input("in", GraphInput::new(dtype, [1, 3]))
        .node("one", FlowNode::model(&file.0).input("x", "in"))
        .output("out", "one.0");
    graph.no_cache = true;
    let flow = Flow::start(graph);
    let mut last = Vec::new();
    for id in 1..=3 {
        let bytes = x.iter().flat_map(|bits| bits.to_le_bytes()).collect();
        let tensor = Tensor { dtype, shape: vec![1, 3], bytes };
        assert_eq!(flow.session.feed(Feed::of(vec![tensor]), watchdog()).unwrap(), id);
        let event = flow.event();
        let output = event.outcome.as_ref().unwrap();
        let kind = if number == 10 { DataType::FLOAT16 } else { DataType::BF16 };
        assert_eq!((event.trans_id, output.data_type(), output.shape()), (id, kind, &[1, 3][..]));
        last = output.bytes().as_chunks().0.iter().map(|b| u16::from_le_bytes(*b)).collect();
    }
    flow.end();
    last
}

#[test]
fn halves_go_through_a_device() {
    // HardSwish has no kernel for float16.
    let x = [-1.0, 0.3, 7.0];
    let swish = |x: f32| x * (x / 6.0 + 0.5).clamp(0.0, 1.0);
    let halves = x.map(F16::from_f32);
    let found = through(DType::Float16, 10, "HardSwish", halves.map(|half| half.0));
    assert_eq!(found, halves.map(|half| F16::from_f32(swish(half.to_f32())).0));
    let brains = x.map(Bf16::from_f32);
    let found = through(DType::Bfloat16, 16, "Exp", brains.map(|brain| brain.0));
    assert_eq!(found, brains.map(|brain| Bf16::from_f32(brain.to_f32().exp()).0));
}
