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
use crate::program::{Layout, Om, OmError, Place, Task, Tensor};
use crate::shape::Shape;
use crate::team::Team;
use crate::tensor::{Fault, Inputs, OUTPUTS_MAX, Output, Part, TensorInfo, type_name};

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
        Ok(Self { om })
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
    /// index of each task when it has ended.
    ///
    /// # Errors
    /// As [`Model::run`].
    pub fn run_with(
        &self,
        inputs: &[Input<'_>],
        outputs: &mut [&mut [u8]],
        arena: &mut [u8],
        team: Option<&Team>,
        mut ended: impl FnMut(usize),
    ) -> Result<(), RunError> {
        self.check_inputs(inputs)?;
        self.check_memory(outputs, arena)?;
        for (index, task) in self.om.tasks().iter().enumerate() {
            let outcome = match task.outputs[..] {
                [output] if self.om.tensors()[output].bytes == 0 => Ok(()),
                [_] => self.step::<1, 3>(index, inputs, outputs, arena, team),
                _ => self
                    .step::<OUTPUTS_MAX, { OUTPUTS_MAX + 2 }>(index, inputs, outputs, arena, team),
            };
            outcome.map_err(|fault| RunError::Task { task: index, fault })?;
            ended(index);
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

    /// Runs a task with at most `N` outputs. `CUTS` is two more: one for its scratch memory, one
    /// for what lies behind all of them.
    fn step<'o, const N: usize, const CUTS: usize>(
        &self,
        index: usize,
        inputs: &[Input<'_>],
        outputs: &mut [&'o mut [u8]],
        arena: &mut [u8],
        team: Option<&Team>,
    ) -> Result<(), Fault> {
        let (tensors, task) = (self.om.tensors(), &self.om.tasks()[index]);
        let mut cuts = [const { 0..0 }; CUTS];
        for (cut, output) in cuts.iter_mut().zip(&task.outputs) {
            if let Place::Arena(offset) = tensors[*output].place {
                *cut = offset..offset + tensors[*output].bytes;
            }
        }
        cuts[N] = task.scratch.clone();
        let (pieces, mut own) = split(arena, &cuts);
        let scratch = std::mem::take(&mut own[N]);
        // Outputs in the caller's memory are lent for this task, and given back.
        let mut lent: [&'o mut [u8]; N] = std::array::from_fn(|_| &mut [][..]);
        for (lent, output) in lent.iter_mut().zip(&task.outputs) {
            if let Place::Output(slot) = tensors[*output].place {
                *lent = std::mem::take(&mut outputs[slot]);
            }
        }
        let (weights, fours) = (self.om.weights(), self.om.fours(index));
        let (operands, pieces) = (&task.operands, &pieces);
        let view = View { tensors, operands, weights, fours, inputs, outputs, pieces };
        let outcome = call(task, &view, &mut own, &mut lent, scratch, team);
        for (lent, output) in lent.into_iter().zip(&task.outputs) {
            if let Place::Output(slot) = tensors[*output].place {
                outputs[slot] = lent;
            }
        }
        outcome
    }
}

/// Calls the op's kernel with the memory of its outputs: cut out of the arena, or lent.
fn call<const N: usize>(
    task: &Task,
    view: &View<'_>,
    own: &mut [&mut [u8]],
    lent: &mut [&mut [u8]; N],
    scratch: &mut [u8],
    team: Option<&Team>,
) -> Result<(), Fault> {
    let mut parts = [const { None }; N];
    let memory = own.iter_mut().zip(lent);
    for ((part, (own, lent)), output) in parts.iter_mut().zip(memory).zip(&task.outputs) {
        let tensor = &view.tensors[*output];
        let place: &mut [u8] = if matches!(tensor.place, Place::Output(_)) { lent } else { own };
        let bytes = place.get_mut(..tensor.bytes).ok_or(Fault::Memory)?;
        *part = Some(Part { info: &tensor.info, bytes });
    }
    let (first, more) = parts.split_first_mut().ok_or(Fault::Memory)?;
    let Part { info, bytes } = first.take().ok_or(Fault::Memory)?;
    if let Some(operand) = task.over {
        return over::run(&*task.op, operand, view, (info, bytes), team);
    }
    task.op.run(view, &mut Output { info, bytes, scratch, more, team })
}

/// What is left of an arena, as (offset, bytes), and the places that were taken out.
type Cut<'a, const CUTS: usize> = ([(usize, &'a [u8]); CUTS], [&'a mut [u8]; CUTS]);

/// Takes places that do not overlap out of the arena, to be written. The last of `cuts` is empty.
fn split<'a, const CUTS: usize>(arena: &'a mut [u8], cuts: &[Range<usize>; CUTS]) -> Cut<'a, CUTS> {
    let mut order: [usize; CUTS] = std::array::from_fn(|index| index);
    order.sort_unstable_by_key(|index| cuts[*index].start);
    let mut pieces = [(0, &[][..]); CUTS];
    let mut own: [&mut [u8]; CUTS] = std::array::from_fn(|_| &mut [][..]);
    let (mut at, mut rest) = (0, arena);
    // An empty place that lies behind another's begin would cut it; it can lie anywhere.
    for index in order.into_iter().filter(|index| !cuts[*index].is_empty()) {
        let cut = &cuts[index];
        let (piece, tail) = rest.split_at_mut(cut.start - at);
        let (taken, tail) = tail.split_at_mut(cut.len());
        pieces[index] = (at, &*piece);
        own[index] = taken;
        (at, rest) = (cut.end, tail);
    }
    pieces[CUTS - 1] = (at, &*rest);
    (pieces, own)
}

/// What a task reads.
struct View<'a> {
    tensors: &'a [Tensor],
    operands: &'a [usize],
    weights: &'a [u8],
    fours: Option<&'a [u8]>,
    inputs: &'a [Input<'a>],
    /// Without those that are written, which are empty meanwhile.
    outputs: &'a [&'a mut [u8]],
    /// What can be read of the arena, as (offset, bytes).
    pieces: &'a [(usize, &'a [u8])],
}

impl View<'_> {
    fn arena(&self, offset: usize) -> &[u8] {
        let holds =
            |(start, bytes): &&(usize, &[u8])| (*start..start + bytes.len()).contains(&offset);
        let piece = self.pieces.iter().find(holds);
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
            Place::Output(slot) => self.outputs[slot],
        };
        from.get(..tensor.bytes).unwrap_or_default()
    }

    fn fours(&self) -> Option<&[u8]> {
        self.fours
    }
}

pub(crate) mod over;
#[cfg(test)]
mod tests;
