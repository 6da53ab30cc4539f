//! Why a model is not compiled.

use std::fmt;

use npu::ops::{OPSET_MAX, OpError, TABLE};
use npu::program::OmError;

/// Why a model is not compiled. Texts name the place, what was found and what is expected.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CompileError {
    /// The file is no ONNX model.
    NotOnnx(String),
    /// The file is no frozen graph of TensorFlow.
    NotTensorFlow(String),
    /// The model as a whole: operator sets, graph, outputs.
    Model(String),
    /// An input of the model: its type, or dims that are not known.
    Input {
        /// Its name.
        name: String,
        /// What is wrong, and what to do.
        what: String,
    },
    /// A constant in the file.
    Initializer {
        /// Its name.
        name: String,
        /// What is wrong, and what to do.
        what: String,
    },
    /// A node's op is not in the op table.
    UnknownOp {
        /// The node.
        node: String,
        /// The op, with its domain if it is not ONNX's own.
        op: String,
        /// Version of the operator set.
        opset: u32,
        /// Other ops of the model that are not in the table.
        others: Vec<String>,
    },
    /// A node is refused by its op.
    Op {
        /// The node.
        node: String,
        /// The op.
        op: &'static str,
        /// Version of the operator set.
        opset: u32,
        /// Why.
        error: OpError,
    },
    /// A node's connections.
    Node {
        /// The node.
        node: String,
        /// The op.
        op: String,
        /// What is wrong.
        what: String,
    },
    /// Shapes that do not go together for the dims that were given, and the dims that fit.
    Dims {
        /// What was refused.
        error: Box<CompileError>,
        /// Which dims fit.
        fits: String,
    },
    /// The model has more of something than a program can count.
    TooLarge,
    /// The program that was written is refused: a fault of the compiler.
    Program(OmError),
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotOnnx(what) => write!(f, "not an ONNX model: {what}"),
            Self::NotTensorFlow(what) => write!(f, "not a frozen TensorFlow graph: {what}"),
            Self::Model(what) => write!(f, "model: {what}"),
            Self::Input { name, what } => write!(f, "input `{name}`: {what}"),
            Self::Initializer { name, what } => write!(f, "initializer `{name}`: {what}"),
            Self::UnknownOp { node, op, opset, others } => {
                write!(f, "node {node} ({op}, opset {opset}): the op is not supported")?;
                if !others.is_empty() {
                    write!(f, ", nor are this model's {}", others.join(", "))?;
                }
                let count = TABLE.len();
                write!(f, "; docs/status.md lists those that are: {count}, opset 1 to {OPSET_MAX}")
            }
            Self::Op { node, op, opset, error } => {
                write!(f, "node {node} ({op}, opset {opset}): {error}")
            }
            Self::Node { node, op, what } => write!(f, "node {node} ({op}): {what}"),
            Self::Dims { error, fits } => write!(f, "{error}; this model fits where {fits}"),
            Self::TooLarge => f.write_str("model: too large for a program"),
            Self::Program(error) => {
                write!(f, "the compiler wrote a program that is refused; report this: {error}")
            }
        }
    }
}

impl std::error::Error for CompileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Op { error, .. } => Some(error),
            Self::Program(error) => Some(error),
            Self::Dims { error, .. } => Some(&**error),
            _ => None,
        }
    }
}
