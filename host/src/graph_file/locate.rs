//! Line and column of a value, looked for only when something is wrong with it: the text is read
//! once more, with places. JSON is read as the YAML that it is, too.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use super::fault::ITEM;

/// Line and column, from 1.
pub(super) type At = (u64, u64);

/// The structure of a file, without its values.
enum Node {
    Leaf,
    List(Vec<Spanned<Node>>),
    Map(Vec<(String, Spanned<Node>)>),
}

/// Where the value at the end of `path` stands, or the last one on the way that is there.
pub(super) fn locate<'a>(text: &str, path: impl Iterator<Item = &'a str>) -> Option<At> {
    let root: Spanned<Node> = serde_saphyr::from_str(text).ok()?;
    let mut at = &root;
    for key in path {
        let next = match &at.value {
            Node::Leaf => None,
            Node::List(items) => {
                let index = key.strip_prefix(ITEM).and_then(|index| index.parse::<usize>().ok());
                index.and_then(|index| items.get(index))
            }
            Node::Map(entries) => {
                entries.iter().find(|(known, _)| known == key).map(|(_, node)| node)
            }
        };
        let Some(next) = next else { break };
        at = next;
    }
    let place = at.referenced;
    (place.line() > 0).then(|| (place.line(), place.column()))
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

/// Scalars are leaves.
macro_rules! leaves {
    ($($visit:ident: $kind:ty,)*) => {
        $(fn $visit<E: Error>(self, _: $kind) -> Result<Node, E> {
            Ok(Node::Leaf)
        })*
    };
}

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    leaves! {
        visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_i128: i128, visit_u128: u128,
        visit_f64: f64, visit_str: &str,
    }

    fn visit_unit<E: Error>(self) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_none<E: Error>(self) -> Result<Node, E> {
        Ok(Node::Leaf)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Node::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Node::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_their_path() {
        let yaml = "name: g\nnodes:\n  a: {inputs: [x, y], cpu: 3}\n  b:\n    env:\n      A: 1\n";
        let json = "{\"name\": 1,\n \"nodes\": {\"a\":\n  [true, 2]}}";
        for (text, path, at) in [
            (yaml, &["name"][..], Some((1, 7))),
            (yaml, &["nodes", "a", "inputs", "#1"], Some((3, 19))),
            (yaml, &["nodes", "a", "cpu"], Some((3, 28))),
            (yaml, &["nodes", "b", "env", "A"], Some((6, 10))),
            // The last that is there.
            (yaml, &["nodes", "a", "library"], Some((3, 6))),
            (yaml, &[], Some((1, 1))),
            (json, &["nodes", "a", "#1"], Some((3, 10))),
            ("[", &[], None),
        ] {
            assert_eq!(locate(text, path.iter().copied()), at, "{path:?} in {text}");
        }
    }
}
