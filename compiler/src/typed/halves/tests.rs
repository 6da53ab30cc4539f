//! Tests of halves: what lies between ops is float32, results are rounded once, and what jumps sees
//! rounded values.

use npu::half::{Bf16, F16};
use npu::ops::AttributeValue;

use crate::fold::Budget;
use crate::testing::{BF16, D, Draft, FLOAT, FLOAT16, INT64, noise, run};
use crate::typed::type_within;
use crate::{Options, import};

const BOOL: i32 = 9;
const INT8: i32 = 3;

/// The nearest float of 16 bits.
fn near(dtype: i32, x: f32) -> f32 {
    if dtype == FLOAT16 { F16::from_f32(x).to_f32() } else { Bf16::from_f32(x).to_f32() }
}

fn all_near(dtype: i32, values: &[f32]) -> Vec<f32> {
    values.iter().map(|x| near(dtype, *x)).collect()
}

/// A graph of halves on one input of some elements.
fn of(dtype: i32, dims: &[i64]) -> Draft {
    let dims: Vec<D> = dims.iter().map(|dim| D::N(*dim)).collect();
    Draft::new(22).input("x", dtype, &dims)
}

fn to(dtype: i32) -> [(&'static str, AttributeValue); 1] {
    [("to", AttributeValue::Int(dtype.into()))]
}

/// A convolution with what follows it, of a type.
fn convolution(dtype: i32) -> Draft {
    let statistics = noise(16, 4).iter().map(|x| x + 1.5).collect::<Vec<_>>();
    of(dtype, &[1, 16, 6, 6])
        .of("w", dtype, &[16, 16, 3, 3], &noise(16 * 16 * 9, 1))
        .of("s", dtype, &[16], &noise(16, 2))
        .of("b", dtype, &[16], &noise(16, 3))
        .of("v", dtype, &[16], &statistics)
        .node("Conv", &["x", "w"], "c")
        .node("BatchNormalization", &["c", "s", "b", "b", "v"], "n")
        .node("Relu", &["n"], "r")
        .node("Transpose", &["r"], "t")
        .node_with("Concat", &["t"], "y", &[("axis", AttributeValue::Int(1))])
        .output("y", dtype, None)
}

impl Draft {
    /// A constant of float32 or of 16 bits; float32 has the values of float16.
    fn of(self, name: &str, dtype: i32, dims: &[i64], values: &[f32]) -> Self {
        match dtype {
            FLOAT => self.floats(name, dims, &all_near(FLOAT16, values)),
            _ => self.halves(name, dtype, dims, values),
        }
    }
}

#[test]
fn a_convolution_of_halves_is_the_one_of_float32_between_two_casts() {
    let draft = convolution;
    let x = noise(16 * 36, 5);
    let x = all_near(FLOAT16, &x);
    let (plain, halves) =
        (draft(FLOAT).compile(&[]).unwrap(), draft(FLOAT16).compile(&[]).unwrap());
    let (plain_tasks, tasks) = (draft(FLOAT).tasks(), draft(FLOAT16).tasks());
    assert_eq!(tasks.first().map(String::as_str), Some("Cast"));
    assert_eq!(tasks.last().map(String::as_str), Some("Cast"));
    assert_eq!(tasks[1..tasks.len() - 1], plain_tasks[..], "the same between");
    assert_eq!(run(&halves, &[&x])[0], all_near(FLOAT16, &run(&plain, &[&x])[0]));
    let told: Vec<&str> = halves.fates.iter().map(|fate| fate.what.as_str()).collect();
    assert!(told[0].contains("computed as float32, its constants widened in advance"), "{told:?}");
}

#[test]
fn what_moves_elements_needs_no_cast() {
    let moved = of(BF16, &[2, 3])
        .halves("c", BF16, &[2, 2], &[1.0, 2.0, 3.0, 4.0])
        .node_with("Concat", &["x", "c"], "w", &[("axis", AttributeValue::Int(1))])
        .node("Transpose", &["w"], "t")
        .int64s("s", &[2], &[2, 5])
        .node("Reshape", &["t", "s"], "y")
        .output("y", BF16, None);
    assert_eq!(moved.tasks(), ["Concat", "Transpose"]);
    let found = run(&moved.compile(&[]).unwrap(), &[&[0.5, 1.5, 2.5, 3.5, 4.5, 5.5]]);
    assert_eq!(found[0], [0.5, 3.5, 1.5, 4.5, 2.5, 5.5, 1.0, 3.0, 2.0, 4.0]);
    // Rows of a table are widened, not the table.
    let rows = Draft::new(22)
        .input("i", INT64, &[D::N(1)])
        .halves("table", FLOAT16, &[3, 1], &[1.0, 2.0, 3.0])
        .node("Gather", &["table", "i"], "g")
        .node("Exp", &["g"], "y")
        .output("y", FLOAT16, None);
    assert_eq!(rows.tasks(), ["Gather", "Cast", "Exp", "Cast"]);
}

#[test]
fn what_jumps_sees_rounded_values() {
    // 2048 + 1 is 2048 in float16, and 2050 + 1 is 2052.
    let sum =
        || of(FLOAT16, &[2]).halves("one", FLOAT16, &[], &[1.0]).node("Add", &["x", "one"], "s");
    let x: &[f32] = &[2048.0, 2050.0];
    let found = |draft: &Draft| run(&draft.compile(&[]).unwrap(), &[x]);
    let compared = sum().node("Greater", &["s", "x"], "y").output("y", BOOL, None);
    assert_eq!(found(&compared), [[0.0, 1.0]]);
    let floored = sum().node("Floor", &["s"], "f").node("Sub", &["f", "x"], "y");
    assert_eq!(found(&floored.output("y", FLOAT16, None)), [[0.0, 2.0]]);
    let whole = sum().node_with("Cast", &["s"], "y", &to(INT64)).output("y", INT64, None);
    assert_eq!(found(&whole), [[2048.0, 2052.0]]);
    // What does not jump is not rounded in between, and an output is.
    let near = sum().node("Sub", &["s", "x"], "y").output("y", FLOAT16, None);
    let near = near.output("s", FLOAT16, None);
    assert_eq!(found(&near), [[1.0, 1.0], [2048.0, 2052.0]]);
}

#[test]
fn casts_that_change_nothing_go() {
    let there = of(FLOAT16, &[4])
        .node("Sigmoid", &["x"], "s")
        .node_with("Cast", &["s"], "f", &to(FLOAT))
        .node("Exp", &["f"], "e")
        .node_with("Cast", &["e"], "h", &to(FLOAT16))
        .node_with("Cast", &["h"], "same", &to(FLOAT16))
        .node("Neg", &["same"], "y")
        .output("y", FLOAT16, None);
    // The model rounds what it computes as float32.
    assert_eq!(there.tasks(), ["Cast", "Sigmoid+Exp", "Cast", "Cast", "Neg", "Cast"]);
    let x = [0.0, 1.0, -2.0, 3.0];
    let expected = x.map(|x: f32| -near(FLOAT16, (1.0 / (1.0 + (-x).exp())).exp()));
    assert_eq!(run(&there.compile(&[]).unwrap(), &[&x])[0], expected);
    // Two readers, one Cast; an input that is an output is copied.
    let twice = of(BF16, &[2]).node("Sqrt", &["x"], "a").node("Exp", &["x"], "b");
    let twice = twice.node("Add", &["a", "b"], "y").output("y", BF16, None).output("x", BF16, None);
    assert_eq!(twice.tasks(), ["Cast", "Exp", "Sqrt+Add", "Cast", "Identity"]);
}

#[test]
fn types_that_an_op_has_not_are_refused_as_before() {
    let mut old = convolution(BF16);
    old.graph().node.truncate(1);
    old.0.opset_import[0].version = Some(21);
    let refused = old.output("c", BF16, None).refused(&[]);
    let what = "input 0 is bfloat16; supported: float32, float16";
    assert!(refused.contains(what), "{refused}");
    let mixed = of(FLOAT16, &[2, 2]).floats("f", &[2, 2], &[1.0; 4]);
    let refused = mixed.node("MatMul", &["x", "f"], "y").output("y", FLOAT16, None).refused(&[]);
    assert!(refused.contains("input 1 is float32; supported: float16"), "{refused}");
    let declared =
        of(FLOAT16, &[2]).node("Relu", &["x"], "y").output("y", FLOAT, None).refused(&[]);
    assert!(declared.contains("`y` is declared as float32, but is float16"), "{declared}");
}

#[test]
fn types_that_follow_from_attributes_and_other_inputs() {
    // A matrix like an input; a Cast like another tensor; bounds of a Clip; scales of float32.
    let draft = of(FLOAT16, &[2, 2])
        .node("EyeLike", &["x"], "eye")
        .node("MatMul", &["x", "eye"], "p")
        .floats("f", &[2, 2], &[2049.0, 1.0, 2.0, 3.0])
        .node("CastLike", &["f", "p"], "l")
        .node("Add", &["p", "l"], "a")
        .halves("low", FLOAT16, &[], &[2.0])
        .halves("high", FLOAT16, &[], &[2048.0])
        .node("Clip", &["a", "low", "high"], "c")
        .floats("scales", &[2], &[1.0, 2.0])
        .node("Resize", &["c", "", "scales"], "y")
        .output("y", FLOAT16, None);
    let found = run(&draft.compile(&[]).unwrap(), &[&[1.0, 0.5, 1.0, -4.0]]);
    assert_eq!(found, [[2048.0, 2048.0, 2.0, 2.0, 3.0, 3.0, 2.0, 2.0]]);
    // Quantised with scales of float16: scale 0.5, so 0.25 and 0.75 go to the even one.
    let bytes = of(FLOAT16, &[4])
        .halves("s", FLOAT16, &[], &[0.5])
        .raw("z", INT8, &[], vec![0])
        .node("QuantizeLinear", &["x", "s", "z"], "q")
        .node("DequantizeLinear", &["q", "s", "z"], "d")
        .node("Neg", &["d"], "y")
        .output("y", FLOAT16, None);
    let found = run(&bytes.compile(&[]).unwrap(), &[&[0.25, 0.75, -3.0, 999.0]]);
    assert_eq!(found, [[0.0, -1.0, 3.0, -63.5]]);
}

#[test]
fn constants_are_widened_whatever_the_budget() {
    let draft = of(FLOAT16, &[1, 64])
        .halves("w", FLOAT16, &[64, 64], &noise(64 * 64, 1))
        .node("MatMul", &["x", "w"], "y")
        .output("y", FLOAT16, None);
    let budget = Budget { bytes: 0, flops: 0 };
    let imported = import(draft.bytes()).unwrap();
    let typed = type_within(imported, &Options::default(), budget).unwrap();
    let ops: Vec<String> = typed.nodes.iter().map(|node| format!("{:?}", node.op)).collect();
    assert_eq!(ops, ["Cast", "MatMul", "Cast"]);
    let weights = &typed.tensors[typed.nodes[1].inputs[1]];
    let words = weights.value.as_ref().unwrap().as_chunks().0;
    let floats: Vec<f32> = words.iter().map(|word| f32::from_le_bytes(*word)).collect();
    assert_eq!(floats, all_near(FLOAT16, &noise(64 * 64, 1)));
}

/// Numbers of a seed.
struct Dice(usize);

impl Dice {
    fn roll(&mut self, below: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

/// Some ops on matrices of 4 x 4; nothing that jumps.
fn random(seed: usize, dtype: i32, values: i32) -> Draft {
    let mut dice = Dice(seed);
    let mut draft = of(dtype, &[4, 4]).int64s("shape", &[2], &[4, 4]).int64s("long", &[1], &[16]);
    let mut names = vec!["x".to_owned()];
    for index in 0..2 + dice.roll(10) {
        let y = format!("y{index}");
        let pick = |dice: &mut Dice| names[dice.roll(names.len())].clone();
        let (a, b) = (pick(&mut dice), pick(&mut dice));
        let (a, b) = (a.as_str(), b.as_str());
        let kind = dice.roll(9);
        draft = match kind {
            0 => draft.node(["Add", "Sub", "Max"][dice.roll(3)], &[a, b], &y),
            1 => draft.node(["Sigmoid", "Tanh", "Relu", "Abs"][dice.roll(4)], &[a], &y),
            2 => draft.node("Transpose", &[a], &y),
            3 => {
                let flat = format!("l{index}");
                draft.node("Reshape", &[a, "long"], &flat).node("Reshape", &[&flat, "shape"], &y)
            }
            4 => draft.node("Softmax", &[a], &y),
            5 | 6 => {
                let own =
                    noise(16, seed + index).iter().map(|x| near(values, *x)).collect::<Vec<_>>();
                let draft = draft.of(&format!("w{index}"), dtype, &[4, 4], &own);
                draft.node(["MatMul", "Mul"][kind - 5], &[a, &format!("w{index}")], &y)
            }
            7 => {
                let axis = [("axis", AttributeValue::Int(0))];
                let parts = format!("p{index}");
                let draft = draft.node_with("Concat", &[a, b], &parts, &axis);
                draft.int64s(&format!("i{index}"), &[4], &[0, 7, 5, 2]).node_with(
                    "Gather",
                    &[&parts, &format!("i{index}")],
                    &y,
                    &axis,
                )
            }
            _ => draft.node("Identity", &[a], &y),
        };
        names.push(y);
    }
    let last = names.last().unwrap().clone();
    draft.output(&last, dtype, None)
}

#[test]
fn random_graphs_are_those_of_float32_rounded_once() {
    for seed in 0..300 {
        let dtype = [FLOAT16, BF16][seed % 2];
        let x = all_near(dtype, &noise(16, seed + 1));
        let (plain, halves) = (random(seed, FLOAT, dtype), random(seed, dtype, dtype));
        let expected = &run(&plain.compile(&[]).unwrap(), &[&x])[0];
        let found = &run(&halves.compile(&[]).unwrap(), &[&x])[0];
        assert_eq!(found.len(), expected.len(), "seed {seed}");
        for (found, exact) in found.iter().zip(expected) {
            // Half of what lies between two neighbours, and what the order of sums may change.
            let unit = if dtype == FLOAT16 { 1.0 / 2048.0 } else { 1.0 / 256.0 };
            let limit = exact.abs() * unit + 1e-6;
            assert!((found - exact).abs() <= limit, "seed {seed}: {found}, {exact}");
        }
    }
}
