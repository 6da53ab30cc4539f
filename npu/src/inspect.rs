//! What is in a program, for people: tasks with their shapes and cost, and where memory goes.

use std::collections::BTreeMap;
use std::fmt;

use crate::aligned::align_up;
use crate::ops::Activation;
use crate::ops::blocked::{BlockedConv, BlockedDepthwise, BlockedWinograd, Chain, Dense};
use crate::ops::conv::Conv;
use crate::program::{Om, Place, Task};
use crate::tensor::TensorInfo;

/// A tensor that a task touches.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorReport {
    /// Name in the model.
    pub name: String,
    /// Type and shape.
    pub info: TensorInfo,
    /// Where it lies.
    pub place: Place,
}

/// A task.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskReport {
    /// Name of the op; with the activation that was fused into it, as `Conv+HardSwish`.
    pub op: String,
    /// Name of the node that it was compiled from.
    pub name: String,
    /// What it reads, in order.
    pub inputs: Vec<TensorReport>,
    /// What it writes, in order; one at least.
    pub outputs: Vec<TensorReport>,
    /// Floating-point operations; a multiply-add counts two.
    pub flops: u64,
    /// Bytes of its inputs that are weights.
    pub weights_bytes: u64,
    /// Bytes of its weights as fours, in the file or packed at load.
    pub fours_bytes: u64,
    /// Bytes of scratch memory.
    pub scratch_bytes: u64,
    /// The operand whose memory the output takes over.
    pub over: Option<usize>,
    /// Its stream.
    pub stream: usize,
    /// Tasks of other streams that end before it begins.
    pub after: Vec<usize>,
}

/// A section of the file.
#[derive(Clone, Debug, PartialEq)]
pub struct SectionReport {
    /// Its name.
    pub name: String,
    /// The machines that it is for: `any`, or those of a layout.
    pub isa: String,
    /// Its size.
    pub bytes: u64,
}

/// A program.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Bytes of working memory that a run needs.
    pub arena_bytes: u64,
    /// Bytes of working memory in use at the task where most are, one task after the other: no plan
    /// needs less, as long as the same results are written where an operand lies. What runs beside
    /// one another needs more.
    pub live_bytes: u64,
    /// Bytes of the weights.
    pub weights_bytes: u64,
    /// Sections of the file, in order.
    pub sections: Vec<SectionReport>,
    /// Floating-point operations of a run.
    pub flops: u64,
    /// Inputs, in the order in which they are bound.
    pub inputs: Vec<TensorReport>,
    /// Outputs, in the order in which they are bound.
    pub outputs: Vec<TensorReport>,
    /// Tasks, in order.
    pub tasks: Vec<TaskReport>,
}

/// Looks at a program.
#[must_use]
pub fn inspect<B: AsRef<[u8]>>(om: &Om<B>) -> Report {
    let tensor = |index: &usize| {
        let tensor = &om.tensors()[*index];
        let name = om.tensor_name(tensor).to_owned();
        TensorReport { name, info: tensor.info, place: tensor.place }
    };
    let tasks: Vec<TaskReport> = om
        .tasks()
        .iter()
        .enumerate()
        .map(|(index, task)| {
            let inputs: Vec<TensorReport> = task.operands.iter().map(tensor).collect();
            let infos: Vec<TensorInfo> = inputs.iter().map(|input| input.info).collect();
            let outputs: Vec<TensorReport> = task.outputs.iter().map(tensor).collect();
            let weights = inputs.iter().filter(|input| matches!(input.place, Place::Weights(_)));
            TaskReport {
                op: op_name(task),
                name: om.task_name(task).to_owned(),
                flops: outputs.first().map_or(0, |output| task.op.flops(&infos, &output.info)),
                weights_bytes: weights.map(|input| input.info.bytes() as u64).sum(),
                fours_bytes: om.fours_bytes(index) as u64,
                scratch_bytes: task.scratch.len() as u64,
                over: task.over,
                stream: task.stream,
                after: task.after.clone(),
                inputs,
                outputs,
            }
        })
        .collect();
    Report {
        file_bytes: om.file_bytes() as u64,
        arena_bytes: om.arena_bytes() as u64,
        live_bytes: live_bytes(om),
        weights_bytes: om.weights_bytes() as u64,
        sections: om.sections(),
        flops: tasks.iter().map(|task| task.flops).sum(),
        inputs: om.inputs().iter().map(tensor).collect(),
        outputs: om.outputs().iter().map(tensor).collect(),
        tasks,
    }
}

/// See [`Report::live_bytes`]. A place is in use from the task that writes it to the last one that
/// reads it, under whatever name.
fn live_bytes<B: AsRef<[u8]>>(om: &Om<B>) -> u64 {
    let place = |index: &usize| match &om.tensors()[*index] {
        tensor if let Place::Arena(offset) = tensor.place => Some((offset, tensor.info.bytes())),
        _ => None,
    };
    let mut held: Vec<(usize, usize, usize)> = Vec::new();
    let mut holder = BTreeMap::new();
    for (step, task) in om.tasks().iter().enumerate() {
        for (offset, _) in task.operands.iter().filter_map(place) {
            if let Some((_, last, _)) = holder.get(&offset).and_then(|at: &usize| held.get_mut(*at))
            {
                *last = step;
            }
        }
        // What lies over an operand has the operand's memory.
        let made = task.outputs.iter().filter(|_| task.over.is_none());
        for (offset, bytes) in made.filter_map(place) {
            holder.insert(offset, held.len());
            held.push((step, step, bytes));
        }
        held.push((step, step, task.scratch.len()));
    }
    let mut changes = vec![(0_u64, 0_u64); om.tasks().len() + 1];
    for (first, last, bytes) in held {
        let bytes = align_up(bytes) as u64;
        changes[first].0 += bytes;
        changes[last + 1].1 += bytes;
    }
    let mut live = 0;
    let sums = changes.into_iter().map(|(come, gone)| {
        live = live + come - gone;
        live
    });
    sums.max().unwrap_or(0)
}

fn op_name(task: &Task) -> String {
    let name = task.op.line().name;
    let op = task.op.as_any();
    let conv = op.downcast_ref::<Conv>().map(|conv| conv.activation);
    let blocked = op.downcast_ref::<BlockedConv>().map(|conv| conv.activation);
    let depthwise = op.downcast_ref::<BlockedDepthwise>().map(|conv| conv.activation);
    let dense = op.downcast_ref::<Dense>().map(|dense| dense.activation);
    let winograd = op.downcast_ref::<BlockedWinograd>().map(|conv| conv.activation);
    if let Some(chain) = op.downcast_ref::<Chain>() {
        return chain.names();
    }
    match conv.or(blocked).or(winograd).or(depthwise).or(dense) {
        None | Some(Activation::None) => name.to_owned(),
        Some(activation) => format!("{name}+{}", activation.name()),
    }
}

impl fmt::Display for TensorReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.info)
    }
}
