//! The walk over a program's tasks, and the memory that they read and write.
//!
//! Tasks of several streams write parts of one arena at once, so what a task reads and writes is
//! taken from it by address. That no two of them meet is what a checked program is: the invariants
//! of [`crate::program`].
#![allow(unsafe_code, reason = "tasks that run at once share an arena, in parts that do not meet")]

use std::marker::PhantomData;
use std::ptr;
use std::sync::{Mutex, PoisonError};

use crate::engine::streams::Region;
use crate::engine::{Input, over};
use crate::program::{Om, Place, Task, Tensor};
use crate::team::Team;
use crate::tensor::{Fault, Inputs, OUTPUTS_MAX, Output, Part, TensorInfo};

/// The memory of one run, lent by the caller.
pub(super) struct Memory<'a> {
    inputs: &'a [Input<'a>],
    /// The caller's `&mut [u8]`, as addresses.
    outputs: &'a [*mut [u8]],
    arena: *mut [u8],
    lent: PhantomData<&'a mut [u8]>,
}

// SAFETY: what lies there is bytes, lent for this run alone; who touches which when is for
// `Memory::run` to say.
unsafe impl Sync for Memory<'_> {}

impl<'a> Memory<'a> {
    /// Inputs, outputs and arena have the sizes that the program asks for.
    pub(super) fn new<'o>(
        inputs: &'a [Input<'a>],
        outputs: &'a mut [&'o mut [u8]],
        arena: &'a mut [u8],
    ) -> Self
    where
        'o: 'a,
    {
        let (places, count) = (outputs.as_mut_ptr().cast::<*mut [u8]>(), outputs.len());
        // SAFETY: a `&mut [u8]` lies in memory as a `*mut [u8]` does, and they are lent as long.
        let outputs = unsafe { std::slice::from_raw_parts(places, count) };
        Self { inputs, outputs, arena, lent: PhantomData }
    }

    /// Bytes of the arena.
    fn arena(&self, offset: usize, bytes: usize) -> Option<*mut [u8]> {
        let end = offset.checked_add(bytes)?;
        let begin = self.arena.cast::<u8>().wrapping_add(offset);
        (end <= self.arena.len()).then(|| ptr::slice_from_raw_parts_mut(begin, bytes))
    }

    /// Bytes of a tensor that can be written.
    fn written(&self, tensor: &Tensor) -> Option<*mut [u8]> {
        match tensor.place {
            Place::Arena(offset) => self.arena(offset, tensor.bytes),
            Place::Output(slot) => {
                let own = self.outputs.get(slot).filter(|own| tensor.bytes <= own.len())?;
                Some(ptr::slice_from_raw_parts_mut(own.cast(), tensor.bytes))
            }
            Place::Weights(_) | Place::Input(_) => None,
        }
    }

    /// Runs a task with at most `N` outputs.
    ///
    /// # Safety
    /// `task` is of a checked program that asks for no more memory than this. As long as it runs,
    /// no other task runs that the program's streams and events do not let run beside it, and
    /// nobody else touches the memory.
    unsafe fn run<const N: usize>(
        &self,
        (tensors, weights, fours): (&[Tensor], &[u8], Option<&[u8]>),
        task: &Task,
        team: Option<&Team>,
    ) -> Result<(), Fault> {
        let mut parts = [const { None }; N];
        for (part, output) in parts.iter_mut().zip(&task.outputs) {
            let tensor = &tensors[*output];
            let place = self.written(tensor).ok_or(Fault::Memory)?;
            // SAFETY: I3: it meets nothing else that this task reads (what it lies over is left
            // out below), its scratch memory and no other output; I5 and the caller: nor what
            // tasks beside it touch.
            *part = Some(Part { info: &tensor.info, bytes: unsafe { &mut *place } });
        }
        let (offset, bytes) = (task.scratch.start, task.scratch.len());
        let scratch = self.arena(offset, bytes).ok_or(Fault::Memory)?;
        // SAFETY: as above.
        let scratch = unsafe { &mut *scratch };
        let (first, more) = parts.split_first_mut().ok_or(Fault::Memory)?;
        let Part { info, bytes } = first.take().ok_or(Fault::Memory)?;
        let view = View { tensors, task, weights, fours, memory: self };
        if let Some(operand) = task.over {
            return over::run(&*task.op, operand, &view, (info, bytes), team);
        }
        task.op.run(&view, &mut Output { info, bytes, scratch, more, team })
    }
}

/// What a task that runs reads.
struct View<'a> {
    tensors: &'a [Tensor],
    task: &'a Task,
    weights: &'a [u8],
    fours: Option<&'a [u8]>,
    memory: &'a Memory<'a>,
}

impl Inputs for View<'_> {
    fn count(&self) -> usize {
        self.task.operands.len()
    }

    fn info(&self, index: usize) -> &TensorInfo {
        &self.tensors[self.task.operands[index]].info
    }

    fn bytes(&self, index: usize) -> &[u8] {
        let tensor = &self.tensors[self.task.operands[index]];
        let from = match tensor.place {
            Place::Weights(offset) => self.weights.get(offset..).unwrap_or_default(),
            Place::Input(slot) => self.memory.inputs[slot].bytes,
            // The operand that the result lies over is read by pieces, and copied before; of a
            // shape nobody has checked when its bytes are there.
            _ if self.task.over == Some(index) || self.task.op.reads_shape_only() => &[],
            _ => match self.memory.written(tensor) {
                // SAFETY: only `Memory::run` makes a view. I3: its task writes none of this; I5
                // and the caller: nor does a task beside it.
                Some(place) => unsafe { &*place },
                None => &[],
            },
        };
        from.get(..tensor.bytes).unwrap_or_default()
    }

    fn fours(&self) -> Option<&[u8]> {
        self.fours
    }
}

/// Runs all tasks of a program in memory that fits it; `regions` are made of its segments.
pub(super) fn run<B: AsRef<[u8]>>(
    om: &Om<B>,
    regions: &[Option<Region>],
    memory: &Memory<'_>,
    team: Option<&Team>,
    mut ended: impl FnMut(usize) + Send,
) -> Result<(), (usize, Fault)> {
    let (tasks, tensors, weights, fours) = (om.tasks(), om.tensors(), om.weights(), om.fours());
    let run = |index: usize, team: Option<&Team>| -> Result<(), Fault> {
        let (task, constants) = (&tasks[index], (tensors, weights, fours(index)));
        match task.outputs[..] {
            [output] if tensors[output].bytes == 0 => Ok(()),
            // SAFETY: the program is checked and the memory fits it (`Memory::new`). Below tasks
            // run in file order, or as their region lets them: each after its stream's and its
            // events'.
            [_] => unsafe { memory.run::<1>(constants, task, team) },
            // SAFETY: as above.
            _ => unsafe { memory.run::<OUTPUTS_MAX>(constants, task, team) },
        }
    };
    let team = team.filter(|team| team.threads() > 1);
    for (segment, region) in om.segments().iter().zip(regions) {
        match region.as_ref().zip(team) {
            Some((region, team)) => {
                let ended = Mutex::new(&mut ended);
                region.run(team, &|index| {
                    run(index, None)?;
                    ended.lock().unwrap_or_else(PoisonError::into_inner)(index);
                    Ok(())
                })?;
            }
            None => {
                for index in segment.tasks.clone() {
                    run(index, team).map_err(|fault| (index, fault))?;
                    ended(index);
                }
            }
        }
    }
    Ok(())
}
