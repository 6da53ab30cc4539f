//! Tests of streams: which tasks get some, that all that is read has ended, and that models with
//! them compute what they compute without.

use npu::engine::{Input, Model};
use npu::ops::AttributeValue;
use npu::team::Team;
use proptest::prelude::*;

use super::*;
use crate::testing::{D, Draft, FLOAT, noise};
use crate::{Options, compile};

fn work(tasks: &[(usize, &[usize])]) -> Vec<Work> {
    tasks.iter().map(|(cost, reads)| Work { cost: *cost, reads: reads.to_vec() }).collect()
}

fn streams(work: &[Work], most: usize) -> Vec<usize> {
    assign(work, most).iter().map(|task| task.stream).collect()
}

/// A cost that nobody shares.
const SMALL: usize = 2_000_000;
const LARGE: usize = 100_000_000;

/// 0 → two branches of two → 5.
fn diamond(cost: usize) -> Vec<Work> {
    work(&[(cost, &[]), (cost, &[0]), (cost, &[1]), (cost, &[0]), (cost, &[3]), (cost, &[2, 4])])
}

#[test]
fn small_branches_are_on_streams_and_large_ones_are_shared() {
    assert_eq!(streams(&diamond(SMALL), 2), [0, 0, 0, 1, 1, 0]);
    assert_eq!(streams(&diamond(SMALL), 8), [0, 0, 0, 1, 1, 0]);
    assert_eq!(streams(&diamond(SMALL), 1), [0; 6]);
    assert_eq!(streams(&diamond(LARGE), 2), [0; 6]);
    assert_eq!(streams(&diamond(1000), 2), [0; 6], "a call costs more than they do");
    let left: Vec<bool> = assign(&diamond(LARGE), 2).iter().map(|task| task.left).collect();
    assert_eq!(left, [false, false, false, true, false, false]);
    assert!(assign(&diamond(LARGE), 1).iter().all(|task| !task.left), "nothing was to choose");
}

#[test]
fn events_are_where_streams_meet() {
    let after: Vec<Vec<usize>> = assign(&diamond(SMALL), 2).into_iter().map(|t| t.after).collect();
    let none = Vec::new();
    assert_eq!(after, [none.clone(), none.clone(), none.clone(), vec![0], none, vec![4]]);
}

#[test]
fn uneven_and_nested_branches_are_spread() {
    // One long branch, and two short ones beside it.
    let uneven =
        work(&[(SMALL, &[]), (2 * SMALL, &[0]), (SMALL, &[0]), (SMALL, &[0]), (SMALL, &[1, 2, 3])]);
    assert_eq!(streams(&uneven, 2), [0, 0, 1, 1, 0]);
    // A branch that branches again: three streams have something to do, of four.
    let nested = work(&[
        (SMALL, &[]),
        (SMALL, &[0]),
        (2 * SMALL, &[0]),
        (SMALL, &[1]),
        (SMALL, &[1]),
        (SMALL, &[2, 3, 4]),
    ]);
    let own = streams(&nested, 4);
    assert_eq!(own.iter().collect::<std::collections::BTreeSet<_>>().len(), 3, "{own:?}");
    assert!(own[1] != own[2] && own[3] != own[4] && own[2] != own[4], "{own:?}");
}

#[test]
fn a_long_row_costs_little() {
    let row: Vec<Work> = (0..20_000usize)
        .map(|task| Work { cost: SMALL, reads: task.checked_sub(1).into_iter().collect() })
        .collect();
    assert!(assign(&row, 8).iter().all(|task| task.stream == 0 && task.after.is_empty()));
}

fn drawn() -> impl Strategy<Value = Vec<Work>> {
    let task = (0usize..4_000_000, prop::collection::vec(any::<prop::sample::Index>(), 0..3));
    prop::collection::vec(task, 1..120).prop_map(|tasks| {
        let one = |(task, (cost, reads)): (usize, (usize, Vec<prop::sample::Index>))| {
            // What was made lately is read more often.
            let near = |read: prop::sample::Index| {
                let back = read.index(task.min(6)) + 1;
                task - back
            };
            let reads = if task == 0 { Vec::new() } else { reads.into_iter().map(near).collect() };
            Work { cost, reads }
        };
        tasks.into_iter().enumerate().map(one).collect()
    })
}

