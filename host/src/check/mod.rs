//! Checks of a flow graph: everything that can be known before a process is forked.
//!
//! In order, each part only when the former found nothing: models, whose inputs and outputs become
//! ports (`models`), values and names (`values`), where the graph is to run here its libraries and
//! cores (`machine`), connections (`links`), then cycles and dead ends (`topology`), types at both
//! ends of every edge (`types`) and the order in which branches meet again (`order`). Function
//! names and port counts inside a library are the deployer's to check: it asks the library.

mod links;
pub(crate) mod machine;
mod models;
mod order;
mod topology;
mod types;
mod values;

use std::path::PathBuf;

use crate::error::{CheckError, Refused};
use crate::graph::{DEFAULT_DEPTH, DType, FlowGraph, NodeInput, Shape};
use crate::model::Program;

pub use values::{MAX_DEPTH, MAX_INSTANCES, MAX_NAME, MAX_PORTS, MAX_QUEUE_NAME};

/// Where messages come from. Indices are positions in the graph's lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// A graph input.
    Input(usize),
    /// An output of a node.
    Node {
        /// The node.
        node: usize,
        /// Its output port.
        output: usize,
    },
}

/// Where messages go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// An input of a node.
    Node {
        /// The node.
        node: usize,
        /// Its input port.
        input: usize,
    },
    /// A graph output.
    Output(usize),
}

/// A graph in which every check has passed.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckedFlow {
    graph: FlowGraph,
    sources: Vec<Vec<Source>>,
    output_sources: Vec<Source>,
    order: Vec<usize>,
    programs: Vec<Option<Program>>,
}

impl CheckedFlow {
    /// The graph as it was given, with the ports of its models.
    #[must_use]
    pub fn graph(&self) -> &FlowGraph {
        &self.graph
    }

    /// Nodes in an order in which producers come before consumers.
    #[must_use]
    pub fn order(&self) -> &[usize] {
        &self.order
    }

    /// Source of a target.
    ///
    /// # Panics
    /// If the graph has no such target.
    #[must_use]
    pub fn source(&self, target: Target) -> Source {
        match target {
            Target::Node { node, input } => self.sources[node][input],
            Target::Output(output) => self.output_sources[output],
        }
    }

    /// Targets of a source: node inputs in graph order, then graph outputs.
    #[must_use]
    pub fn targets(&self, source: Source) -> Vec<Target> {
        let mut targets = Vec::new();
        for (node, inputs) in self.sources.iter().enumerate() {
            for (input, from) in inputs.iter().enumerate() {
                if *from == source {
                    targets.push(Target::Node { node, input });
                }
            }
        }
        for (output, from) in self.output_sources.iter().enumerate() {
            if *from == source {
                targets.push(Target::Output(output));
            }
        }
        targets
    }

    /// Element type, shape and worst-case payload in bytes of a source's messages.
    ///
    /// # Panics
    /// If the graph has no such source.
    #[must_use]
    pub fn message(&self, source: Source) -> (DType, &Shape, u64) {
        let (dtype, shape, max_bytes) = types::declared(&self.graph, source);
        let bytes = max_bytes.or_else(|| shape.payload_bytes(dtype));
        (dtype, shape, bytes.unwrap_or(0))
    }

    /// `input`, or `node.output`: a source as a graph file writes it.
    #[must_use]
    pub fn source_name(&self, source: Source) -> String {
        source_name(&self.graph, source)
    }

    /// `node.input`, or a graph output's name.
    #[must_use]
    pub fn target_name(&self, target: Target) -> String {
        match target {
            Target::Output(output) => self.graph.outputs.name(output).to_owned(),
            Target::Node { node, input } => {
                let inputs = &self.graph.nodes.item(node).inputs;
                format!("{}.{}", self.graph.nodes.name(node), inputs.name(input))
            }
        }
    }

    /// Depth of each queue in front of a target.
    #[must_use]
    pub fn depth(&self, target: Target) -> u32 {
        match target {
            Target::Output(output) => self.graph.outputs.item(output).depth,
            Target::Node { node, input } => {
                let port: &NodeInput = self.graph.nodes.item(node).inputs.item(input);
                port.depth.unwrap_or_else(|| match self.sources[node][input] {
                    Source::Input(input) => self.graph.inputs.item(input).depth,
                    Source::Node { .. } => DEFAULT_DEPTH,
                })
            }
        }
    }

