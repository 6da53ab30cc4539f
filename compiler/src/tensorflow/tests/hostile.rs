//! Files that are no graphs, and graphs that can't be: each is refused by node, none does harm.

use proptest::prelude::*;

use super::*;
use crate::import;

fn small() -> Frozen {
    Frozen::default()
        .input("x", &[1, 3, 3, 1])
        .floats("w", &[2, 2, 1, 1], &[1.0, 2.0, 3.0, 4.0])
        .node(
            "Conv2D",
            "conv",
            &["x", "w:0", "^x"],
            &[("strides", list(&[1, 1, 1, 1])), ("padding", text("SAME"))],
        )
        .ints("shape", &[2], &[-1, 9])
        .node("Reshape", "y", &["conv", "shape"], &[])
}

#[test]
fn what_is_no_graph_is_refused() {
    for bytes in [&[0x0A][..], &[0x0A, 0x7F], &[0x0A, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F], b"\nname: x"] {
        let error = import(Bytes::copy_from_slice(bytes)).unwrap_err();
        assert!(matches!(error, CompileError::NotTensorFlow(_)), "{error}");
    }
    let empty = Frozen::default().input("x", &[1]);
    assert_eq!(empty.refused(&[]), "not a frozen TensorFlow graph: no node makes a result");
    // Text instead of bytes, and a folder's saved_model.pb.
    for bytes in [&b"node {\n  name: \"x\"\n}"[..], &[8, 1, 18, 4, 10, 2, 18, 0]] {
        let error = import(Bytes::copy_from_slice(bytes)).unwrap_err();
        assert!(matches!(error, CompileError::NotOnnx(_)), "{error}");
    }
}

#[test]
fn a_cut_or_damaged_file_does_no_harm() {
    let file = small().bytes();
    small().compile(&[]).unwrap();
    for length in 0..file.len() {
        let _ = compile(file.slice(..length), &Options::default());
    }
    for bit in 0..file.len() * 8 {
        let mut wrong = file.to_vec();
        wrong[bit / 8] ^= 1 << (bit % 8);
        let _ = compile(wrong.into(), &Options::default());
    }
}

/// Checks that each graph is refused with a text that begins so.
fn check(cases: Vec<(Frozen, &str)>) {
    for (own, expected) in cases {
        let refused = own.refused(&[]);
        assert!(refused.starts_with(expected), "{refused}\nexpected: {expected}");
    }
}

fn x() -> Frozen {
    Frozen::default().input("x", &[2])
}

#[test]
fn refusals_name_the_node() {
    check(vec![
        (x().node("Relu", "y", &["nobody"], &[]), "node `y` (Relu): input 0, `nobody`, is no node"),
        (x().node("Relu", "y", &["x", "^gone"], &[]), "node `y` (Relu): input 1, `^gone`, is no"),
        (x().node("Relu", "y", &["x:1"], &[]), "node `y` (Relu): input 0, `x:1`: 1 result(s) of"),
        (x().node("Relu", "y", &["y"], &[]), "node `y` (Relu): reads what is made of its own"),
        (
            x().node("Relu", "a", &["b"], &[]).node("Relu", "b", &["a"], &[]),
            "node `a` (Relu): reads what is made of its own result: a cycle",
        ),
        (x().node("Relu", "x", &["x"], &[]), "node `x` (Relu): there are two nodes of this name"),
        (x().node("Relu", "", &["x"], &[]), "node `` (Relu): node 1 has no name"),
        (
            x().node("Frob", "y", &["x"], &[]).node("Nicate", "z", &["x"], &[]),
            "node `y` (Frob): the op is not supported, nor are this graph's Nicate; docs/status.md",
        ),
        (x().node("Relu", "y", &["x", "x"], &[]), "node `y` (Relu): 2 inputs; expected 1 to 1"),
        (
            x().node("Relu", "y", &["x"], &[("alpha", Value::F(1.0))]),
            "node `y` (Relu): attribute `alpha`: not known; supported: none",
        ),
        (
            x().node("LeakyRelu", "y", &["x"], &[("alpha", Value::I(1))]),
            "node `y` (LeakyRelu): attribute `alpha`: a number; supported: a float",
        ),
        (
            x().node(
                "LeakyRelu",
                "y",
                &["x"],
                &[("alpha", Value::F(1.0)), ("alpha", Value::F(1.0))],
            ),
            "node `y` (LeakyRelu): attribute `alpha` is there twice",
        ),
        (
            x().node("ConcatV2", "y", &["x", "x"], &[]),
            "node `y` (ConcatV2): input 1 (axis), `x`, is computed; it has to be a constant",
        ),
        (
            x().floats("w", &[3, 1], &[0.0; 3]).node("MatMul", "y", &["x", "w"], &[]),
            "node `y` (MatMul): as ONNX's MatMul: ",
        ),
    ]);
}

