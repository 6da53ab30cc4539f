//! Running a program.
//!
//! A run walks over the tasks: it takes the bytes of what a task reads and of what it writes from
//! the places that the program names, and calls the op's kernel. Inputs and outputs are used in the
//! caller's memory. Nothing is allocated; one model can run on several threads at once, each with
//! an arena of its own.
//!
//! Cost beside the kernels: per task a split of the arena and a call; per input a comparison of
//! type and shape.
#![allow(clippy::result_large_err, reason = "shapes by value: a refused run allocates nothing")]

use std::fmt;
use std::ops::Range;

use executor_core::error::Code;

use crate::DataType;
use crate::aligned::is_aligned;
use crate::program::{Om, OmError, Place, Task, Tensor};
use crate::shape::Shape;
use crate::tensor::{Fault, Inputs, Output, TensorInfo, type_name};

/// An input of a run: what the caller says it is, and its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// Type and shape, as the message says.
    pub info: TensorInfo,
    /// The bytes, at a multiple of 64; more than type and shape say are not looked at.
    pub bytes: &'a [u8],
}

/// Why a run did not begin, or did not end. No output is valid then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunError {
    /// Another number of inputs than the model has.
    InputCount {
        /// What the model has.
        expected: usize,
        /// What was given.
        found: usize,
    },
    /// An input has another element type.
    InputType {
        /// Index of the input.
        input: usize,
        /// What the model has.
        expected: DataType,
        /// What was given.
        found: DataType,
    },
    /// An input has another shape.
    InputShape {
        /// Index of the input.
        input: usize,
        /// What the model has.
        expected: Shape,
        /// What was given.
        found: Shape,
    },
    /// An input has fewer bytes than its type and shape say.
    InputBytes {
        /// Index of the input.
        input: usize,
        /// What type and shape say.
        expected: usize,
        /// What was given.
        found: usize,
    },
    /// An input does not begin at a multiple of 64.
    InputAddress {
        /// Index of the input.
        input: usize,
    },
    /// Another number of outputs than the model has.
    OutputCount {
        /// What the model has.
        expected: usize,
        /// What was given.
        found: usize,
    },
    /// There is too little memory for an output.
    OutputBytes {
        /// Index of the output.
        output: usize,
        /// What the output has.
        expected: usize,
        /// What was given.
        found: usize,
    },
    /// The memory of an output does not begin at a multiple of 64.
    OutputAddress {
        /// Index of the output.
        output: usize,
    },
    /// The arena is too small.
    ArenaBytes {
        /// What the program needs.
        expected: usize,
        /// What was given.
        found: usize,
    },
    /// The arena does not begin at a multiple of 64.
    ArenaAddress,
    /// A kernel refused its memory, which a checked program does not cause.
    Task {
        /// Index of the task.
        task: usize,
        /// Why.
        fault: Fault,
    },
}

impl RunError {
    /// The code that the id of this run ends with.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::Task { .. } => Code::DRV_INTERNAL,
            Self::ArenaBytes { .. } | Self::ArenaAddress => Code::INVALID_VALUE,
            _ => Code::PARAM_INVALID,
        }
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = "does not begin at a multiple of 64";
        match self {
            Self::InputCount { expected, found } => {
                write!(f, "{found} inputs; the model has {expected}")
            }
            Self::InputType { input, expected, found } => {
                let (expected, found) = (type_name(*expected), type_name(*found));
                write!(f, "input {input} is {found}; the model expects {expected}")
            }
            Self::InputShape { input, expected, found } => {
                write!(f, "input {input} is {found}; the model was compiled for {expected}")
            }
            Self::InputBytes { input, expected, found } => {
                write!(f, "input {input} has {found} bytes; expected {expected}")
            }
            Self::InputAddress { input } => write!(f, "input {input} {address}"),
            Self::OutputCount { expected, found } => {
                write!(f, "{found} outputs; the model has {expected}")
            }
            Self::OutputBytes { output, expected, found } => {
                write!(f, "{found} bytes for output {output}; expected {expected}")
            }
            Self::OutputAddress { output } => write!(f, "the memory of output {output} {address}"),
            Self::ArenaBytes { expected, found } => {
                write!(f, "an arena of {found} bytes; the program needs {expected}")
            }
            Self::ArenaAddress => write!(f, "the arena {address}"),
            Self::Task { task, fault } => write!(f, "task {task}: {fault}"),
        }
    }
}

