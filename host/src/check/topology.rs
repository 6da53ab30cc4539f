//! The graph as a whole: no cycle, and everything leads to a graph output.

use crate::error::{CheckError, Problem};
use crate::graph::FlowGraph;

use super::{CheckedFlow, Source};

/// Nodes with producers before consumers, ties in graph order; or the cycle.
pub(super) fn sort(graph: &FlowGraph, sources: &[Vec<Source>]) -> Result<Vec<usize>, CheckError> {
    let mut order = Vec::with_capacity(sources.len());
    let mut placed = vec![false; sources.len()];
    while order.len() < sources.len() {
        let before = order.len();
        for node in 0..sources.len() {
            if !placed[node] && producers(&sources[node]).all(|producer| placed[producer]) {
                placed[node] = true;
                order.push(node);
            }
        }
        if order.len() == before {
            return Err(cycle(graph, sources, &placed));
        }
    }
    Ok(order)
}

fn producers(inputs: &[Source]) -> impl Iterator<Item = usize> {
    inputs.iter().filter_map(|source| match source {
        Source::Node { node, .. } => Some(*node),
        Source::Input(_) => None,
    })
}

/// Walks against the arrows among the nodes that could not be placed: each has such a producer.
fn cycle(graph: &FlowGraph, sources: &[Vec<Source>], placed: &[bool]) -> CheckError {
    let mut walk: Vec<usize> = Vec::new();
    let mut next = placed.iter().position(|placed| !placed);
    while let Some(node) = next {
        if let Some(start) = walk.iter().position(|seen| *seen == node) {
            walk.drain(..start);
            break;
        }
        walk.push(node);
        next = producers(&sources[node]).find(|producer| !placed[*producer]);
    }
    walk.reverse();
    let lowest = walk.iter().enumerate().min_by_key(|(_, node)| **node).map_or(0, |(at, _)| at);
    walk.rotate_left(lowest);
    let first = walk.first().copied().unwrap_or(0);
    let names: Vec<_> = walk.iter().chain([&first]).map(|node| graph.nodes.name(*node)).collect();
    let last = walk.last().copied().unwrap_or(0);
    let port = sources[first]
        .iter()
        .position(|from| matches!(from, Source::Node { node, .. } if *node == last))
        .unwrap_or(0);
    let place = graph.place().node(graph.nodes.name(first));
    CheckError::Cycle(Problem::new(
        place.input(graph.nodes.item(first).inputs.name(port)),
        names.join(" -> "),
        "a graph without cycles",
        "cut one of these connections",
    ))
}

/// Nodes and graph inputs that no graph output depends on.
pub(super) fn check_dead_ends(flow: &CheckedFlow, errors: &mut Vec<CheckError>) {
    let graph = flow.graph();
    let mut needed = vec![false; graph.nodes.len()];
    let mut fed = vec![false; graph.inputs.len()];
    let mut mark = |source: &Source, needed: &mut Vec<bool>| match source {
        Source::Node { node, .. } => needed[*node] = true,
        Source::Input(input) => fed[*input] = true,
    };
    for source in &flow.output_sources {
        mark(source, &mut needed);
    }
    for node in flow.order().iter().rev() {
        if needed[*node] {
            for source in &flow.sources[*node] {
                mark(source, &mut needed);
            }
        }
    }
    for (node, _) in needed.iter().enumerate().filter(|(_, needed)| !**needed) {
        let outputs: Vec<_> = graph.nodes.item(node).outputs.names().collect();
        errors.push(CheckError::DeadEnd(Problem::new(
            graph
                .place()
                .node(graph.nodes.name(node))
                .port(format!("outputs {}", outputs.join(", "))),
            "no graph output depends on this node",
            "at least one output that leads to a graph output",
            "connect an output, or remove the node",
        )));
    }
    for (input, _) in fed.iter().enumerate().filter(|(_, fed)| !**fed) {
        errors.push(CheckError::DeadEnd(Problem::new(
            graph.place().port(format!("graph input `{}`", graph.inputs.name(input))),
            "no graph output depends on this input",
            "at least one consumer that leads to a graph output",
            "connect it, or remove it",
        )));
    }
}
