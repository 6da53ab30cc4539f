//! Plans: numbers of known graphs, random graphs, and the files they come from.
#![deny(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use dflow::plan::{DeployPlan, QueueKind};
use dflow::{
    Align, AttrValue, DType, FlowGraph, FlowNode, Forwarding, GraphInput, GraphOutput, Limits,
    NodeInput, NodeOutput, QueuePolicy, Restart, RestartPolicy, SessionSettings, WritableInputs,
    graph_file,
};
use proptest::prelude::*;

fn bytes(count: i64) -> NodeOutput {
    NodeOutput::new(DType::Uint8, [count])
}

fn plan(graph: FlowGraph) -> DeployPlan {
    graph.check_structure().unwrap().plan(&Limits::default()).unwrap()
}

fn chain() -> FlowGraph {
    FlowGraph::new("chain")
        .input("in", GraphInput::new(DType::Uint8, [100]).depth(3))
        .node(
            "a",
            FlowNode::udf("l.so", "f").input("x", "in").output("y", bytes(5000)).instances(2),
        )
        .node("b", FlowNode::udf("l.so", "f").input("x", "a.y").output("y", bytes(10)))
        .output("out", GraphOutput::new("b.y").depth(5).holds(7))
}

#[test]
fn an_aligner_has_blocks_for_what_it_caches_and_for_what_does_not_come() {
    let align = Align { max_cache: 16, timeout_ms: Some(1000), drop: true };
    let node = |from: &[&str]| {
        let node = FlowNode::udf("l.so", "f").output("y", bytes(5000));
        from.iter().enumerate().fold(node, |node, (n, from)| node.input(format!("x{n}"), *from))
    };
    let graph = |join: FlowNode| {
        FlowGraph::new("aligned")
            .input("in", GraphInput::new(DType::Uint8, [100]).depth(3))
            .node("a", node(&["in"]).instances(2))
            .node("join", join)
            .output("out", "join.y")
    };
    let plan = plan(graph(node(&["a.y", "in"]).align(align)));
    let blocks = |slot: usize, pool: usize| plan.partitions[slot].pools[pool].block_count;
    // Each instance of a: join:x0 4 queued, 17 cached, 2 in hand, and what it forwards: out 4, 2 in
    // hand; 2 being written; lanes of both behind the join count at the host's queue only once.
    let terms = &plan.partitions[1].pools[1].terms;
    let cached = terms.iter().find(|term| term.what == "aligner at join.x0: 1 x (16 + 1)");
    assert_eq!(cached.map(|term| term.count), Some(17), "{terms:?}");
    assert_eq!(u64::from(blocks(1, 1)), terms.iter().map(|term| term.count).sum::<u64>());
    assert_eq!((blocks(1, 0), blocks(3, 0)), (5, 6), "one input may not come");
    let text = plan.to_string();
    for line in [
        "; aligned by id: 16 wait, 1000 ms, then answered",
        "17  aligner at join.x0: 1 x (16 + 1)",
        "responses: depth 3 + 2 + 1 for inputs that do not come",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    let again: DeployPlan = serde_json::from_str(&plan.to_json()).unwrap();
    assert_eq!(again, plan);
    let text = graph_file::to_yaml(&graph(node(&["a.y", "in"]).align(align))).unwrap();
    let read = graph_file::from_yaml(&text, "g.yaml").unwrap();
    assert_eq!(read.nodes.get("join").unwrap().align, Some(align), "{text}");
}

#[test]
fn slots_queues_and_lanes_of_a_chain() {
    let plan = plan(chain());
    let labels: Vec<_> = plan.executors.iter().map(|one| (one.slot, one.label.as_str())).collect();
    assert_eq!(labels, [(1, "a@0"), (2, "a@1"), (3, "b")]);
    let data: Vec<_> = plan
        .queues
        .iter()
        .filter(|queue| queue.kind == QueueKind::Data)
        .map(|queue| {
            (queue.name.as_str(), queue.depth, queue.consumer_slot, &*queue.producer_slots)
        })
        .collect();
    let expected: [(&str, u32, u32, &[u32]); 4] = [
        ("a@0:x", 3, 1, &[0]),
        ("a@1:x", 3, 2, &[0]),
        ("b:x", 4, 3, &[1, 2]),
        ("host:out", 5, 0, &[3]),
    ];
    assert_eq!(data, expected);
    let feed = &plan.host.inputs[0].destinations[0];
    assert_eq!((feed.consumer.as_str(), feed.queue_for(4), feed.queue_for(7)), ("a.x", 0, 1));
    assert_eq!(plan.host.outputs[0].queue, 3);
    let last = plan.executor(3).unwrap();
    assert_eq!(plan.queues[last.request_queue as usize].name, "request_queue.executor_3");
    assert_eq!(plan.queues[last.response_queue as usize].name, "response_queue.executor_3");
    assert_eq!(plan.executor(0), None);
}

#[test]
fn budget_of_a_chain_is_the_formula() {
    let plan = plan(chain());
    // b: host:out 5, in hand at the host 2, held there 7, being written 2.
    let b = &plan.partitions[3];
    assert_eq!((b.pools[1].block_size, b.pools[1].block_count), (4096, 16));
    assert_eq!((b.pools[0].block_size, b.pools[0].block_count), (4096, 5));
    assert_eq!((b.control_pool, plan.executors[2].outputs[0].pool), (0, 1));
    // a@0: its lane of b:x 4, in hand at b 2, and forwarded by b: the 14 above; being written 2.
    let a = &plan.partitions[1];
    assert_eq!((a.pools[1].block_size, a.pools[1].block_count), (8192, 22));
    assert_eq!(a.bytes, 22 * 8192 + 5 * 4096 + 4096);
    // host: a@0:x and a@1:x 3 each, in hand there 2 each, and forwarded by a: both lanes of b:x 8,
    // in hand at b 2, then the 14; being written 2.
    assert_eq!(plan.partitions[0].pools[1].block_count, 6 + 4 + 8 + 2 + 14 + 2);
    assert_eq!(plan.partitions[0].pools[0].block_count, 3 * 5);
    // Entries of b: the 14 places behind it, and 2 references to its input.
    assert_eq!((b.extra_entries, b.entries()), (16, 16 + 5 + 16));
    let sum: u64 = b.entry_terms.iter().map(|term| term.count).sum();
    assert_eq!(sum, u64::from(b.extra_entries));
}

#[test]
fn copies_end_forwarding_and_cost_blocks_of_their_own() {
    let graph = FlowGraph::new("copy")
        .input("in", GraphInput::new(DType::Uint8, [20_000]).depth(2))
        .node(
            "a",
            FlowNode::udf("l.so", "f")
                .input("x", "in")
                .output("y", bytes(10))
                .writable_inputs(WritableInputs::Copy)
                .holds(3),
        )
        .output("out", GraphOutput::new("a.y").depth(2));
    let plan = plan(graph);
    // The host's blocks stop at a: 2 queued, 2 in hand, 3 held, 2 being written.
    assert_eq!(plan.partitions[0].pools[1].block_count, 9);
    let a = &plan.partitions[1];
    let copies = plan.executors[0].inputs[0].copy_pool.unwrap();
    assert_eq!((copies, a.pools[2].block_size, a.pools[2].block_count), (2, 24_576, 2 + 2 + 3 + 2));
}

#[test]
fn what_is_copied_before_it_is_forwarded_costs_nothing_upstream() {
    let graph = |forwarding| {
        let node = FlowNode::udf("l.so", "f").input("x", "in").output("y", bytes(10));
        FlowGraph::new("own")
            .input("in", GraphInput::new(DType::Uint8, [20_000]).depth(2))
            .node("a", node.forwarding(forwarding))
            .output("out", GraphOutput::new("a.y").depth(7))
    };
    // Depth 2 and 2 in hand at a, 2 being written; and 7 + 2 places behind a for what it sends on.
    let blocks = |forwarding| plan(graph(forwarding)).partitions[0].pools[1].block_count;
    assert_eq!((blocks(Forwarding::Share), blocks(Forwarding::Copy)), (6 + 9, 6));
    // It has no blocks for copies alone: they go where its outputs go.
    let a = |forwarding| plan(graph(forwarding)).partitions[1].pools.clone();
    assert_eq!(a(Forwarding::Share), a(Forwarding::Copy));
}

#[test]
fn a_partition_has_at_most_eight_pools_smallest_first() {
    let mut node = FlowNode::udf("l.so", "f").input("x", "in");
    let mut graph = FlowGraph::new("many").input("in", GraphInput::new(DType::Uint8, [1]));
    for port in 0..10 {
        node = node.output(format!("y{port}"), bytes(5000 * (port + 1)));
        graph = graph.output(format!("o{port}"), format!("a.y{port}").as_str());
    }
    let plan = plan(graph.node("a", node));
    let pools = &plan.partitions[1].pools;
    assert_eq!(pools.len(), 8);
    assert!(pools.is_sorted_by_key(|pool| pool.block_size));
    // The classes of 8, 12 and 16 KiB joined that of 24 KiB: 4 ports x (4 queued, 2 fetched, 2
    // being written).
    assert_eq!((pools[1].block_size, pools[1].block_count), (24_576, 32));
    for output in &plan.executors[0].outputs {
        assert!(pools[output.pool as usize].block_size >= output.max_bytes + 1088);
    }
}

#[test]
fn a_plan_says_how_its_numbers_come_about_and_is_data() {
    let plan = plan(chain());
    let text = plan.to_string();
    for line in [
        "slot 1  a@0: f of l.so",
        "pool 1: 22 blocks x 8 KiB = 176 KiB",
        "4  queue b.x: 1 x depth 4 x 1 lane(s)",
        "7  held at out: 1 x 7",
        "total  ",
    ] {
        assert!(text.contains(line), "{line:?} is not in:\n{text}");
    }
    let read: DeployPlan = serde_json::from_str(&plan.to_json()).unwrap();
    assert_eq!(read, plan);
}

#[test]
fn the_pages_example_plans() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/graphs/pages.yaml");
    let flow = graph_file::read(file.as_ref()).unwrap().check_structure().unwrap();
    let plan = flow.plan(&Limits::of_machine()).unwrap();
    let names: Vec<_> = plan.executors.iter().map(|one| one.label.as_str()).collect();
    assert_eq!(names, ["decode", "deskew@0", "deskew@1", "binarise", "measure"]);
    assert!(plan.executors[0].library.ends_with("graphs/../target/udf/libpages.so"));
    let images = [1, 2, 3].map(|slot| plan.partitions[slot].pools[1].block_size);
    assert!(images.iter().all(|size| *size >= 2400 * 2400));
}