    /// A node's library file; of a node with a project only its name.
    #[must_use]
    pub fn library(&self, node: usize) -> PathBuf {
        let node = self.graph.nodes.item(node);
        match node.project {
            Some(_) => node.library.clone(),
            None => self.graph.library_path(&node.library),
        }
    }

    /// A node's model file.
    #[must_use]
    pub fn model(&self, node: usize) -> Option<PathBuf> {
        self.graph.nodes.item(node).model.as_deref().map(|path| self.graph.library_path(path))
    }

    /// The program of a node's model; also `None` for one that was not there.
    #[must_use]
    pub fn program(&self, node: usize) -> Option<&Program> {
        self.programs.get(node)?.as_ref()
    }

    /// Folder of a node's project.
    #[must_use]
    pub fn project(&self, node: usize) -> Option<PathBuf> {
        self.graph.nodes.item(node).project.as_deref().map(|path| self.graph.library_path(path))
    }
}

fn source_name(graph: &FlowGraph, source: Source) -> String {
    match source {
        Source::Input(input) => graph.inputs.name(input).to_owned(),
        Source::Node { node, output } => {
            let outputs = &graph.nodes.item(node).outputs;
            format!("{}.{}", graph.nodes.name(node), outputs.name(output))
        }
    }
}

/// Name of one process of a node: the node's, with `@instance` when it has several.
#[must_use]
pub fn instance_label(node: &str, instance: u32, instance_num: u32) -> String {
    if instance_num == 1 { node.to_owned() } else { format!("{node}@{instance}") }
}

pub(crate) fn check(mut graph: FlowGraph, here: bool) -> Result<CheckedFlow, Refused> {
    let mut errors = Vec::new();
    let programs = models::complete(&mut graph, here, &mut errors);
    stop_if_any(&mut errors)?;
    values::check(&graph, &mut errors);
    if here {
        values::check_libraries(&graph, &mut errors);
        values::check_files(&graph, &mut errors);
        machine::check(&graph, &mut errors);
    }
    let linked = links::resolve(&graph, &mut errors);
    stop_if_any(&mut errors)?;
    let (sources, output_sources) = linked;
    let order = match topology::sort(&graph, &sources) {
        Ok(order) => order,
        Err(error) => return Err(Refused { errors: vec![error] }),
    };
    let flow = CheckedFlow { graph, sources, output_sources, order, programs };
    topology::check_dead_ends(&flow, &mut errors);
    types::check(&flow, &mut errors);
    order::check(&flow, &mut errors);
    stop_if_any(&mut errors)?;
    Ok(flow)
}

fn stop_if_any(errors: &mut Vec<CheckError>) -> Result<(), Refused> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(Refused { errors: once(std::mem::take(errors)) })
}

/// A file that several nodes miss is one error, which names them.
fn once(errors: Vec<CheckError>) -> Vec<CheckError> {
    let mut own: Vec<CheckError> = Vec::new();
    let mut also: Vec<Vec<String>> = Vec::new();
    for error in errors {
        let same = own.iter().position(|known| is_same_file(known, &error));
        match same.and_then(|index| also.get_mut(index)) {
            Some(also) => also.extend(error.problem().place.node.as_deref().map(in_ticks)),
            None => {
                own.push(error);
                also.push(Vec::new());
            }
        }
    }
    for (error, also) in own.iter_mut().zip(also) {
        if !also.is_empty() {
            let problem = error.problem_mut();
            let nodes = if also.len() == 1 { "node" } else { "nodes" };
            problem.found = format!("{} (also of {nodes} {})", problem.found, also.join(", "));
        }
    }
    own
}

fn in_ticks(name: &str) -> String {
    format!("`{name}`")
}

/// Whether both say the same of one file of different nodes.
fn is_same_file(one: &CheckError, other: &CheckError) -> bool {
    use CheckError::{Library, Model, Project, Setting};
    let kind = matches!(
        (one, other),
        (Library(_), Library(_)) | (Project(_), Project(_)) | (Model(_), Model(_))
    );
    let (a, b) = (one.problem(), other.problem());
    let attribute = matches!((one, other), (Setting(_), Setting(_)))
        && a.place.port.as_deref().is_some_and(|port| port.starts_with("`attrs."));
    (kind || attribute)
        && a.place.node != b.place.node
        && (&a.place.port, &a.found, &a.expected, &a.hint)
            == (&b.place.port, &b.found, &b.expected, &b.hint)
}
