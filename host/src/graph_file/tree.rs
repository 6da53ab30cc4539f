//! A file's values before they mean anything: the one form that YAML and JSON both become.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// A value; maps keep their order and have each key once.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Tree {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    List(Vec<Tree>),
    Map(Vec<(String, Tree)>),
}

/// Start of the text of a duplicate key's error, which passes through the parsers' own errors.
pub(super) const DUPLICATE: &str = "the key comes twice: ";

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_none<E: Error>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree::Int(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Tree, E> {
        i64::try_from(value)
            .map(Tree::Int)
            .map_err(|_| E::custom(format_args!("the number {value} is larger than 2^63 - 1")))
    }

    fn visit_i128<E: Error>(self, value: i128) -> Result<Tree, E> {
        Err(E::custom(format_args!("the number {value} does not fit 64 bits")))
    }

    fn visit_u128<E: Error>(self, value: u128) -> Result<Tree, E> {
        Err(E::custom(format_args!("the number {value} is larger than 2^63 - 1")))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Tree, E> {
        Ok(Tree::Float(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Tree, E> {
        Ok(Tree::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Tree, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Tree::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        let mut entries: Vec<(String, Tree)> = Vec::new();
        let mut known = BTreeSet::new();
        while let Some(key) = map.next_key::<String>()? {
            if !known.insert(key.clone()) {
                return Err(A::Error::custom(format_args!("{DUPLICATE}`{key}`")));
            }
            entries.push((key, map.next_value()?));
        }
        Ok(Tree::Map(entries))
    }
}
