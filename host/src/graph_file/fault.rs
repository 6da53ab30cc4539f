//! What serde finds wrong, kept as facts instead of a sentence, with the path to it.

use std::fmt::{self, Display};

use serde::de::{self, Expected, Unexpected};

use crate::error::{Place, Problem, ReadError, closest};

/// One thing wrong, and the keys that lead to it (innermost last).
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) kind: FaultKind,
    path: Vec<String>,
}

#[derive(Debug)]
pub(super) enum FaultKind {
    UnknownKey { found: String, known: &'static [&'static str] },
    UnknownWord { found: String, known: &'static [&'static str] },
    MissingKey(&'static str),
    Value { found: String, expected: String },
}

impl Fault {
    fn new(kind: FaultKind) -> Self {
        Self { kind, path: Vec::new() }
    }

    /// The same fault, one level further out.
    pub(super) fn within(mut self, key: impl Into<String>) -> Self {
        self.path.insert(0, key.into());
        self
    }

    /// The error for people.
    pub(super) fn into_error(self, file: &str) -> ReadError {
        let (place, key) = place_of(file, &self.path);
        match self.kind {
            FaultKind::UnknownKey { found, known } => {
                let close = closest(&found, known.iter().copied());
                let hint = match close {
                    Some(word) => format!("write `{word}`, or remove the key"),
                    None => "remove the key".to_owned(),
                };
                let expected = match close {
                    Some(word) => format!("`{word}` is the closest of: {}", known.join(", ")),
                    None => format!("one of: {}", known.join(", ")),
                };
                ReadError::UnknownKey(Problem::new(place, format!("`{found}`"), expected, hint))
            }
            FaultKind::UnknownWord { found, known } => {
                let hint = match closest(&found, known.iter().copied()) {
                    Some(word) => format!("write `{word}`"),
                    None => "choose one of them".to_owned(),
                };
                let expected = format!("{} one of: {}", subject(&key), known.join(", "));
                ReadError::Value(Problem::new(place, format!("`{found}`"), expected, hint))
            }
            FaultKind::MissingKey(missing) => ReadError::MissingKey(Problem::new(
                place,
                format!("no `{missing}`"),
                format!("the key `{missing}`"),
                "add it",
            )),
            FaultKind::Value { found, expected } => {
                let expected = format!("{} {expected}", subject(&key));
                ReadError::Value(Problem::new(place, found, expected, "correct the value"))
            }
        }
    }
}

fn subject(key: &str) -> String {
    if key.is_empty() { "as the whole file:".to_owned() } else { format!("as `{key}`:") }
}

/// Node and port out of a path such as `nodes`, `decode`, `inputs`, `file`, `depth`, and its rest.
fn place_of(file: &str, path: &[String]) -> (Place, String) {
    let place = Place::graph(file);
    let words: Vec<&str> = path.iter().map(String::as_str).collect();
    let (place, rest) = match words.as_slice() {
        ["nodes", node, "inputs", port, rest @ ..] => (place.node(node).input(port), rest),
        ["nodes", node, "outputs", port, rest @ ..] => (place.node(node).output(port), rest),
        ["nodes", node, rest @ ..] => (place.node(node), rest),
        ["inputs", port, rest @ ..] => (place.port(format!("graph input `{port}`")), rest),
        ["outputs", port, rest @ ..] => (place.port(format!("graph output `{port}`")), rest),
        ["session", rest @ ..] if !rest.is_empty() => (place.port("session"), rest),
        rest => (place, rest),
    };
    let key = if rest.is_empty() { words.last().copied().unwrap_or("") } else { &rest.join(".") };
    (place, key.to_owned())
}

impl Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at {}", self.kind, self.path.join("."))
    }
}

impl std::error::Error for Fault {}

impl de::Error for Fault {
    fn custom<T: Display>(text: T) -> Self {
        let found = "something else".to_owned();
        Self::new(FaultKind::Value { found, expected: text.to_string() })
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new(FaultKind::Value { found: found.to_string(), expected: expected.to_string() })
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    fn unknown_variant(found: &str, known: &'static [&'static str]) -> Self {
        Self::new(FaultKind::UnknownWord { found: found.to_owned(), known })
    }

    fn unknown_field(found: &str, known: &'static [&'static str]) -> Self {
        Self::new(FaultKind::UnknownKey { found: found.to_owned(), known })
    }

    fn missing_field(missing: &'static str) -> Self {
        Self::new(FaultKind::MissingKey(missing))
    }
}
