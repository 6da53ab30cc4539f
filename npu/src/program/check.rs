//! Checks of a program's values against one another: invariants I2 to I5 of the format.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::ops;
use crate::program::open::{Om, Task, Tensor};
use crate::program::order::Order;
use crate::program::{OmError, Place, STREAMS_MAX, Section};
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
pub(super) fn tasks<B: AsRef<[u8]>>(om: &mut Om<B>, order: &Order) -> Result<(), OmError> {
    let outputs = vec![None; om.outputs().len()];
    let mut memory = Memory { order, arena: BTreeMap::new(), outputs };
    for index in 0..om.tasks().len() {
        let needed = shapes(om, index, &om.tasks()[index])?;
        om.trim_scratch(index, needed);
        let over = over(om, &om.tasks()[index]);
        om.lay_over(index, over);
        memory.step(om, index).map_err(|refused| {
            let what = match refused {
                Refused::Because(what) => what,
                Refused::Unordered(what, other) => {
                    let name = om.task_name(&om.tasks()[other]);
                    format!("{what}; no event orders this and task {other} `{name}`")
                }
            };
            OmError::value(Section::Tasks, index, what)
        })?;
    }
    let outputs = memory.outputs.iter().enumerate();
    let mut open = outputs.filter(|(_, written)| written.is_none()).map(|(slot, _)| slot);
    match open.find(|slot| om.tensors()[om.outputs()[*slot]].bytes > 0) {
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

/// Why a task is refused.
enum Refused {
    Because(String),
    /// What it does, and the task that may do something there meanwhile.
    Unordered(String, usize),
}

impl From<String> for Refused {
    fn from(what: String) -> Self {
        Self::Because(what)
    }
}

/// What was read and written so far.
struct Memory<'a> {
    order: &'a Order,
    /// Places in the arena that were written, by their begin. None overlap.
    arena: BTreeMap<usize, Piece>,
    outputs: Vec<Option<Piece>>,
}

/// Bytes that the same tasks have read and written.
#[derive(Clone, Copy)]
struct Piece {
    end: usize,
    /// They are one tensor.
    whole: bool,
    /// The task that wrote them last.
    writer: usize,
    /// Of each stream, one more than the number of the last task that read or wrote them; what is
    /// before the last write is before whatever comes after that.
    used: [u32; STREAMS_MAX],
}

impl Memory<'_> {
    /// I3, I4 and I5, for one task.
    fn step<B: AsRef<[u8]>>(&mut self, om: &Om<B>, index: usize) -> Result<(), Refused> {
        let task = &om.tasks()[index];
        let outputs = || task.outputs.iter().map(|output| &om.tensors()[*output]);
        for (operand, tensor) in task.operands.iter().enumerate() {
            let tensor = &om.tensors()[*tensor];
            // Whoever reads the shape only reads no byte; an empty tensor has none.
            if tensor.bytes > 0 && !task.op.reads_shape_only() {
                self.read(tensor, index)?;
            }
            if task.over != Some(operand) && outputs().any(|output| overlaps(tensor, output)) {
                return Err(format!("reads and writes {}", tensor.place).into());
            }
            if let Some(place) = arena(tensor).filter(|place| meet(place, &task.scratch)) {
                return Err(format!("reads {place:?}, scratch memory {:?}", task.scratch).into());
            }
        }
        self.put(&task.scratch, false, index)?;
        for (at, output) in outputs().enumerate() {
            if outputs().take(at).any(|other| overlaps(other, output)) {
                return Err(format!("writes {} twice", output.place).into());
            }
            self.write(output, &task.scratch, index)?;
        }
        Ok(())
    }

    fn write(
        &mut self,
        output: &Tensor,
        scratch: &Range<usize>,
        task: usize,
    ) -> Result<(), Refused> {
        match output.place {
            Place::Arena(_) => {
                let place = arena(output).unwrap_or_default();
                if meet(&place, scratch) {
                    return Err(format!("writes {place:?}, scratch memory {scratch:?}").into());
                }
                self.put(&place, true, task)
            }
            Place::Output(slot) => {
                if let Some(before) = &self.outputs[slot] {
                    self.after_all(before, task, &format!("writes {}", output.place))?;
                }
                self.outputs[slot] = Some(self.written(output.bytes, true, task));
                Ok(())
            }
            place => Err(format!("writes {place}").into()),
        }
    }

    fn read(&mut self, tensor: &Tensor, task: usize) -> Result<(), Refused> {
        let piece = match tensor.place {
            Place::Arena(offset) => self.arena.get_mut(&offset),
            Place::Output(slot) => self.outputs[slot].as_mut(),
            Place::Weights(_) | Place::Input(_) => return Ok(()),
        };
        let end = arena(tensor).map_or(tensor.bytes, |place| place.end);
        let Some(piece) = piece.filter(|piece| piece.whole && piece.end == end) else {
            let (bytes, place) = (tensor.bytes, tensor.place);
            return Err(format!("reads {bytes} bytes of {place}, which hold no such tensor").into());
        };
        let (stream, number) = self.order.number(task);
        let (by, written) = self.order.number(piece.writer);
        if self.order.ended(task)[by] <= written {
            return Err(Refused::Unordered(format!("reads {}", tensor.place), piece.writer));
        }
        piece.used[stream] = number + 1;
        Ok(())
    }

    /// A task writes bytes of the arena: what is there must be done with.
    fn put(&mut self, place: &Range<usize>, whole: bool, task: usize) -> Result<(), Refused> {
        if place.is_empty() {
            return Ok(());
        }
        self.cut(place.start);
        self.cut(place.end);
        while let Some((begin, piece)) = self.arena.range(place.clone()).next() {
            let begin = *begin;
            self.after_all(piece, task, &format!("writes {place:?} of the arena"))?;
            self.arena.remove(&begin);
        }
        let piece = self.written(place.end, whole, task);
        self.arena.insert(place.start, piece);
        Ok(())
    }

    /// What lies on both sides of this byte is two pieces from now on.
    fn cut(&mut self, at: usize) {
        let Some((_, piece)) = self.arena.range_mut(..at).next_back() else { return };
        if piece.end > at {
            piece.whole = false;
            let rest = *piece;
            piece.end = at;
            self.arena.insert(at, rest);
        }
    }

    fn written(&self, end: usize, whole: bool, writer: usize) -> Piece {
        let (stream, number) = self.order.number(writer);
        let mut used = [0; STREAMS_MAX];
        used[stream] = number + 1;
        Piece { end, whole, writer, used }
    }

    /// Whether all that use a piece have ended when a task begins.
    fn after_all(&self, piece: &Piece, task: usize, what: &str) -> Result<(), Refused> {
        let (stream, ended) = (self.order.number(task).0, self.order.ended(task));
        let open = |other: &usize| *other != stream && piece.used[*other] > ended[*other];
        match (0..STREAMS_MAX).find(open) {
            None => Ok(()),
            Some(other) => {
                let other = self.order.task(other, piece.used[other] - 1);
                Err(Refused::Unordered(what.to_owned(), other))
            }
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
