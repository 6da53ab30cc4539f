//! Reading a TensorFlow frozen graph (GraphDef): its nodes become those of ONNX, and everything
//! after this is the same for both.
//!
//! | file | what |
//! |---|---|
//! | `proto` | the messages of a file |
//! | `graph` | nodes by name, an order in which they can run |
//! | `constant`, `attributes` | values, of any spelling; kinds are checked |
//! | `scope` | a node while it is translated |
//! | `ops` | what each op becomes; `image`, `shapes`: those that are more than a name |
//!
//! Images of TensorFlow have their maps last (NHWC), convolutions and pools here have them
//! first: transposes stand between, and go again where two meet (`crate::transposes`). The inputs
//! are the placeholders in the order of the file, the outputs what nobody reads. What is not
//! needed for them is not looked at.

mod attributes;
mod constant;
mod graph;
mod image;
mod ops;
pub(crate) mod proto;
mod scope;
mod shapes;

use std::collections::BTreeSet;

use prost::Message;

use crate::error::CompileError;
use crate::import::{Declared, Dim, Imported};

use attributes::Attributes;
use constant::Budget;
use graph::{Graph, Reference};
use proto::{GraphDef, NodeDef};
use scope::{Draft, Scope};

/// The operator set of ONNX that nodes are translated to.
const OPSET: u32 = 18;

/// Since this version of TensorFlow a shape without dims is that of a scalar; before, it was
/// unknown.
const SCALARS_SINCE: i32 = 24;

/// The graph of a file, if it is one.
pub(crate) fn decode(file: bytes::Bytes) -> Result<GraphDef, String> {
    GraphDef::decode(file).map_err(|error| error.to_string())
}

/// A node is refused.
fn refuse(node: &NodeDef, what: impl Into<String>) -> CompileError {
    let (node, op) = (format!("`{}`", node.name), node.op.clone());
    CompileError::Node { node, op, what: what.into() }
}

/// Name of an output of a node.
fn tensor_name(node: &str, output: usize) -> String {
    if output == 0 { node.to_owned() } else { format!("{node}:{output}") }
}

/// Translates a graph.
///
/// # Errors
/// What can't be, by node: [`CompileError`].
pub(crate) fn import(file: &GraphDef) -> Result<Imported, CompileError> {
    let graph = Graph::new(file)?;
    let all: Vec<usize> = (0..graph.nodes.len()).collect();
    graph.order(&all)?;
    let ends = graph.ends();
    if ends.is_empty() {
        return Err(CompileError::NotTensorFlow("no node makes a result".to_owned()));
    }
    let order = graph.order(&ends)?;
    known(&graph, &order)?;
    let producer = file.versions.as_ref().and_then(|versions| versions.producer);
    let old = producer.is_some_and(|producer| producer < SCALARS_SINCE);
    let (mut draft, mut budget) = (Draft::default(), Budget::default());
    let mut inputs = Vec::new();
    // Placeholders in the order of the file, those that nobody reads too.
    for node in graph.nodes.iter().filter(|node| node.op == "Placeholder") {
        let own = placeholder(node, old).map_err(|what| refuse(node, what))?;
        if let Some(dims) = &own.dims {
            draft.set_rank(&own.name, dims.len());
        }
        inputs.push(own);
    }
    let mut counts = vec![1; graph.nodes.len()];
    for index in order {
        let node = &graph.nodes[index];
        let own = one(&graph, index, &counts, &mut draft, &mut budget);
        counts[index] = own.map_err(|what| refuse(node, what))?;
    }
    let outputs = ends.iter().flat_map(|end| {
        let name = &graph.nodes[*end].name;
        (0..counts[*end]).map(move |output| Declared {
            name: tensor_name(name, output),
            dtype: (0, "undefined".to_owned()),
            dims: None,
        })
    });
    let outputs = outputs.collect();
    let Draft { nodes, constants, .. } = draft;
    let constants = constants.into_iter().map(|(name, own)| (name, Ok(own))).collect();
    Ok(Imported { opset: OPSET, nodes, constants, inputs, outputs })
}

/// Refuses a graph with ops that have no translation, all at once.
fn known(graph: &Graph<'_>, order: &[usize]) -> Result<(), CompileError> {
    let unknown = |index: &&usize| ops::find(&graph.nodes[**index].op).is_none();
    let mut unknown = order.iter().filter(unknown).map(|index| &graph.nodes[*index]);
    let Some(first) = unknown.next() else { return Ok(()) };
    let others: BTreeSet<&str> =
        unknown.map(|node| node.op.as_str()).filter(|op| *op != first.op).collect();
    let others: Vec<&str> = others.into_iter().collect();
    let mut what = "the op is not supported".to_owned();
    if !others.is_empty() {
        what.push_str(&format!(", nor are this graph's {}", others.join(", ")));
    }
    what.push_str("; docs/status.md lists those of TensorFlow that are");
    Err(refuse(first, what))
}

/// An input of the graph.
fn placeholder(node: &NodeDef, old: bool) -> Result<Declared, String> {
    let attributes = Attributes(node);
    attributes.check(&["shape"])?;
    let dtype = attributes.data_type("dtype")?.ok_or("attribute `dtype` is not there")?;
    let shape = attributes.shape("shape")?.filter(|shape| {
        // Without dims and from an old version: nothing is known.
        !(shape.unknown_rank || old && shape.dim.is_empty())
    });
    let dims = shape.map(|shape| {
        let dims = shape.dim.iter().map(|dim| usize::try_from(dim.size));
        dims.map(|dim| dim.map_or(Dim::Open, Dim::Known)).collect()
    });
    Ok(Declared { name: node.name.clone(), dtype: constant::type_of(dtype), dims })
}

/// Translates a node; how many results it makes.
fn one(
    graph: &Graph<'_>,
    index: usize,
    counts: &[usize],
    draft: &mut Draft,
    budget: &mut Budget,
) -> Result<usize, String> {
    let node = &graph.nodes[index];
    let attributes = Attributes(node);
    match node.op.as_str() {
        "Placeholder" => return Ok(1),
        "Const" => {
            attributes.check(&["value"])?;
            let value = attributes.tensor("value")?.ok_or("attribute `value` is not there")?;
            let own = constant::constant(value, budget)?;
            draft.constants.insert(node.name.clone(), own);
            return Ok(1);
        }
        _ => {}
    }
    let rule = ops::find(&node.op).ok_or("the op is not supported")?;
    attributes.check(rule.attributes)?;
    let mut inputs = Vec::new();
    for (at, Reference { node, output }) in graph.inputs[index].iter().enumerate() {
        let from = &graph.nodes[*node];
        if *output >= counts[*node] {
            let (name, op, count) = (&from.name, &from.op, counts[*node]);
            return Err(format!("input {at}, `{name}:{output}`: {count} result(s) of {op} here"));
        }
        inputs.push(tensor_name(&from.name, *output));
    }
    let (least, most) = rule.inputs;
    if inputs.len() < least || inputs.len() > most {
        let most = if most == usize::MAX { "more".to_owned() } else { most.to_string() };
        return Err(format!("{} inputs; expected {least} to {most}", inputs.len()));
    }
    let mut scope = Scope { attributes, inputs, draft };
    (rule.translate)(&mut scope)
}

#[cfg(test)]
mod tests;
