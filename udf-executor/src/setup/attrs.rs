//! Attributes of a model file in the form that functions read.

use std::collections::BTreeMap;

use executor_core::abi::DataType;
use executor_rt::proto::{ArrayValue, AttrKind, AttrValue};
use flow_func::attrs::{AttrMap, AttrValue as Value};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A list by what it holds; one without elements is a list of integers.
fn list(array: &ArrayValue) -> Value {
    if !array.s.is_empty() {
        Value::StrList(array.s.iter().map(|bytes| text(bytes)).collect())
    } else if !array.f.is_empty() {
        Value::FloatList(array.f.clone())
    } else if !array.b.is_empty() {
        Value::BoolList(array.b.clone())
    } else if !array.r#type.is_empty() {
        Value::DataTypeList(array.r#type.iter().map(|number| DataType(*number)).collect())
    } else {
        Value::IntList(array.i.clone())
    }
}

fn value(kind: &AttrKind) -> Value {
    match kind {
        AttrKind::Array(array) => list(array),
        AttrKind::S(bytes) => Value::Str(text(bytes)),
        AttrKind::I(number) => Value::Int(*number),
        AttrKind::F(number) => Value::Float(*number),
        AttrKind::B(truth) => Value::Bool(*truth),
        AttrKind::Type(number) => Value::DataType(DataType(*number)),
        AttrKind::ListListI(lists) => {
            Value::IntListList(lists.list_list_i.iter().map(|list| list.i.clone()).collect())
        }
    }
}

/// All attributes; one without a value is left out.
pub(crate) fn convert(attrs: &BTreeMap<String, AttrValue>) -> AttrMap {
    let mut map = AttrMap::default();
    for (name, attr) in attrs {
        if let Some(kind) = &attr.value {
            map.set(name, value(kind));
        }
    }
    map
}

#[cfg(test)]
mod tests {
    use super::{ArrayValue, AttrKind, AttrValue, BTreeMap, convert};
    use flow_func::abi::kind;
    use flow_func::codes::{ATTR_NOT_EXISTS, ATTR_TYPE_MISMATCH};

    #[test]
    fn kinds_are_kept_apart() {
        let array = ArrayValue { f: vec![1.0, 2.0], ..ArrayValue::default() };
        let attrs = BTreeMap::from([
            ("factor".to_owned(), AttrValue { value: Some(AttrKind::F(2.5)) }),
            ("list".to_owned(), AttrValue { value: Some(AttrKind::Array(array)) }),
            ("none".to_owned(), AttrValue { value: None }),
        ]);
        let map = convert(&attrs);
        assert_eq!(map.get(b"factor", kind::FLOAT).unwrap().count, 1);
        assert_eq!(map.get(b"list", kind::FLOAT_LIST).unwrap().count, 2);
        assert_eq!(map.get(b"list", kind::INT_LIST).unwrap_err(), ATTR_TYPE_MISMATCH);
        assert_eq!(map.get(b"none", kind::INT).unwrap_err(), ATTR_NOT_EXISTS);
    }
}
