//! Graph files: a [`FlowGraph`] as YAML or JSON.
//!
//! Both texts become one tree of values and one serde model reads it, so a key, a default and an
//! error are the same in either. Editors get `schema/graph.schema.json` ([`SCHEMA`], printed by
//! `dflow schema`); a test compares it with the model.
//!
//! ```text
//! name: pages
//! inputs:                      # what the session feeds
//!   file: {dtype: uint8, shape: [-1], max_bytes: 1048576}
//! nodes:
//!   decode:
//!     library: libpages.so     # relative to this file
//!     function: decode
//!     inputs: {file: file}     # port: source; or [file]; or {file: {from: file, depth: 8}}
//!     outputs:
//!       image: {dtype: uint8, shape: [-1, -1], max_bytes: 5760000}
//!     instances: 2
//! outputs:                     # what the session fetches
//!   image: decode.image
//! ```

mod fault;
mod locate;
mod reader;
#[cfg(test)]
mod schema_tests;
mod syntax;
mod tree;

use std::path::Path;

use serde::Deserialize;

use crate::error::{Place, Problem, ReadError, io_text};
use crate::graph::FlowGraph;
use reader::Reader;
use tree::Tree;

/// The JSON schema of graph files, for editors.
pub const SCHEMA: &str = include_str!("../../schema/graph.schema.json");

/// Reads a graph file; the ending of its name says whether it is YAML or JSON.
///
/// # Errors
/// [`ReadError`] with file, node and port where one is concerned.
pub fn read(path: &Path) -> Result<FlowGraph, ReadError> {
    let name = path.display().to_string();
    let parse = match path.extension().and_then(|ending| ending.to_str()) {
        Some("yaml" | "yml") => parse_yaml,
        Some("json") => parse_json,
        ending => {
            return Err(ReadError::Format(Problem::new(
                Place::graph(&name),
                ending.map_or("no ending".to_owned(), |ending| format!("`.{ending}`")),
                "`.yaml`, `.yml` or `.json`",
                "rename the file",
            )));
        }
    };
    let text = std::fs::read_to_string(path).map_err(|error| {
        ReadError::Io(Problem::new(
            Place::graph(&name),
            match error.kind() {
                std::io::ErrorKind::InvalidData => "bytes that are no UTF-8 text".to_owned(),
                _ => io_text(&error),
            },
            "a readable UTF-8 file",
            "check the path and its permissions",
        ))
    })?;
    let mut graph = to_graph(&parse(&text, &name)?, &text, &name)?;
    graph.origin = Some(path.to_path_buf());
    Ok(graph)
}

/// Reads YAML text; errors call it `name`.
///
/// # Errors
/// [`ReadError`]
pub fn from_yaml(text: &str, name: &str) -> Result<FlowGraph, ReadError> {
    to_graph(&parse_yaml(text, name)?, text, name)
}

/// Reads JSON text; errors call it `name`.
///
/// # Errors
/// [`ReadError`]
pub fn from_json(text: &str, name: &str) -> Result<FlowGraph, ReadError> {
    to_graph(&parse_json(text, name)?, text, name)
}

/// The graph as YAML.
///
/// # Errors
/// [`ReadError::Value`] for an attribute that YAML can't carry.
pub fn to_yaml(graph: &FlowGraph) -> Result<String, ReadError> {
    serde_saphyr::to_string(graph).map_err(|error| unwritable(graph, &error.to_string()))
}

/// The graph as JSON.
///
/// # Errors
/// [`ReadError::Value`] for an attribute that JSON can't carry (infinity, not-a-number).
pub fn to_json(graph: &FlowGraph) -> Result<String, ReadError> {
    serde_json::to_string_pretty(graph).map_err(|error| unwritable(graph, &error.to_string()))
}

fn unwritable(graph: &FlowGraph, reason: &str) -> ReadError {
    let hint = "change the value";
    ReadError::Value(Problem::new(graph.place(), reason, "values the format can carry", hint))
}

fn parse_yaml(text: &str, name: &str) -> Result<Tree, ReadError> {
    serde_saphyr::from_str(text).map_err(|error| syntax::yaml(name, &error))
}

fn parse_json(text: &str, name: &str) -> Result<Tree, ReadError> {
    serde_json::from_str(text).map_err(|error| syntax::json(name, &error))
}

fn to_graph(tree: &Tree, text: &str, name: &str) -> Result<FlowGraph, ReadError> {
    FlowGraph::deserialize(Reader(tree)).map_err(|fault| {
        let at = locate::locate(text, fault.path());
        fault.into_error(&located(name, at))
    })
}

/// `graph.yaml, line 3, column 5`.
fn located(name: &str, at: Option<locate::At>) -> String {
    match at {
        Some((line, column)) => format!("{name}, line {line}, column {column}"),
        None => name.to_owned(),
    }
}
