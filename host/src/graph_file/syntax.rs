//! What the YAML and JSON parsers refuse, in this project's words: their own texts speak of their
//! calls and types.

use serde_saphyr::Error as Yaml;

use super::locate::At;
use super::located;
use super::tree::DUPLICATE;
use crate::error::{Place, Problem, ReadError};

/// A graph file is a few hundred lines; a parser that runs out of patience has met a trap.
const TOO_MUCH: &str = "more depth, aliases or values than a graph file needs";

/// The error of YAML text in file `name`.
pub(super) fn yaml(name: &str, error: &Yaml) -> ReadError {
    let error = error.without_snippet();
    let at = error.location().map(|at| (at.line(), at.column()));
    let inner = match error {
        Yaml::AliasError { error, .. } => error.without_snippet(),
        other => other,
    };
    if let Yaml::DuplicateMappingKey { key, .. } = inner {
        let found = key.as_ref().map_or("a key twice".to_owned(), |key| format!("`{key}` twice"));
        return duplicate(name, at, found);
    }
    let syntax = |found: &str, hint: &str| not_well_formed(name, at, found, "YAML", hint);
    match inner {
        Yaml::Message { msg, .. } => custom(name, at, msg, "YAML"),
        // The scanner's own sentence; these are about YAML.
        Yaml::ExternalMessage { msg, .. } => syntax(msg, "correct the text there"),
        Yaml::Eof { .. } => syntax("an early end of the text", "complete it"),
        Yaml::MultipleDocuments { .. } => {
            syntax("a second document after `---`", "keep one document in a file")
        }
        Yaml::Budget { .. }
        | Yaml::AliasReplayCounterOverflow { .. }
        | Yaml::AliasReplayLimitExceeded { .. }
        | Yaml::AliasExpansionLimitExceeded { .. }
        | Yaml::AliasReplayStackDepthExceeded { .. } => syntax(TOO_MUCH, "make it simpler"),
        Yaml::UnknownAnchor { .. } => {
            syntax("an alias (`*`) of an anchor that is nowhere", "add the anchor (`&`) before it")
        }
        Yaml::RecursiveReferencesRequireWeakTypes { .. } => {
            syntax("an alias that contains itself", "write the value out")
        }
        Yaml::NonFiniteFloat { value, .. } => {
            syntax(&format!("the number `{value}`"), "write a finite number, or quote a text")
        }
        Yaml::MergeValueNotMapOrSeqOfMaps { .. } => {
            syntax("a merge (`<<`) of something that is no map", "merge maps only")
        }
        _ => syntax("a value that can't stand here", "correct the text there, or quote a text"),
    }
}

/// The error of JSON text in file `name`.
pub(super) fn json(name: &str, error: &serde_json::Error) -> ReadError {
    let at = (error.line() > 0).then(|| (error.line() as u64, error.column() as u64));
    let text = error.to_string();
    // Its texts end in the place that `at` has.
    let what = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
    match error.classify() {
        serde_json::error::Category::Data => custom(name, at, what, "JSON"),
        serde_json::error::Category::Eof => {
            not_well_formed(name, at, "an early end of the text", "JSON", "complete it")
        }
        _ if what.starts_with("recursion") => {
            not_well_formed(name, at, TOO_MUCH, "JSON", "make it simpler")
        }
        _ => not_well_formed(name, at, what, "JSON", "correct the text there"),
    }
}

/// What [`super::tree`] refused while the parser ran.
fn custom(name: &str, at: Option<At>, what: &str, kind: &str) -> ReadError {
    match what.strip_prefix(DUPLICATE) {
        Some(key) => duplicate(name, at, format!("{key} twice")),
        None if what.starts_with("the ") => {
            not_well_formed(name, at, what, kind, "correct the value there")
        }
        None => not_well_formed(name, at, "a value that can't stand here", kind, "correct it"),
    }
}

fn place(name: &str, at: Option<At>) -> Place {
    Place::graph(&located(name, at))
}

fn duplicate(name: &str, at: Option<At>, found: String) -> ReadError {
    let hint = "remove or rename one of them";
    ReadError::DuplicateKey(Problem::new(place(name, at), found, "each key once", hint))
}

fn not_well_formed(name: &str, at: Option<At>, found: &str, kind: &str, hint: &str) -> ReadError {
    let expected = format!("{kind} text of a graph");
    ReadError::Syntax(Problem::new(place(name, at), found, expected, hint))
}
