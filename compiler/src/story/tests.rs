//! Tests of what is told: every node of a model has a line, and it is true.

use npu::ops::AttributeValue;

use crate::testing::{D, Draft, FLOAT, noise};

/// `node: what became of it` for each node.
fn told(draft: &Draft) -> Vec<String> {
    let fates = draft.compile(&[]).unwrap().fates;
    fates.iter().map(|fate| format!("{}: {}", fate.node, fate.what)).collect()
}

fn image(maps: i64) -> Draft {
    Draft::new(13)
        .input("x", FLOAT, &[D::N(1), D::N(maps), D::N(6), D::N(6)])
        .floats("w", &[16, maps, 1, 1], &noise(16 * usize::try_from(maps).unwrap(), 1))
        .floats("k", &[1, 16, 1, 1], &noise(16, 2))
}

#[test]
fn what_a_convolution_takes_in() {
    let own = image(3)
        .node("Identity", &["x"], "same")
        .node("Add", &["k", "k"], "twice")
        .node("Conv", &["same", "w"], "c")
        .node("Mul", &["c", "twice"], "m")
        .node("Relu", &["m"], "r")
        .node("Softmax", &["r"], "y")
        .node("Relu", &["c"], "nobody")
        .output("y", FLOAT, None);
    // Two read `c`, but one of them for nobody.
    assert_eq!(
        told(&own),
        [
            "Identity.same: a copy: whoever reads it reads the original",
            "Add.twice: computed in advance: it depends on constants alone",
            "Conv.c: task 0, BlockedConv; `Softmax.y` (Softmax) stays behind it: there is a \
             function already, and this is no factor or offset for all its maps",
            "Mul.m: part of `Conv.c`: factors and offsets, in weights and bias",
            "Relu.r: part of `Conv.c`: its function",
            "Softmax.y: task 2, Softmax; not on maps in blocks: it has no form for them",
            "Relu.nobody: nobody reads what it makes",
        ]
    );
}

#[test]
fn why_a_convolution_takes_in_nothing() {
    let own = image(3)
        .node("Conv", &["x", "w"], "c")
        .node("Relu", &["c"], "r")
        .node("Sigmoid", &["c"], "s")
        .output("r", FLOAT, None)
        .output("s", FLOAT, None);
    let lines = told(&own);
    assert_eq!(
        lines[0],
        "Conv.c: task 0, BlockedConv; takes in nothing more: its result is read 2 times"
    );
    assert!(lines[1].starts_with("Relu.r: task "), "{}", lines[1]);
    let few = Draft::new(13)
        .input("x", FLOAT, &[D::N(1), D::N(3), D::N(6), D::N(6)])
        .floats("w", &[2, 3, 1, 1], &noise(6, 1))
        .node("Conv", &["x", "w"], "c")
        .output("c", FLOAT, None);
    let expected = "Conv.c: task 0, Conv; not on maps in blocks: 2 maps would fill blocks of 16 \
                    too little";
    assert_eq!(told(&few), [expected]);
}

#[test]
fn a_convolution_behind_a_convolution_is_not_said_to_stay() {
    let own = image(16)
        .node("Conv", &["x", "w"], "c")
        .node("Conv", &["c", "w"], "d")
        .output("d", FLOAT, None);
    assert_eq!(told(&own), ["Conv.c: task 1, BlockedConv", "Conv.d: task 2, BlockedConv"]);
}

#[test]
fn sums_views_products_and_transposes() {
    let perm = |own: &[i64]| [("perm", AttributeValue::Ints(own.to_vec()))];
    let own = image(16)
        .node("Conv", &["x", "w"], "c")
        .node("Add", &["c", "x"], "sum")
        .node("Relu", &["sum"], "r")
        .node_with("Transpose", &["r"], "t", &perm(&[0, 2, 3, 1]))
        .node("Neg", &["t"], "n")
        .node_with("Transpose", &["n"], "back", &perm(&[0, 3, 1, 2]))
        .int64s("flat", &[2], &[36, 16])
        .node("Reshape", &["back", "flat"], "v")
        .floats("d", &[16, 16], &noise(256, 3))
        .floats("b", &[16], &noise(16, 4))
        .node("MatMul", &["v", "d"], "p")
        .node("Add", &["p", "b"], "o")
        .floats("e", &[16, 4], &noise(64, 5))
        .node("MatMul", &["o", "e"], "y")
        .output("y", FLOAT, None);
    let lines = told(&own);
    let starts = [
        "Conv.c: task ",
        "Add.sum: part of `Conv.c`: a sum with its result",
        "Relu.r: part of `Conv.c`: its function",
        "Transpose.t: gone: one that undoes it, or a later one, does",
        "Neg.n: task ",
        "Transpose.back: gone: ",
        "Reshape.v: no task: its result has the bytes of its input",
        "MatMul.p: task ",
        "Add.o: part of `MatMul.p`: its offset or function",
        "MatMul.y: task ",
    ];
    assert_eq!(lines.len(), starts.len(), "{lines:#?}");
    for (line, start) in lines.iter().zip(starts) {
        assert!(line.starts_with(start), "{line}; expected {start}");
    }
    assert_eq!(lines[0], "Conv.c: task 1, BlockedConv", "of a sum that it takes in");
    assert!(lines[7].ends_with("Dense; weights packed"), "{}", lines[7]);
    let why = "second operand not packed: 4 columns fill less than half of blocks of 16";
    assert!(lines[9].ends_with(why), "{}", lines[9]);
}

#[test]
fn an_op_of_another_framework_is_told_with_its_translation() {
    use prost::Message;

    use crate::tensorflow::proto::{AttrEntry, AttrValue, GraphDef, NodeDef, Value};
    let dtype = AttrValue { value: Some(Value::Type(1)) };
    let scalar = AttrValue { value: Some(Value::Shape(Default::default())) };
    let attr = [("dtype", dtype), ("shape", scalar)]
        .map(|(key, value)| AttrEntry { key: key.to_owned(), value: Some(value) });
    let node = |name: &str, op: &str, input: &[&str], attr: Vec<AttrEntry>| NodeDef {
        name: name.to_owned(),
        op: op.to_owned(),
        input: input.iter().map(|own| (*own).to_owned()).collect(),
        attr,
    };
    let nodes =
        vec![node("x", "Placeholder", &[], attr.to_vec()), node("y", "Inv", &["x"], vec![])];
    let file = GraphDef { node: nodes, versions: None }.encode_to_vec();
    let fates = crate::compile(file.into(), &crate::Options::default()).unwrap().fates;
    let lines: Vec<String> =
        fates.iter().map(|own| format!("{} {} {}", own.node, own.op, own.what)).collect();
    assert_eq!(lines, ["y Inv as Reciprocal task 0, Reciprocal"]);
}
