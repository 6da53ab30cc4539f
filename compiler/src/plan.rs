//! The plan: where every tensor lies, and writing it down as a program.
//!
//! A node whose result has the bytes of its input (Reshape) becomes no task: both tensors lie at
//! the same place. Inputs and outputs lie in the caller's memory, constants in the weights,
//! everything else in the arena while it is needed.

use std::collections::BTreeMap;

use npu::aligned::AlignedBytes;
use npu::program::{Place, Writer};
use npu::tensor::TensorInfo;

use crate::arena::{self, Item};
use crate::error::CompileError;
use crate::story::Fate;
use crate::typed::{TensorIndex, Typed};

/// A graph with a place for every tensor.
#[derive(Debug)]
pub struct Planned<'a> {
    graph: &'a Typed,
    /// Place of each tensor that is no constant and is used.
    places: BTreeMap<TensorIndex, Place>,
    /// Nodes that are tasks, in order, with the place and the size of their scratch memory.
    tasks: Vec<(usize, (usize, usize))>,
    arena_bytes: usize,
}

/// Tensors that lie at one place.
#[derive(Clone, Debug, Default)]
struct Group {
    input: Option<usize>,
    output: Option<usize>,
    bytes: usize,
    /// Steps at which the place is needed.
    steps: Option<(usize, usize)>,
}

impl Group {
    fn needed_at(&mut self, step: usize) {
        let (first, last) = self.steps.unwrap_or((step, step));
        self.steps = Some((first.min(step), last.max(step)));
    }
}

/// Finds places for everything.
#[must_use]
pub fn plan(graph: &Typed) -> Planned<'_> {
    let (group_of, mut groups, views) = group(graph);
    for (step, node) in graph.nodes.iter().enumerate().filter(|(step, _)| !views[*step]) {
        for tensor in node.inputs.iter().chain(&node.outputs) {
            groups[group_of[*tensor]].needed_at(step);
        }
    }
    let mut items = Vec::new();
    let mut owners = Vec::new();
    for (index, group) in groups.iter().enumerate() {
        if let (None, None, Some((first, last))) = (group.input, group.output, group.steps) {
            items.push(Item { bytes: group.bytes, first, last });
            owners.push(index);
        }
    }
    // Scratch memory is needed at one step.
    let mut tasks = Vec::new();
    let in_groups = items.len();
    for (step, node) in graph.nodes.iter().enumerate().filter(|(step, _)| !views[*step]) {
        let infos: Vec<TensorInfo> =
            node.inputs.iter().map(|input| graph.tensors[*input].info).collect();
        let bytes = node.op.scratch_bytes(&infos, &graph.tensors[node.output()].info);
        tasks.push((step, (0, bytes)));
        items.push(Item { bytes, first: step, last: step });
    }
    let (offsets, arena_bytes) = arena::place(&items);
    for ((_, (offset, _)), own) in tasks.iter_mut().zip(&offsets[in_groups..]) {
        *offset = *own;
    }
    let in_arena: BTreeMap<usize, usize> = owners.into_iter().zip(offsets).collect();
    let place = |tensor: TensorIndex| {
        let index = group_of[tensor];
        let group = &groups[index];
        match (group.input, group.output) {
            (Some(slot), _) => Some(Place::Input(slot)),
            (_, Some(slot)) => Some(Place::Output(slot)),
            _ => in_arena.get(&index).map(|offset| Place::Arena(*offset)),
        }
    };
    let variables =
        (0..graph.tensors.len()).filter(|tensor| graph.tensors[*tensor].value.is_none());
    let places = variables.filter_map(|tensor| Some((tensor, place(tensor)?))).collect();
    Planned { graph, places, tasks, arena_bytes }
}

/// Which tensors lie at one place: group of each tensor, the groups, and which nodes need no task.
/// Constants get groups too, which nobody asks for.
fn group(graph: &Typed) -> (Vec<usize>, Vec<Group>, Vec<bool>) {
    let mut group_of: Vec<usize> = (0..graph.tensors.len()).collect();
    let bytes = |tensor: &crate::typed::TypedTensor| tensor.info.bytes();
    let own = |tensor| Group { bytes: bytes(tensor), ..Group::default() };
    let mut groups: Vec<Group> = graph.tensors.iter().map(own).collect();
    for (slot, tensor) in graph.inputs.iter().enumerate() {
        groups[*tensor].input = Some(slot);
    }
    for (slot, (_, tensor)) in graph.outputs.iter().enumerate() {
        groups[*tensor].output = Some(slot);
    }
    let mut views = vec![false; graph.nodes.len()];
    for (step, node) in graph.nodes.iter().enumerate().filter(|(_, node)| node.op.is_view()) {
        let (from, to) = (node.inputs[0], node.output());
        let (a, b) = (&groups[group_of[from]], &groups[group_of[to]]);
        // What the caller gives is not what the caller gets, and no two outputs are one.
        let outputs = usize::from(a.output.is_some()) + usize::from(b.output.is_some());
        let copies = outputs > 1 || (outputs == 1 && a.input.is_some());
        if copies || graph.tensors[from].value.is_some() {
            continue;
        }
        let output = a.output.or(b.output);
        groups[group_of[from]].output = output;
        group_of[to] = group_of[from];
        views[step] = true;
    }
    (group_of, groups, views)
}

