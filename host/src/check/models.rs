//! Nodes with models: settings, then the model itself, whose inputs and outputs become the node's
//! ports. What the node declares of them is compared.

use std::collections::BTreeMap;

use crate::error::{CheckError, Place, Problem, closest};
use crate::graph::{
    FlowGraph, FlowNode, Forwarding, Named, NodeInput, NodeOutput, Priority, WritableInputs,
};
use crate::model::{self, Loadable, Port, Program};

/// Highest number of a device.
const MAX_DEVICE: u32 = 62;

/// Most threads of a device.
const MAX_THREADS: u32 = 64;

/// Most cores of a device.
const MAX_CORES: u32 = 64;

/// Highest number of a priority, which is the last one served.
const MAX_PRIORITY: u32 = 2;

/// Programs of the nodes that have models, in graph order. The graph's nodes get the models' ports.
/// Unless the graph is to run `here`, a model that is not there is left out where the node declares
/// its outputs.
pub(super) fn complete(
    graph: &mut FlowGraph,
    here: bool,
    errors: &mut Vec<CheckError>,
) -> Vec<Option<Program>> {
    let mut programs = vec![None; graph.nodes.len()];
    let mut nodes = Named::default();
    for (index, (name, node)) in graph.nodes.iter().enumerate() {
        let place = graph.place().node(name);
        let Some(path) = &node.model else {
            check_function(&place, node, errors);
            nodes.push(name, node.clone());
            continue;
        };
        let before = errors.len();
        check_settings(&place, node, errors);
        let path = graph.library_path(path);
        let skipped = !here && !path.is_file() && !node.outputs.is_empty();
        let mut node = node.clone();
        if errors.len() == before && !skipped {
            let wanted = model::Wanted {
                bound: &node.inputs_tensor_desc,
                streams: model::streams(node.threads),
                layouts: &[],
            };
            match model::load(name, &path, wanted, !graph.no_cache) {
                Ok(loaded) => {
                    fit(&place, &mut node, &loaded, errors);
                    programs[index] = Some(loaded.program);
                }
                Err(error) => {
                    errors.push(CheckError::Model(error.at(place.port("`model`"))));
                }
            }
        }
        nodes.push(name, node);
    }
    graph.nodes = nodes;
    agree(graph, errors);
    programs
}

/// A device has one number of cores.
fn agree(graph: &FlowGraph, errors: &mut Vec<CheckError>) {
    let mut known: BTreeMap<u32, (u32, &str)> = BTreeMap::new();
    for (name, node) in graph.nodes.iter() {
        let Some(cores) = node.cores.filter(|_| node.model.is_some()) else { continue };
        let (first, of) = *known.entry(node.device).or_insert((cores, name));
        if first != cores {
            let found = format!("{cores} cores of device {}", node.device);
            let expected = format!("{first}, as node `{of}` has it");
            refuse(&graph.place().node(name), "cores", &found, &expected, "declare one", errors);
        }
    }
}

fn check_function(place: &Place, node: &FlowNode, errors: &mut Vec<CheckError>) {
    for (key, given) in [
        ("inputs_tensor_desc", !node.inputs_tensor_desc.is_empty()),
        ("device", node.device != 0),
        ("cores", node.cores.is_some()),
        ("priority", node.priority != Priority::default()),
        ("threads", node.threads != 1),
    ] {
        if given {
            refuse(place, key, "a function with it", "only models have it", "remove it", errors);
        }
    }
}

fn check_settings(place: &Place, node: &FlowNode, errors: &mut Vec<CheckError>) {
    let (copy, pinned) =
        (node.writable_inputs == WritableInputs::Copy, "all models of a device share one process");
    let copies = node.forwarding == Forwarding::Copy;
    let foreign: [(&str, bool, &str); 10] = [
        ("library", !node.library.as_os_str().is_empty(), "a node has a library or a model"),
        ("function", !node.function.is_empty(), "a node has a function or a model"),
        ("project", node.project.is_some(), "a node has a project or a model"),
        ("attrs", !node.attrs.is_empty(), "a model has no attributes"),
        ("stateful", node.stateful, "a model remembers nothing from one run to the next"),
        ("writable_inputs", copy, "a model does not write its inputs"),
        ("forwarding", copies, "a model never sends its inputs on"),
        ("holds", node.holds > 0, "a model keeps no input beyond its run"),
        ("env", !node.env.is_empty(), pinned),
        ("cpu", !node.cpu.is_empty(), pinned),
    ];
    for (key, given, why) in foreign {
        if given {
            refuse(place, key, "a model with it", why, "correct or remove it", errors);
        }
    }
    let Priority { process, event } = node.priority;
    let priorities = "priorities from 0 (first) to 2";
    for (key, value, range, expected) in [
        ("device", Some(node.device), 0..=MAX_DEVICE, "a device from 0 to 62"),
        ("cores", node.cores, 1..=MAX_CORES, "1 to 64 cores"),
        ("priority.process", process, 0..=MAX_PRIORITY, priorities),
        ("priority.event", event, 0..=MAX_PRIORITY, priorities),
        ("threads", Some(node.threads), 1..=MAX_THREADS, "1 to 64 threads"),
    ] {
        if let Some(value) = value.filter(|value| !range.contains(value)) {
            refuse(place, key, &value.to_string(), expected, "correct or remove it", errors);
        }
    }
    for desc in node.inputs_tensor_desc.iter().filter(|desc| desc.shape.0.iter().any(|d| *d < 0)) {
        let found = desc.shape.to_string();
        let (expected, hint) = ("a shape without open dimensions", "bind every dimension");
        refuse(place, "inputs_tensor_desc", &found, expected, hint, errors);
    }
}

