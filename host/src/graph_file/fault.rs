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
    Value { found: String, expected: String, hint: &'static str },
}

impl Fault {
    fn new(kind: FaultKind) -> Self {
        Self { kind, path: Vec::new() }
    }

    /// A value of another kind than `expected` says.
    pub(super) fn kind(found: Unexpected<'_>, expected: &str) -> Self {
        let expected = expected_words(expected);
        let hint = hint(&found, &expected);
        Self::new(FaultKind::Value { found: found_words(&found), expected, hint })
    }

    /// The same fault, one level further out.
    pub(super) fn within(mut self, key: impl Into<String>) -> Self {
        self.path.insert(0, key.into());
        self
    }

    /// The same fault, as one of item `index` of a list.
    pub(super) fn within_item(self, index: usize) -> Self {
        self.within(format!("{ITEM}{index}"))
    }

    /// Keys that lead to the value, or to the key that is unknown.
    pub(super) fn path(&self) -> impl Iterator<Item = &str> {
        let last = match &self.kind {
            FaultKind::UnknownKey { found, .. } => Some(found.as_str()),
            _ => None,
        };
        self.path.iter().map(String::as_str).chain(last)
    }

    /// The error for people; `file` may say line and column, too.
    pub(super) fn into_error(self, file: &str) -> ReadError {
        let (place, subject) = place_of(file, &self.path);
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
                let expected = format!("{subject} one of: {}", known.join(", "));
                ReadError::Value(Problem::new(place, format!("`{found}`"), expected, hint))
            }
            FaultKind::MissingKey(missing) => ReadError::MissingKey(Problem::new(
                place,
                format!("no `{missing}`"),
                format!("the key `{missing}`"),
                "add it",
            )),
            FaultKind::Value { found, expected, hint } => {
                let expected = format!("{subject} {expected}");
                ReadError::Value(Problem::new(place, found, expected, hint))
            }
        }
    }
}

/// Marks a place in a list among the keys of a path.
pub(super) const ITEM: char = '#';

/// Kinds as a file's author knows them.
fn found_words(found: &Unexpected<'_>) -> String {
    match found {
        Unexpected::Bool(value) => format!("`{value}`, a truth value"),
        Unexpected::Unsigned(value) => format!("the number `{value}`"),
        Unexpected::Signed(value) => format!("the number `{value}`"),
        Unexpected::Float(value) => format!("the number `{value}`"),
        Unexpected::Str(text) => format!("the text {text:?}"),
        Unexpected::Unit | Unexpected::Option => "nothing (an empty value)".to_owned(),
        Unexpected::Seq => "a list".to_owned(),
        Unexpected::Map => "a map".to_owned(),
        _ => "something else".to_owned(),
    }
}

const TEXT: &str = "a text";
const TRUTH: &str = "true or false";

/// serde's names of Rust types in the words of the documentation; what is none passes.
fn expected_words(expected: &str) -> String {
    let words = match expected {
        "u32" => "a whole number from 0 to 4294967295",
        "u8" | "u16" | "u64" | "usize" => "a whole number, 0 or larger",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a boolean" => TRUTH,
        "a string" | "path string" | "a borrowed string" => TEXT,
        "a sequence" => "a list",
        other if other.starts_with("struct ") => "a map",
        other => other,
    };
    words.to_owned()
}

fn hint(found: &Unexpected<'_>, expected: &str) -> &'static str {
    match found {
        Unexpected::Bool(_) => {
            "put a text in quotes: without them YAML reads y, n, yes, no, on, off, true and false \
             as truth values"
        }
        Unexpected::Signed(_) | Unexpected::Unsigned(_) | Unexpected::Float(_)
            if expected == TEXT =>
        {
            "put a text that looks like a number in quotes"
        }
        Unexpected::Str(_) if expected == TRUTH => "write true or false, without quotes",
        Unexpected::Str(_) if expected.contains("number") => "write a number, without quotes",
        Unexpected::Unit | Unexpected::Option if expected == TEXT => {
            "write the text; an empty one is \"\""
        }
        Unexpected::Unit | Unexpected::Option => "write the value, or remove the key",
        Unexpected::Seq if expected.starts_with("a map") => "write `key: value` pairs",
        _ => "correct the value",
    }
}

/// Node and port out of a path such as `nodes`, `decode`, `inputs`, `file`, `depth`, and words for
/// what is expected there.
fn place_of(file: &str, path: &[String]) -> (Place, String) {
    let place = Place::graph(file);
    let words: Vec<&str> = path.iter().map(String::as_str).collect();
    // Ports of a list are named by their place in it.
    let port = |word: &'_ str| word.strip_prefix(ITEM).unwrap_or(word).to_owned();
    let (place, thing, rest) = match words.as_slice() {
        ["nodes", node, "inputs", name, rest @ ..] => {
            (place.node(node).input(&port(name)), "as this input:", rest)
        }
        ["nodes", node, "outputs", name, rest @ ..] => {
            (place.node(node).output(&port(name)), "as this output:", rest)
        }
        ["nodes", node, rest @ ..] => (place.node(node), "as this node:", rest),
        ["inputs", port, rest @ ..] => {
            (place.port(format!("graph input `{port}`")), "as this graph input:", rest)
        }
        ["outputs", port, rest @ ..] => {
            (place.port(format!("graph output `{port}`")), "as this graph output:", rest)
        }
        ["session", rest @ ..] if !rest.is_empty() => (place.port("session"), "", rest),
        rest => (place, "as the whole file:", rest),
    };
    (place, if rest.is_empty() { thing.to_owned() } else { format!("as {}:", keys(rest)) })
}

/// `` `shape`, item 2, `name` ``: numbers are places in a list, from 1.
fn keys(path: &[&str]) -> String {
    let mut text = String::new();
    for key in path {
        let index = key.strip_prefix(ITEM).and_then(|index| index.parse::<usize>().ok());
        text = match index {
            Some(index) => format!("{text}, item {}", index.saturating_add(1)),
            None if text.is_empty() => format!("`{key}`"),
            None => match text.strip_suffix('`') {
                Some(open) => format!("{open}.{key}`"),
                None => format!("{text}, `{key}`"),
            },
        };
    }
    text
}

impl Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at {}", self.kind, self.path.join("."))
    }
}

impl std::error::Error for Fault {}

impl de::Error for Fault {
    fn custom<T: Display>(text: T) -> Self {
        let (found, hint) = ("something else".to_owned(), "correct the value");
        Self::new(FaultKind::Value { found, expected: text.to_string(), hint })
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::kind(found, &expected.to_string())
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
