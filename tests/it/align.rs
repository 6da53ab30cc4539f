//! Branches that do not keep one order, joined by nodes that align their inputs; such a node killed
//! while halves of ids wait in it.
//!
//! ```text
//! in ─► slow ×2 ─► join ─► out     slow@0 keeps id 4, and what is behind it, until it is killed
//!  └──────────────►
//! ```

use dflow::{DType, FlowGraph, FlowNode, GraphInput, NodeOutput};
use executor_core::error::Code;
use npu::program::{Place, Writer};
use tests::flows;

use crate::models::{self, Om, pid};
use crate::support::{Flow, act, graph, message};

/// Ids of a round: those of instance 0 are even.
const IDS: u64 = 9;
const EARLY: [u64; 6] = [1, 2, 3, 5, 7, 9];
const LATE: [u64; 3] = [4, 6, 8];

fn align(timeout_ms: Option<u32>, drop: bool) -> dflow::Align {
    dflow::Align { max_cache: 16, timeout_ms, drop }
}

fn slow() -> FlowNode {
    // Only the test ends it.
    let node = act("in", "wait", 4).instances(2).redeliver(2);
    FlowNode { stall_ms: 600_000, ..node }
}

pub(crate) fn kill(flow: &Flow, label: &str) {
    let restarts = flow.restarts();
    flow.wait_until(|_| pid(flow, label) != 0);
    let process = sys::pidfd::PidFd::open(pid(flow, label)).unwrap();
    process.signal(sys::signal::Signal::KILL).unwrap();
    flow.wait_until(|_| flow.restarts() > restarts && pid(flow, label) != 0);
}

fn functions(align: dflow::Align) -> FlowGraph {
    let join = flows::node("join", &["slow.out", "in"]).align(align);
    graph("aligned").node("slow", slow()).node("join", join).output("out", "join.out")
}

#[test]
fn a_function_gets_halves_of_one_id_whatever_their_order_and_after_its_death() {
    let flow = Flow::start(functions(align(None, false)));
    (1..=IDS).for_each(|id| flow.feed(id));
    let early = EARLY.map(|id| (id, message(id)));
    assert_eq!(flow.outcomes(EARLY.len()), early, "they overtake 4");
    // 9 came through behind them, so the other halves of 4, 6 and 8 are in its hands.
    kill(&flow, "join");
    kill(&flow, "slow@0");
    assert_eq!(flow.outcomes(LATE.len()), LATE.map(|id| (id, message(id))));
    flow.feed(10);
    assert_eq!(flow.next(), (10, message(10)));
    flow.end();
}

#[test]
fn an_id_whose_half_does_not_come_in_time_ends_once() {
    for drop in [true, false] {
        let flow = Flow::start(functions(align(Some(100), drop)));
        (1..=IDS).for_each(|id| flow.feed(id));
        let all = flow.outcomes(usize::try_from(IDS).unwrap());
        let code = Err(Code::FLOW_FUNC_DATA_ALIGN_FAILED.0);
        let expected = |id| if LATE.contains(&id) { code.clone() } else { message(id) };
        assert_eq!(all, (1..=IDS).map(|id| (id, expected(id))).collect::<Vec<_>>());
        // The halves that come now are of ids that have ended: they are dropped.
        kill(&flow, "slow@0");
        let join = || flow.session.nodes().into_iter().find(|node| node.label == "join").unwrap();
        flow.wait_until(|_| join().late == LATE.len() as u64);
        for id in 10..=13 {
            flow.feed(id);
            assert_eq!(flow.next(), (id, message(id)));
        }
        assert_eq!(join().processed, IDS + 4, "each id once");
        assert_eq!(flow.session.counts().ledger.late, 0);
        flow.end();
    }
}

/// Two inputs; their sum.
pub(crate) fn pair() -> Om {
    let op = models::addition();
    let info = models::info();
    let mut writer = Writer::new();
    let (a, b) =
        (writer.tensor("a", &info, Place::Input(0)), writer.tensor("b", &info, Place::Input(1)));
    let y = writer.tensor("y", &info, Place::Output(0));
    writer.input(a);
    writer.input(b);
    writer.output(y);
    writer.task("sum", &*op, &[a, b], &[y], (0, 0));
    Om::of("pair", &writer.finish(0).unwrap())
}

fn outcomes(flow: &Flow, count: usize) -> Vec<(u64, Result<u32, u32>)> {
    let mut all: Vec<_> = (0..count)
        .map(|_| {
            let (id, outcome) = models::next(flow);
            (id, outcome.map(f32::to_bits))
        })
        .collect();
    all.sort_unstable();
    all
}

#[test]
fn a_model_gets_halves_of_one_id_whatever_their_order_and_after_its_death() {
    let om = pair();
    let input = GraphInput::new(DType::Float32, models::shape());
    let slow = FlowNode { outputs: dflow::Named::default(), ..slow() };
    let slow = slow.output("out", NodeOutput::new(DType::Float32, models::shape()));
    let join = FlowNode::model(&om.0).input("a", "slow.out").input("b", "in");
    let graph = FlowGraph::new("aligned-model")
        .input("in", input)
        .node("slow", slow)
        .node("join", join.align(align(None, true)).restart(models::often()))
        .output("out", "join.y");
    let flow = Flow::start(graph);
    (1..=IDS).for_each(|id| models::feed(&flow, id));
    #[allow(clippy::cast_precision_loss, reason = "ids are small")]
    let twice = |id: u64| (id, Ok((2.0 * id as f32).to_bits()));
    assert_eq!(outcomes(&flow, EARLY.len()), EARLY.map(twice));
    kill(&flow, "device:0");
    kill(&flow, "slow@0");
    assert_eq!(outcomes(&flow, LATE.len()), LATE.map(twice));
    flow.end();
}
