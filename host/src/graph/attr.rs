//! Attribute values a user function reads in init (spec/udf.md, attribute kinds).

use std::fmt;
use std::path::PathBuf;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::DType;

/// Value of one attribute. In a graph file a scalar or list stands for itself, an element type is
/// written `{dtype: float32}` or `{dtype: [float32, int8]}`, and a file `{file: ../words.txt}`. An
/// empty list is an int list.
#[derive(Debug, Clone, PartialEq)]
pub enum AttrValue {
    /// An integer.
    Int(i64),
    /// A floating-point number; functions see it as f32.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// A text.
    Text(String),
    /// A file, relative to the graph file's folder (or the working directory without one). It has
    /// to be there when the graph is checked; functions see its absolute path, a text.
    File(PathBuf),
    /// An element type.
    DType(DType),
    /// Integers.
    Ints(Vec<i64>),
    /// Floating-point numbers.
    Floats(Vec<f64>),
    /// Truth values.
    Bools(Vec<bool>),
    /// Texts.
    Texts(Vec<String>),
    /// Element types.
    DTypes(Vec<DType>),
    /// Lists of integers.
    IntLists(Vec<Vec<i64>>),
}

macro_rules! attr_from {
    ($($from:ty => $case:ident,)*) => {
        $(impl From<$from> for AttrValue {
            fn from(value: $from) -> Self {
                Self::$case(value.into())
            }
        })*
    };
}

attr_from! {
    i64 => Int, i32 => Int, f64 => Float, f32 => Float, bool => Bool, String => Text, &str => Text,
    DType => DType, PathBuf => File, Vec<i64> => Ints, Vec<f64> => Floats, Vec<bool> => Bools,
    Vec<String> => Texts, Vec<DType> => DTypes, Vec<Vec<i64>> => IntLists,
}

impl Serialize for AttrValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        fn keyed<S: Serializer, T: Serialize>(
            out: S,
            key: &str,
            value: &T,
        ) -> Result<S::Ok, S::Error> {
            let mut map = out.serialize_map(Some(1))?;
            map.serialize_entry(key, value)?;
            map.end()
        }
        match self {
            Self::Int(value) => value.serialize(serializer),
            Self::Float(value) => value.serialize(serializer),
            Self::Bool(value) => value.serialize(serializer),
            Self::Text(value) => value.serialize(serializer),
            Self::File(path) => keyed(serializer, FILE, path),
            Self::DType(value) => keyed(serializer, DTYPE, value),
            Self::Ints(value) => value.serialize(serializer),
            Self::Floats(value) => value.serialize(serializer),
            Self::Bools(value) => value.serialize(serializer),
            Self::Texts(value) => value.serialize(serializer),
            Self::DTypes(value) => keyed(serializer, DTYPE, value),
            Self::IntLists(value) => value.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for AttrValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AttrVisitor)
    }
}

/// Keys of the kinds that no scalar stands for.
const DTYPE: &str = "dtype";
const FILE: &str = "file";

struct AttrVisitor;

impl<'de> Visitor<'de> for AttrVisitor {
    type Value = AttrValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "an int, float, bool, text, {dtype: …}, {file: …}, or a list of one of the first four",
        )
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<AttrValue, E> {
        Ok(AttrValue::Int(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<AttrValue, E> {
        i64::try_from(value)
            .map(AttrValue::Int)
            .map_err(|_| E::custom("an int of at most 9223372036854775807"))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<AttrValue, E> {
        Ok(AttrValue::Float(value))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<AttrValue, E> {
        Ok(AttrValue::Bool(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<AttrValue, E> {
        Ok(AttrValue::Text(value.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<AttrValue, A::Error> {
        let Some(key) = map.next_key::<String>()? else {
            return Err(A::Error::missing_field(DTYPE));
        };
        let value = match key.as_str() {
            DTYPE => match map.next_value::<OneOrMany>()? {
                OneOrMany::One(dtype) => AttrValue::DType(dtype),
                OneOrMany::Many(dtypes) => AttrValue::DTypes(dtypes),
            },
            FILE => AttrValue::File(map.next_value()?),
            other => return Err(A::Error::unknown_field(other, &[DTYPE, FILE])),
        };
        let Some(second) = map.next_key::<String>()? else { return Ok(value) };
        let known = if matches!(value, AttrValue::File(_)) { &[FILE] } else { &[DTYPE] };
        Err(A::Error::unknown_field(&second, known))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<AttrValue, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element::<AttrValue>()? {
            items.push(item);
        }
        collect(items)
            .ok_or_else(|| A::Error::custom("a list of one kind: ints, floats, bools or texts"))
    }
}

/// A homogeneous list; ints among floats count as floats.
fn collect(items: Vec<AttrValue>) -> Option<AttrValue> {
    let all = |test: fn(&AttrValue) -> bool| items.iter().all(test);
    if all(|item| matches!(item, AttrValue::Int(_))) {
        let ints = items.into_iter().filter_map(|item| match item {
            AttrValue::Int(value) => Some(value),
            _ => None,
        });
        return Some(AttrValue::Ints(ints.collect()));
    }
    if all(|item| matches!(item, AttrValue::Int(_) | AttrValue::Float(_))) {
        #[expect(clippy::cast_precision_loss, reason = "the list holds floats")]
        let floats = items.into_iter().filter_map(|item| match item {
            AttrValue::Int(value) => Some(value as f64),
            AttrValue::Float(value) => Some(value),
            _ => None,
        });
        return Some(AttrValue::Floats(floats.collect()));
    }
    let (mut bools, mut texts, mut lists) = (Vec::new(), Vec::new(), Vec::new());
    let count = items.len();
    for item in items {
        match item {
            AttrValue::Bool(value) => bools.push(value),
            AttrValue::Text(value) => texts.push(value),
            AttrValue::Ints(value) => lists.push(value),
            _ => return None,
        }
    }
    if bools.len() == count {
        Some(AttrValue::Bools(bools))
    } else if texts.len() == count {
        Some(AttrValue::Texts(texts))
    } else {
        (lists.len() == count).then_some(AttrValue::IntLists(lists))
    }
}

enum OneOrMany {
    One(DType),
    Many(Vec<DType>),
}

impl<'de> Deserialize<'de> for OneOrMany {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Words;
        impl<'de> Visitor<'de> for Words {
            type Value = OneOrMany;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an element type or a list of them")
            }
            fn visit_str<E: Error>(self, word: &str) -> Result<OneOrMany, E> {
                DType::deserialize(serde::de::value::StrDeserializer::new(word)).map(OneOrMany::One)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<OneOrMany, A::Error> {
                let mut dtypes = Vec::new();
                while let Some(dtype) = list.next_element()? {
                    dtypes.push(dtype);
                }
                Ok(OneOrMany::Many(dtypes))
            }
        }
        deserializer.deserialize_any(Words)
    }
}
