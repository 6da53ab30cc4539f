//! Attributes on the executor's side: typed values by name, laid out as the ABI shows them.
//!
//! `udf-executor` fills one [`AttrMap`] per instance at setup and answers `get_attr` from it;
//! [`crate::testing`] does the same. Kinds must match exactly (udf §1.5).

use crate::abi::{AttrV1, IntsV1, StrV1, kind};
use crate::codes::{ATTR_NOT_EXISTS, ATTR_TYPE_MISMATCH};
use executor_core::abi::DataType;

/// Value of an attribute, udf §1.5.
#[derive(Debug, Clone, PartialEq)]
pub enum AttrValue {
    /// Text.
    Str(String),
    /// Texts.
    StrList(Vec<String>),
    /// Integer.
    Int(i64),
    /// Integers.
    IntList(Vec<i64>),
    /// Lists of integers.
    IntListList(Vec<Vec<i64>>),
    /// Number.
    Float(f32),
    /// Numbers.
    FloatList(Vec<f32>),
    /// Truth value.
    Bool(bool),
    /// Truth values.
    BoolList(Vec<bool>),
    /// Tensor data type.
    DataType(DataType),
    /// Tensor data types.
    DataTypeList(Vec<DataType>),
}

impl From<&str> for AttrValue {
    fn from(value: &str) -> Self {
        AttrValue::Str(value.to_owned())
    }
}

macro_rules! from {
    ($($ty:ty: $variant:ident;)+) => {$(
        impl From<$ty> for AttrValue {
            fn from(value: $ty) -> Self {
                AttrValue::$variant(value)
            }
        }
    )+};
}

from! {
    String: Str;
    i64: Int;
    f32: Float;
    bool: Bool;
    DataType: DataType;
    Vec<i64>: IntList;
    Vec<f32>: FloatList;
    Vec<String>: StrList;
}

/// A value in the form of the ABI: each variant owns what its view points at.
#[derive(Debug)]
enum Stored {
    Strs(Box<[StrV1]>, #[expect(dead_code, reason = "owns the text")] Box<[Box<str>]>),
    Ints(Box<[i64]>),
    Lists(Box<[IntsV1]>, #[expect(dead_code, reason = "owns the lists")] Box<[Box<[i64]>]>),
    Floats(Box<[f32]>),
    Bools(Box<[u8]>),
    Types(Box<[i32]>),
}

/// One attribute: name, kind, value.
#[derive(Debug)]
struct Entry {
    name: String,
    kind: u32,
    stored: Stored,
}

/// Attributes of one node. Views stay valid while the map lives and is not changed.
#[derive(Debug, Default)]
pub struct AttrMap {
    entries: Vec<Entry>,
}

fn strs(values: Vec<String>) -> Stored {
    let texts: Box<[Box<str>]> = values.into_iter().map(String::into_boxed_str).collect();
    let views = texts.iter().map(|text| StrV1 { ptr: text.as_ptr(), len: text.len() as u64 });
    Stored::Strs(views.collect(), texts)
}

fn lists(values: Vec<Vec<i64>>) -> Stored {
    let lists: Box<[Box<[i64]>]> = values.into_iter().map(Vec::into_boxed_slice).collect();
    let views = lists.iter().map(|list| IntsV1 { ptr: list.as_ptr(), len: list.len() as u64 });
    Stored::Lists(views.collect(), lists)
}

fn store(value: AttrValue) -> (u32, Stored) {
    match value {
        AttrValue::Str(value) => (kind::STR, strs(vec![value])),
        AttrValue::StrList(values) => (kind::STR_LIST, strs(values)),
        AttrValue::Int(value) => (kind::INT, Stored::Ints(Box::new([value]))),
        AttrValue::IntList(values) => (kind::INT_LIST, Stored::Ints(values.into())),
        AttrValue::IntListList(values) => (kind::INT_LIST_LIST, lists(values)),
        AttrValue::Float(value) => (kind::FLOAT, Stored::Floats(Box::new([value]))),
        AttrValue::FloatList(values) => (kind::FLOAT_LIST, Stored::Floats(values.into())),
        AttrValue::Bool(value) => (kind::BOOL, Stored::Bools(Box::new([u8::from(value)]))),
        AttrValue::BoolList(values) => {
            (kind::BOOL_LIST, Stored::Bools(values.into_iter().map(u8::from).collect()))
        }
        AttrValue::DataType(value) => (kind::DATA_TYPE, Stored::Types(Box::new([value.0]))),
        AttrValue::DataTypeList(values) => {
            (kind::DATA_TYPE_LIST, Stored::Types(values.into_iter().map(|ty| ty.0).collect()))
        }
    }
}

fn view<T>(values: &[T]) -> AttrV1 {
    AttrV1 { data: values.as_ptr().cast(), count: values.len() as u64 }
}

impl AttrMap {
    /// Adds or replaces an attribute.
    pub fn set(&mut self, name: &str, value: AttrValue) {
        let (kind, stored) = store(value);
        let entry = Entry { name: name.to_owned(), kind, stored };
        match self.entries.iter_mut().find(|entry| entry.name == name) {
            Some(old) => *old = entry,
            None => self.entries.push(entry),
        }
    }

    /// What `get_attr` answers for `name` as `kind`. No allocation.
    ///
    /// # Errors
    /// [`ATTR_NOT_EXISTS`], [`ATTR_TYPE_MISMATCH`].
    pub fn get(&self, name: &[u8], kind: u32) -> Result<AttrV1, i32> {
        let entry = self
            .entries
            .iter()
            .find(|entry| entry.name.as_bytes() == name)
            .ok_or(ATTR_NOT_EXISTS)?;
        if entry.kind != kind {
            return Err(ATTR_TYPE_MISMATCH);
        }
        Ok(match &entry.stored {
            Stored::Strs(views, _) => view(views),
            Stored::Ints(values) => view(values),
            Stored::Lists(views, _) => view(views),
            Stored::Floats(values) => view(values),
            Stored::Bools(values) => view(values),
            Stored::Types(values) => view(values),
        })
    }
}