impl std::error::Error for RunError {}

/// A loaded model.
#[derive(Debug)]
pub struct Model<B> {
    om: Om<B>,
}

impl<B: AsRef<[u8]>> Model<B> {
    /// Checks a program and makes it ready. Allocates.
    ///
    /// # Errors
    /// Whatever is wrong with the file.
    pub fn load(bytes: B) -> Result<Self, OmError> {
        Ok(Self { om: Om::open(bytes)? })
    }

    /// The program.
    #[must_use]
    pub fn program(&self) -> &Om<B> {
        &self.om
    }

    /// Bytes of working memory that a run needs, at a multiple of 64.
    #[must_use]
    pub fn arena_bytes(&self) -> usize {
        self.om.arena_bytes()
    }

    /// Type and shape of each input, in order.
    pub fn inputs(&self) -> impl ExactSizeIterator<Item = &TensorInfo> {
        self.om.inputs().iter().map(|index| &self.om.tensors()[*index].info)
    }

    /// Type and shape of each output, in order.
    pub fn outputs(&self) -> impl ExactSizeIterator<Item = &TensorInfo> {
        self.om.outputs().iter().map(|index| &self.om.tensors()[*index].info)
    }

    /// Runs the model once. `outputs` are the memory that results are written to, at multiples of
    /// 64 and at least as long as the results; `arena` is working memory. Allocates nothing.
    ///
    /// # Errors
    /// What does not fit the model; then nothing was written.
    pub fn run(
        &self,
        inputs: &[Input<'_>],
        outputs: &mut [&mut [u8]],
        arena: &mut [u8],
    ) -> Result<(), RunError> {
        self.check_inputs(inputs)?;
        self.check_memory(outputs, arena)?;
        for (index, task) in self.om.tasks().iter().enumerate() {
            if self.om.tensors()[task.output].bytes > 0 {
                self.step(task, inputs, outputs, arena)
                    .map_err(|fault| RunError::Task { task: index, fault })?;
            }
        }
        Ok(())
    }

    fn check_inputs(&self, inputs: &[Input<'_>]) -> Result<(), RunError> {
        let (expected, found) = (self.om.inputs().len(), inputs.len());
        if expected != found {
            return Err(RunError::InputCount { expected, found });
        }
        for (index, (input, own)) in inputs.iter().zip(self.inputs()).enumerate() {
            if input.info.dtype != own.dtype {
                let (expected, found) = (own.dtype, input.info.dtype);
                return Err(RunError::InputType { input: index, expected, found });
            }
            if input.info.shape != own.shape {
                let (expected, found) = (own.shape, input.info.shape);
                return Err(RunError::InputShape { input: index, expected, found });
            }
            let (expected, found) = (own.bytes(), input.bytes.len());
            if found < expected {
                return Err(RunError::InputBytes { input: index, expected, found });
            }
            if !is_aligned(input.bytes) {
                return Err(RunError::InputAddress { input: index });
            }
        }
        Ok(())
    }

    fn check_memory(&self, outputs: &[&mut [u8]], arena: &[u8]) -> Result<(), RunError> {
        let (expected, found) = (self.om.outputs().len(), outputs.len());
        if expected != found {
            return Err(RunError::OutputCount { expected, found });
        }
        for (index, (output, own)) in outputs.iter().zip(self.outputs()).enumerate() {
            let (expected, found) = (own.bytes(), output.len());
            if found < expected {
                return Err(RunError::OutputBytes { output: index, expected, found });
            }
            if !is_aligned(output) {
                return Err(RunError::OutputAddress { output: index });
            }
        }
        let (expected, found) = (self.om.arena_bytes(), arena.len());
        if found < expected {
            return Err(RunError::ArenaBytes { expected, found });
        }
        if is_aligned(arena) { Ok(()) } else { Err(RunError::ArenaAddress) }
    }

    fn step(
        &self,
        task: &Task,
        inputs: &[Input<'_>],
        outputs: &mut [&mut [u8]],
        arena: &mut [u8],
    ) -> Result<(), Fault> {
        let tensors = self.om.tensors();
        let output = &tensors[task.output];
        let in_arena = match output.place {
            Place::Arena(offset) => offset..offset + output.bytes,
            _ => 0..0,
        };
        let (pieces, own, scratch) = split(arena, in_arena, task.scratch.clone());
        let slot = match output.place {
            Place::Output(slot) => slot,
            _ => outputs.len(),
        };
        let (before, rest) = outputs.split_at_mut(slot);
        let (bytes, after) = match rest.split_first_mut() {
            Some((output, after)) => (&mut **output, after),
            None => (own, &mut [][..]),
        };
        let view = View {
            tensors,
            operands: &task.operands,
            weights: self.om.weights(),
            inputs,
            outputs: [before, after],
            pieces,
        };
        let bytes = bytes.get_mut(..output.bytes).ok_or(Fault::Memory)?;
        task.op.run(&view, &mut Output { info: &output.info, bytes, scratch })
    }
}

/// What is left of the arena, as (offset, bytes), when two places are taken out to be written.
type Pieces<'a> = [(usize, &'a [u8]); 3];

/// Takes two places that do not overlap out of the arena.
fn split(
    arena: &mut [u8],
    first: Range<usize>,
    second: Range<usize>,
) -> (Pieces<'_>, &mut [u8], &mut [u8]) {
    // An empty place that lies behind the other's begin would cut it; it can lie anywhere.
    let first = if first.is_empty() { 0..0 } else { first };
    let second = if second.is_empty() { 0..0 } else { second };
    let swap = (second.start, second.end) < (first.start, first.end);
    let (low, high) = if swap { (second, first) } else { (first, second) };
    let (before, rest) = arena.split_at_mut(low.start);
    let (low_bytes, rest) = rest.split_at_mut(low.len());
    let (between, rest) = rest.split_at_mut(high.start - low.end);
    let (high_bytes, after) = rest.split_at_mut(high.len());
    let pieces = [(0, &*before), (low.end, &*between), (high.end, &*after)];
    if swap { (pieces, high_bytes, low_bytes) } else { (pieces, low_bytes, high_bytes) }
}

/// What a task reads.
struct View<'a> {
    tensors: &'a [Tensor],
    operands: &'a [usize],
    weights: &'a [u8],
    inputs: &'a [Input<'a>],
    /// Outputs before and after the one that is written.
    outputs: [&'a [&'a mut [u8]]; 2],
    pieces: Pieces<'a>,
}

impl View<'_> {
    fn output(&self, slot: usize) -> &[u8] {
        let [before, after] = self.outputs;
        let own = before.get(slot).or_else(|| after.get(slot.checked_sub(before.len() + 1)?));
        own.map_or(&[], |own| &**own)
    }

    fn arena(&self, offset: usize) -> &[u8] {
        let piece = self
            .pieces
            .iter()
            .rev()
            .find(|(start, bytes)| *start <= offset && offset <= start + bytes.len());
        piece.and_then(|(start, bytes)| bytes.get(offset - start..)).unwrap_or_default()
    }
}

impl Inputs for View<'_> {
    fn count(&self) -> usize {
        self.operands.len()
    }

    fn info(&self, index: usize) -> &TensorInfo {
        &self.tensors[self.operands[index]].info
    }

    fn bytes(&self, index: usize) -> &[u8] {
        let tensor = &self.tensors[self.operands[index]];
        let from = match tensor.place {
            Place::Arena(offset) => self.arena(offset),
            Place::Weights(offset) => self.weights.get(offset..).unwrap_or_default(),
            Place::Input(slot) => self.inputs[slot].bytes,
            Place::Output(slot) => self.output(slot),
        };
        from.get(..tensor.bytes).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
