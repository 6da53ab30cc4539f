//! Types at both ends of every edge.

use crate::error::{CheckError, Problem};
use crate::graph::{DType, FlowGraph, Shape};

use super::{CheckedFlow, Source, Target};

/// What the graph says about a source's messages.
pub(super) fn declared(graph: &FlowGraph, source: Source) -> (DType, &Shape, Option<u64>) {
    match source {
        Source::Input(input) => {
            let input = graph.inputs.item(input);
            (input.dtype, &input.shape, input.max_bytes)
        }
        Source::Node { node, output } => {
            let output = graph.nodes.item(node).outputs.item(output);
            (output.dtype, &output.shape, output.max_bytes)
        }
    }
}

/// Compares what an input declares with what its source sends.
pub(super) fn check(flow: &CheckedFlow, errors: &mut Vec<CheckError>) {
    let graph = flow.graph();
    for (node, (name, item)) in graph.nodes.iter().enumerate() {
        for (input, (port, wanted)) in item.inputs.iter().enumerate() {
            let source = flow.source(Target::Node { node, input });
            let (dtype, shape, _) = declared(graph, source);
            let place = graph.place().node(name).input(port);
            let from = flow.source_name(source);
            if let Some(wanted) = wanted.dtype.filter(|wanted| *wanted != dtype) {
                errors.push(CheckError::DType(Problem::new(
                    place.clone(),
                    format!("{dtype} from `{from}`"),
                    format!("{wanted}"),
                    "make both ends agree, or convert in between",
                )));
            }
            if let Some(wanted) = wanted.shape.as_ref().filter(|wanted| !wanted.matches(shape)) {
                errors.push(CheckError::ShapeMismatch(Problem::new(
                    place,
                    format!("{shape} from `{from}`"),
                    format!("{wanted} (-1 matches any length)"),
                    "make both ends agree",
                )));
            }
        }
    }
}
