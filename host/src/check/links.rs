//! Connections: from the words of a graph to sources.

use crate::error::{CheckError, Place, Problem, closest};
use crate::graph::FlowGraph;

use super::Source;

type Linked = (Vec<Vec<Source>>, Vec<Source>);

/// Sources of every node input and of every graph output. A source that can't be resolved is
/// reported, and stands in the result as the first graph input.
pub(super) fn resolve(graph: &FlowGraph, errors: &mut Vec<CheckError>) -> Linked {
    let place = graph.place();
    let mut resolve_one = |place: Place, from: &str, inputs_too: bool| {
        find(graph, place, from, inputs_too).unwrap_or_else(|error| {
            errors.push(error);
            Source::Input(0)
        })
    };
    let mut sources = Vec::with_capacity(graph.nodes.len());
    for (name, node) in graph.nodes.iter() {
        let place = place.clone().node(name);
        let ports = node.inputs.iter();
        let ports =
            ports.map(|(port, input)| resolve_one(place.clone().input(port), &input.from, true));
        sources.push(ports.collect());
    }
    let outputs = graph.outputs.iter().map(|(name, output)| {
        resolve_one(place.clone().port(format!("graph output `{name}`")), &output.from, false)
    });
    let outputs = outputs.collect();
    (sources, outputs)
}

fn find(
    graph: &FlowGraph,
    place: Place,
    from: &str,
    inputs_too: bool,
) -> Result<Source, CheckError> {
    if from.is_empty() {
        let expected =
            if inputs_too { "a graph input or `node.output`" } else { "a source `node.output`" };
        let hint = "connect it with `from`";
        return Err(CheckError::Unconnected(Problem::new(place, "no source", expected, hint)));
    }
    let Some((node, output)) = from.split_once('.') else {
        return find_input(graph, place, from, inputs_too);
    };
    let Some(index) = graph.nodes.position(node) else {
        return Err(unknown(place, from, "the nodes", graph.nodes.names(), node));
    };
    let outputs = &graph.nodes.item(index).outputs;
    // Outputs of a model may be meant by their number.
    let by_number = || {
        let number = output.parse().ok().filter(|number| *number < outputs.len());
        number.filter(|_| graph.nodes.item(index).model.is_some())
    };
    match outputs.position(output).or_else(by_number) {
        Some(output) => Ok(Source::Node { node: index, output }),
        None => {
            let whose = format!("the outputs of `{node}`");
            Err(unknown(place, from, &whose, outputs.names(), output))
        }
    }
}

fn find_input(
    graph: &FlowGraph,
    place: Place,
    from: &str,
    inputs_too: bool,
) -> Result<Source, CheckError> {
    if let Some(node) = graph.nodes.get(from) {
        let ports: Vec<_> = node.outputs.names().map(|port| format!("`{from}.{port}`")).collect();
        let expected = format!("an output of the node: {}", ports.join(", "));
        let hint = "name the output too";
        let found = format!("`{from}`");
        return Err(CheckError::UnknownSource(Problem::new(place, found, expected, hint)));
    }
    if !inputs_too {
        let (found, hint) = (format!("`{from}`"), "name a node's output");
        let expected = "a source `node.output`";
        return Err(CheckError::UnknownSource(Problem::new(place, found, expected, hint)));
    }
    match graph.inputs.position(from) {
        Some(input) => Ok(Source::Input(input)),
        None => Err(unknown(place, from, "the graph inputs", graph.inputs.names(), from)),
    }
}

fn unknown<'a>(
    place: Place,
    from: &str,
    whose: &str,
    names: impl Iterator<Item = &'a str>,
    word: &str,
) -> CheckError {
    let names: Vec<_> = names.collect();
    let hint = match closest(word, names.iter().copied()) {
        Some(name) => format!("write `{name}`?"),
        None => "name a graph input, or a node and its output as `node.output`".to_owned(),
    };
    let expected = format!("one of {whose}: {}", names.join(", "));
    CheckError::UnknownSource(Problem::new(place, format!("`{from}`"), expected, hint))
}
