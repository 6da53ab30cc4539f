//! Tests of typing: dims of inputs, shapes that follow from shapes, refusals that name the place.

use bytes::Bytes;
use npu::ops::AttributeValue;

use super::type_within;
use crate::Options;
use crate::fold::Budget;
use crate::testing::{D, Draft, FLOAT, INT64, run};

/// x + x under any dims.
fn sum(dims: &[D]) -> Draft {
    Draft::new(13).input("x", FLOAT, dims).node("Add", &["x", "x"], "y").output("y", FLOAT, None)
}

#[test]
fn open_dims_are_bound_by_the_caller() {
    let named = sum(&[D::P("N"), D::N(3)]);
    let compiled = named.compile(&[("x", &[2, 3])]).unwrap();
    assert_eq!(compiled.report.inputs[0].info.shape.dims(), [2, 3]);
    let unbound = named.refused(&[]);
    let expected = "input `x`: dim 0, `N`, is open; give a shape: x=[N, 3] with numbers; \
                    the model is `x` [N, 3] -> `y` [N, 3]";
    assert_eq!(unbound, expected);
    let open = sum(&[D::N(1), D::Open]).refused(&[]);
    let expected = "input `x`: dim 1 is open; give a shape: x=[1, ?] with numbers; ";
    assert!(open.starts_with(expected), "{open}");
    let other = named.refused(&[("x", &[2, 4])]);
    assert_eq!(other, "input `x`: shape [2, 4] is given; the model declares [N, 3]");
    let rank = named.refused(&[("x", &[2])]);
    assert_eq!(rank, "input `x`: shape [2] is given; the model declares [N, 3]");
    let unknown = named.refused(&[("z", &[2])]);
    assert_eq!(unknown, "input `z`: a shape is given, but the model's inputs are [\"x\"]");
    let twice = named.refused(&[("x", &[2, 3]), ("x", &[2, 3])]);
    assert_eq!(twice, "input `x`: two shapes are given");
}

#[test]
fn a_name_of_a_dim_means_the_same_number_everywhere() {
    let two = Draft::new(13)
        .input("a", FLOAT, &[D::P("N")])
        .input("b", FLOAT, &[D::P("N")])
        .node("Add", &["a", "b"], "y")
        .output("y", FLOAT, Some(&[D::P("N")]));
    let compiled = two.compile(&[("b", &[3])]).unwrap();
    assert_eq!(compiled.report.inputs[0].info.shape.dims(), [3], "bound by the other input");
    let differ = two.refused(&[("a", &[2]), ("b", &[3])]);
    assert_eq!(differ, "input `b`: dim `N` is 3, but 2 in input `a`");
}

#[test]
fn inputs_without_a_shape_or_of_another_type() {
    let mut none = sum(&[]);
    let kind = none.graph().input[0].kind.as_mut().unwrap();
    kind.tensor_type.as_mut().unwrap().shape = None;
    assert_eq!(none.refused(&[]), "input `x`: the model declares no shape; give one: x=…");
    none.compile(&[("x", &[2])]).unwrap();
    let mut text = sum(&[D::N(1)]);
    let kind = text.graph().input[0].kind.as_mut().unwrap();
    kind.tensor_type.as_mut().unwrap().elem_type = Some(8);
    assert!(text.refused(&[]).starts_with("input `x`: is string; supported: float32, float64"));
}

/// Flatten as exporters write it: Shape → Slice → Concat → Reshape.
fn flatten() -> Draft {
    let axis = ("axis", AttributeValue::Int(0));
    Draft::new(15)
        .input("x", FLOAT, &[D::P("N"), D::N(2), D::N(3)])
        .int64s("zero", &[1], &[0])
        .int64s("one", &[1], &[1])
        .int64s("rest", &[1], &[-1])
        .node("Relu", &["x"], "r")
        .node("Shape", &["r"], "shape")
        .node("Slice", &["shape", "zero", "one", "zero"], "batch")
        .node_with("Concat", &["batch", "rest"], "target", &[axis])
        .node("Reshape", &["r", "target"], "flat")
        .node("Add", &["flat", "flat"], "y")
        .output("y", FLOAT, Some(&[D::P("N"), D::N(6)]))
}

