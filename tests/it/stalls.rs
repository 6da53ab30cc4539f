//! What takes long and goes on, what stands still, and what the answers say of it.

use dflow::{DType, Event, Feed, FlowGraph, FlowNode, GraphInput, Tensor};
use executor_core::error::Code;
use npu::ops::{Op, mat_mul};
use npu::program::{Place, Writer};
use npu::shape::Shape;
use npu::tensor::TensorInfo;
use tests::flows;

use crate::models::Om;
use crate::support::{Flow, act, message, single, watchdog};

/// A compiled model: `x` times itself, and that times `x`, `rounds` products in all.
fn powers(name: &str, side: usize, rounds: usize) -> Om {
    let op = mat_mul::MatMul;
    let info = TensorInfo::new(npu::DataType::FLOAT, Shape::new(&[side, side]).unwrap());
    let bytes = 4 * side * side;
    let scratch = op.scratch_bytes(&[info, info], &info);
    let mut writer = Writer::new();
    let x = writer.tensor("x", &info, Place::Input(0));
    let y = writer.tensor("y", &info, Place::Output(0));
    writer.input(x);
    writer.output(y);
    let mut from = x;
    for round in 0..rounds {
        let place = Place::Arena(round % 2 * bytes);
        let to = if round + 1 == rounds { y } else { writer.tensor("t", &info, place) };
        writer.task("power", &op, &[from, x], &[to], (2 * bytes, scratch));
        from = to;
    }
    let om = writer.finish(2 * bytes + scratch).unwrap();
    Om::of(name, &om)
}

/// What the unit matrix comes to in a flow of that model.
fn run(name: &str, (side, rounds): (usize, usize), stall_ms: u32) -> (Flow, Event) {
    let om = powers(name, side, rounds);
    let shape = vec![i64::try_from(side).unwrap(); 2];
    let node = FlowNode { stall_ms, ..FlowNode::model(&om.0).input("x", "in") };
    let graph = FlowGraph::new("powers")
        .input("in", GraphInput::new(DType::Float32, shape.clone()))
        .node("powers", node)
        .output("out", "powers.y");
    let flow = Flow::start(graph);
    let bytes = unit(side);
    let tensor = Tensor { dtype: DType::Float32, shape, bytes };
    flow.session.feed(Feed::of(vec![tensor]), watchdog()).unwrap();
    let event = flow.event();
    (flow, event)
}

fn unit(side: usize) -> Vec<u8> {
    let element = |at: usize| if at.is_multiple_of(side + 1) { 1f32 } else { 0.0 };
    (0..side * side).flat_map(|at| element(at).to_le_bytes()).collect()
}

#[test]
fn a_run_that_goes_on_task_by_task_is_no_stall() {
    const STALL_MS: u32 = 100;
    let (flow, event) = run("goes-on", (512, 100), STALL_MS);
    assert!(event.micros > 1000 * u64::from(STALL_MS), "{} µs: not long enough", event.micros);
    let output = event.outcome.unwrap_or_else(|failure| panic!("{failure}\n{}", flow.logs()));
    assert!(output.bytes() == unit(512), "the unit matrix stays that");
    drop(output);
    assert_eq!(flow.restarts(), 0);
    flow.end();
}

#[test]
fn one_task_that_takes_too_long_is_answered_with_the_number_to_raise() {
    let (flow, event) = run("too-long", (2048, 1), 20);
    let failure = event.outcome.unwrap_err();
    assert_eq!(failure.code, Code::STALLED);
    let text = failure.to_string();
    for part in ["node `powers`", "in one task", "`stall_ms`, 20 ms", "raise it"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let logs = flow.logs();
    assert!(logs.contains("(`stall_ms` is 20: raise it"), "{logs}");
    flow.end();
}

#[test]
fn a_function_that_does_not_return_is_answered_with_the_number_to_raise() {
    let flow = Flow::start(single(FlowNode { stall_ms: 50, ..act("in", "wait", 1) }));
    flow.session.feed(Feed::of(vec![flows::message(1, 16)]), watchdog()).unwrap();
    let failure = flow.event().outcome.unwrap_err();
    assert_eq!(failure.code, Code::STALLED);
    let text = failure.to_string();
    for part in ["node `node`", "in one call", "`stall_ms`, 50 ms", "raise it"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    flow.feed(2);
    assert_eq!(flow.next(), (2, message(2)));
    flow.end();
}
