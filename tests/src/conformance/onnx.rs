//! Writes ONNX files: just enough of protobuf, by hand, so that the suite shares no description of
//! the format with the compiler that reads it.

use dflow::{DType, Tensor};

/// An input or output of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Port {
    /// Name.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Dims.
    pub dims: Vec<i64>,
}

/// An attribute of a node.
#[derive(Clone, Debug)]
pub enum Attr {
    /// A number.
    Int(i64),
    /// A number with a fraction.
    Float(f32),
    /// A text.
    Text(&'static str),
    /// A list of numbers.
    Ints(Vec<i64>),
    /// A list of numbers with a fraction.
    Floats(Vec<f32>),
}

/// A model that is put together.
#[derive(Clone, Debug)]
pub struct Onnx {
    opset: i64,
    /// Nodes and constants, as fields of a `GraphProto`.
    graph: Vec<u8>,
    /// Inputs, in order.
    pub inputs: Vec<Port>,
    /// Outputs, in order.
    pub outputs: Vec<Port>,
}

/// Protobuf wire types.
const VARINT: u64 = 0;
const BYTES: u64 = 2;
const FIXED32: u64 = 5;

fn varint(into: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        into.push(0x80 | value.to_le_bytes()[0]);
        value >>= 7;
    }
    into.push(value.to_le_bytes()[0]);
}

fn number(into: &mut Vec<u8>, field: u64, value: i64) {
    varint(into, field << 3 | VARINT);
    varint(into, value.cast_unsigned());
}

fn bytes(into: &mut Vec<u8>, field: u64, value: &[u8]) {
    varint(into, field << 3 | BYTES);
    varint(into, value.len() as u64);
    into.extend(value);
}

/// `TensorProto.DataType` of an element type.
fn data_type(dtype: DType) -> i64 {
    match dtype {
        DType::Float32 => 1,
        DType::Uint8 => 2,
        DType::Int8 => 3,
        DType::Uint16 => 4,
        DType::Int16 => 5,
        DType::Int32 => 6,
        DType::Int64 => 7,
        DType::Bool => 9,
        DType::Float16 => 10,
        DType::Float64 => 11,
        DType::Uint32 => 12,
        DType::Uint64 => 13,
        DType::Bfloat16 => 16,
    }
}

/// `ValueInfoProto` of a port.
fn value_info(port: &Port) -> Vec<u8> {
    let (mut shape, mut tensor, mut kind, mut info) = (vec![], vec![], vec![], vec![]);
    for dim in &port.dims {
        let mut own = Vec::new();
        number(&mut own, 1, *dim);
        bytes(&mut shape, 1, &own);
    }
    number(&mut tensor, 1, data_type(port.dtype));
    bytes(&mut tensor, 2, &shape);
    bytes(&mut kind, 1, &tensor);
    bytes(&mut info, 1, port.name.as_bytes());
    bytes(&mut info, 2, &kind);
    info
}

/// `AttributeProto` of an attribute.
fn attribute(name: &str, value: &Attr) -> Vec<u8> {
    let mut own = Vec::new();
    bytes(&mut own, 1, name.as_bytes());
    let kind = match value {
        Attr::Float(value) => {
            varint(&mut own, 2 << 3 | FIXED32);
            own.extend(value.to_le_bytes());
            1
        }
        Attr::Int(value) => {
            number(&mut own, 3, *value);
            2
        }
        Attr::Text(value) => {
            bytes(&mut own, 4, value.as_bytes());
            3
        }
        Attr::Ints(values) => {
            values.iter().for_each(|value| number(&mut own, 8, *value));
            7
        }
        Attr::Floats(values) => {
            for value in values {
                varint(&mut own, 7 << 3 | FIXED32);
                own.extend(value.to_le_bytes());
            }
            6
        }
    };
    number(&mut own, 20, kind);
    own
}

impl Onnx {
    /// A model without anything, of an opset of ONNX's own ops.
    #[must_use]
    pub fn new(opset: i64) -> Self {
        Self { opset, graph: Vec::new(), inputs: Vec::new(), outputs: Vec::new() }
    }

    /// Adds an input.
    #[must_use]
    pub fn input(mut self, name: &str, dtype: DType, dims: &[i64]) -> Self {
        self.inputs.push(Port { name: name.to_owned(), dtype, dims: dims.to_vec() });
        self
    }

    /// Adds an output.
    #[must_use]
    pub fn output(mut self, name: &str, dtype: DType, dims: &[i64]) -> Self {
        self.outputs.push(Port { name: name.to_owned(), dtype, dims: dims.to_vec() });
        self
    }

    /// Adds a constant.
    #[must_use]
    pub fn constant(mut self, name: &str, value: &Tensor) -> Self {
        let mut own = Vec::new();
        value.shape.iter().for_each(|dim| number(&mut own, 1, *dim));
        number(&mut own, 2, data_type(value.dtype));
        bytes(&mut own, 8, name.as_bytes());
        bytes(&mut own, 9, &value.bytes);
        bytes(&mut self.graph, 5, &own);
        self
    }

    /// Adds a node, called after its op and its output.
    #[must_use]
    pub fn node(
        self,
        op: &str,
        inputs: &[&str],
        output: &str,
        attributes: &[(&str, Attr)],
    ) -> Self {
        self.node_of(op, inputs, &[output], attributes)
    }

    /// Adds a node of several outputs.
    #[must_use]
    pub fn node_of(
        mut self,
        op: &str,
        inputs: &[&str],
        outputs: &[&str],
        attributes: &[(&str, Attr)],
    ) -> Self {
        let mut own = Vec::new();
        inputs.iter().for_each(|name| bytes(&mut own, 1, name.as_bytes()));
        outputs.iter().for_each(|name| bytes(&mut own, 2, name.as_bytes()));
        let output = outputs.first().copied().unwrap_or_default();
        bytes(&mut own, 3, format!("{op}.{output}").as_bytes());
        bytes(&mut own, 4, op.as_bytes());
        for (name, value) in attributes {
            bytes(&mut own, 5, &attribute(name, value));
        }
        bytes(&mut self.graph, 1, &own);
        self
    }

    /// The file.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let mut graph = self.graph.clone();
        bytes(&mut graph, 2, b"conformance");
        self.inputs.iter().for_each(|port| bytes(&mut graph, 11, &value_info(port)));
        self.outputs.iter().for_each(|port| bytes(&mut graph, 12, &value_info(port)));
        let (mut opset, mut model) = (Vec::new(), Vec::new());
        number(&mut opset, 2, self.opset);
        number(&mut model, 1, 8);
        bytes(&mut model, 7, &graph);
        bytes(&mut model, 8, &opset);
        model
    }
}
