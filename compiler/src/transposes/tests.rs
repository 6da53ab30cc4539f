//! Tests of transposes that meet.

use npu::ops::AttributeValue;

use crate::testing::{D, Draft, FLOAT, check, noise};

fn perm(own: &[i64]) -> Vec<(&'static str, AttributeValue)> {
    vec![("perm", AttributeValue::Ints(own.to_vec()))]
}

/// What is done between an order and back.
fn between(middle: impl FnOnce(Draft) -> Draft) -> Draft {
    let own = Draft::new(18).input("x", FLOAT, &[D::N(2), D::N(3), D::N(4), D::N(5)]).node_with(
        "Transpose",
        &["x"],
        "a",
        &perm(&[0, 2, 3, 1]),
    );
    middle(own).node_with("Transpose", &["b"], "y", &perm(&[0, 3, 1, 2])).output("y", FLOAT, None)
}

#[test]
fn two_that_undo_each_other_go() {
    let x = noise(120, 1);
    check(&between(|own| own.node("Relu", &["a"], "b")), &["Relu"], &x);
    let per_map = noise(5, 2);
    let sum = between(|own| own.floats("c", &[3], &per_map[..3]).node("Sub", &["c", "a"], "b"));
    check(&sum, &["Sub"], &x);
    let all = noise(60, 3);
    let whole = between(|own| own.floats("c", &[4, 5, 3], &all).node("Div", &["a", "c"], "b"));
    check(&whole, &["Div"], &x);
    let twice = between(|own| own.node("Relu", &["a"], "r").node("Mul", &["r", "a"], "b"));
    check(&twice, &["Relu+Mul"], &x);
    let axis = [("axis", AttributeValue::Int(-1))];
    let join = between(|own| own.node_with("Concat", &["a", "a"], "b", &axis));
    check(&join, &["Concat"], &x);
    let pads = [0, 1, 0, 2, 0, 0, 1, 0];
    let pad = between(|own| own.int64s("p", &[8], &pads).node("Pad", &["a", "p"], "b"));
    check(&pad, &["Pad"], &x);
    let mean = between(|own| own.int64s("n", &[1], &[3]).node("ReduceMean", &["a", "n"], "b"));
    check(&mean, &["ReduceMean"], &x);
}

#[test]
fn dims_that_a_reduction_takes_away_need_no_order() {
    let own = Draft::new(18)
        .input("x", FLOAT, &[D::N(2), D::N(3), D::N(4), D::N(5)])
        .node_with("Transpose", &["x"], "a", &perm(&[0, 2, 3, 1]))
        .node_with("Transpose", &["a"], "b", &perm(&[0, 3, 1, 2]))
        .node_with("Transpose", &["b"], "c", &perm(&[0, 2, 3, 1]))
        .int64s("n", &[2], &[1, 2])
        .node_with("ReduceMax", &["c", "n"], "y", &[("keepdims", AttributeValue::Int(0))])
        .output("y", FLOAT, None);
    check(&own, &["ReduceMax"], &noise(120, 4));
}

#[test]
fn what_spares_nothing_stays() {
    // Read as it is by another, too: moving it would make it twice.
    let own = Draft::new(18)
        .input("x", FLOAT, &[D::N(2), D::N(3), D::N(4)])
        .node_with("Transpose", &["x"], "a", &perm(&[0, 2, 1]))
        .node("Relu", &["a"], "r")
        .node("Softmax", &["a"], "s")
        .node_with("Transpose", &["s"], "y", &perm(&[1, 0, 2]))
        .output("r", FLOAT, None)
        .output("y", FLOAT, None);
    check(&own, &["Transpose", "Relu", "Softmax", "Transpose"], &noise(24, 5));
}

#[test]
fn dims_of_one_move_without_a_copy() {
    let own = Draft::new(18)
        .input("x", FLOAT, &[D::N(2), D::N(1), D::N(4)])
        .node_with("Transpose", &["x"], "a", &perm(&[0, 2, 1]))
        .node("Relu", &["a"], "y")
        .output("y", FLOAT, None);
    check(&own, &["Relu"], &noise(8, 6));
}
