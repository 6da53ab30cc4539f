//! Nodes by name, what they read, and an order in which they can run.

use std::collections::HashMap;

use super::proto::{GraphDef, NodeDef};
use super::refuse;
use crate::error::CompileError;

/// An output of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reference {
    pub(super) node: usize,
    pub(super) output: usize,
}

/// The nodes of a file, with what each reads.
#[derive(Debug)]
pub(super) struct Graph<'a> {
    pub(super) nodes: &'a [NodeDef],
    pub(super) inputs: Vec<Vec<Reference>>,
}

/// `name` and the number of an output of `name`, `name:1`.
fn split(text: &str) -> (&str, usize) {
    let numbered = text.rsplit_once(':').and_then(|(name, number)| {
        let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        Some((name, number.parse().ok().filter(|_| digits)?))
    });
    numbered.unwrap_or((text, 0))
}

impl<'a> Graph<'a> {
    pub(super) fn new(file: &'a GraphDef) -> Result<Self, CompileError> {
        let mut by_name = HashMap::new();
        for (index, node) in file.node.iter().enumerate() {
            if node.name.is_empty() {
                return Err(refuse(node, format!("node {index} has no name")));
            }
            if by_name.insert(node.name.as_str(), index).is_some() {
                return Err(refuse(node, "there are two nodes of this name"));
            }
        }
        let mut inputs = Vec::new();
        for node in &file.node {
            let mut own = Vec::new();
            for (index, text) in node.input.iter().enumerate() {
                let control = text.strip_prefix('^');
                let (name, output) = split(control.unwrap_or(text));
                let Some(from) = by_name.get(name) else {
                    let what = format!("input {index}, `{text}`, is no node of this graph");
                    return Err(refuse(node, what));
                };
                // What only has to run before does nothing that could be seen.
                if control.is_none() {
                    own.push(Reference { node: *from, output });
                }
            }
            inputs.push(own);
        }
        Ok(Self { nodes: &file.node, inputs })
    }

    /// Nodes that nobody reads and that make something: the outputs of the graph.
    pub(super) fn ends(&self) -> Vec<usize> {
        let mut read = vec![false; self.nodes.len()];
        self.inputs.iter().flatten().for_each(|input| read[input.node] = true);
        let end = |index: &usize| {
            let op = self.nodes[*index].op.as_str();
            !read[*index] && !matches!(op, "NoOp" | "Assert" | "Const" | "Placeholder")
        };
        (0..self.nodes.len()).filter(end).collect()
    }

    /// What the ends need, each node after those that it reads.
    pub(super) fn order(&self, ends: &[usize]) -> Result<Vec<usize>, CompileError> {
        #[derive(Clone, Copy, PartialEq)]
        enum State {
            New,
            Open,
            Done,
        }
        let mut states = vec![State::New; self.nodes.len()];
        let mut order = Vec::new();
        for end in ends {
            // Nodes that are open, and which of their inputs is next: no recursion, a chain may be
            // as long as the file.
            let mut open = vec![(*end, 0)];
            while let Some((node, next)) = open.pop() {
                if next == 0 {
                    match states[node] {
                        State::Done => continue,
                        State::Open => return Err(self.cycle(node)),
                        State::New => states[node] = State::Open,
                    }
                }
                match self.inputs[node].get(next) {
                    None => {
                        states[node] = State::Done;
                        order.push(node);
                    }
                    Some(input) => {
                        open.push((node, next + 1));
                        match states[input.node] {
                            State::New => open.push((input.node, 0)),
                            State::Open => return Err(self.cycle(input.node)),
                            State::Done => {}
                        }
                    }
                }
            }
        }
        Ok(order)
    }

    fn cycle(&self, node: usize) -> CompileError {
        refuse(&self.nodes[node], "reads what is made of its own result: a cycle")
    }
}