/// A graph with every kind of setting.
fn full() -> FlowGraph {
    let node = FlowNode::udf("lib/l.so", "f")
        .input("0", "in")
        .input("1", NodeInput::new("in").depth(9).expects(DType::Int32, [-1, 2]))
        .output("y", bytes(3))
        .output("z", NodeOutput::new(DType::Bfloat16, [-1]).max_bytes(64))
        .instances(3)
        .attr("int", 5)
        .attr("float", 1.0)
        .attr("small", 1e-9)
        .attr("yes", true)
        .attr("text", "no")
        .attr("number", "12")
        .attr("file", std::path::PathBuf::from("../words.txt"))
        .attr("type", DType::Float16)
        .attr("types", vec![DType::Int8, DType::Bool])
        .attr("ints", vec![1_i64, -2])
        .attr("floats", vec![1.0, 2.5])
        .attr("bools", vec![true, false])
        .attr("texts", vec!["a".to_owned(), "true".to_owned()])
        .attr("lists", vec![vec![1_i64], vec![2, 3]])
        .restart(Restart { policy: RestartPolicy::Always, max: 9, backoff_ms: 1 })
        .redeliver(4)
        .holds(2)
        .env("KEY", "value: x")
        .cpu([0, 1, 0]);
    let keeps = FlowNode::udf("l.so", "g")
        .input("x", NodeInput::new("a.y").policy(QueuePolicy::Overwrite))
        .output("y", bytes(1))
        .writable_inputs(WritableInputs::Copy)
        .forwarding(Forwarding::Copy)
        .stateful();
    FlowGraph::new("full")
        .input("in", GraphInput::new(DType::Int32, [-1, 2]).max_bytes(80))
        .node("a", node)
        .node("b", keeps)
        .output("out", "b.y")
        .output("more", GraphOutput::new("a.z").depth(2).holds(1))
        .session(SessionSettings {
            max_open: 3,
            deadline_ms: Some(50),
            memory: Some("10737418240,2147483648:2097152".to_owned()),
        })
}

