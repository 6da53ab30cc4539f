//! Tests of dense layers: which tasks a graph has, and the same results as without the pass.

use crate::testing::{D, Draft, FLOAT, check, noise};

/// x [2, 3, 5] → MatMul with [5, 12] `p`
fn product() -> Draft {
    Draft::new(15)
        .input("x", FLOAT, &[D::N(2), D::N(3), D::N(5)])
        .floats("w", &[5, 12], &noise(60, 2))
        .node("MatMul", &["x", "w"], "p")
}

fn x() -> Vec<f32> {
    noise(30, 1)
}

#[test]
fn offset_and_function_become_part_of_it() {
    let draft = product()
        .floats("b", &[1, 12], &noise(12, 3))
        .node("Add", &["b", "p"], "s")
        .node("Relu", &["s"], "y")
        .output("y", FLOAT, None);
    check(&draft, &["Dense+Relu"], &x());
    let alone = product().node("HardSwish", &["p"], "y").output("y", FLOAT, None);
    check(&alone, &["Dense+HardSwish"], &x());
    let twice = product()
        .floats("b", &[12], &noise(12, 3))
        .node("Add", &["p", "b"], "s")
        .node("Add", &["s", "b"], "y")
        .output("y", FLOAT, None);
    check(&twice, &["Dense", "Add"], &x());
}

#[test]
fn what_others_read_stays() {
    let draft = product()
        .floats("b", &[12], &noise(12, 3))
        .node("Add", &["p", "b"], "s")
        .node("Relu", &["s"], "y")
        .output("p", FLOAT, None)
        .output("y", FLOAT, None);
    check(&draft, &["Dense", "Add+Relu"], &x());
    let rows = product()
        .floats("b", &[3, 1], &noise(3, 3))
        .node("Add", &["p", "b"], "y")
        .output("y", FLOAT, None);
    check(&rows, &["Dense", "Add"], &x());
    let bent = product()
        .floats("b", &[12], &noise(12, 3))
        .node("Relu", &["p"], "r")
        .node("Add", &["r", "b"], "y")
        .output("y", FLOAT, None);
    check(&bent, &["Dense+Relu", "Add"], &x());
}

#[test]
fn few_columns_and_data_stay() {
    let few = Draft::new(15)
        .input("x", FLOAT, &[D::N(6), D::N(5)])
        .floats("w", &[5, 7], &noise(35, 2))
        .node("MatMul", &["x", "w"], "y")
        .output("y", FLOAT, None);
    check(&few, &["MatMul"], &x());
    let data = Draft::new(15)
        .input("x", FLOAT, &[D::N(5), D::N(6)])
        .floats("w", &[12, 5], &noise(60, 2))
        .node("MatMul", &["w", "x"], "y")
        .output("y", FLOAT, None);
    check(&data, &["MatMul"], &x());
    let vector = Draft::new(15)
        .input("x", FLOAT, &[D::N(30)])
        .floats("w", &[30, 12], &noise(360, 2))
        .node("MatMul", &["x", "w"], "y")
        .output("y", FLOAT, None);
    check(&vector, &["MatMul"], &x());
}