#[test]
fn shapes_are_computed_when_the_model_is_compiled() {
    let compiled = flatten().compile(&[("x", &[2, 2, 3])]).unwrap();
    let ops: Vec<&str> = compiled.report.tasks.iter().map(|task| task.op.as_str()).collect();
    assert_eq!(ops, ["Relu", "Add"], "shape arithmetic is gone, the reshape is a view");
    assert_eq!(compiled.report.weights_bytes, 0);
    let x: Vec<f32> = (0..12u8).map(f32::from).collect();
    let doubled: Vec<f32> = x.iter().map(|x| 2.0 * x).collect();
    assert_eq!(run(&compiled, &[&x]), [doubled]);
}

#[test]
fn the_same_model_gives_the_same_bytes() {
    let once = || flatten().compile(&[("x", &[2, 2, 3])]).unwrap().om;
    assert_eq!(once()[..], once()[..]);
}

#[test]
fn a_shape_that_is_computed_from_data_is_refused() {
    let draft = Draft::new(15)
        .input("x", FLOAT, &[D::N(4)])
        .input("s", INT64, &[D::N(2)])
        .node("Reshape", &["x", "s"], "y")
        .output("y", FLOAT, None);
    let expected = "node `Reshape.y` (Reshape, opset 15): input 1 `shape` is computed from data; \
                    supported: an initializer, or what follows from shapes alone";
    assert_eq!(draft.refused(&[]), expected);
}

#[test]
fn unknown_ops_are_named_all_at_once() {
    let mut draft = Draft::new(13)
        .input("x", FLOAT, &[D::N(1)])
        .node("Gelu", &["x"], "a")
        .node("None", &["a"], "b")
        .node("None", &["b"], "c")
        .node("Relu", &["c"], "y")
        .output("y", FLOAT, None);
    draft.graph().node[0].domain = Some("com.microsoft".to_owned());
    let error = draft.refused(&[]);
    let expected = "node `Gelu.a` (com.microsoft.Gelu, opset 13): the op is not supported, nor are \
                    this model's None; docs/status.md lists those that are";
    assert!(error.starts_with(expected), "{error}");
}

#[test]
fn a_refusal_names_node_op_opset_and_attribute() {
    let draft = Draft::new(13)
        .input("x", FLOAT, &[D::N(1)])
        .node_with("Relu", &["x"], "y", &[("slope", AttributeValue::Float(0.1))])
        .output("y", FLOAT, None);
    let expected = "node `Relu.y` (Relu, opset 13): attribute `slope`: no attribute of this op; \
                    supported: none";
    assert_eq!(draft.refused(&[]), expected);
    let mut newer = sum(&[D::N(1)]);
    newer.0.opset_import[0].version = Some(99);
    assert!(newer.refused(&[]).contains("not known in opset 99; supported: 1 to 28"));
}

#[test]
fn connections_that_lead_nowhere() {
    let nowhere = Draft::new(13)
        .input("x", FLOAT, &[D::N(1)])
        .node("Add", &["x", "lost"], "y")
        .output("y", FLOAT, None);
    let expected = "node `Add.y` (Add): input 1, `lost`, is made by no node";
    assert_eq!(nowhere.refused(&[]), expected);
    let later = Draft::new(13)
        .input("x", FLOAT, &[D::N(1)])
        .node("Add", &["x", "late"], "y")
        .node("Relu", &["x"], "late")
        .output("y", FLOAT, None);
    assert!(later.refused(&[]).contains("`late`, is made by a later node"));
    let twice = sum(&[D::N(1)]).node("Relu", &["x"], "y");
    assert_eq!(twice.refused(&[]), "node `Relu.y` (Relu): `y` is defined twice");
    let none = Draft::new(13).input("x", FLOAT, &[D::N(1)]);
    assert_eq!(none.refused(&[]), "model: the graph has no output");
    let lost = sum(&[D::N(1)]).output("z", FLOAT, None);
    assert_eq!(lost.refused(&[]), "model: output `z` is made by no node");
    let same = sum(&[D::N(1)]).output("y", FLOAT, None);
    assert_eq!(same.refused(&[]), "model: output `y` is there twice");
    let dtype = Draft::new(13)
        .input("x", FLOAT, &[D::N(1)])
        .node("Relu", &["x"], "y")
        .output("y", INT64, None);
    assert_eq!(dtype.refused(&[]), "model: output `y` is declared as int64, but is float32 [1]");
}

