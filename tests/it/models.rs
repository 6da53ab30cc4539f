//! Models in a flow: one process a device, killed while messages stream through it.

use std::path::PathBuf;

use dflow::{DType, Feed, FlowGraph, FlowNode, GraphInput, Restart, RestartPolicy, Tensor};
use executor_core::error::Code;
use npu::ops::{Op, add};
use npu::params::{ParamReader, ParamWriter};
use npu::program::{Place, Writer};
use npu::shape::Shape;
use npu::tensor::TensorInfo;
use sys::pidfd::PidFd;
use sys::signal::Signal;

use crate::support::{Flow, watchdog};

/// Elements of a message.
pub(crate) const VALUES: usize = 1024;

/// A file that goes with its value.
pub(crate) struct Om(pub(crate) PathBuf);

impl Om {
    /// A file with a compiled model.
    pub(crate) fn of(name: &str, om: &[u8]) -> Om {
        let path = std::env::temp_dir().join(format!("it-{name}-{}.om", std::process::id()));
        std::fs::write(&path, om).unwrap();
        Om(path)
    }
}

impl Drop for Om {
    fn drop(&mut self) {
        let _gone = std::fs::remove_file(&self.0);
    }
}

/// An addition, as the op table makes it.
pub(crate) fn addition() -> Box<dyn Op> {
    let mut params = ParamWriter::default();
    params.u32(0);
    params.size(0);
    let params = params.into_bytes();
    (add::ENTRY.decode)(&mut ParamReader::new(&params)).unwrap()
}

/// What the models of these tests take and give.
pub(crate) fn info() -> TensorInfo {
    TensorInfo::new(npu::DataType::FLOAT, Shape::new(&[VALUES]).unwrap())
}

/// The same as a graph says it.
pub(crate) fn shape() -> Vec<i64> {
    vec![i64::try_from(VALUES).unwrap()]
}

/// Restarts as often as it takes.
pub(crate) fn often() -> Restart {
    Restart { policy: RestartPolicy::OnFailure, max: 1_000, backoff_ms: 1 }
}

/// A compiled model: adds `value` to each of its [`VALUES`] elements, so often that it takes a
/// while.
fn plus(name: &str, value: f32, rounds: usize) -> Om {
    let (op, info) = (addition(), info());
    let constant = |value: f32| value.to_le_bytes().repeat(VALUES);
    let mut writer = Writer::new();
    let mut from = writer.tensor("x", &info, Place::Input(0));
    let (value, zero) = (
        writer.constant("value", &info, &constant(value)),
        writer.constant("zero", &info, &constant(0.0)),
    );
    let y = writer.tensor("y", &info, Place::Output(0));
    writer.input(from);
    writer.output(y);
    for round in 0..rounds {
        let to = writer.tensor("t", &info, Place::Arena(round % 2 * 4 * VALUES));
        writer.task("round", &*op, &[from, zero], &[to], (0, 0));
        from = to;
    }
    writer.task("plus", &*op, &[from, value], &[y], (0, 0));
    let om = writer.finish(8 * VALUES).unwrap();
    Om::of(name, &om)
}

fn model(om: &Om, from: &str, restart: Restart) -> FlowNode {
    FlowNode::model(&om.0).input("x", from).restart(restart)
}

/// `in → one → two → out`, both models on one device.
fn graph(one: FlowNode, two: FlowNode) -> FlowGraph {
    FlowGraph::new("models")
        .input("in", GraphInput::new(DType::Float32, shape()))
        .node("one", one)
        .node("two", two)
        .output("out", "two.y")
}

pub(crate) fn feed(flow: &Flow, id: u64) {
    feed_at(flow, id, 0);
}

/// As [`feed`], of this time.
pub(crate) fn feed_at(flow: &Flow, id: u64, time: u64) {
    #[allow(clippy::cast_precision_loss, reason = "ids are small")]
    let bytes = (id as f32).to_le_bytes().repeat(VALUES);
    let tensor = Tensor { dtype: DType::Float32, shape: shape(), bytes };
    let mut feed = Feed::of(vec![tensor]);
    feed.times = (time, time);
    let fed = flow.session.feed(feed, watchdog());
    assert_eq!(fed.unwrap_or_else(|error| panic!("{error}")), id);
}

/// The next event: its id, and its first value or its code.
pub(crate) fn next(flow: &Flow) -> (u64, Result<f32, u32>) {
    let event = flow.event();
    let outcome = match &event.outcome {
        Ok(output) => {
            let floats = output.bytes().as_chunks::<4>().0;
            assert_eq!(floats.len(), VALUES);
            assert!(floats.iter().all(|float| *float == floats[0]), "a torn result");
            Ok(f32::from_le_bytes(floats[0]))
        }
        Err(failure) => Err(failure.code.0),
    };
    (event.trans_id, outcome)
}

pub(crate) fn pid(flow: &Flow, label: &str) -> u32 {
    let nodes = flow.session.nodes();
    nodes.iter().find(|node| node.label == label).map_or(0, |node| node.pid)
}

