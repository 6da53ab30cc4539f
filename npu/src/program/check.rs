//! Checks of a program's values against one another: invariants I2 to I4 of the format.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::ops;
use crate::program::open::{Om, Task, Tensor};
use crate::program::{OmError, Place, Section};
use crate::tensor::TensorInfo;

/// Inputs and outputs are tensors with these places, and tensors with these places have their size.
pub(super) fn io<B: AsRef<[u8]>>(om: &Om<B>) -> Result<(), OmError> {
    let places = (0..om.inputs().len()).map(Place::Input);
    let places = places.chain((0..om.outputs().len()).map(Place::Output));
    let bound = om.inputs().iter().chain(om.outputs());
    for (entry, (index, place)) in bound.zip(places).enumerate() {
        let refuse = |what: String| Err(OmError::value(Section::Io, entry, what));
        match om.tensors().get(*index) {
            Some(tensor) if tensor.place == place => {}
            Some(tensor) => return refuse(format!("lies in {}; expected {place}", tensor.place)),
            None => return refuse(format!("tensor {index}; there are {}", om.tensors().len())),
        }
    }
    for (index, tensor) in om.tensors().iter().enumerate() {
        let bound = match tensor.place {
            Place::Input(slot) => om.inputs()[slot],
            Place::Output(slot) => om.outputs()[slot],
            Place::Arena(_) | Place::Weights(_) => continue,
        };
        let expected = om.tensors()[bound].bytes;
        if tensor.bytes != expected {
            let what = format!("{} bytes in {}, which has {expected}", tensor.bytes, tensor.place);
            return Err(OmError::value(Section::Tensors, index, what));
        }
    }
    Ok(())
}

/// Every task fits its op, and reads only what was written. Each is left with the scratch memory
/// that its op needs: a file may have more, since another build's kernels may need less.
pub(super) fn tasks<B: AsRef<[u8]>>(om: &mut Om<B>) -> Result<(), OmError> {
    let mut memory = Memory { arena: BTreeMap::new(), outputs: vec![false; om.outputs().len()] };
    for index in 0..om.tasks().len() {
        let needed = shapes(om, index, &om.tasks()[index])?;
        om.trim_scratch(index, needed);
        let over = over(om, &om.tasks()[index]);
        om.lay_over(index, over);
        let refuse = |what: String| OmError::value(Section::Tasks, index, what);
        memory.step(om, &om.tasks()[index]).map_err(refuse)?;
    }
    let open = memory
        .outputs
        .iter()
        .enumerate()
        .position(|(slot, written)| !written && om.tensors()[om.outputs()[slot]].bytes > 0);
    match open {
        None => Ok(()),
        Some(slot) => {
            let what = "the output is written by no task".to_owned();
            Err(OmError::value(Section::Io, om.inputs().len() + slot, what))
        }
    }
}

/// I2; answers how much scratch memory the op needs.
fn shapes<B: AsRef<[u8]>>(om: &Om<B>, index: usize, task: &Task) -> Result<usize, OmError> {
    let inputs: Vec<TensorInfo> =
        task.operands.iter().map(|operand| om.tensors()[*operand].info).collect();
    let inferred = ops::infer(&*task.op, &inputs).map_err(|error| OmError::Op {
        task: index,
        name: om.task_name(task).to_owned(),
        op: task.op.line().name,
        error,
    })?;
    let refuse = |what: String| Err(OmError::value(Section::Tasks, index, what));
    let outputs = task.outputs.iter().map(|output| &om.tensors()[*output].info);
    if outputs.len() != inferred.len() {
        let found = outputs.len();
        return refuse(format!("{found} outputs; the op makes {}", inferred.len()));
    }
    for (output, inferred) in outputs.zip(&inferred) {
        if inferred != output {
            return refuse(format!("the output is {output}; the op makes {inferred}"));
        }
    }
    let needed = task.op.scratch_bytes(&inputs, &inferred[0]);
    if task.scratch.len() < needed {
        let found = task.scratch.len();
        return refuse(format!("{found} bytes of scratch memory; the op needs {needed}"));
    }
    Ok(needed)
}

