//! Tests of frozen graphs: files are put together here, values come from plain loops.

mod hostile;
mod images;
mod ops;
mod values;

use bytes::Bytes;
use prost::Message;

use super::proto::{
    AttrEntry, AttrValue, Dim, GraphDef, ListValue, NodeDef, TensorProto, TensorShapeProto, Value,
    VersionDef,
};
use crate::testing::run;
use crate::{CompileError, Compiled, Options, compile};

/// Numbers of types.
const FLOAT: i32 = 1;
const INT32: i32 = 3;

/// A graph that is put together.
#[derive(Clone, Debug, Default)]
struct Frozen(GraphDef);

fn shape(dims: &[i64]) -> TensorShapeProto {
    let dim = dims.iter().map(|size| Dim { size: *size }).collect();
    TensorShapeProto { dim, unknown_rank: false }
}

fn text(own: &str) -> Value {
    Value::S(own.to_owned().into())
}

fn list(own: &[i64]) -> Value {
    Value::List(Box::new(ListValue { i: own.to_vec(), ..ListValue::default() }))
}

fn entry((key, value): (&str, Value)) -> AttrEntry {
    AttrEntry { key: key.to_owned(), value: Some(AttrValue { value: Some(value) }) }
}

impl Frozen {
    fn node(mut self, op: &str, name: &str, inputs: &[&str], attr: &[(&str, Value)]) -> Self {
        self.0.node.push(NodeDef {
            name: name.to_owned(),
            op: op.to_owned(),
            input: inputs.iter().map(|input| (*input).to_owned()).collect(),
            attr: attr.iter().cloned().map(entry).collect(),
        });
        self
    }

    fn typed(self, name: &str, dtype: i32, dims: &[i64]) -> Self {
        let attr = [("dtype", Value::Type(dtype)), ("shape", Value::Shape(shape(dims)))];
        self.node("Placeholder", name, &[], &attr)
    }

    fn input(self, name: &str, dims: &[i64]) -> Self {
        self.typed(name, FLOAT, dims)
    }

    fn constant(self, name: &str, tensor: TensorProto) -> Self {
        let dtype = Value::Type(tensor.dtype);
        let attr = [("dtype", dtype), ("value", Value::Tensor(Box::new(tensor)))];
        self.node("Const", name, &[], &attr)
    }

    fn floats(self, name: &str, dims: &[i64], values: &[f32]) -> Self {
        let content: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let tensor_shape = Some(shape(dims));
        let tensor_content = content.into();
        let own = TensorProto { dtype: FLOAT, tensor_shape, tensor_content, ..Default::default() };
        self.constant(name, own)
    }

    fn ints(self, name: &str, dims: &[i64], values: &[i32]) -> Self {
        let (tensor_shape, int_val) = (Some(shape(dims)), values.to_vec());
        let own = TensorProto { dtype: INT32, tensor_shape, int_val, ..Default::default() };
        self.constant(name, own)
    }

    fn bytes(&self) -> Bytes {
        self.0.encode_to_vec().into()
    }

    fn compile(&self, shapes: &[(&str, &[usize])]) -> Result<Compiled, CompileError> {
        let shapes = shapes.iter().map(|(name, dims)| ((*name).to_owned(), dims.to_vec()));
        compile(self.bytes(), &Options { input_shapes: shapes.collect(), ..Options::default() })
    }

    fn run(&self, inputs: &[&[f32]]) -> Vec<Vec<f32>> {
        let compiled = self.compile(&[]).unwrap_or_else(|error| panic!("{error}"));
        run(&compiled, inputs)
    }

    fn refused(&self, shapes: &[(&str, &[usize])]) -> String {
        self.compile(shapes).map(|_| ()).expect_err("the graph is refused").to_string()
    }

    /// Ops of the tasks.
    fn tasks(&self) -> Vec<String> {
        let report = self.compile(&[]).unwrap_or_else(|error| panic!("{error}")).report;
        report.tasks.into_iter().map(|task| task.op).collect()
    }
}

fn near(found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len(), "{found:?} {expected:?}");
    for (place, (a, b)) in found.iter().zip(expected).enumerate() {
        assert!((a - b).abs() <= 1e-5 * b.abs().max(1.0), "{place}: {a}, expected {b}");
    }
}

#[test]
fn nodes_of_any_order_references_of_any_spelling() {
    // Twice what is read, by names with and without a number, in front of what they name.
    let own = Frozen::default()
        .node("AddV2", "sum", &["again:0", "x", "^start"], &[("T", Value::Type(FLOAT))])
        .node("Identity", "again", &["x:0"], &[("_class", list(&[]))])
        .node("NoOp", "start", &["^x"], &[])
        .input("x", &[2]);
    assert_eq!(own.run(&[&[1.0, -2.0]]), [[2.0, -4.0]]);
    let report = own.compile(&[]).unwrap().report;
    assert_eq!((report.inputs[0].name.as_str(), report.outputs[0].name.as_str()), ("x", "sum"));
}

