//! Messages of package `ff.udf`: the model file of a user function (udf Appendix A).

use std::collections::BTreeMap;

/// Content of a UDF model file; exactly one definition.
#[derive(Clone, PartialEq, prost::Message)]
pub struct UdfModelDef {
    /// The definitions.
    #[prost(message, repeated, tag = "1")]
    pub udf_def: Vec<UdfDef>,
}

/// One library with its functions.
#[derive(Clone, PartialEq, prost::Message)]
pub struct UdfDef {
    /// Name of the process point.
    #[prost(string, tag = "1")]
    pub name: String,
    /// File name of the library, `[A-Za-z0-9.\-_]+`.
    #[prost(string, tag = "2")]
    pub bin_name: String,
    /// Function name when there is no map.
    #[prost(string, tag = "3")]
    pub func_name: String,
    /// The library itself, when it travels inside.
    #[prost(bytes = "vec", tag = "4")]
    pub bin: Vec<u8>,
    /// Attributes that Init can read.
    #[prost(btree_map = "string, message", tag = "5")]
    pub attrs: BTreeMap<String, AttrValue>,
    /// Package of the user's files.
    #[prost(bytes = "vec", tag = "6")]
    pub release_pkg: Vec<u8>,
    /// Function name → its input ports.
    #[prost(btree_map = "string, message", tag = "7")]
    pub func_inputs_map: BTreeMap<String, ListUint32>,
    /// Function name → its output ports.
    #[prost(btree_map = "string, message", tag = "8")]
    pub func_outputs_map: BTreeMap<String, ListUint32>,
    /// Buffer pools the user asked for.
    #[prost(message, repeated, tag = "9")]
    pub user_buf_cfg: Vec<BufCfg>,
    /// Functions that read their input queues themselves.
    #[prost(string, repeated, tag = "10")]
    pub stream_input_func_name: Vec<String>,
}

/// A list of port numbers.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ListUint32 {
    /// The numbers.
    #[prost(uint32, repeated, tag = "1")]
    pub num: Vec<u32>,
}

/// One buffer pool, sizes in bytes.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct BufCfg {
    /// Whole pool.
    #[prost(uint32, tag = "1")]
    pub total_size: u32,
    /// One block.
    #[prost(uint32, tag = "2")]
    pub blk_size: u32,
    /// Largest buffer.
    #[prost(uint32, tag = "3")]
    pub max_buf_size: u32,
    /// `normal` or `huge`.
    #[prost(string, tag = "4")]
    pub page_type: String,
}

/// An attribute of any type.
#[derive(Clone, PartialEq, prost::Message)]
pub struct AttrValue {
    /// The value; absent when the sender set none.
    #[prost(oneof = "AttrKind", tags = "1, 2, 3, 4, 5, 6, 7")]
    pub value: Option<AttrKind>,
}

/// What an [`AttrValue`] holds.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum AttrKind {
    /// A list.
    #[prost(message, tag = "1")]
    Array(ArrayValue),
    /// A string, as bytes.
    #[prost(bytes, tag = "2")]
    S(Vec<u8>),
    /// An integer.
    #[prost(int64, tag = "3")]
    I(i64),
    /// A float.
    #[prost(float, tag = "4")]
    F(f32),
    /// A boolean.
    #[prost(bool, tag = "5")]
    B(bool),
    /// A data type number.
    #[prost(int32, tag = "6")]
    Type(i32),
    /// A list of lists of integers.
    #[prost(message, tag = "7")]
    ListListI(ListListInt),
}

/// A list of one type.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ArrayValue {
    /// Strings.
    #[prost(bytes = "vec", repeated, tag = "2")]
    pub s: Vec<Vec<u8>>,
    /// Integers.
    #[prost(int64, repeated, tag = "3")]
    pub i: Vec<i64>,
    /// Floats.
    #[prost(float, repeated, tag = "4")]
    pub f: Vec<f32>,
    /// Booleans.
    #[prost(bool, repeated, tag = "5")]
    pub b: Vec<bool>,
    /// Data type numbers.
    #[prost(int32, repeated, tag = "6")]
    pub r#type: Vec<i32>,
}

/// A list of lists of integers.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ListListInt {
    /// The lists.
    #[prost(message, repeated, tag = "1")]
    pub list_list_i: Vec<ListInt>,
}

/// A list of integers.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ListInt {
    /// The numbers.
    #[prost(int64, repeated, tag = "1")]
    pub i: Vec<i64>,
}