impl Planned<'_> {
    /// Bytes of working memory that the program needs.
    #[must_use]
    pub fn arena_bytes(&self) -> usize {
        self.arena_bytes
    }

    /// What became of each node of the model.
    pub(crate) fn fates(&self) -> Vec<Fate> {
        let mut tasks = self.tasks.iter().map(|(step, _)| *step).peekable();
        let (mut all, mut count) = (Vec::new(), 0);
        for (step, node) in self.graph.nodes.iter().enumerate() {
            let what = if tasks.next_if_eq(&step).is_some() {
                count += 1;
                format!("task {}, {}", count - 1, node.op.line().name)
            } else {
                "no task: its result has the bytes of its input".to_owned()
            };
            all.push((node.output(), what));
        }
        self.graph.story.end(&all)
    }

    /// The program.
    ///
    /// # Errors
    /// The model has more of something than a program can count.
    pub fn write(&self) -> Result<AlignedBytes, CompileError> {
        let mut own = Written { planned: self, writer: Writer::new(), tensors: BTreeMap::new() };
        for (slot, input) in self.graph.inputs.iter().enumerate() {
            let tensor = &self.graph.tensors[*input];
            let index = own.writer.tensor(&tensor.name, &tensor.info, Place::Input(slot));
            own.tensors.insert(*input, index);
            own.writer.input(index);
        }
        let mut outputs = Vec::new();
        for (slot, (name, output)) in self.graph.outputs.iter().enumerate() {
            let info = self.graph.tensors[*output].info;
            let index = own.writer.tensor(name, &info, Place::Output(slot));
            own.tensors.insert(*output, index);
            outputs.push(index);
        }
        outputs.into_iter().for_each(|index| own.writer.output(index));
        for (step, scratch) in &self.tasks {
            let node = &self.graph.nodes[*step];
            let operands: Option<Vec<u32>> =
                node.inputs.iter().map(|input| own.tensor(*input)).collect();
            let outputs: Option<Vec<u32>> =
                node.outputs.iter().map(|output| own.tensor(*output)).collect();
            let (operands, outputs) = operands.zip(outputs).ok_or(CompileError::TooLarge)?;
            own.writer.task(&node.name, &*node.op, &operands, &outputs, *scratch);
        }
        own.writer.finish(self.arena_bytes).ok_or(CompileError::TooLarge)
    }
}

/// A program while it is written.
struct Written<'a> {
    planned: &'a Planned<'a>,
    writer: Writer,
    tensors: BTreeMap<TensorIndex, u32>,
}

impl Written<'_> {
    /// Index of a tensor in the program; `None` for one without a place.
    fn tensor(&mut self, index: TensorIndex) -> Option<u32> {
        if let Some(own) = self.tensors.get(&index) {
            return Some(*own);
        }
        let tensor = &self.planned.graph.tensors[index];
        let own = match &tensor.value {
            Some(bytes) => self.writer.constant(&tensor.name, &tensor.info, bytes),
            None => {
                let place = *self.planned.places.get(&index)?;
                self.writer.tensor(&tensor.name, &tensor.info, place)
            }
        };
        self.tensors.insert(index, own);
        Some(own)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{D, Draft, FLOAT};

    #[test]
    fn what_is_in_use_at_once_is_counted_under_every_name() {
        // a lives until c is made, under the name of r, too; b is gone by then.
        let draft = Draft::new(15)
            .input("x", FLOAT, &[D::N(16), D::N(16)])
            .int64s("flat", &[1], &[256])
            .int64s("square", &[2], &[16, 16])
            .node("Exp", &["x"], "a")
            .node("Reshape", &["a", "flat"], "r")
            .node("Sqrt", &["a"], "b")
            .node("Sqrt", &["b"], "c")
            .node("Reshape", &["r", "square"], "s")
            .node("Add", &["s", "c"], "y");
        let report = draft.output("y", FLOAT, None).compile(&[]).unwrap().report;
        assert_eq!((report.live_bytes, report.arena_bytes), (3 * 1024, 3 * 1024));
        let short = Draft::new(15)
            .input("x", FLOAT, &[D::N(16), D::N(16)])
            .node("Exp", &["x"], "a")
            .node("Sqrt", &["a"], "b")
            .node("Sqrt", &["b"], "c")
            .node("Exp", &["c"], "y");
        let report = short.output("y", FLOAT, None).compile(&[]).unwrap().report;
        assert_eq!((report.live_bytes, report.arena_bytes), (2 * 1024, 2 * 1024));
    }
}
