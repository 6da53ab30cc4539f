//! Tests of the layout pass: which tasks a graph has, and the same results as without the pass.

use npu::ops::AttributeValue;

use crate::testing::{D, Draft, FLOAT, check, noise};

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
    let tasks =
        ["BlockedConv+Relu", "BlockedDepthwise+HardSwish", "BlockedConv", "Sigmoid", "FromBlocked"];
    check(&draft, &tasks, &x());
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
        "Mul+Mul",
        "FromBlocked",
    ];
    check(&draft, &tasks, &x());
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
    check(&draft, &tasks, &x());
}

#[test]
fn maps_of_one_pixel_that_fill_blocks_need_no_reorder() {
    let draft = Draft::new(15)
        .input("x", FLOAT, &[D::N(2), D::N(32), D::N(1), D::N(1)])
        .weights("w", &[16, 32, 1, 1])
        .conv(&["x", "w"], "y", 1, 0)
        .node("Relu", &["y"], "z")
        .output("z", FLOAT, None);
    check(&draft, &["BlockedConv+Relu"], &noise(64, 2));
}

#[test]
fn pools_and_repeated_pixels_stay_in_blocks() {
    let two = |name: &'static str| (name, AttributeValue::Ints(vec![2; 2]));
    let draft = first()
        .node_with("MaxPool", &["c"], "m", &[two("kernel_shape"), two("strides")])
        .node_with("AveragePool", &["m"], "a", &[two("kernel_shape")])
        .floats("scales", &[4], &[1.0, 1.0, 3.0, 2.0])
        .node_with(
            "Resize",
            &["a", "", "scales"],
            "y",
            &[
                ("mode", AttributeValue::Text("nearest".to_owned())),
                ("coordinate_transformation_mode", AttributeValue::Text("asymmetric".to_owned())),
                ("nearest_mode", AttributeValue::Text("floor".to_owned())),
            ],
        )
        .output("y", FLOAT, None);
    let tasks = ["BlockedConv", "BlockedPool", "BlockedPool", "BlockedRepeat", "FromBlocked"];
    check(&draft, &tasks, &x());
}

#[test]
fn maps_are_joined_and_spread_in_blocks() {
    let draft = Draft::new(15)
        .input("x", FLOAT, &[D::N(1), D::N(3), D::N(9), D::N(9)])
        .weights("w", &[24, 3, 3, 3])
        .conv(&["x", "w"], "c", 1, 1)
        .weights("v", &[24, 24, 1, 1])
        .conv(&["c", "v"], "d", 1, 0)
        .node_with("Concat", &["c", "d"], "j", &[("axis", AttributeValue::Int(1))])
        .weights("u", &[64, 48, 1, 1])
        .conv(&["j", "u"], "e", 1, 0)
        .node_with("DepthToSpace", &["e"], "y", &[("blocksize", AttributeValue::Int(2))])
        .output("y", FLOAT, None);
    let tasks = [
        "BlockedConv",
        "BlockedConv",
        "BlockedConcat",
        "BlockedConv",
        "BlockedSpread",
        "FromBlocked",
    ];
    check(&draft, &tasks, &x());
}

#[test]
fn what_gains_nothing_stays_as_it_is() {
    let few = Draft::new(15)
        .input("x", FLOAT, &[D::N(1), D::N(4), D::N(5), D::N(5)])
        .weights("w", &[3, 4, 3, 3])
        .conv(&["x", "w"], "y", 1, 1)
        .output("y", FLOAT, None);
    check(&few, &["Conv"], &noise(100, 3));
    let groups = Draft::new(15)
        .input("x", FLOAT, &[D::N(1), D::N(4), D::N(5), D::N(5)])
        .weights("w", &[16, 2, 3, 3])
        .conv(&["x", "w"], "y", 2, 1)
        .output("y", FLOAT, None);
    check(&groups, &["Conv"], &noise(100, 3));
    let other_maps = first()
        .weights("one", &[1, 1, 9, 9])
        .node("Mul", &["c", "one"], "y")
        .output("y", FLOAT, None);
    check(&other_maps, &["BlockedConv", "FromBlocked", "Mul"], &x());
}
