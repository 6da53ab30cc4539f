//! Tests of rewrites: the same results in fewer tasks, and nothing fused that others read.

use npu::ops::AttributeValue;

use crate::testing::{D, Draft, FLOAT, INT64, run};

/// x → Conv (two maps, kernel of one) → …
fn conv() -> Draft {
    Draft::new(15)
        .input("x", FLOAT, &[D::N(1), D::N(1), D::N(2)])
        .floats("w", &[2, 1, 1], &[2.0, -1.0])
        .node("Conv", &["x", "w"], "c")
}

const X: &[f32] = &[1.0, -3.0];

fn check(draft: &Draft, tasks: &[&str], expected: &[&[f32]]) {
    assert_eq!(draft.tasks(), tasks);
    let found = run(&draft.compile(&[]).unwrap(), &[X]);
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found.len(), expected.len());
        let close = found.iter().zip(*expected).all(|(a, b)| (a - b).abs() < 1e-5);
        assert!(close, "{found:?}, expected {expected:?}");
    }
}

#[test]
fn everything_behind_a_conv_becomes_part_of_it() {
    let draft = conv()
        .floats("scale", &[2], &[1.0, 3.0])
        .floats("bias", &[2], &[0.5, 0.0])
        .floats("mean", &[2], &[1.0, 0.0])
        .floats("variance", &[2], &[4.0, 1.0])
        .floats("more", &[2, 1], &[1.0, -1.0])
        .floats("half", &[], &[0.5])
        .node_with(
            "BatchNormalization",
            &["c", "scale", "bias", "mean", "variance"],
            "n",
            &[("epsilon", AttributeValue::Float(0.0))],
        )
        .node("Identity", &["n"], "i")
        .node("Add", &["more", "i"], "a")
        .node("Mul", &["a", "half"], "m")
        .node("Relu", &["m"], "y")
        .output("y", FLOAT, None);
    // c = [2, -6 | -1, 3]; n = [1, -3 | -3, 9]; a = [2, -2 | -4, 8]; m = a / 2.
    check(&draft, &["Conv+Relu"], &[&[1.0, 0.0, 0.0, 4.0]]);
    let name = &draft.compile(&[]).unwrap().report.tasks[0].name;
    assert_eq!(name, "Conv.c");
}

#[test]
fn only_one_activation_is_taken_in() {
    let draft =
        conv().node("Relu", &["c"], "r").node("HardSwish", &["r"], "y").output("y", FLOAT, None);
    check(&draft, &["Conv+Relu", "HardSwish"], &[&[2.0 * 5.0 / 6.0, 0.0, 0.0, 3.0]]);
}

#[test]
fn what_others_read_stays() {
    let used_twice =
        conv().node("Relu", &["c"], "r").node("Add", &["r", "c"], "y").output("y", FLOAT, None);
    check(&used_twice, &["Conv", "Relu+Add"], &[&[4.0, -6.0, -1.0, 6.0]]);
    let output = conv().node("Relu", &["c"], "y").output("y", FLOAT, None).output("c", FLOAT, None);
    check(&output, &["Conv", "Relu"], &[&[2.0, 0.0, 0.0, 3.0], &[2.0, -6.0, -1.0, 3.0]]);
    let square = conv().node("Mul", &["c", "c"], "y").output("y", FLOAT, None);
    check(&square, &["Conv", "Mul"], &[&[4.0, 36.0, 1.0, 9.0]]);
}

#[test]
fn constants_of_other_shapes_stay() {
    for (dims, values, expected) in [
        (&[2][..], &[1.0, 2.0][..], [3.0, -4.0, 0.0, 5.0]),
        (&[1, 2, 2], &[1.0, 2.0, 3.0, 4.0], [3.0, -4.0, 2.0, 7.0]),
    ] {
        let draft = conv().floats("k", dims, values).node("Add", &["c", "k"], "y");
        check(&draft.output("y", FLOAT, None), &["Conv", "Add"], &[&expected]);
    }
    // The result has more dims than the Conv's.
    let wider = conv().floats("k", &[2, 1, 1, 1], &[1.0, 2.0]).node("Add", &["c", "k"], "y");
    assert_eq!(wider.output("y", FLOAT, None).tasks(), ["Conv", "Add"]);
}

