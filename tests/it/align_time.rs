//! Branches that are put together by time: `in` goes to both inputs of a node, and the times of the
//! second are less by [`STEP`]. So each id meets the next one, and the last waits for one to come.

use dflow::{AlignTime, DType, FlowGraph, FlowNode, GraphInput};
use executor_core::error::Code;
use tests::flows;

use crate::align::{kill, pair};
use crate::models;
use crate::support::{Flow, graph, message};

const STEP: u64 = 5000;

fn align(timeout_ms: Option<u32>) -> AlignTime {
    AlignTime { interval: 10, offsets: vec![0, STEP], timeout_ms }
}

#[test]
fn a_model_pairs_each_id_with_the_next_one_and_keeps_what_waits_when_it_dies() {
    let om = pair();
    let join = FlowNode::model(&om.0).input("a", "in").input("b", "in").align_time(align(None));
    let graph = FlowGraph::new("by-time")
        .input("in", GraphInput::new(DType::Float32, models::shape()))
        .node("join", join.restart(models::often()))
        .output("out", "join.y");
    let flow = Flow::start(graph);
    assert!(
        flow.session.plan().to_string().contains("by time: at most 10 apart, offsets [0, 5000]")
    );
    let join = || flow.session.nodes().into_iter().find(|node| node.label == "join").unwrap();
    models::feed_at(&flow, 1, STEP);
    // The first one of the second input is too old for anything.
    flow.wait_until(|_| join().late == 1);
    for id in 1..=20 {
        if id % 7 == 0 {
            kill(&flow, "device:0");
        }
        models::feed_at(&flow, id + 1, (id + 1) * STEP);
        #[allow(clippy::cast_precision_loss, reason = "ids are small")]
        let sum = (2 * id + 1) as f32;
        assert_eq!(models::next(&flow), (id, Ok(sum)), "{}", flow.logs());
    }
    // Far from all others: 21, which waited, is answered without a run.
    models::feed_at(&flow, 22, 1_000_000);
    assert_eq!(models::next(&flow), (21, Err(Code::AICPU_DISCARD_DATA.0)));
    flow.end();
}

#[test]
fn a_function_is_not_called_for_what_has_no_time_or_nothing_near() {
    let join = flows::node("join", &["in", "in"]);
    let flow = Flow::start(
        graph("by-time").node("join", join.align_time(align(Some(100)))).output("out", "join.out"),
    );
    // The second input's is too old: what is left of the id waits, and not for ever.
    flow.feed_with(1, |feed| feed.times = (STEP, STEP));
    assert_eq!(flow.next(), (1, Err(Code::FLOW_FUNC_DATA_ALIGN_FAILED.0)));
    // No time: its half at the second input leaves, and it is answered once another comes.
    flow.feed_with(2, |feed| feed.times = (7, 8));
    let codes = [Code::FLOW_FUNC_DATA_ALIGN_FAILED.0, Code::FLOW_FUNC_PARAM_INVALID.0];
    let (id, outcome) = flow.next();
    assert!(id == 2 && outcome.is_err_and(|code| codes.contains(&code)), "{}", flow.logs());
    flow.end();
    // Without offsets both halves of an id are near each other.
    let join = flows::node("join", &["in", "in"]);
    let same = AlignTime { interval: 0, offsets: Vec::new(), timeout_ms: None };
    let flow =
        Flow::start(graph("same").node("join", join.align_time(same)).output("out", "join.out"));
    for id in 1..=20 {
        flow.feed_with(id, |feed| feed.times = (id, id));
        assert_eq!(flow.next(), (id, message(id)));
    }
    flow.end();
}
