//! Tests of sums that become part of convolutions: which tasks a graph has, and the same results as
//! without the pass.

use crate::testing::{D, Draft, FLOAT, check, noise};

/// x [1, 3, 5, 5] → two Convs to 16 maps, `a` and `b`; `b` reads `a`
fn convs() -> Draft {
    let small = |count, seed| noise(count, seed).iter().map(|x| x * 0.3).collect::<Vec<f32>>();
    Draft::new(15)
        .input("x", FLOAT, &[D::N(1), D::N(3), D::N(5), D::N(5)])
        .floats("wa", &[16, 3, 1, 1], &small(48, 2))
        .floats("wb", &[16, 16, 1, 1], &small(256, 3))
        .node("Conv", &["x", "wa"], "a")
        .node("Conv", &["a", "wb"], "b")
}

fn x() -> Vec<f32> {
    noise(75, 1)
}

#[test]
fn the_later_summand_takes_the_sum_and_the_function() {
    let left =
        convs().node("Add", &["a", "b"], "s").node("Relu", &["s"], "y").output("y", FLOAT, None);
    check(&left, &["BlockedConv", "BlockedConv+Relu", "FromBlocked"], &x());
    let right = convs().node("Add", &["b", "a"], "y").output("y", FLOAT, None);
    check(&right, &["BlockedConv", "BlockedConv", "FromBlocked"], &x());
}

#[test]
fn the_other_summand_may_come_after_the_convolution() {
    let draft = convs()
        .node("Sigmoid", &["a"], "g")
        .node("Add", &["b", "g"], "s")
        .node("Add", &["s", "a"], "y")
        .output("y", FLOAT, None);
    // One sum a convolution.
    check(&draft, &["BlockedConv", "Sigmoid", "BlockedConv", "Add", "FromBlocked"], &x());
}

#[test]
fn what_others_read_or_bend_stays() {
    let read = convs()
        .node("Add", &["a", "b"], "s")
        .node("Sigmoid", &["b"], "g")
        .output("s", FLOAT, None)
        .output("g", FLOAT, None);
    let tasks = ["BlockedConv", "BlockedConv", "Add", "Sigmoid", "FromBlocked", "FromBlocked"];
    check(&read, &tasks, &x());
    let bent =
        convs().node("Relu", &["b"], "r").node("Add", &["a", "r"], "y").output("y", FLOAT, None);
    check(&bent, &["BlockedConv", "BlockedConv+Relu", "Add", "FromBlocked"], &x());
    let twice = convs().node("Add", &["b", "b"], "y").output("y", FLOAT, None);
    check(&twice, &["BlockedConv", "BlockedConv", "Add", "FromBlocked"], &x());
    let scalar = convs()
        .node("GlobalAveragePool", &["b"], "m")
        .node("Add", &["a", "m"], "y")
        .output("y", FLOAT, None);
    check(&scalar, &["BlockedConv", "BlockedConv", "BlockedMean", "Add", "FromBlocked"], &x());
}