#[test]
fn yaml_and_json_carry_every_setting() {
    let graph = full();
    let yaml = graph_file::to_yaml(&graph).unwrap();
    assert_eq!(graph_file::from_yaml(&yaml, "g.yaml").unwrap(), graph, "{yaml}");
    let json = graph_file::to_json(&graph).unwrap();
    assert_eq!(graph_file::from_json(&json, "g.json").unwrap(), graph, "{json}");
    plan(graph);
}

#[test]
fn short_forms_mean_the_long_ones() {
    let short = "{name: g, inputs: {i: {dtype: int8, shape: [1]}}, outputs: {o: n.y}, nodes: {n: \
        {library: l, function: f, inputs: [i], cpu: 1, outputs: {y: {dtype: int8, shape: [1]}}}}}";
    let graph = graph_file::from_yaml(short, "g.yaml").unwrap();
    let node = graph.nodes.get("n").unwrap();
    assert_eq!(node.inputs.get("0"), Some(&NodeInput::new("i")));
    assert_eq!(node.cpu, [1]);
    assert_eq!(graph.outputs.get("o"), Some(&GraphOutput::new("n.y")));
    let empty = graph_file::from_yaml(
        "{name: g, nodes: {n: {library: l, function: f, outputs: {}, \
        attrs: {a: [], b: [1, 2.5], t: {dtype: [int8]}, f: {file: w.txt}}}}}",
        "g.yaml",
    )
    .unwrap();
    let attrs = &empty.nodes.get("n").unwrap().attrs;
    assert_eq!(attrs["a"], AttrValue::Ints(Vec::new()));
    assert_eq!(attrs["b"], AttrValue::Floats(vec![1.0, 2.5]));
    assert_eq!(attrs["t"], AttrValue::DTypes(vec![DType::Int8]));
    assert_eq!(attrs["f"], AttrValue::File("w.txt".into()));
}

