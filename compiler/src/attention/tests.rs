//! Tests of attention: in which forms it is found, the same results as without the pass, and what
//! is told of those that are none.

use npu::ops::AttributeValue;

use crate::testing::{D, Draft, FLOAT, check, noise};

fn perm(own: &[i64]) -> [(&'static str, AttributeValue); 1] {
    [("perm", AttributeValue::Ints(own.to_vec()))]
}

/// One input, from which queries, keys and values of 2 x 3 heads are made: 21 rows of 3 x 20.
fn tokens() -> Draft {
    let mut draft = Draft::new(17)
        .input("x", FLOAT, &[D::N(2), D::N(21), D::N(60)])
        .int64s("split", &[4], &[2, 21, 3, 20])
        .int64s("joined", &[3], &[2, 21, 60])
        .floats("root", &[], &[20f32.sqrt()])
        .floats("part", &[1], &[0.25])
        .floats("mask", &[2, 1, 1, 21], &noise(42, 4));
    for (seed, name) in ["q", "k", "v"].into_iter().enumerate() {
        let w = format!("w{name}");
        let from = format!("{name}0");
        draft = draft
            .floats(&w, &[60, 60], &noise(3600, seed + 5))
            .node("MatMul", &["x", &w], &from)
            .node("Reshape", &[&from, "split"], &format!("{name}1"));
    }
    draft
}

fn values() -> Vec<f32> {
    noise(2 * 21 * 60, 1).iter().map(|x| x / 4.0).collect()
}

fn heads(draft: Draft) -> Draft {
    draft
        .node_with("Transpose", &["q1"], "q", &perm(&[0, 2, 1, 3]))
        .node_with("Transpose", &["k1"], "k", &perm(&[0, 2, 3, 1]))
        .node_with("Transpose", &["v1"], "v", &perm(&[0, 2, 1, 3]))
}

/// Shares times values, heads behind rows again.
fn end(draft: Draft, products: &str) -> Draft {
    draft
        .node_with("Softmax", &[products], "shares", &[("axis", AttributeValue::Int(-1))])
        .node("MatMul", &["shares", "v"], "o")
        .node_with("Transpose", &["o"], "o1", &perm(&[0, 2, 1, 3]))
        .node("Reshape", &["o1", "joined"], "y")
}

fn found(draft: Draft, tasks: &[&str]) {
    check(&draft.output("y", FLOAT, None), tasks, &values());
}

const WHOLE: [&str; 4] = ["Dense", "Dense", "Dense", "Attend"];

#[test]
fn as_it_is_exported() {
    let product = || heads(tokens()).node("MatMul", &["q", "k"], "p");
    found(end(product(), "p"), &WHOLE);
    found(end(product().node("Div", &["p", "root"], "s"), "s"), &WHOLE);
    found(end(product().node("Mul", &["part", "p"], "s"), "s"), &WHOLE);
    let masked = |a, b| {
        let scaled = product().node("Div", &["p", "root"], "s");
        scaled.node("Add", &[a, b], "m")
    };
    found(end(masked("s", "mask"), "m"), &WHOLE);
    found(end(masked("mask", "s"), "m"), &WHOLE);
}

/// Products of which later keys are hidden, by a condition that is known: `w`.
fn causal(number: f32, inverted: bool) -> Draft {
    let places: Vec<i64> = (0..21).collect();
    let draft = heads(tokens())
        .int64s("rows", &[21, 1], &places)
        .int64s("columns", &[1, 1, 1, 21], &places)
        .floats("hidden", &[], &[number])
        .node("MatMul", &["q", "k"], "p")
        .node("Div", &["p", "root"], "s");
    if inverted {
        let later = draft.node("Less", &["rows", "columns"], "c");
        return later.node("Where", &["c", "hidden", "s"], "w");
    }
    draft.node("GreaterOrEqual", &["rows", "columns"], "c").node(
        "Where",
        &["c", "s", "hidden"],
        "w",
    )
}

#[test]
fn keys_that_are_hidden_by_a_known_condition() {
    for (number, inverted) in [(f32::NEG_INFINITY, false), (f32::MIN, true), (f32::MIN, false)] {
        found(end(causal(number, inverted), "w"), &WHOLE);
        // With a mask that is added, too: the sum of both is a task.
        let masked =
            causal(number, inverted).input("more", FLOAT, &[D::N(2), D::N(1), D::N(1), D::N(21)]);
        let masked = masked.node("Add", &["more", "w"], "m");
        let tasks = end(masked, "m").output("y", FLOAT, None).tasks();
        assert_eq!(tasks, ["Dense", "Dense", "Dense", "Add", "Attend"]);
    }
    // What could change a share stays.
    let small = end(causal(-9.0, false), "w").output("y", FLOAT, None).tasks();
    assert!(small.iter().any(|task| task == "Where") && small.iter().all(|task| task != "Attend"));
    let last = heads(tokens()).node("MatMul", &["q", "k"], "p").node("Add", &["p", "mask"], "s");
    let draft = |number: f32| {
        let places: Vec<i64> = (0..21).collect();
        let own = last.clone().int64s("rows", &[21, 1], &places).int64s("columns", &[21], &places);
        let own = own.floats("hidden", &[1], &[number]).node("Less", &["rows", "columns"], "c");
        end(own.node("Where", &["c", "hidden", "s"], "w"), "w")
    };
    let mut tasks = WHOLE.to_vec();
    tasks.insert(3, "Add");
    found(draft(f32::NEG_INFINITY), &tasks);
    assert!(told(draft(f32::MIN)).ends_with("behind `Add.s` there is a factor or a sum"));
}

#[test]
fn what_becomes_of_its_nodes() {
    let scaled = heads(tokens()).node("MatMul", &["q", "k"], "p").node("Div", &["p", "root"], "s");
    let draft = end(scaled, "s").output("y", FLOAT, None);
    let fates = draft.compile(&[]).unwrap().fates;
    let of = |node: &str| {
        let fate = fates.iter().find(|fate| fate.node == node);
        fate.map_or("", |fate| &fate.what)
    };
    let whole = "task 3, Attend; attention: no product of all queries and keys is written";
    assert_eq!(of("MatMul.o"), whole);
    let taken = ["Transpose.q", "Transpose.k", "Transpose.v", "MatMul.p", "Div.s"];
    for node in taken.into_iter().chain(["Softmax.shares", "Transpose.o1"]) {
        assert_eq!(of(node), "part of `MatMul.o`: its attention", "{node}");
    }
}

#[test]
fn factors_of_queries_and_keys() {
    let scaled = heads(tokens())
        .node("Mul", &["q", "part"], "qs")
        .node("Mul", &["k", "part"], "ks")
        .node("MatMul", &["qs", "ks"], "p");
    found(end(scaled, "p"), &WHOLE);
    // The scaled queries are read elsewhere, too: their task stays.
    let shared = heads(tokens())
        .node("Mul", &["q", "part"], "qs")
        .node("MatMul", &["qs", "k"], "p")
        .output("qs", FLOAT, None);
    let tasks = shared.clone();
    let tasks = end(tasks, "p").output("y", FLOAT, None).tasks();
    assert!(tasks.iter().any(|task| task == "Attend") && tasks.len() == 6, "{tasks:?}");
    check(&end(shared, "p").output("y", FLOAT, None), &to_str(&tasks), &values());
}

fn to_str(tasks: &[String]) -> Vec<&str> {
    tasks.iter().map(String::as_str).collect()
}

#[test]
fn other_orders_and_ranks() {
    // Keys in two steps, and a result that stays by heads.
    let steps = tokens()
        .node_with("Transpose", &["q1"], "q", &perm(&[0, 2, 1, 3]))
        .node_with("Transpose", &["k1"], "k0t", &perm(&[0, 2, 1, 3]))
        .node_with("Transpose", &["v1"], "v", &perm(&[0, 2, 1, 3]))
        .node_with("Transpose", &["k0t"], "k", &perm(&[0, 1, 3, 2]))
        .node("MatMul", &["q", "k"], "p")
        .node("Softmax", &["p"], "shares")
        .node("MatMul", &["shares", "v"], "y");
    found(steps, &WHOLE);
    // One head, queries, keys and values the same; and keys that are columns already.
    let alone = Draft::new(17)
        .input("x", FLOAT, &[D::N(2), D::N(21), D::N(60)])
        .node_with("Transpose", &["x"], "k", &perm(&[0, 2, 1]))
        .node("MatMul", &["x", "k"], "p")
        .node("Softmax", &["p"], "shares")
        .node("MatMul", &["shares", "x"], "y");
    found(alone, &["Attend"]);
    let columns = Draft::new(13)
        .input("x", FLOAT, &[D::N(2), D::N(21), D::N(60)])
        .floats("k", &[2, 60, 33], &noise(2 * 60 * 33, 3))
        .floats("v", &[2, 33, 9], &noise(2 * 33 * 9, 4))
        .node("MatMul", &["x", "k"], "p")
        .node("Softmax", &["p"], "shares")
        .node("MatMul", &["shares", "v"], "y");
    found(columns, &["Attend"]);
}

/// What is told of the softmax.
fn told(draft: Draft) -> String {
    let draft = draft.output("y", FLOAT, None);
    let tasks = draft.tasks();
    assert!(tasks.iter().all(|task| task != "Attend"), "{tasks:?}");
    check(&draft, &to_str(&tasks), &values());
    let fates = draft.compile(&[]).unwrap().fates;
    let softmax = fates.into_iter().find(|fate| fate.op == "Softmax").unwrap();
    softmax.what.split_once("; ").map_or(String::new(), |(_, why)| why.to_owned())
}

#[test]
fn what_is_none_says_why() {
    let product = || heads(tokens()).node("MatMul", &["q", "k"], "p");
    let twice = product().output("p", FLOAT, None);
    assert_eq!(told(end(twice, "p")), "no attention in one task: `p` is read 2 times");
    let shares = product().node_with("Softmax", &["p"], "s2", &[("axis", AttributeValue::Int(2))]);
    let shares = shares
        .node("MatMul", &["s2", "v"], "o")
        .node_with("Transpose", &["o"], "o1", &perm(&[0, 2, 1, 3]))
        .node("Reshape", &["o1", "joined"], "y");
    assert_eq!(told(shares), "no attention in one task: its sum is not over the last dim");
    let function = product().node("Neg", &["p"], "s");
    let why = "no attention in one task: `Neg.s` (Neg) lies before it";
    assert_eq!(told(end(function, "s")), why);
    let masked = product().node("Add", &["p", "mask"], "m").node("Mul", &["m", "part"], "s");
    let why = "no attention in one task: behind `Add.m` there is a factor or a sum";
    assert_eq!(told(end(masked, "s")), why);
    let broadcast = tokens()
        .node_with("Transpose", &["q1"], "q", &perm(&[0, 2, 1, 3]))
        .node_with("Transpose", &["v1"], "v", &perm(&[0, 2, 1, 3]))
        .floats("k", &[20, 21], &noise(420, 3))
        .node("MatMul", &["q", "k"], "p");
    let why = told(end(broadcast, "p"));
    assert!(why.contains("with the same dims before"), "{why}");
}
