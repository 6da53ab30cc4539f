//! The flow graph: graph inputs, nodes that run user functions or models, graph outputs, session
//! settings.
//!
//! Plain data with a builder on top, and the serde model of the graph file at the same time
//! (`graph_file`). Nothing is checked while building; [`FlowGraph::check`] looks at all of it and
//! reports everything it finds.

mod attr;
mod dtype;
mod named;
mod node;
mod port;
mod session;
mod shape;
mod tensor_desc;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use attr::AttrValue;
pub use dtype::DType;
pub use named::Named;
pub use node::{
    Align, AlignTime, FlowNode, Forwarding, Priority, Restart, RestartPolicy, WritableInputs,
};
pub use port::{DEFAULT_DEPTH, GraphInput, GraphOutput, NodeInput, NodeOutput, QueuePolicy};
pub use session::SessionSettings;
pub use shape::Shape;
pub use tensor_desc::TensorDesc;

use crate::check::CheckedFlow;
use crate::error::{Place, Refused};

/// A graph of user functions and models between graph inputs and graph outputs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowGraph {
    /// Name of the flow, for logs and tools.
    pub name: String,
    /// What the session feeds, in feed order.
    #[serde(default)]
    pub inputs: Named<GraphInput>,
    /// The functions and models.
    #[serde(default)]
    pub nodes: Named<FlowNode>,
    /// What the session fetches, in fetch order.
    #[serde(default)]
    pub outputs: Named<GraphOutput>,
    /// Settings of the session that runs the graph.
    #[serde(default)]
    pub session: SessionSettings,
    /// The graph file, if the graph came from one. Library paths are relative to its folder.
    #[serde(skip)]
    pub origin: Option<PathBuf>,
    /// Compile models anew, without looking at or adding to the cache.
    #[serde(skip)]
    pub no_cache: bool,
}

impl FlowGraph {
    /// An empty graph.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            inputs: Named::default(),
            nodes: Named::default(),
            outputs: Named::default(),
            session: SessionSettings::default(),
            origin: None,
            no_cache: false,
        }
    }

    /// Adds a graph input.
    #[must_use]
    pub fn input(mut self, name: impl Into<String>, input: GraphInput) -> Self {
        self.inputs.push(name, input);
        self
    }

    /// Adds a node. Nodes may be added in any order.
    #[must_use]
    pub fn node(mut self, name: impl Into<String>, node: FlowNode) -> Self {
        self.nodes.push(name, node);
        self
    }

    /// Adds a graph output with its source, `"node.output"`, or a [`GraphOutput`].
    #[must_use]
    pub fn output(mut self, name: impl Into<String>, output: impl Into<GraphOutput>) -> Self {
        self.outputs.push(name, output.into());
        self
    }

    /// Replaces the session settings.
    #[must_use]
    pub fn session(mut self, session: SessionSettings) -> Self {
        self.session = session;
        self
    }

    /// Checks everything, library files and this machine's cores included.
    ///
    /// # Errors
    /// [`Refused`] with everything found.
    pub fn check(self) -> Result<CheckedFlow, Refused> {
        crate::check::check(self, true)
    }

    /// Checks everything but whether this machine has the library files and cores, for tools that
    /// only look.
    ///
    /// # Errors
    /// [`Refused`] with everything found.
    pub fn check_structure(self) -> Result<CheckedFlow, Refused> {
        crate::check::check(self, false)
    }

    /// The place of a problem that concerns the whole graph.
    #[must_use]
    pub fn place(&self) -> Place {
        match &self.origin {
            Some(path) => Place::graph(&path.display().to_string()),
            None => Place::graph(&format!("graph `{}`", self.name)),
        }
    }

    /// Where a library path of this graph points: relative paths start at the graph file's folder.
    #[must_use]
    pub fn library_path(&self, library: &Path) -> PathBuf {
        match self.origin.as_deref().and_then(Path::parent) {
            Some(folder) => folder.join(library),
            None => library.to_path_buf(),
        }
    }
}

/// For `skip_serializing_if`: a graph file shows only what differs from the defaults.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