/// Random graphs: node `i` takes inputs of earlier nodes or of the graph; what nobody takes is a
/// graph output.
fn graphs() -> impl Strategy<Value = FlowGraph> {
    let node =
        (prop::collection::vec((any::<u32>(), 2_u32..20), 1..4), 1_u32..4, 0_u32..3, 0..40_000_i64);
    (prop::collection::vec((node, any::<bool>()), 1..9)).prop_map(|nodes| {
        let mut graph = FlowGraph::new("random").input("in", GraphInput::new(DType::Uint8, [10]));
        let mut sources = vec!["in".to_owned()];
        let mut used = vec![false];
        for (index, ((inputs, instances, holds, size), copy)) in nodes.into_iter().enumerate() {
            let mut node = FlowNode::udf("l.so", "f").instances(instances).holds(holds);
            if copy {
                node = node.writable_inputs(WritableInputs::Copy);
            }
            for (port, (pick, depth)) in inputs.into_iter().enumerate() {
                let pick = pick as usize % sources.len();
                used[pick] = true;
                let input = NodeInput::new(sources[pick].clone()).depth(depth);
                node = node.input(format!("x{port}"), input);
            }
            sources.push(format!("n{index}.y"));
            used.push(false);
            graph = graph.node(format!("n{index}"), node.output("y", bytes(size)));
        }
        for (index, source) in sources.iter().enumerate().skip(1).filter(|(at, _)| !used[*at]) {
            graph = graph.output(format!("o{index}"), source.as_str());
        }
        graph
    })
}

proptest! {
    #[test]
    fn random_graphs_plan_or_are_refused_and_budgets_cover_the_queues(graph in graphs()) {
        let round_trip = graph_file::from_json(&graph_file::to_json(&graph).unwrap(), "g").unwrap();
        prop_assert_eq!(&round_trip, &graph);
        let Ok(flow) = graph.check_structure() else { return Ok(()) };
        let plan = flow.plan(&Limits::default()).unwrap();
        for (index, partition) in plan.partitions.iter().enumerate() {
            prop_assert_eq!(partition.slot as usize, index);
            let executor = plan.executor(partition.slot);
            let outputs = executor.map_or(&plan.host.inputs, |one| &one.outputs);
            let lanes: u64 = outputs
                .iter()
                .flat_map(|output| &output.destinations)
                .flat_map(|destination| &destination.queues)
                .map(|queue| u64::from(plan.queues[*queue as usize].depth))
                .sum();
            prop_assert!(partition.blocks() >= lanes + 2 * outputs.len() as u64);
            prop_assert!(u64::from(partition.extra_entries) >= lanes);
            for pool in &partition.pools {
                let sum: u64 = pool.terms.iter().map(|term| term.count).sum();
                prop_assert_eq!(sum, u64::from(pool.block_count));
                prop_assert_eq!(pool.block_size % 4096, 0);
            }
            for output in outputs {
                let pool = &partition.pools[output.pool as usize];
                prop_assert!(pool.block_size >= output.max_bytes + 1088);
            }
        }
        for queue in &plan.queues {
            prop_assert_eq!(&plan.queues[queue.id as usize].name, &queue.name);
            prop_assert!(queue.name.len() <= 127 && queue.depth >= 2);
            prop_assert!(!queue.producer_slots.contains(&queue.consumer_slot));
        }
    }
}
