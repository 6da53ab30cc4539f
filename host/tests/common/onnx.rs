//! Small ONNX files and frozen graphs, written by hand: the fields of the formats' messages.
#![allow(dead_code, reason = "each test file uses its part")]

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(u8::try_from(value & 0x7f).unwrap() | 0x80);
        value >>= 7;
    }
    out.push(u8::try_from(value).unwrap());
}

fn number(field: u64, value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    varint(field << 3, &mut out);
    varint(value, &mut out);
    out
}

fn bytes(field: u64, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    varint(field << 3 | 2, &mut out);
    varint(content.len() as u64, &mut out);
    out.extend(content);
    out
}

/// A float tensor's declaration: `None` is the open dim `N`.
fn declared(name: &str, dims: &[Option<u64>]) -> Vec<u8> {
    declared_as(FLOAT, name, dims)
}

/// ONNX's number of float32.
const FLOAT: u64 = 1;

/// The same of a type, by ONNX's number.
fn declared_as(dtype: u64, name: &str, dims: &[Option<u64>]) -> Vec<u8> {
    let dims = dims.iter().map(|dim| match dim {
        Some(value) => bytes(1, &number(1, *value)),
        None => bytes(1, &bytes(2, b"N")),
    });
    let tensor = [number(1, dtype), bytes(2, &dims.collect::<Vec<_>>().concat())].concat();
    [bytes(1, name.as_bytes()), bytes(2, &bytes(1, &tensor))].concat()
}

/// A model of one node: `op` of the inputs makes the output `y/out`; all are `float [N, 3]`, or
/// with `rows` known.
pub(crate) fn model(op: &str, inputs: &[&str], rows: Option<u64>) -> Vec<u8> {
    model_of(FLOAT, op, inputs, rows)
}

/// The same of a type, by ONNX's number.
pub(crate) fn model_of(dtype: u64, op: &str, inputs: &[&str], rows: Option<u64>) -> Vec<u8> {
    let dims = [rows, Some(3)];
    let mut node: Vec<Vec<u8>> = inputs.iter().map(|name| bytes(1, name.as_bytes())).collect();
    node.extend([bytes(2, b"y/out"), bytes(3, b"the_node"), bytes(4, op.as_bytes())]);
    let mut graph = vec![bytes(1, &node.concat()), bytes(2, b"g")];
    graph.extend(inputs.iter().map(|name| bytes(11, &declared_as(dtype, name, &dims))));
    graph.push(bytes(12, &declared_as(dtype, "y/out", &dims)));
    [number(1, 8), bytes(7, &graph.concat()), bytes(8, &number(2, 15))].concat()
}

/// A model whose product `[3, 3]` of `p` and `q` is multiplied by `q` again.
pub(crate) fn two_products() -> Vec<u8> {
    let node = |inputs: [&str; 2], output: &str| {
        let names = inputs.map(|name| bytes(1, name.as_bytes())).concat();
        bytes(1, &[names, bytes(2, output.as_bytes()), bytes(4, b"MatMul")].concat())
    };
    let dims = [Some(3), Some(3)];
    let graph = [
        node(["p", "q"], "t"),
        node(["t", "q"], "y"),
        bytes(2, b"g"),
        bytes(11, &declared("p", &dims)),
        bytes(11, &declared("q", &dims)),
        bytes(12, &declared("y", &dims)),
    ];
    [number(1, 8), bytes(7, &graph.concat()), bytes(8, &number(2, 15))].concat()
}

/// A frozen TensorFlow graph: the sum of two lists of three whole numbers.
pub(crate) fn frozen_sum() -> Vec<u8> {
    let attribute = |key: &str, value: Vec<u8>| {
        bytes(5, &[bytes(1, key.as_bytes()), bytes(2, &value)].concat())
    };
    let node = |op: &str, name: &str, rest: &[Vec<u8>]| {
        let own = [bytes(1, name.as_bytes()), bytes(2, op.as_bytes()), rest.concat()];
        bytes(1, &own.concat())
    };
    let dtype = |key: &str| attribute(key, number(6, 3));
    let shape = || attribute("shape", bytes(7, &bytes(2, &number(1, 3))));
    let inputs = [bytes(3, b"a:0"), bytes(3, b"b"), dtype("T")];
    [
        node("Placeholder", "a", &[dtype("dtype"), shape()]),
        node("Placeholder", "b", &[dtype("dtype"), shape()]),
        node("Add", "sum", &inputs),
    ]
    .concat()
}

/// A model that adds three floats, which lie in a file of this name from byte 4 on.
pub(crate) fn with_weights_in(file: &str) -> Vec<u8> {
    let entry = |key: &str, value: &str| {
        bytes(13, &[bytes(1, key.as_bytes()), bytes(2, value.as_bytes())].concat())
    };
    let place = [entry("location", file), entry("offset", "4"), entry("length", "12")].concat();
    let tensor = [number(1, 3), number(2, 1), bytes(8, b"w"), place, number(14, 1)].concat();
    let node = [bytes(1, b"x"), bytes(1, b"w"), bytes(2, b"y"), bytes(4, b"Add")].concat();
    let graph = [
        bytes(1, &node),
        bytes(5, &tensor),
        bytes(11, &declared("x", &[Some(3)])),
        bytes(12, &declared("y", &[Some(3)])),
    ];
    [number(1, 8), bytes(7, &graph.concat()), bytes(8, &number(2, 15))].concat()
}
