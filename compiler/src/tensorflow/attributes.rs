//! Attributes of a node. One of another kind is refused with both kinds.

use super::proto::{NodeDef, TensorProto, TensorShapeProto, Value};

/// The attributes that a node has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attributes<'a>(pub(super) &'a NodeDef);

fn kind(value: &Value) -> &'static str {
    match value {
        Value::List(_) => "a list",
        Value::S(_) => "a text",
        Value::I(_) => "a number",
        Value::F(_) => "a float",
        Value::B(_) => "a bool",
        Value::Type(_) => "a type",
        Value::Shape(_) => "a shape",
        Value::Tensor(_) => "a tensor",
        Value::Placeholder(_) => "a placeholder of a function",
        Value::Func(_) => "a function",
    }
}

impl<'a> Attributes<'a> {
    /// Refuses attributes that are there twice, and those that `known` does not have. Those of
    /// types say what the tensors say, and those with `_` are notes.
    pub(super) fn check(&self, known: &[&str]) -> Result<(), String> {
        for (index, entry) in self.0.attr.iter().enumerate() {
            let key = entry.key.as_str();
            if self.0.attr[..index].iter().any(|other| other.key == key) {
                return Err(format!("attribute `{key}` is there twice"));
            }
            let is_type = matches!(self.find(key), Some(Value::Type(_)));
            if !is_type && !key.starts_with('_') && !known.contains(&key) {
                let supported = if known.is_empty() { "none".into() } else { known.join(", ") };
                return Err(format!("attribute `{key}`: not known; supported: {supported}"));
            }
        }
        Ok(())
    }

    fn find(&self, name: &str) -> Option<&'a Value> {
        let entry = self.0.attr.iter().find(|entry| entry.key == name)?;
        entry.value.as_ref()?.value.as_ref()
    }

    fn get<T>(
        &self,
        name: &str,
        expected: &str,
        of: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, String> {
        let own = |value| {
            of(value).ok_or_else(|| {
                format!("attribute `{name}`: {}; supported: {expected}", kind(value))
            })
        };
        self.find(name).map(own).transpose()
    }

    pub(super) fn flag(&self, name: &str) -> Result<Option<bool>, String> {
        self.get(name, "a bool", |value| match value {
            Value::B(own) => Some(*own),
            _ => None,
        })
    }

    pub(super) fn int(&self, name: &str) -> Result<Option<i64>, String> {
        self.get(name, "a number", |value| match value {
            Value::I(own) => Some(*own),
            _ => None,
        })
    }

    pub(super) fn float(&self, name: &str) -> Result<Option<f32>, String> {
        self.get(name, "a float", |value| match value {
            Value::F(own) => Some(*own),
            _ => None,
        })
    }

    pub(super) fn text(&self, name: &str) -> Result<Option<&'a str>, String> {
        self.get(name, "a text", |value| match value {
            Value::S(own) => std::str::from_utf8(own).ok(),
            _ => None,
        })
    }

    pub(super) fn ints(&self, name: &str) -> Result<Option<&'a [i64]>, String> {
        self.get(name, "a list of numbers", |value| match value {
            Value::List(own) if own.s.is_empty() && own.f.is_empty() && own.b.is_empty() => {
                Some(&own.i[..])
            }
            _ => None,
        })
    }

    pub(super) fn data_type(&self, name: &str) -> Result<Option<i32>, String> {
        self.get(name, "a type", |value| match value {
            Value::Type(own) => Some(*own),
            _ => None,
        })
    }

    pub(super) fn shape(&self, name: &str) -> Result<Option<&'a TensorShapeProto>, String> {
        self.get(name, "a shape", |value| match value {
            Value::Shape(own) => Some(own),
            _ => None,
        })
    }

    pub(super) fn tensor(&self, name: &str) -> Result<Option<&'a TensorProto>, String> {
        self.get(name, "a tensor", |value| match value {
            Value::Tensor(own) => Some(&**own),
            _ => None,
        })
    }
}