#[test]
fn values_that_can_not_be_are_refused() {
    check(vec![
        (
            Frozen::default().node("Placeholder", "x", &[], &[]).node("Relu", "y", &["x"], &[]),
            "node `x` (Placeholder): attribute `dtype` is not there",
        ),
        (
            x().node("Const", "c", &[], &[]).node("Relu", "y", &["c"], &[]),
            "node `c` (Const): attribute `value` is not there",
        ),
        (
            x().ints("axis", &[], &[0]).node(
                "Split",
                "y",
                &["axis", "x"],
                &[("num_split", Value::I(1 << 40))],
            ),
            "node `y` (Split): attribute `num_split`: 1099511627776; supported: 1 to 64",
        ),
        (
            Frozen::default().typed("x", 7, &[1]).node("Identity", "y", &["x"], &[]),
            "input `x`: is string; supported: ",
        ),
        (
            Frozen::default().input("x", &[1 << 30, 1 << 30]).node("Relu", "y", &["x"], &[]),
            "input `x`: ",
        ),
    ]);
    let training = Frozen::default().input("x", &[1, 1, 1, 1]).floats("s", &[1], &[1.0]).node(
        "FusedBatchNormV3",
        "y",
        &["x", "s", "s", "s", "s"],
        &[],
    );
    assert!(training.refused(&[]).contains("`is_training` is true; freeze the graph"));
}

#[test]
fn attributes_that_can_not_be_are_refused() {
    let conv = |attr: &[(&str, Value)]| {
        Frozen::default().input("x", &[1, 3, 3, 1]).floats("w", &[1, 1, 1, 1], &[1.0]).node(
            "Conv2D",
            "y",
            &["x", "w"],
            attr,
        )
    };
    let (ones, same) = (("strides", list(&[1, 1, 1, 1])), ("padding", text("SAME")));
    check(vec![
        (conv(std::slice::from_ref(&same)), "node `y` (Conv2D): attribute `strides` is not there"),
        (conv(std::slice::from_ref(&ones)), "node `y` (Conv2D): attribute `padding` is not there"),
        (
            conv(&[("strides", list(&[2, 1, 1, 1])), same.clone()]),
            "node `y` (Conv2D): attribute `strides`: [2, 1, 1, 1]; supported: [1, height, width",
        ),
        (
            conv(&[ones.clone(), ("padding", text("FULL"))]),
            "node `y` (Conv2D): attribute `padding`: \"FULL\"; supported: SAME, VALID, EXPLICIT",
        ),
        (
            conv(&[ones.clone(), same.clone(), ("data_format", text("NCWH"))]),
            "node `y` (Conv2D): attribute `data_format`: \"NCWH\"; supported: NHWC, NCHW",
        ),
        (
            conv(&[ones.clone(), same.clone(), ("dilations", Value::B(true))]),
            "node `y` (Conv2D): attribute `dilations`: a bool; supported: a list of numbers",
        ),
        (conv(&[("strides", list(&[1, 0, 0, 1])), same]), "node `y` (Conv2D): as ONNX's Conv: "),
    ]);
}

#[test]
fn a_long_chain_is_no_recursion() {
    let mut own = Frozen::default().input("x", &[1]);
    let mut last = "x".to_owned();
    for index in 0..20_000 {
        let name = format!("n{index}");
        own = own.node("Identity", &name, &[&last], &[]);
        last = name;
    }
    assert_eq!(own.compile(&[]).unwrap().report.tasks.len(), 1);
}

/// Ops with inputs, attributes and constants that may or may not fit.
fn any_node() -> impl Strategy<Value = (usize, Vec<usize>, Vec<(usize, usize)>)> {
    let inputs = prop::collection::vec(0usize..12, 0..4);
    (0usize..100, inputs, prop::collection::vec((0usize..12, 0usize..8), 0..5))
}

fn any_value(index: usize) -> Value {
    match index {
        0 => list(&[1, 2, 2, 1]),
        1 => list(&[i64::MAX, i64::MIN]),
        2 => text("SAME"),
        3 => text("NCHW"),
        4 => Value::I(-1),
        5 => Value::B(true),
        6 => Value::Type(FLOAT),
        _ => Value::F(f32::NAN),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_graph_is_compiled_or_refused(nodes in prop::collection::vec(any_node(), 1..8)) {
        let names = super::super::ops::names();
        let attributes = ["strides", "padding", "data_format", "ksize", "axis", "keep_dims", "T",
            "num_split", "squeeze_dims", "transpose_a", "dilations", "is_training"];
        let base = small().floats("c", &[2], &[0.0, 1.0]).ints("i", &[3], &[0, 1, i32::MIN]);
        let mut known: Vec<String> = base.0.node.iter().map(|node| node.name.clone()).collect();
        let mut own = base;
        for (index, (op, inputs, attr)) in nodes.iter().enumerate() {
            let name = format!("n{index}");
            let inputs: Vec<&str> =
                inputs.iter().map(|input| known[input % known.len()].as_str()).collect();
            let attr: Vec<(&str, Value)> =
                attr.iter().map(|(key, value)| (attributes[*key], any_value(*value))).collect();
            own = own.node(names[op % names.len()], &name, &inputs, &attr);
            known.push(name);
        }
        let _ = own.compile(&[]);
    }
}
