//! Tests of transposed convolutions: which tasks a graph has, and the same results as without the
//! pass.

use npu::ops::AttributeValue;

use crate::testing::{D, Draft, FLOAT, check, noise};

/// x [2, 3, 4, 5] → ConvTranspose to so many maps `t`, in squares of 2
fn transposed(maps: i64, strides: i64) -> Draft {
    let count = usize::try_from(12 * maps).unwrap();
    let attributes = [
        ("kernel_shape", AttributeValue::Ints(vec![2; 2])),
        ("strides", AttributeValue::Ints(vec![strides; 2])),
    ];
    Draft::new(15)
        .input("x", FLOAT, &[D::N(2), D::N(3), D::N(4), D::N(5)])
        .floats("w", &[3, maps, 2, 2], &noise(count, 2))
        .floats("b", &[maps], &noise(count / 12, 3))
        .node_with("ConvTranspose", &["x", "w", "b"], "t", &attributes)
}

fn x() -> Vec<f32> {
    noise(120, 1)
}

/// BatchNormalization of `t` to `n`.
fn normalised(draft: Draft, maps: i64) -> Draft {
    let count = usize::try_from(maps).unwrap();
    draft
        .floats("scale", &[maps], &noise(count, 4))
        .floats("mean", &[maps], &noise(count, 5))
        .floats("variance", &[maps], &vec![0.5; count])
        .node("BatchNormalization", &["t", "scale", "b", "mean", "variance"], "n")
}

#[test]
fn it_becomes_a_convolution_that_is_spread() {
    let blocks = normalised(transposed(8, 2), 8).node("Relu", &["n"], "y");
    let tasks = ["BlockedConv+Relu", "BlockedSpread", "FromBlocked"];
    check(&blocks.output("y", FLOAT, None), &tasks, &x());
    let few = normalised(transposed(1, 2), 1).node("Sigmoid", &["n"], "y");
    check(&few.output("y", FLOAT, None), &["Conv", "DepthToSpace", "Sigmoid"], &x());
}

#[test]
fn factors_and_offsets_behind_it_become_part_of_it() {
    let offset =
        transposed(8, 2).floats("o", &[1, 8, 1, 1], &noise(8, 6)).node("Add", &["o", "t"], "a");
    let factor = offset.floats("f", &[8, 1, 1], &noise(8, 7)).node("Mul", &["a", "f"], "m");
    let all = factor.floats("one", &[1], &[1.5]).node("Add", &["m", "one"], "n").node(
        "Relu",
        &["n"],
        "y",
    );
    let tasks = ["BlockedConv+Relu", "BlockedSpread", "FromBlocked"];
    check(&all.output("y", FLOAT, None), &tasks, &x());
    // One value a column is not the same for all places of a map.
    let columns = transposed(8, 2).floats("o", &[10], &noise(10, 6)).node("Add", &["t", "o"], "y");
    let tasks = ["BlockedConv", "BlockedSpread", "FromBlocked", "Add"];
    check(&columns.output("y", FLOAT, None), &tasks, &x());
}

#[test]
fn what_others_read_is_made() {
    let draft = transposed(8, 2)
        .node("Relu", &["t"], "y")
        .output("t", FLOAT, None)
        .output("y", FLOAT, None);
    let tasks = ["BlockedConv", "BlockedSpread", "Relu", "FromBlocked", "FromBlocked"];
    check(&draft, &tasks, &x());
}

#[test]
fn places_that_overlap_stay() {
    check(&transposed(8, 1).output("t", FLOAT, None), &["ConvTranspose"], &x());
    check(&transposed(8, 3).output("t", FLOAT, None), &["ConvTranspose"], &x());
}
