//! Ports of a graph and of its nodes, and the short form of a connection.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::{DType, Shape, is_default};

/// Depth of a queue that does not say. Enough to keep both ends busy over a scheduling hiccup;
/// every step costs one worst-case message in each partition whose messages can get there.
pub const DEFAULT_DEPTH: u32 = 4;

fn default_depth() -> u32 {
    DEFAULT_DEPTH
}

/// What a full queue does to one more message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QueuePolicy {
    /// The producer waits.
    #[default]
    Fifo,
    /// The oldest message is dropped and counted; its transaction is answered with a code.
    Overwrite,
}

/// An input of the graph: what the session feeds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphInput {
    /// Element type.
    pub dtype: DType,
    /// Shape; −1 is an open dimension.
    pub shape: Shape,
    /// Worst-case payload in bytes. Needed when a dimension is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
    /// Depth of the queues from the session to consumers that give none. Default 4.
    #[serde(default = "default_depth")]
    pub depth: u32,
}

impl GraphInput {
    /// An input with the default depth.
    #[must_use]
    pub fn new(dtype: DType, shape: impl Into<Shape>) -> Self {
        Self { dtype, shape: shape.into(), max_bytes: None, depth: DEFAULT_DEPTH }
    }

    /// Sets the worst-case payload, bytes.
    #[must_use]
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = Some(bytes);
        self
    }

    /// Sets the queue depth.
    #[must_use]
    pub fn depth(mut self, depth: u32) -> Self {
        self.depth = depth;
        self
    }
}

/// An output of the graph: what the session fetches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct GraphOutput {
    /// Source, `node.output`.
    #[serde(default)]
    pub from: String,
    /// Depth of the queue to the session. Default 4.
    #[serde(default = "default_depth")]
    pub depth: u32,
    /// Fetched messages the caller keeps at a time, beyond the two in hand. Default 0.
    #[serde(default, skip_serializing_if = "is_default")]
    pub holds: u32,
}

impl GraphOutput {
    /// An output with the default depth.
    #[must_use]
    pub fn new(from: impl Into<String>) -> Self {
        Self { from: from.into(), depth: DEFAULT_DEPTH, holds: 0 }
    }

    /// Sets the queue depth.
    #[must_use]
    pub fn depth(mut self, depth: u32) -> Self {
        self.depth = depth;
        self
    }

    /// Declares how many fetched messages the caller keeps at a time.
    #[must_use]
    pub fn holds(mut self, messages: u32) -> Self {
        self.holds = messages;
        self
    }
}

/// An input port of a node and the queue in front of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct NodeInput {
    /// Source: a graph input, or `node.output`.
    #[serde(default)]
    pub from: String,
    /// Depth of the queue in front of the port. Default: the graph input's, else 4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    /// What a full queue does.
    #[serde(default, skip_serializing_if = "is_default")]
    pub policy: QueuePolicy,
    /// Element type the function expects, compared with the source's when given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dtype: Option<DType>,
    /// Shape the function expects, compared with the source's when given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape: Option<Shape>,
}

impl NodeInput {
    /// A port with the default depth and policy that takes whatever the source sends.
    #[must_use]
    pub fn new(from: impl Into<String>) -> Self {
        let from = from.into();
        Self { from, depth: None, policy: QueuePolicy::Fifo, dtype: None, shape: None }
    }

    /// Sets the queue depth.
    #[must_use]
    pub fn depth(mut self, depth: u32) -> Self {
        self.depth = Some(depth);
        self
    }

    /// Sets what a full queue does.
    #[must_use]
    pub fn policy(mut self, policy: QueuePolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Says what the function expects.
    #[must_use]
    pub fn expects(mut self, dtype: DType, shape: impl Into<Shape>) -> Self {
        self.dtype = Some(dtype);
        self.shape = Some(shape.into());
        self
    }
}

/// An output port of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeOutput {
    /// Element type.
    pub dtype: DType,
    /// Shape; −1 is an open dimension.
    pub shape: Shape,
    /// Worst-case payload in bytes. Needed when a dimension is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
}

impl NodeOutput {
    /// An output port.
    #[must_use]
    pub fn new(dtype: DType, shape: impl Into<Shape>) -> Self {
        Self { dtype, shape: shape.into(), max_bytes: None }
    }

    /// Sets the worst-case payload, bytes.
    #[must_use]
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = Some(bytes);
        self
    }
}

/// Things that a graph file may write as their source alone.
trait Short<'de>: Sized {
    fn from_source(source: &str) -> Self;
    fn from_fields<D: Deserializer<'de>>(fields: D) -> Result<Self, D::Error>;
}

macro_rules! short_form {
    ($name:ident) => {
        impl From<&str> for $name {
            fn from(source: &str) -> Self {
                Self::new(source)
            }
        }
        impl<'de> Short<'de> for $name {
            fn from_source(source: &str) -> Self {
                Self::new(source)
            }
            fn from_fields<D: Deserializer<'de>>(fields: D) -> Result<Self, D::Error> {
                Self::deserialize(fields)
            }
        }
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(ShortVisitor(PhantomData))
            }
        }
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                if *self == Self::new(self.from.as_str()) {
                    return serializer.serialize_str(&self.from);
                }
                Self::serialize(self, serializer)
            }
        }
    };
}

short_form!(NodeInput);
short_form!(GraphOutput);

struct ShortVisitor<T>(PhantomData<T>);

impl<'de, T: Short<'de>> Visitor<'de> for ShortVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a source such as `node.output`, or a map with `from`")
    }

    fn visit_unit<E: Error>(self) -> Result<T, E> {
        Ok(T::from_source(""))
    }

    fn visit_str<E: Error>(self, source: &str) -> Result<T, E> {
        Ok(T::from_source(source))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::from_fields(MapAccessDeserializer::new(map))
    }
}
