//! Models with nothing in them, and in blocks on every ISA: with all passes, what comes out is what
//! comes out without one.

use npu::inspect::inspect;
use npu::isa::{Isa, at_most};
use npu::ops::AttributeValue;
use npu::program::Om;

use crate::testing::{D, Draft, FLOAT, noise, run};
use crate::{Compiled, Options, import, plan, type_graph};

fn ints(name: &'static str, list: &[i64]) -> (&'static str, AttributeValue) {
    (name, AttributeValue::Ints(list.to_vec()))
}

fn text(name: &'static str, value: &str) -> (&'static str, AttributeValue) {
    (name, AttributeValue::Text(value.to_owned()))
}

/// Everything that lies in blocks, and ops that need the plain form: x [batch, 3, 6, width] to
/// images `pool`, `resize`, `deep` and `back`, and to rows `mean`.
fn images(batch: i64, width: i64) -> Draft {
    let two = [2, 2];
    Draft::new(15)
        .input("x", FLOAT, &[D::N(batch), D::N(3), D::N(6), D::N(width)])
        .floats("w", &[16, 3, 3, 3], &noise(432, 2))
        .floats("b", &[16], &noise(16, 3))
        .node_with("Conv", &["x", "w", "b"], "conv", &[ints("pads", &[1; 4])])
        .node("Relu", &["conv"], "c")
        .floats("dw", &[16, 1, 3, 3], &noise(144, 4))
        .node_with(
            "Conv",
            &["c", "dw"],
            "each",
            &[("group", AttributeValue::Int(16)), ints("pads", &[1; 4])],
        )
        .node("Add", &["each", "c"], "sum")
        .node_with(
            "MaxPool",
            &["sum"],
            "max",
            &[ints("kernel_shape", &two), ints("strides", &[2, 1])],
        )
        .node_with("AveragePool", &["max"], "pool", &[ints("kernel_shape", &[2, 1])])
        .floats("scales", &[4], &[1.0, 1.0, 2.0, 3.0])
        .node_with(
            "Resize",
            &["sum", "", "scales"],
            "repeat",
            &[text("coordinate_transformation_mode", "asymmetric"), text("nearest_mode", "floor")],
        )
        .node_with("Resize", &["repeat", "", "scales"], "resize", &[text("mode", "linear")])
        .node_with("Concat", &["c", "sum"], "joined", &[("axis", AttributeValue::Int(1))])
        .floats("pw", &[64, 32, 1, 1], &noise(2048, 5))
        .node("Conv", &["joined", "pw"], "many")
        .node_with("DepthToSpace", &["many"], "deep", &[("blocksize", AttributeValue::Int(2))])
        .floats("bw", &[16, 8, 2, 2], &noise(512, 6))
        .node_with("ConvTranspose", &["sum", "bw"], "back", &[ints("strides", &two)])
        .node("GlobalAveragePool", &["sum"], "mean")
        .output("pool", FLOAT, None)
        .output("resize", FLOAT, None)
        .output("deep", FLOAT, None)
        .output("back", FLOAT, None)
        .output("mean", FLOAT, None)
}

/// With all passes and without one.
fn both(draft: &Draft) -> [Compiled; 2] {
    let compiled = draft.compile(&[]).unwrap();
    let typed = type_graph(import(draft.bytes()).unwrap(), &Options::default()).unwrap();
    let om = plan(&typed, 1).write().unwrap();
    let report = inspect(&Om::open(&om[..]).unwrap());
    [compiled.clone(), Compiled { om, report, ..compiled }]
}

fn assert_near(found: &[Vec<f32>], expected: &[Vec<f32>], what: &str) {
    assert_eq!(found.len(), expected.len());
    for (output, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!(found.len(), expected.len(), "{what}: output {output}");
        for (a, b) in found.iter().zip(expected) {
            let close = (a - b).abs() <= 2e-5 * b.abs().max(1.0);
            assert!(close, "{what}: output {output}: {a}, expected {b}");
        }
    }
}

