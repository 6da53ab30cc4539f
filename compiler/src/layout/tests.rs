//! Tests of the layout pass: which tasks a graph has, and the same results as without the pass.

use npu::ops::AttributeValue;

use crate::testing::{D, Draft, FLOAT, run};
use crate::{Compiled, Options, import, plan, type_graph};

/// Deterministic values in -1.0 to 1.0.
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn noise(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|index| ((index * 7919 + seed * 104_729) % 2003) as f32 / 1001.5 - 1.0).collect()
}

impl Draft {
    fn weights(self, name: &str, dims: &[i64]) -> Self {
        let count = dims.iter().map(|dim| usize::try_from(*dim).unwrap()).product();
        let values: Vec<f32> = noise(count, name.len()).iter().map(|x| x * 0.3).collect();
        self.floats(name, dims, &values)
    }

    fn conv(self, inputs: &[&str], output: &str, group: i64, pad: i64) -> Self {
        let attributes =
            [("group", AttributeValue::Int(group)), ("pads", AttributeValue::Ints(vec![pad; 4]))];
        self.node_with("Conv", inputs, output, &attributes)
    }

    /// Whether the results with the pass are those without any.
    fn check(&self, tasks: &[&str], x: &[f32]) {
        assert_eq!(self.tasks(), tasks);
        let compiled = self.compile(&[]).unwrap();
        let typed = type_graph(import(self.bytes()).unwrap(), &Options::default()).unwrap();
        let om = plan(&typed).write().unwrap();
        let expected = run(&Compiled { om, ..compiled.clone() }, &[x]);
        let found = run(&compiled, &[x]);
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found.len(), expected.len());
            for (a, b) in found.iter().zip(expected) {
                assert!((a - b).abs() <= 1e-5 * b.abs().max(1.0), "{a}, expected {b}");
            }
        }
    }
}

/// x [1, 3, 9, 9] → a Conv to 20 maps `c`
fn first() -> Draft {
    Draft::new(15)
        .input("x", FLOAT, &[D::N(1), D::N(3), D::N(9), D::N(9)])
        .weights("w", &[20, 3, 3, 3])
        .weights("b", &[20])
        .conv(&["x", "w", "b"], "c", 1, 1)
}

fn x() -> Vec<f32> {
    noise(3 * 81, 1)
}

#[test]
fn a_chain_is_reordered_at_its_end_only() {
    let draft = first()
        .node("Relu", &["c"], "r")
        .weights("dw", &[20, 1, 5, 5])
        .conv(&["r", "dw"], "d", 20, 2)
        .node("HardSwish", &["d"], "h")
        .weights("pw", &[20, 20, 1, 1])
        .conv(&["h", "pw"], "p", 1, 0)
        .node("Add", &["p", "r"], "sum")
        .node("Sigmoid", &["sum"], "y")
        .output("y", FLOAT, None);
    let tasks = [
        "BlockedConv+Relu",
        "BlockedDepthwise+HardSwish",
        "BlockedConv",
        "Add",
        "Sigmoid",
        "FromBlocked",
    ];
    draft.check(&tasks, &x());
}

#[test]
fn squeeze_and_excite_stays_in_blocks() {
    let draft = first()
        .node("GlobalAveragePool", &["c"], "g")
        .weights("down", &[8, 20, 1, 1])
        .conv(&["g", "down"], "s", 1, 0)
        .node("Relu", &["s"], "sr")
        .weights("up", &[20, 8, 1, 1])
        .conv(&["sr", "up"], "u", 1, 0)
        .node("HardSigmoid", &["u"], "scale")
        .node("Mul", &["c", "scale"], "m")
        .floats("half", &[1], &[0.5])
        .node("Mul", &["half", "m"], "y")
        .output("y", FLOAT, None);
    let tasks = [
        "BlockedConv",
        "BlockedMean",
        "BlockedConv+Relu",
        "BlockedConv+HardSigmoid",
        "Mul",
        "Mul",
        "FromBlocked",
    ];
    draft.check(&tasks, &x());
}

#[test]
fn others_get_the_plain_form_once() {
    let draft = first()
        .node_with("Softmax", &["c"], "s", &[("axis", AttributeValue::Int(1))])
        .node_with("Softmax", &["c"], "t", &[("axis", AttributeValue::Int(3))])
        .node("Relu", &["c"], "r")
        .output("s", FLOAT, None)
        .output("t", FLOAT, None)
        .output("c", FLOAT, None)
        .output("r", FLOAT, None);
    let tasks = ["BlockedConv", "FromBlocked", "Softmax", "Softmax", "Relu", "FromBlocked"];
    draft.check(&tasks, &x());
}

#[test]
fn maps_of_one_pixel_that_fill_blocks_need_no_reorder() {
    let draft = Draft::new(15)
        .input("x", FLOAT, &[D::N(2), D::N(32), D::N(1), D::N(1)])
        .weights("w", &[16, 32, 1, 1])
        .conv(&["x", "w"], "y", 1, 0)
        .node("Relu", &["y"], "z")
        .output("z", FLOAT, None);
    draft.check(&["BlockedConv+Relu"], &noise(64, 2));
}

#[test]
fn what_gains_nothing_stays_as_it_is() {
    let few = Draft::new(15)
        .input("x", FLOAT, &[D::N(1), D::N(4), D::N(5), D::N(5)])
        .weights("w", &[3, 4, 3, 3])
        .conv(&["x", "w"], "y", 1, 1)
        .output("y", FLOAT, None);
    few.check(&["Conv"], &noise(100, 3));
    let groups = Draft::new(15)
        .input("x", FLOAT, &[D::N(1), D::N(4), D::N(5), D::N(5)])
        .weights("w", &[16, 2, 3, 3])
        .conv(&["x", "w"], "y", 2, 1)
        .output("y", FLOAT, None);
    groups.check(&["Conv"], &noise(100, 3));
    let other_maps = first()
        .weights("one", &[1, 1, 9, 9])
        .node("Mul", &["c", "one"], "y")
        .output("y", FLOAT, None);
    other_maps.check(&["BlockedConv", "FromBlocked", "Mul"], &x());
}