/// Whether each task has ended when another one begins, by streams and events, by looking at all.
fn before(tasks: &[Streamed], left_out: Option<(usize, usize)>) -> Vec<Vec<bool>> {
    let mut all: Vec<Vec<bool>> = Vec::new();
    for (task, own) in tasks.iter().enumerate() {
        let mut ended = vec![false; tasks.len()];
        let same = (0..task).rev().find(|other| tasks[*other].stream == own.stream);
        let events = own.after.iter().copied().filter(|after| left_out != Some((task, *after)));
        for other in events.chain(same) {
            ended[other] = true;
            let earlier = &all[other];
            ended.iter_mut().zip(earlier).for_each(|(own, earlier)| *own |= *earlier);
        }
        all.push(ended);
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn what_is_read_has_ended_and_no_event_is_idle(work in drawn(), most in 1usize..=4) {
        let tasks = assign(&work, most);
        prop_assert_eq!(tasks.len(), work.len());
        prop_assert!(tasks.iter().all(|task| task.stream < most));
        let ended = before(&tasks, None);
        for (task, own) in tasks.iter().enumerate() {
            prop_assert!(work[task].reads.iter().all(|read| ended[task][*read]));
            prop_assert!((0..own.window.start).all(|other| ended[task][other]));
            for (stream, count) in own.ended.iter().enumerate() {
                let of = (0..task).filter(|other| tasks[*other].stream == stream);
                let found = of.filter(|other| ended[task][*other]).count();
                prop_assert_eq!(found, *count as usize);
            }
            for after in &own.after {
                prop_assert!(tasks[*after].stream != own.stream);
                prop_assert!(!before(&tasks, Some((task, *after)))[task][*after]);
            }
        }
        let again: Vec<usize> = assign(&work, most).iter().map(|task| task.stream).collect();
        prop_assert_eq!(again, tasks.iter().map(|task| task.stream).collect::<Vec<_>>());
    }

    /// Places of two that may be needed at once do not overlap; those that nobody needs together
    /// may.
    #[test]
    fn places_overlap_only_in_order(
        work in drawn(),
        most in 1usize..=4,
        sizes in prop::collection::vec(0usize..500, 1..60),
    ) {
        use crate::arena::{Item, place};
        let tasks = assign(&work, most);
        let ended = before(&tasks, None);
        // What each task makes, until its readers have ended.
        let uses = |task: usize| {
            let reads = |other: &usize| work[*other].reads.contains(&task);
            std::iter::once(task).chain((0..work.len()).filter(reads)).collect::<Vec<_>>()
        };
        let item = |task: usize| {
            let (mut gone, own) = (Counts::default(), &tasks[task]);
            let (mut first, mut last) = (own.window.start, own.window.end - 1);
            for by in uses(task).into_iter().map(|by| &tasks[by]) {
                gone[by.stream] = gone[by.stream].max(by.ended[by.stream] + 1);
                first = first.min(by.window.start);
                last = last.max(by.window.end - 1);
            }
            let bytes = sizes[task % sizes.len()];
            Item { bytes, first, last, ended: own.ended, gone }
        };
        let items: Vec<Item> = (0..tasks.len()).map(item).collect();
        let (offsets, size) = place(&items);
        for b in 0..items.len() {
            prop_assert!(offsets[b] % 64 == 0 && offsets[b] + items[b].bytes <= size);
            for a in 0..b {
                let apart = offsets[a] + items[a].bytes <= offsets[b]
                    || offsets[b] + items[b].bytes <= offsets[a]
                    || items[a].bytes == 0
                    || items[b].bytes == 0;
                let done = uses(a).iter().all(|own| ended[b][*own]);
                prop_assert!(apart || done, "{a} {b}");
            }
        }
    }
}

fn compiled(draft: &Draft, streams: usize) -> crate::Compiled {
    compile(draft.bytes(), &Options { streams, ..Options::default() }).unwrap()
}

/// All outputs of a run on noise.
fn results(model: &Model<npu::aligned::AlignedBytes>, team: Option<&Team>) -> Vec<Vec<u8>> {
    let values: Vec<_> = model
        .inputs()
        .map(|info| {
            let floats = noise(info.shape.elements(), 3);
            let bytes: Vec<u8> = floats.iter().flat_map(|value| value.to_le_bytes()).collect();
            (*info, npu::aligned::AlignedBytes::copy_of(&bytes))
        })
        .collect();
    let inputs: Vec<Input<'_>> =
        values.iter().map(|(info, bytes)| Input { info: *info, bytes }).collect();
    let zeroed = |info: &npu::tensor::TensorInfo| npu::aligned::AlignedBytes::zeroed(info.bytes());
    let mut outputs: Vec<_> = model.outputs().map(zeroed).collect();
    let mut lent: Vec<&mut [u8]> = outputs.iter_mut().map(|bytes| &mut bytes[..]).collect();
    let mut arena = npu::aligned::AlignedBytes::zeroed(model.arena_bytes());
    arena.fill(0xEE);
    model.run_with(&inputs, &mut lent, &mut arena, team, |_| {}).unwrap();
    outputs.iter().map(|bytes| bytes.to_vec()).collect()
}

/// A model computes the same on any streams and any team; its tasks' streams with the most.
fn same(draft: &Draft, teams: &[Team]) -> Vec<usize> {
    let expected = results(&Model::load(compiled(draft, 1).om).unwrap(), None);
    let mut used = Vec::new();
    for streams in 2..=4 {
        let own = compiled(draft, streams);
        assert_eq!(own.om[..], compiled(draft, streams).om[..], "the same bytes");
        assert!(own.report.live_bytes <= own.report.arena_bytes);
        let model = Model::load(own.om).unwrap();
        used = model.program().tasks().iter().map(|task| task.stream).collect();
        for team in std::iter::once(None).chain(teams.iter().map(Some)) {
            assert!(expected == results(&model, team), "{streams} streams, {team:?}");
        }
    }
    used
}

fn teams() -> Vec<Team> {
    (1..=4).map(|threads| Team::new(threads, || {}).unwrap()).collect()
}

/// Branches of convolutions, joined.
fn inception(draft: Draft, module: usize, from: &str) -> (Draft, String) {
    let name = |what: &str| format!("{what}{module}");
    let conv = |draft: Draft, x: &str, (to, maps, kernel): (&str, i64, i64)| {
        let (w, own) = (format!("w{to}{module}"), name(to));
        let depth = if x == from { 32 } else { 16 };
        let count = usize::try_from(maps * depth * kernel * kernel).unwrap();
        let pads = ("pads", AttributeValue::Ints(vec![kernel / 2; 4]));
        let values: Vec<f32> = noise(count, module).iter().map(|value| value / 16.0).collect();
        let draft = draft.floats(&w, &[maps, depth, kernel, kernel], &values);
        draft.node_with("Conv", &[x, &w], &own, &[pads])
    };
    let draft = conv(draft, from, ("a", 8, 1));
    let draft = conv(draft, from, ("b", 16, 1));
    let draft = conv(draft, &name("b"), ("bb", 8, 3));
    let draft = conv(draft, from, ("c", 16, 1));
    let draft = conv(draft, &name("c"), ("cc", 16, 3));
    let draft = conv(draft, &name("cc"), ("ccc", 8, 3));
    let draft = conv(draft, from, ("d", 8, 1));
    let parts = ["a", "bb", "ccc", "d"].map(name);
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    let (joined, axis) = (name("joined"), ("axis", AttributeValue::Int(1)));
    (draft.node_with("Concat", &parts, &joined, &[axis]), joined)
}

#[test]
fn modules_of_branches_compute_the_same_on_streams() {
    let x = [D::N(1), D::N(32), D::N(12), D::N(12)];
    let draft = Draft::new(15).input("x", FLOAT, &x);
    let (draft, first) = inception(draft, 0, "x");
    let (draft, second) = inception(draft, 1, &first);
    let draft = draft.node("Relu", &[&second], "y").output("y", FLOAT, None);
    let used = same(&draft, &teams());
    assert!(used.contains(&1), "{used:?}");
    let fates = compiled(&draft, 2).fates;
    let told = |what: &str| fates.iter().any(|fate| fate.what.contains(what));
    assert!(told(", stream 1 after task 0") || told("stream 1"), "{fates:?}");
}

/// Nodes of one or two operands, which were made before.
fn graph() -> impl Strategy<Value = Vec<(usize, [prop::sample::Index; 2])>> {
    let node = (0usize..6, any::<[prop::sample::Index; 2]>());
    prop::collection::vec(node, 2..24)
}

#[test]
fn any_graph_computes_the_same_on_streams() {
    let teams = teams();
    let streamed = std::cell::Cell::new(0);
    proptest!(ProptestConfig::with_cases(40), |(nodes in graph())| {
        let mut draft = Draft::new(15)
            .input("t0", FLOAT, &[D::N(80), D::N(80)])
            .int64s("flat", &[1], &[6400])
            .int64s("square", &[2], &[80, 80]);
        for (index, (op, reads)) in nodes.iter().enumerate() {
            let reads = reads.map(|read| format!("t{}", read.index(index + 1)));
            let [a, b] = [reads[0].as_str(), reads[1].as_str()];
            let to = format!("t{}", index + 1);
            draft = match op {
                0 => draft.node("Tanh", &[a], &to),
                1 => draft.node("Softmax", &[a], &to),
                2 => draft.node("Sub", &[a, b], &to),
                3 => {
                    let flat = format!("flat{index}");
                    let draft = draft.node("Reshape", &[a, "flat"], &flat);
                    draft.node("Reshape", &[&flat, "square"], &to)
                }
                4 => draft.node("Transpose", &[a], &to),
                _ => draft.node("Add", &[a, b], &to),
            };
            // Half of them are asked for, so that many are needed to the end.
            if index % 2 == 0 || index + 1 == nodes.len() {
                draft = draft.output(&to, FLOAT, None);
            }
        }
        streamed.set(streamed.get() + usize::from(same(&draft, &teams).contains(&1)));
    });
    assert!(streamed.get() > 5, "{} of the graphs had streams", streamed.get());
}
