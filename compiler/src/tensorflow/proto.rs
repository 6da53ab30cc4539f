//! The parts of TensorFlow's `graph.proto` and what it names that are read, by hand as those of
//! ONNX are. Field numbers are the format; fields that are not here are skipped.
//!
//! Byte fields are slices of the input, so weights are not copied. What is large is boxed: a file
//! of many empty attributes does not become much memory.

use bytes::Bytes;
use prost::{Message, Oneof};

#[derive(Clone, PartialEq, Message)]
pub(crate) struct GraphDef {
    #[prost(message, repeated, tag = "1")]
    pub(crate) node: Vec<NodeDef>,
    #[prost(message, optional, tag = "4")]
    pub(crate) versions: Option<VersionDef>,
}

#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub(crate) struct VersionDef {
    #[prost(int32, optional, tag = "1")]
    pub(crate) producer: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct NodeDef {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) op: String,
    #[prost(string, repeated, tag = "3")]
    pub(crate) input: Vec<String>,
    /// A map, as its entries.
    #[prost(message, repeated, tag = "5")]
    pub(crate) attr: Vec<AttrEntry>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AttrEntry {
    #[prost(string, tag = "1")]
    pub(crate) key: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) value: Option<AttrValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AttrValue {
    #[prost(oneof = "Value", tags = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10")]
    pub(crate) value: Option<Value>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Value {
    #[prost(message, tag = "1")]
    List(Box<ListValue>),
    #[prost(bytes = "bytes", tag = "2")]
    S(Bytes),
    #[prost(int64, tag = "3")]
    I(i64),
    #[prost(float, tag = "4")]
    F(f32),
    #[prost(bool, tag = "5")]
    B(bool),
    #[prost(int32, tag = "6")]
    Type(i32),
    #[prost(message, tag = "7")]
    Shape(TensorShapeProto),
    #[prost(message, tag = "8")]
    Tensor(Box<TensorProto>),
    #[prost(string, tag = "9")]
    Placeholder(String),
    #[prost(message, tag = "10")]
    Func(NameAttrList),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ListValue {
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub(crate) s: Vec<Bytes>,
    #[prost(int64, repeated, tag = "3")]
    pub(crate) i: Vec<i64>,
    #[prost(float, repeated, tag = "4")]
    pub(crate) f: Vec<f32>,
    #[prost(bool, repeated, tag = "5")]
    pub(crate) b: Vec<bool>,
}

#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub(crate) struct NameAttrList {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
}

#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub(crate) struct TensorShapeProto {
    #[prost(message, repeated, tag = "2")]
    pub(crate) dim: Vec<Dim>,
    #[prost(bool, tag = "3")]
    pub(crate) unknown_rank: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub(crate) struct Dim {
    /// -1 where it is not known.
    #[prost(int64, tag = "1")]
    pub(crate) size: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TensorProto {
    #[prost(int32, tag = "1")]
    pub(crate) dtype: i32,
    #[prost(message, optional, tag = "2")]
    pub(crate) tensor_shape: Option<TensorShapeProto>,
    #[prost(bytes = "bytes", tag = "4")]
    pub(crate) tensor_content: Bytes,
    #[prost(float, repeated, tag = "5")]
    pub(crate) float_val: Vec<f32>,
    #[prost(double, repeated, tag = "6")]
    pub(crate) double_val: Vec<f64>,
    /// Of whole numbers of up to 32 bits, signed or not up to 16.
    #[prost(int32, repeated, tag = "7")]
    pub(crate) int_val: Vec<i32>,
    #[prost(int64, repeated, tag = "10")]
    pub(crate) int64_val: Vec<i64>,
    #[prost(bool, repeated, tag = "11")]
    pub(crate) bool_val: Vec<bool>,
    /// The bits of float16 and bfloat16, a number each.
    #[prost(int32, repeated, tag = "13")]
    pub(crate) half_val: Vec<i32>,
    #[prost(uint32, repeated, tag = "16")]
    pub(crate) uint32_val: Vec<u32>,
    #[prost(uint64, repeated, tag = "17")]
    pub(crate) uint64_val: Vec<u64>,
}

/// `DataType`: number, name, and the number in ONNX of those that both have.
pub(crate) const DATA_TYPES: &[(i32, &str, i32)] = &[
    (1, "float32", 1),
    (2, "float64", 11),
    (3, "int32", 6),
    (4, "uint8", 2),
    (5, "int16", 5),
    (6, "int8", 3),
    (7, "string", 8),
    (8, "complex64", 14),
    (9, "int64", 7),
    (10, "bool", 9),
    (11, "qint8", -1),
    (12, "quint8", -1),
    (13, "qint32", -1),
    (14, "bfloat16", 16),
    (15, "qint16", -1),
    (16, "quint16", -1),
    (17, "uint16", 4),
    (18, "complex128", 15),
    (19, "float16", 10),
    (20, "resource", -1),
    (21, "variant", -1),
    (22, "uint32", 12),
    (23, "uint64", 13),
];