#[test]
fn the_sum_of_two_lists_of_whole_numbers() {
    let own = Frozen::default()
        .typed("Placeholder", INT32, &[3])
        .typed("Placeholder_1", INT32, &[3])
        .node("Add", "Add", &["Placeholder", "Placeholder_1"], &[("T", Value::Type(INT32))]);
    let model = npu::engine::Model::load(own.compile(&[]).unwrap().om).unwrap();
    let bytes: Vec<u8> = [4i32, 7, 5].iter().flat_map(|own| own.to_le_bytes()).collect();
    let bytes = npu::aligned::AlignedBytes::copy_of(&bytes);
    let input = |info: &npu::tensor::TensorInfo| npu::engine::Input { info: *info, bytes: &bytes };
    let inputs: Vec<npu::engine::Input<'_>> = model.inputs().map(input).collect();
    let mut output = npu::aligned::AlignedBytes::zeroed(12);
    let mut arena = npu::aligned::AlignedBytes::zeroed(model.arena_bytes());
    model.run(&inputs, &mut [&mut output[..]], &mut arena).unwrap();
    let (words, _) = output.as_chunks();
    assert_eq!(words.iter().map(|word| i32::from_le_bytes(*word)).collect::<Vec<_>>(), [8, 14, 10]);
}

#[test]
fn several_ends_are_several_outputs_and_what_makes_nothing_is_none() {
    let own = Frozen::default()
        .input("x", &[2])
        .ints("axis", &[], &[0])
        .node("Neg", "first", &["x"], &[])
        .node("Split", "second", &["axis", "x"], &[("num_split", Value::I(2))])
        .floats("nobody", &[1], &[0.0])
        .node("NoOp", "init", &[], &[])
        .input("also", &[1]);
    let report = own.compile(&[]).unwrap().report;
    let names = |all: &[npu::inspect::TensorReport]| -> Vec<String> {
        all.iter().map(|own| own.name.clone()).collect()
    };
    assert_eq!(names(&report.inputs), ["x", "also"]);
    assert_eq!(names(&report.outputs), ["first", "second", "second:1"]);
    let one = [1.0];
    assert_eq!(own.run(&[&[3.0, 4.0], &one]), [vec![-3.0, -4.0], vec![3.0], vec![4.0]]);
}

#[test]
fn shapes_that_are_open_have_to_be_given() {
    let open = Frozen::default().input("x", &[-1, 2]).node("Relu", "y", &["x"], &[]);
    let refused = open.refused(&[]);
    let expected = "input `x`: dim 0 is open; give a shape: x=[?, 2] with numbers; the model is \
                    `x` [x.0, 2] -> `y` [x.0, 2]";
    assert_eq!(refused, expected);
    assert_eq!(
        open.compile(&[("x", &[3, 2])]).unwrap().report.outputs[0].info.shape.dims(),
        [3, 2]
    );
    let wrong = open.refused(&[("x", &[3, 3])]);
    assert_eq!(wrong, "input `x`: shape [3, 3] is given; the model declares [?, 2]");
    let unknown = Value::Shape(TensorShapeProto { dim: Vec::new(), unknown_rank: true });
    for attr in [vec![("shape", unknown)], vec![]] {
        let attr: Vec<_> = attr.into_iter().chain([("dtype", Value::Type(FLOAT))]).collect();
        let own = Frozen::default().node("Placeholder", "x", &[], &attr);
        let own = own.node("Relu", "y", &["x"], &[]);
        let refused = own.refused(&[]);
        assert_eq!(refused, "input `x`: the model declares no shape; give one: x=…");
        own.compile(&[("x", &[2, 2, 2])]).unwrap();
    }
    // No dims: a scalar, but of an old version anything.
    let mut scalar = Frozen::default().input("x", &[]).node("Relu", "y", &["x"], &[]);
    assert_eq!(scalar.run(&[&[2.0]]), [[2.0]]);
    scalar.0.versions = Some(VersionDef { producer: Some(23) });
    assert!(scalar.refused(&[]).contains("declares no shape"));
}

#[test]
fn docs_list_the_ops() {
    let status = include_str!("../../../docs/status.md");
    let list = super::ops::names().join(", ");
    assert!(status.contains(&list), "docs/status.md does not list exactly: {list}");
}
