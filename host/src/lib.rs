//! dflow's host side: describe a flow graph, check it, plan it.
//!
//! Stages are types, each made from the former: [`FlowGraph`] → [`CheckedFlow`] →
//! [`DeployPlan`].
//! Nothing here starts a process or touches shared memory; a plan is plain data that a deployer
//! carries out. Errors have one enum per stage and say file, node, port, found, expected and what
//! to do (see [`error`]).
//!
//! ```
//! use dflow::{DType, FlowGraph, FlowNode, GraphInput, Limits, NodeOutput};
//!
//! let graph = FlowGraph::new("pages")
//!     .input("file", GraphInput::new(DType::Uint8, [-1]).max_bytes(1 << 20))
//!     .node(
//!         "decode",
//!         FlowNode::udf("libpages.so", "decode")
//!             .input("file", "file")
//!             .output("image", NodeOutput::new(DType::Uint8, [2339, 1654]))
//!             .instances(2),
//!     )
//!     .output("image", "decode.image");
//! let plan = graph.check_structure()?.plan(&Limits::default())?;
//! assert_eq!(plan.executors.len(), 2);
//! # Ok::<(), dflow::Error>(())
//! ```
#![deny(unsafe_code)]
// They panic when nobody reads: `notice` and `cli` write.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod build;
mod cache;
pub mod check;
pub mod cli;
pub mod deploy;
pub mod error;
pub mod graph;
pub mod graph_file;
mod hash;
pub mod memory_config;
pub mod model;
pub mod notice;
pub mod plan;
pub mod render;
pub mod session;
pub mod tools;

pub use check::CheckedFlow;
pub use deploy::DeployOptions;
pub use error::{CheckError, DeployError, Error, PlanError, ReadError, Refused};
pub use graph::{
    Align, AlignTime, AttrValue, DType, FlowGraph, FlowNode, Forwarding, GraphInput, GraphOutput,
    Named, NodeInput, NodeOutput, Priority, QueuePolicy, Restart, RestartPolicy, SessionSettings,
    Shape, TensorDesc, WritableInputs,
};
pub use plan::{DeployPlan, Limits};
pub use sys::clock::MonoTime;

pub use session::{Event, Failure, Feed, FeedError, FetchError, Output, Session, Tensor};