fn refuse(
    place: &Place,
    key: &str,
    found: &str,
    expected: &str,
    hint: &str,
    errors: &mut Vec<CheckError>,
) {
    let place = place.clone().port(format!("`{key}`"));
    errors.push(CheckError::Setting(Problem::new(place, found, expected, hint)));
}

/// Name of a port: the tensor's where it can stand in a graph, else its number.
fn port_name(port: &Port, index: usize) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let usable = !port.name.is_empty() && port.name.len() <= 64 && port.name.chars().all(plain);
    if usable { port.name.clone() } else { index.to_string() }
}

/// The port that a name or a number means.
fn find(ports: &[Port], word: &str) -> Option<usize> {
    let named = ports.iter().position(|port| port.name == word);
    named.or_else(|| word.parse().ok().filter(|index| *index < ports.len()))
}

/// Gives the node the model's ports, and compares what it declares of them.
fn fit(place: &Place, node: &mut FlowNode, model: &Loadable, errors: &mut Vec<CheckError>) {
    check_bound(place, node, model, errors);
    let mut inputs: Vec<Option<NodeInput>> = vec![None; model.inputs.len()];
    for (name, input) in node.inputs.iter() {
        let at = place.clone().input(name);
        let Some(index) = find(&model.inputs, name) else {
            errors.push(unknown(at, name, "inputs", &model.inputs));
            continue;
        };
        let port = &model.inputs[index];
        compare(&at, input.dtype.map(|dtype| (dtype, port.dtype)), None, errors);
        compare(&at, None, input.shape.as_ref().map(|shape| (shape, &port.shape)), errors);
        if inputs[index].is_some() {
            let (found, expected) = (format!("input {index} twice"), "each input once");
            errors.push(CheckError::Duplicate(Problem::new(at, found, expected, "remove one")));
        }
        let (dtype, shape) = (Some(port.dtype), Some(port.shape.clone()));
        inputs[index] = Some(NodeInput { dtype, shape, ..input.clone() });
    }
    node.inputs = Named::default();
    for ((index, port), input) in model.inputs.iter().enumerate().zip(inputs) {
        let name = port_name(port, index);
        match input {
            Some(input) => node.inputs.push(name, input),
            None => errors.push(CheckError::Unconnected(Problem::new(
                place.clone().input(&name),
                "no source for this input of the model",
                format!("{} {} from a graph input or `node.output`", port.dtype, port.shape),
                "connect it under `inputs`",
            ))),
        }
    }
    for (name, output) in node.outputs.iter() {
        let at = place.clone().output(name);
        let Some(index) = find(&model.outputs, name) else {
            errors.push(unknown(at, name, "outputs", &model.outputs));
            continue;
        };
        let port = &model.outputs[index];
        let shapes = Some((&output.shape, &port.shape));
        compare(&at, Some((output.dtype, port.dtype)), shapes, errors);
    }
    node.outputs = Named::default();
    for (index, port) in model.outputs.iter().enumerate() {
        let output = NodeOutput::new(port.dtype, port.shape.clone());
        node.outputs.push(port_name(port, index), output);
    }
}

/// Types and shapes of `inputs_tensor_desc`: a compiled model has its own for good.
fn check_bound(place: &Place, node: &FlowNode, model: &Loadable, errors: &mut Vec<CheckError>) {
    for (index, desc) in node.inputs_tensor_desc.iter().enumerate() {
        let named = desc.name.as_deref().map_or(Some(index), |name| find(&model.inputs, name));
        let word = desc.name.clone().unwrap_or_else(|| index.to_string());
        let at = place.clone().port(format!("`inputs_tensor_desc` {word}"));
        match named.and_then(|index| model.inputs.get(index)) {
            Some(port) => {
                let shapes = Some((&desc.shape, &port.shape));
                compare(&at, Some((desc.dtype, port.dtype)), shapes, errors);
            }
            None => errors.push(unknown(at, &word, "inputs", &model.inputs)),
        }
    }
}

fn compare(
    place: &Place,
    types: Option<(crate::DType, crate::DType)>,
    shapes: Option<(&crate::Shape, &crate::Shape)>,
    errors: &mut Vec<CheckError>,
) {
    let hint = "declare what the model has, or leave it out";
    if let Some((declared, own)) = types.filter(|(declared, own)| declared != own) {
        let (found, expected) = (declared.to_string(), format!("{own}, the model's"));
        errors.push(CheckError::DType(Problem::new(place.clone(), found, expected, hint)));
    }
    if let Some((declared, own)) = shapes.filter(|(declared, own)| !declared.matches(own)) {
        let (found, expected) = (declared.to_string(), format!("{own}, the model's"));
        errors.push(CheckError::ShapeMismatch(Problem::new(place.clone(), found, expected, hint)));
    }
}

fn unknown(place: Place, word: &str, whose: &str, ports: &[Port]) -> CheckError {
    let names: Vec<&str> = ports.iter().map(|port| port.name.as_str()).collect();
    let hint = match closest(word, names.iter().copied()) {
        Some(name) => format!("write `{name}`?"),
        None => "name it as the model does, or by its number from 0".to_owned(),
    };
    let expected = format!("one of the model's {whose}: {}", names.join(", "));
    CheckError::Model(Problem::new(place, format!("`{word}`"), expected, hint))
}