/// The operand that a task's only output may lie over, and does.
fn over<B: AsRef<[u8]>>(om: &Om<B>, task: &Task) -> Option<usize> {
    let &[output] = &task.outputs[..] else { return None };
    let (tensors, output) = (om.tensors(), &om.tensors()[output]);
    if output.bytes == 0 {
        return None;
    }
    let mut operands = task.operands.iter();
    let operand = operands.position(|operand| tensors[*operand].place == output.place)?;
    let inputs: Vec<TensorInfo> =
        task.operands.iter().map(|operand| tensors[*operand].info).collect();
    task.op.may_lie_over(operand, &inputs, &output.info).then_some(operand)
}

/// What was written so far.
struct Memory {
    /// Places in the arena that hold one tensor each: begin and end. None overlap.
    arena: BTreeMap<usize, usize>,
    outputs: Vec<bool>,
}

impl Memory {
    /// I3 and I4, for one task.
    fn step<B: AsRef<[u8]>>(&mut self, om: &Om<B>, task: &Task) -> Result<(), String> {
        let outputs = || task.outputs.iter().map(|output| &om.tensors()[*output]);
        for (index, operand) in task.operands.iter().enumerate() {
            let tensor = &om.tensors()[*operand];
            // Whoever reads the shape only reads no byte; an empty tensor has none.
            if tensor.bytes > 0 && !task.op.reads_shape_only() {
                self.read(tensor)?;
            }
            if task.over != Some(index) && outputs().any(|output| overlaps(tensor, output)) {
                return Err(format!("reads and writes {}", tensor.place));
            }
            if let Some(place) = arena(tensor).filter(|place| meet(place, &task.scratch)) {
                return Err(format!("reads {place:?}, scratch memory {:?}", task.scratch));
            }
        }
        self.forget(&task.scratch);
        for (index, output) in outputs().enumerate() {
            if outputs().take(index).any(|other| overlaps(other, output)) {
                return Err(format!("writes {} twice", output.place));
            }
            self.write(output, &task.scratch)?;
        }
        Ok(())
    }

    fn write(&mut self, output: &Tensor, scratch: &Range<usize>) -> Result<(), String> {
        match output.place {
            Place::Arena(_) => {
                let place = arena(output).unwrap_or_default();
                if meet(&place, scratch) {
                    return Err(format!("writes {place:?}, scratch memory {scratch:?}"));
                }
                self.forget(&place);
                if !place.is_empty() {
                    self.arena.insert(place.start, place.end);
                }
            }
            Place::Output(slot) => self.outputs[slot] = true,
            place => return Err(format!("writes {place}")),
        }
        Ok(())
    }

    fn read(&self, tensor: &Tensor) -> Result<(), String> {
        let written = match tensor.place {
            Place::Arena(offset) => self.arena.get(&offset) == Some(&(offset + tensor.bytes)),
            Place::Output(slot) => self.outputs[slot],
            Place::Weights(_) | Place::Input(_) => true,
        };
        if written {
            return Ok(());
        }
        Err(format!("reads {} bytes of {}, which hold no such tensor", tensor.bytes, tensor.place))
    }

    /// Whatever lies in `place` is written over.
    fn forget(&mut self, place: &Range<usize>) {
        while let Some((start, _)) =
            self.arena.range(..place.end).next_back().filter(|(_, end)| **end > place.start)
        {
            let start = *start;
            self.arena.remove(&start);
        }
    }
}

/// Bytes of the arena that a tensor has.
fn arena(tensor: &Tensor) -> Option<Range<usize>> {
    match tensor.place {
        Place::Arena(offset) => Some(offset..offset + tensor.bytes),
        _ => None,
    }
}

fn meet(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end && !a.is_empty() && !b.is_empty()
}

fn overlaps(a: &Tensor, b: &Tensor) -> bool {
    match (arena(a), arena(b)) {
        (Some(a), Some(b)) => meet(&a, &b),
        _ => a.place == b.place,
    }
}