#[test]
fn images_of_every_width_on_every_isa() {
    let tasks = images(2, 5).tasks();
    for name in ["BlockedConv", "BlockedPool", "BlockedRepeat", "BlockedConcat", "BlockedMean"] {
        assert!(tasks.iter().any(|task| task.starts_with(name)), "no {name}: {tasks:?}");
    }
    for width in (1..=20).chain([33]) {
        let width = usize::try_from(width).unwrap().max(2);
        let draft = images(2, i64::try_from(width).unwrap());
        let [compiled, plain] = both(&draft);
        let x = noise(36 * width, 1);
        let expected = at_most(Isa::Portable, || run(&plain, &[&x]));
        for isa in Isa::ALL {
            let found = at_most(isa, || run(&compiled, &[&x]));
            assert_near(&found, &expected, &format!("{width} on {isa:?}"));
            let found = at_most(isa, || run(&plain, &[&x]));
            assert_near(&found, &expected, &format!("{width}, plain, on {isa:?}"));
        }
    }
}

/// What a model makes of nothing, with passes and without.
fn of_nothing(draft: &Draft) -> Vec<Vec<f32>> {
    let both = both(draft);
    let [shapes, expected] = both
        .each_ref()
        .map(|own| own.report.outputs.iter().map(|output| output.info).collect::<Vec<_>>());
    assert_eq!(shapes, expected);
    let [compiled, plain] = both.map(|own| run(&own, &[&[]]));
    assert_eq!(compiled, plain);
    compiled
}

#[test]
fn no_images() {
    let draft = images(0, 5);
    assert_eq!(of_nothing(&draft), vec![Vec::<f32>::new(); 5]);
}

#[test]
fn rows_without_rows_and_without_depth() {
    let rows = |dims: &[D], depth: i64| {
        Draft::new(17)
            .input("x", FLOAT, dims)
            .floats("w", &[depth, 12], &noise(usize::try_from(12 * depth).unwrap(), 2))
            .floats("b", &[12], &noise(12, 3))
            .node("MatMul", &["x", "w"], "p")
            .node("Add", &["p", "b"], "s")
            .node("Relu", &["s"], "r")
            .floats("scale", &[12], &[1.0; 12])
            .node("LayerNormalization", &["r", "scale"], "n")
            .node_with("Softmax", &["n"], "y", &[("axis", AttributeValue::Int(-1))])
            .output("y", FLOAT, None)
            .output("r", FLOAT, None)
    };
    let none = rows(&[D::N(0), D::N(3), D::N(5)], 5);
    assert_eq!(of_nothing(&none), vec![Vec::<f32>::new(); 2]);
    let bias: Vec<f32> = noise(12, 3).iter().map(|x| x.max(0.0)).collect();
    let found = of_nothing(&rows(&[D::N(2), D::N(0)], 0));
    assert_eq!(found[1], [&bias[..], &bias[..]].concat(), "of no products, the offset");
    assert!((found[0].iter().sum::<f32>() - 2.0).abs() < 1e-5);
}

#[test]
fn no_steps_no_batch_no_places() {
    let cells = |steps: i64, batch: i64| {
        Draft::new(14)
            .input("x", FLOAT, &[D::N(steps), D::N(batch), D::N(2)])
            .floats("w", &[1, 12, 2], &noise(24, 2))
            .floats("r", &[1, 12, 3], &noise(36, 3))
            .node_with("LSTM", &["x", "w", "r"], "y", &[("hidden_size", AttributeValue::Int(3))])
            .output("y", FLOAT, None)
    };
    assert_eq!(of_nothing(&cells(0, 2)), [[0f32; 0]]);
    assert_eq!(of_nothing(&cells(2, 0)), [[0f32; 0]]);
    let sums = Draft::new(13)
        .input("x", FLOAT, &[D::N(2), D::N(0), D::N(3)])
        .int64s("axes", &[1], &[1])
        .node("ReduceSum", &["x", "axes"], "sum")
        .node_with("ReduceProd", &["x"], "product", &[ints("axes", &[0, 1])])
        .node_with("Transpose", &["x"], "t", &[ints("perm", &[2, 1, 0])])
        .floats("one", &[2, 1, 3], &noise(6, 1))
        .node_with("Concat", &["one", "x"], "joined", &[("axis", AttributeValue::Int(1))])
        .output("sum", FLOAT, None)
        .output("product", FLOAT, None)
        .output("t", FLOAT, None)
        .output("joined", FLOAT, None);
    assert_eq!(of_nothing(&sums), [vec![0.0; 6], vec![1.0; 3], vec![], noise(6, 1)]);
}
