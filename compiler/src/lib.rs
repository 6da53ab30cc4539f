//! The compiler: an ONNX model or a frozen TensorFlow graph in, a program (OM) out.
//!
//! Stages are types, and each function of the way takes the one before:
//!
//! ```text
//!                            ╭──symbols──▶ Symbols: shapes before dims have numbers
//!  bytes ──import──▶ Imported ──type_graph──▶ Typed ──optimise──▶ Typed ──plan──▶ Planned ──▶ OM
//!          names,              types, shapes,         fused,               offsets in
//!          attributes,         constants folded       in blocks,           the arena
//!          no copy of weights                         nothing unused
//! ```
//!
//! What a node means is in the op table (`npu::ops`), not here: a node is imported, inferred and
//! folded through the same line of the table that runs it. Same model, same options, same bytes.
#![deny(unsafe_code)]

mod arena;
mod attention;
mod chains;
mod dense;
mod error;
mod fold;
mod fuse;
mod import;
mod layout;
mod look;
mod onnx;
mod patterns;
mod plan;
mod quantise;
mod residual;
mod story;
mod streams;
#[cfg(test)]
mod sweeps;
mod symbols;
mod tensorflow;
#[cfg(test)]
mod testing;
mod tidy;
mod transposed;
mod transposes;
mod typed;
mod whole;
mod winograd;

use bytes::Bytes;
use npu::aligned::AlignedBytes;
use npu::inspect::{Report, inspect};
use npu::program::{Layout, Om, with_layouts};

pub use error::CompileError;
pub use import::{Dim, Imported, external_files, import, import_with};
pub use plan::{Planned, plan};
pub use story::Fate;
pub use symbols::{Condition, Expr, Fits, Symbols, symbols};
pub use typed::{Typed, type_graph};

/// Names the sources of this compiler and of the kernels it packs weights for, and with them the
/// programs it makes: whatever keeps one keeps it under this name.
pub const VERSION: &str = env!("DFLOW_COMPILER_SOURCES");

/// What a model is compiled for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Dims of inputs by name. Needed for an input with dims that the model leaves open; for others
    /// it must agree with the model.
    pub input_shapes: Vec<(String, Vec<usize>)>,
    /// Files beside the model that its tensors lie in: name, as [`external_files`] has it, and
    /// bytes.
    pub files: Vec<(String, Bytes)>,
    /// Layouts that weights are packed in besides the one that every machine reads.
    pub layouts: Vec<Layout>,
    /// Streams that tasks are put on, at most: as many as threads that will run them. 0 is one.
    pub streams: usize,
}

/// A compiled model.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The program, in the OM format.
    pub om: AlignedBytes,
    /// What is in it.
    pub report: Report,
    /// What was strange in the model and did no harm.
    pub warnings: Vec<String>,
    /// Shapes in symbols, of a model that leaves dims open.
    pub symbols: Option<Symbols>,
    /// What became of each node, in the order of the model.
    pub fates: Vec<Fate>,
}

/// Compiles an ONNX model or a frozen TensorFlow graph. Weights are taken from `model` without a
/// copy until they are written into the program; give it a mapping by `Bytes::from_owner`.
///
/// # Errors
/// What is wrong with the model, not supported, or not known: [`CompileError`].
pub fn compile(model: Bytes, options: &Options) -> Result<Compiled, CompileError> {
    let imported = import_with(model, &options.files)?;
    let symbols = imported.is_open().then(|| symbols(&imported));
    let typed = type_graph(imported, options).map_err(|error| match &symbols {
        Some(symbols) => symbols.explain(error, options),
        None => error,
    })?;
    let typed = typed.optimise();
    let planned = plan(&typed, options.streams);
    let mut om = planned.write()?;
    if !options.layouts.is_empty() {
        let plain = Om::open(&om[..]).map_err(CompileError::Program)?;
        om = with_layouts(&plain, &options.layouts).ok_or(CompileError::TooLarge)?;
    }
    let opened = Om::open(&om[..]).map_err(CompileError::Program)?;
    let report = inspect(&opened);
    let fates = planned.fates(|task| {
        let task = report.tasks.get(task).filter(|_| options.layouts.contains(&Layout::Fours))?;
        match task.op.as_str() {
            _ if task.fours_bytes > 0 => Some("weights for vnni, too"),
            "QuantisedConv" | "QuantisedDense" => {
                Some("weights not for vnni: less their zeros, some have more than eight bits")
            }
            _ => None,
        }
    });
    Ok(Compiled { report, warnings: typed.into_warnings(), om, symbols, fates })
}