#[test]
fn a_killed_device_answers_every_id_once_and_starts_again() {
    const IDS: u64 = 400;
    // Fewer than the queues hold: one thread feeds and fetches.
    const OPEN: u64 = 8;
    let restart = often();
    let (one, two) = (plus("kill-one", 1000.0, 200), plus("kill-two", 0.5, 200));
    let first = model(&one, "in", restart.clone()).redeliver(5);
    let flow = Flow::start(graph(first, model(&two, "one.y", restart)));
    assert_eq!(pid(&flow, "one"), pid(&flow, "device:0"), "one process");
    assert_eq!(pid(&flow, "one"), pid(&flow, "two"), "one process");
    let mut seen = vec![false; usize::try_from(IDS).unwrap() + 1];
    let (mut data, mut died, mut fed, mut kills) = (0, 0, 0, 0);
    for done in 0..IDS {
        while fed < IDS && fed < done + OPEN {
            fed += 1;
            feed(&flow, fed);
        }
        // While many are open; a process that is just starting is not there to be killed.
        let device = pid(&flow, "device:0");
        if done % 80 == 40
            && device != 0
            && PidFd::open(device).is_ok_and(|process| process.signal(Signal::KILL).is_ok())
        {
            kills += 1;
        }
        let (id, outcome) = next(&flow);
        let slot = &mut seen[usize::try_from(id).unwrap()];
        assert!(!std::mem::replace(slot, true), "id {id} ended twice");
        match outcome {
            #[allow(clippy::cast_precision_loss, reason = "ids are small")]
            Ok(value) => {
                assert_eq!(value, id as f32 + 1000.5);
                data += 1;
            }
            Err(code) => {
                assert_eq!(code, Code::EXECUTOR_DIED.0);
                died += 1;
            }
        }
    }
    assert_eq!((data + died, seen.iter().filter(|seen| **seen).count() as u64), (IDS, IDS));
    assert!(kills > 0 && died <= kills, "at most the set in `two` is lost: {died} of {kills}");
    flow.wait_until(|session| session.counts().restarts >= kills);
    flow.end();
}

#[test]
fn a_device_that_is_not_started_again_ends_the_flow_with_its_models_named() {
    let never = Restart { policy: RestartPolicy::Never, max: 0, backoff_ms: 1 };
    let (one, two) = (plus("never-one", 1.0, 1), plus("never-two", 2.0, 1));
    let flow = Flow::start(graph(model(&one, "in", never.clone()), model(&two, "one.y", never)));
    feed(&flow, 1);
    assert_eq!(next(&flow), (1, Ok(4.0)));
    PidFd::open(pid(&flow, "device:0")).unwrap().signal(Signal::KILL).unwrap();
    flow.wait_until(|session| session.ended().is_some());
    let ended = flow.session.ended().unwrap();
    assert_eq!(ended.code, Code::NODE_FAILED);
    let named = "node `device:0` (models one, two) ended (SIGKILL)";
    assert!(ended.reason.contains(named), "{}", ended.reason);
    flow.end();
}

#[test]
fn cores_and_priorities_of_the_graph_reach_the_device() {
    let (one, two) = (plus("cores-one", 1.0, 1), plus("cores-two", 2.0, 1));
    let one = model(&one, "in", often()).cores(1).priority(0, 2);
    let flow = Flow::start(graph(one, model(&two, "one.y", often()).priority(1, 0)));
    for id in 1..=20 {
        feed(&flow, id);
        #[allow(clippy::cast_precision_loss, reason = "ids are small")]
        let value = id as f32 + 3.0;
        assert_eq!(next(&flow), (id, Ok(value)));
    }
    assert!(flow.logs().contains("2 models in 2 places, 1 of them at once"), "{}", flow.logs());
    flow.end();
    // What the device refuses of a graph that nobody checked: the number reaches it.
    let om = plus("cores-three", 1.0, 1);
    let node = model(&om, "in", often()).priority(0, 1);
    let graph = FlowGraph::new("m")
        .input("in", GraphInput::new(DType::Float32, shape()))
        .node("one", node)
        .output("out", "one.y");
    let mut plan = graph.check().unwrap().plan(&dflow::Limits::default()).unwrap();
    let dflow::plan::Work::Model(model) = &mut plan.executors[0].work else { panic!("no model") };
    model.priority.process = Some(3);
    let error = plan.deploy(&dflow::DeployOptions::default()).expect_err("refused").to_string();
    assert!(error.contains("_eschedProcessPriority: found \"3\""), "{error}");
}

#[test]
fn a_wrong_shape_is_a_code_on_its_id_and_the_loop_goes_on() {
    let om = plus("shape", 1.0, 1);
    let input = GraphInput::new(DType::Float32, [-1]).max_bytes(4 * VALUES as u64);
    let graph = FlowGraph::new("shape")
        .input("in", input)
        .node("one", model(&om, "in", Restart::default()))
        .output("out", "one.0");
    let flow = Flow::start(graph);
    let tensor = Tensor { dtype: DType::Float32, shape: vec![3], bytes: vec![0; 12] };
    flow.session.feed(Feed::of(vec![tensor]), watchdog()).unwrap();
    feed(&flow, 2);
    let (id, outcome) = next(&flow);
    assert!(id == 1 && outcome.is_err(), "{outcome:?}");
    assert_eq!(next(&flow), (2, Ok(3.0)));
    flow.end();
}