#[test]
fn a_wrong_declaration_of_an_output_is_a_warning() {
    let draft = Draft::new(13).input("x", FLOAT, &[D::N(1)]).node("Relu", &["x"], "y").output(
        "y",
        FLOAT,
        Some(&[D::N(1), D::N(2)]),
    );
    let compiled = draft.compile(&[]).unwrap();
    assert_eq!(compiled.warnings, ["output `y` is declared as [1, 2], but is [1]"]);
}

#[test]
fn an_input_with_a_default_is_a_constant() {
    let draft = sum(&[D::N(2)]).input("w", FLOAT, &[D::N(2)]).floats("w", &[2], &[1.0, 2.0]);
    let draft = draft.node("Add", &["y", "w"], "z").output("z", FLOAT, None);
    let compiled = draft.compile(&[]).unwrap();
    assert_eq!(compiled.report.inputs.len(), 1);
    assert_eq!(run(&compiled, &[&[1.0, 1.0]]), [vec![2.0, 2.0], vec![3.0, 4.0]]);
}

/// What is left of 14 nodes that each double a constant of four floats, the first row of the last,
/// and a sum; and how many bytes of constants there are.
fn left_of_doubling(budget: Budget) -> (Vec<&'static str>, usize) {
    let mut draft = Draft::new(15).floats("c0", &[1, 4], &[1.0; 4]);
    for index in 0..14 {
        let (from, to) = (format!("c{index}"), format!("c{}", index + 1));
        let axis = [("axis", AttributeValue::Int(0))];
        draft = draft.node_with("Concat", &[&from, &from], &to, &axis);
    }
    let draft = draft
        .input("x", FLOAT, &[D::N(1), D::N(4)])
        .int64s("start", &[1], &[0])
        .int64s("end", &[1], &[1])
        .node("Slice", &["c14", "start", "end"], "first")
        .node("Add", &["x", "first"], "y")
        .output("y", FLOAT, None);
    let imported = crate::import(draft.bytes()).unwrap();
    let graph = type_within(imported, &Options::default(), budget).unwrap();
    let ops = graph.nodes.iter().map(|node| node.op.line().name).collect();
    (ops, graph.tensors.iter().flat_map(|tensor| &tensor.value).map(Bytes::len).sum())
}

#[test]
fn folding_ends_where_the_program_would_grow_too_large() {
    assert_eq!(left_of_doubling(Budget::default()).0, ["Add"]);
    // 16 << k bytes each; those up to 4096 always, then 8, 16 and 32 KiB of the 64.
    let (ops, bytes) = left_of_doubling(Budget { bytes: 64 << 10, flops: 1 });
    assert_eq!(ops, ["Concat", "Concat", "Concat", "Slice", "Add"]);
    assert!(bytes < (64 << 10) + 2 * 4096 + 64, "{bytes}");
    // A product costs operations, too.
    let product = Draft::new(15)
        .floats("a", &[1, 3], &[1.0; 3])
        .floats("b", &[3, 1], &[1.0; 3])
        .node("MatMul", &["a", "b"], "y")
        .output("y", FLOAT, None);
    let left = |flops| {
        let imported = crate::import(product.bytes()).unwrap();
        let budget = Budget { flops, ..Budget::default() };
        type_within(imported, &Options::default(), budget).unwrap().nodes.len()
    };
    assert_eq!((left(6), left(5)), (0, 1));
}
