//! Running a program.
//!
//! A run walks over the tasks (`walk`): it takes the bytes of what a task reads and of what it
//! writes from the places that the program names, and calls the op's kernel. Where tasks are of
//! several streams and there is a team, its threads run them side by side (`streams`); all others
//! run one after the other, shared by the team. Inputs and outputs are used in the caller's memory.
//! Nothing is allocated; one model can run on several threads at once, each with an arena of its
//! own.
//!
//! Cost beside the kernels: per task a look at its places and a call; per input a comparison of
//! type and shape.
#![allow(clippy::result_large_err, reason = "shapes by value: a refused run allocates nothing")]

use std::fmt;

use executor_core::error::Code;

use crate::DataType;
use crate::aligned::is_aligned;
use crate::engine::streams::Region;
use crate::engine::walk::Memory;
use crate::program::{Layout, Om, OmError, Segment};
use crate::shape::Shape;
use crate::team::Team;
use crate::tensor::{Fault, TensorInfo, type_name};

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
    /// Of each segment of the program what several threads need, if it has several streams.
    regions: Vec<Option<Region>>,
}

impl<B: AsRef<[u8]>> Model<B> {
    /// Checks a program and makes it ready. Allocates.
    ///
    /// # Errors
    /// Whatever is wrong with the file.
    pub fn load(bytes: B) -> Result<Self, OmError> {
        Self::load_as(bytes, Layout::native())
    }

    /// As [`Model::load`], for a machine that reads weights in another layout than this one; there
    /// is a form of every kernel that reads it here.
    ///
    /// # Errors
    /// As [`Model::load`].
    pub fn load_as(bytes: B, layout: Layout) -> Result<Self, OmError> {
        let mut om = Om::open(bytes)?;
        om.choose(layout);
        let region =
            |segment: &Segment| segment.several.then(|| Region::new(om.tasks(), &segment.tasks));
        let regions = om.segments().iter().map(region).collect();
        Ok(Self { om, regions })
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
        self.run_with(inputs, outputs, arena, None, |_| {})
    }

    /// As [`Model::run`], on the threads of a team, with the same results; calls `ended` with the
    /// index of each task when it has ended, on the thread that ran it: in file order, but for
    /// tasks of several streams.
    ///
    /// # Errors
    /// As [`Model::run`].
    pub fn run_with(
        &self,
        inputs: &[Input<'_>],
        outputs: &mut [&mut [u8]],
        arena: &mut [u8],
        team: Option<&Team>,
        ended: impl FnMut(usize) + Send,
    ) -> Result<(), RunError> {
        self.check_inputs(inputs)?;
        self.check_memory(outputs, arena)?;
        let memory = Memory::new(inputs, outputs, arena);
        let ran = walk::run(&self.om, &self.regions, &memory, team, ended);
        ran.map_err(|(task, fault)| RunError::Task { task, fault })
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
}

pub(crate) mod over;
mod streams;
#[cfg(test)]
mod tests;
mod walk;
