//! A list of named things in the order they were given; a map in a graph file.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};

/// Named items in order. The position of a port in its list is its index. Building keeps a name
/// that comes twice, so that the check can report it.
#[derive(Debug, Clone, PartialEq)]
pub struct Named<V>(Vec<(String, V)>);

impl<V> Default for Named<V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<V> Named<V> {
    /// Appends an item.
    pub fn push(&mut self, name: impl Into<String>, item: V) {
        self.0.push((name.into(), item));
    }

    /// Number of items.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Index of the first item with this name.
    #[must_use]
    pub fn position(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|(known, _)| known == name)
    }

    /// The first item with this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&V> {
        self.position(name).map(|index| &self.0[index].1)
    }

    /// Name of the item at `index`.
    ///
    /// # Panics
    /// If there is no such item.
    #[must_use]
    pub fn name(&self, index: usize) -> &str {
        &self.0[index].0
    }

    /// The item at `index`.
    ///
    /// # Panics
    /// If there is no such item.
    #[must_use]
    pub fn item(&self, index: usize) -> &V {
        &self.0[index].1
    }

    /// Names and items in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&str, &V)> + ExactSizeIterator {
        self.0.iter().map(|(name, item)| (name.as_str(), item))
    }

    /// Names in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }
}

impl<V: Serialize> Serialize for Named<V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.len()))?;
        for (name, item) in self.iter() {
            map.serialize_entry(name, item)?;
        }
        map.end()
    }
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Named<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(NamedVisitor { lists: false, item: PhantomData })
    }
}

/// Reads a map, or a list whose items are named by their index: `0`, `1`, …
pub(super) fn named_or_indexed<'de, D, V>(deserializer: D) -> Result<Named<V>, D::Error>
where
    D: Deserializer<'de>,
    V: Deserialize<'de>,
{
    deserializer.deserialize_any(NamedVisitor { lists: true, item: PhantomData })
}

struct NamedVisitor<V> {
    lists: bool,
    item: PhantomData<V>,
}

impl<'de, V: Deserialize<'de>> Visitor<'de> for NamedVisitor<V> {
    type Value = Named<V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.lists { "a map from names, or a list" } else { "a map from names" })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Named<V>, A::Error> {
        let mut named = Named::default();
        while let Some((name, item)) = map.next_entry::<String, V>()? {
            named.push(name, item);
        }
        Ok(named)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Named<V>, A::Error> {
        if !self.lists {
            return Err(serde::de::Error::invalid_type(serde::de::Unexpected::Seq, &self));
        }
        let mut named = Named::default();
        while let Some(item) = list.next_element::<V>()? {
            named.push(named.len().to_string(), item);
        }
        Ok(named)
    }
}