#[test]
fn a_bias_without_a_factor_leaves_the_weights_alone() {
    let draft = conv().floats("k", &[1, 2, 1], &[1.0, 2.0]).node("Add", &["c", "k"], "y");
    check(&draft.output("y", FLOAT, None), &["Conv"], &[&[3.0, -5.0, 1.0, 5.0]]);
}

#[test]
fn what_nobody_reads_goes() {
    let draft = conv()
        .node("Relu", &["x"], "unused")
        .node("Relu", &["unused"], "unused too")
        .floats("unused constant", &[1], &[1.0])
        .output("c", FLOAT, None);
    check(&draft, &["Conv"], &[&[2.0, -6.0, -1.0, 3.0]]);
    assert_eq!(draft.compile(&[]).unwrap().report.weights_bytes, 8);
}

#[test]
fn outputs_that_are_inputs_constants_or_one_another_are_copied() {
    let draft = Draft::new(15)
        .input("x", FLOAT, &[D::N(2)])
        .floats("k", &[2], &[7.0, 8.0])
        .node("Identity", &["x"], "a")
        .node("Relu", &["x"], "r")
        .node("Identity", &["r"], "b")
        .node("Shape", &["x"], "s")
        .output("a", FLOAT, None)
        .output("k", FLOAT, None)
        .output("r", FLOAT, None)
        .output("b", FLOAT, None)
        .output("s", INT64, None);
    let copies = ["Relu", "Identity", "Identity", "Identity", "Identity"];
    check(&draft, &copies, &[X, &[7.0, 8.0], &[1.0, 0.0], &[1.0, 0.0], &[2.0]]);
    let names: Vec<String> =
        draft.compile(&[]).unwrap().report.outputs.into_iter().map(|output| output.name).collect();
    assert_eq!(names, ["a", "k", "r", "b", "s"]);
}

#[test]
fn a_reshape_is_a_view_where_it_can_be() {
    let reshape = |draft: Draft, from: &str, to: &str| draft.node("Reshape", &[from, "line"], to);
    let base = || conv().int64s("line", &[1], &[-1]);
    let inside = reshape(base(), "c", "l").node("Relu", &["l"], "y").output("y", FLOAT, None);
    check(&inside, &["Conv", "Relu"], &[&[2.0, 0.0, 0.0, 3.0]]);
    let last = reshape(base(), "c", "y").output("y", FLOAT, None);
    check(&last, &["Conv"], &[&[2.0, -6.0, -1.0, 3.0]]);
    let first = reshape(base(), "x", "l").node("Relu", &["l"], "y").output("y", FLOAT, None);
    check(&first, &["Relu"], &[&[1.0, 0.0]]);
    let through = reshape(base(), "x", "y").output("y", FLOAT, None);
    check(&through, &["Reshape"], &[X]);
    let both = reshape(base(), "c", "y").output("y", FLOAT, None).output("c", FLOAT, None);
    check(&both, &["Conv", "Reshape"], &[&[2.0, -6.0, -1.0, 3.0][..]; 2]);
    let chain = reshape(reshape(base(), "c", "l"), "l", "y").output("y", FLOAT, None);
    check(&chain, &["Conv"], &[&[2.0, -6.0, -1.0, 3.0]]);
}

#[test]
fn a_factor_and_an_offset_for_all_maps_go_behind_a_hard_swish() {
    let scaled = conv()
        .node("HardSwish", &["c"], "h")
        .floats("half", &[1], &[0.5])
        .floats("one", &[1, 1], &[1.0])
        .node("Mul", &["half", "h"], "m")
        .node("Add", &["m", "one"], "y")
        .output("y", FLOAT, None);
    check(&scaled, &["Conv+ScaledHardSwish"], &[&[5.0 / 6.0 + 1.0, 1.0, 5.0 / 6.0, 2.5]]);
    let each = conv()
        .node("HardSwish", &["c"], "h")
        .floats("half", &[2, 1], &[0.5, 1.0])
        .node("Mul", &["half", "h"], "y")
        .output("y", FLOAT, None);
    check(&each, &["Conv+HardSwish", "Mul"], &[&[5.0 / 6.0, 0.0, -1.0 / 3.0, 3.0]]);
}
