//! The plan: where every tensor lies, and writing it down as a program.
//!
//! A node whose result has the bytes of its input (Reshape) becomes no task: both tensors lie at
//! the same place. A result lies where an operand lies that nobody reads later, if the op can write
//! it there. Inputs and outputs lie in the caller's memory, constants in the weights,
//! everything else in the arena while it is needed: where tasks run beside one another, until all
//! that read it have ended.

use std::collections::BTreeMap;

use npu::aligned::AlignedBytes;
use npu::ops::blocked::Chain;
use npu::program::{Place, Writer};
use npu::tensor::TensorInfo;

use crate::arena::{self, Item};
use crate::error::CompileError;
use crate::story::Fate;
use crate::streams::{self, Counts, Streamed, Work};
use crate::typed::{TensorIndex, Typed};

/// A graph with a place for every tensor.
#[derive(Debug)]
pub struct Planned<'a> {
    graph: &'a Typed,
    /// Place of each tensor that is no constant and is used.
    places: BTreeMap<TensorIndex, Place>,
    /// Nodes that are tasks, in order, with the place and the size of their scratch memory.
    tasks: Vec<(usize, (usize, usize))>,
    /// Streams of the tasks.
    streamed: Vec<Streamed>,
    /// Whether the result of a node lies over an operand.
    over: Vec<bool>,
    arena_bytes: usize,
}

/// Tensors that lie at one place.
#[derive(Clone, Debug, Default)]
struct Group {
    input: Option<usize>,
    output: Option<usize>,
    bytes: usize,
    /// When the place is needed.
    needed: Option<Item>,
}

impl Group {
    /// A task needs the place.
    fn needed_by(&mut self, of: &Streamed) {
        let bytes = self.bytes;
        let needed = self.needed.get_or_insert_with(|| item(bytes, of));
        needed.first = needed.first.min(of.window.start);
        needed.last = needed.last.max(of.window.end - 1);
        let gone = &mut needed.gone[of.stream];
        *gone = (*gone).max(of.ended[of.stream] + 1);
    }
}

/// What one task needs; the first one of all that need it.
fn item(bytes: usize, of: &Streamed) -> Item {
    let mut gone = Counts::default();
    gone[of.stream] = of.ended[of.stream] + 1;
    let (first, last) = (of.window.start, of.window.end - 1);
    Item { bytes, first, last, ended: of.ended, gone }
}

/// Finds places for everything; tasks are put on so many streams at most.
#[must_use]
pub fn plan(graph: &Typed, streams: usize) -> Planned<'_> {
    let (mut group_of, mut groups, views) = group(graph);
    let steps: Vec<usize> = (0..graph.nodes.len()).filter(|step| !views[*step]).collect();
    let streamed = streams::assign(&work(graph, &group_of, &steps), streams);
    let over = lay_over(graph, (&steps, &streamed), &mut group_of, &mut groups);
    for (step, of) in steps.iter().zip(&streamed) {
        let node = &graph.nodes[*step];
        let variable = |tensor: &&TensorIndex| graph.tensors[**tensor].value.is_none();
        for tensor in node.inputs.iter().chain(&node.outputs).filter(variable) {
            groups[group_of[*tensor]].needed_by(of);
        }
    }
    let mut items = Vec::new();
    let mut owners = Vec::new();
    for (index, group) in groups.iter().enumerate() {
        if let (None, None, Some(needed)) = (group.input, group.output, group.needed) {
            items.push(needed);
            owners.push(index);
        }
    }
    // Scratch memory is needed by one task.
    let mut tasks = Vec::new();
    let in_groups = items.len();
    for (step, of) in steps.iter().zip(&streamed) {
        let node = &graph.nodes[*step];
        let infos: Vec<TensorInfo> =
            node.inputs.iter().map(|input| graph.tensors[*input].info).collect();
        let bytes = node.op.scratch_bytes(&infos, &graph.tensors[node.output()].info);
        tasks.push((*step, (0, bytes)));
        items.push(item(bytes, of));
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
    Planned { graph, places, tasks, streamed, over, arena_bytes }
}

/// What tasks cost, and whose results they read.
fn work(graph: &Typed, group_of: &[usize], steps: &[usize]) -> Vec<Work> {
    let mut makers = BTreeMap::new();
    let mut all = Vec::new();
    for (task, step) in steps.iter().enumerate() {
        let node = &graph.nodes[*step];
        let info = |tensor: &TensorIndex| graph.tensors[*tensor].info;
        let reads = node.inputs.iter().filter_map(|input| makers.get(&group_of[*input]).copied());
        let reads = reads.collect();
        let infos: Vec<TensorInfo> = node.inputs.iter().map(info).collect();
        let elements = node.outputs.iter().map(|output| info(output).shape.elements()).sum();
        let cost = npu::team::cost(node.op.flops(&infos, &info(&node.output())), elements);
        all.push(Work { cost, reads });
        makers.extend(node.outputs.iter().map(|output| (group_of[*output], task)));
    }
    all
}

/// Gives the result of a node the place of an operand where that can be: whether it has, by node.
fn lay_over(
    graph: &Typed,
    (steps, streamed): (&[usize], &[Streamed]),
    group_of: &mut [usize],
    groups: &mut [Group],
) -> Vec<bool> {
    // The last task that reads a group, and how many tasks of each stream have ended after it.
    let mut last = vec![(0, Counts::default()); groups.len()];
    for (step, of) in steps.iter().zip(streamed) {
        for input in &graph.nodes[*step].inputs {
            let (last, read) = &mut last[group_of[*input]];
            (*last, read[of.stream]) = (*step, of.ended[of.stream] + 1);
        }
    }
    // What a group is a part of by now.
    let mut whole: Vec<usize> = (0..groups.len()).collect();
    let find = |whole: &mut [usize], mut group: usize| {
        while whole[group] != group {
            whole[group] = whole[whole[group]];
            group = whole[group];
        }
        group
    };
    let mut over = vec![false; graph.nodes.len()];
    for (step, of) in steps.iter().zip(streamed) {
        let (step, node) = (*step, &graph.nodes[*step]);
        let &[output] = &node.outputs[..] else { continue };
        // What is empty is written nowhere: nothing is saved, and two of it may lie anywhere.
        if graph.tensors[output].info.bytes() == 0 {
            continue;
        }
        let infos: Vec<TensorInfo> =
            node.inputs.iter().map(|input| graph.tensors[*input].info).collect();
        let to = find(&mut whole, group_of[output]);
        let from: Vec<usize> =
            node.inputs.iter().map(|input| find(&mut whole, group_of[*input])).collect();
        let mut operands = 0..from.len();
        let operand = operands.find(|operand| {
            let (own, tensor) = (&groups[from[*operand]], &graph.tensors[node.inputs[*operand]]);
            let (last, read) = &last[from[*operand]];
            // Nobody needs it later or meanwhile, nor the caller, and it is read once.
            let read = read.iter().zip(&of.ended).enumerate();
            let mut others = read.filter(|(stream, _)| *stream != of.stream);
            tensor.value.is_none()
                && own.input.is_none()
                && own.output.is_none()
                && *last == step
                && others.all(|(_, (read, ended))| read <= ended)
                && from[*operand] != to
                && from.iter().filter(|other| **other == from[*operand]).count() == 1
                && node.op.may_lie_over(*operand, &infos, &graph.tensors[output].info)
        });
        let Some(operand) = operand else { continue };
        whole[from[operand]] = to;
        over[step] = true;
    }
    group_of.iter_mut().for_each(|group| *group = find(&mut whole, *group));
    over
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

    /// What became of each node of the model; `more` says something of tasks.
    pub(crate) fn fates(&self, more: impl Fn(usize) -> Option<&'static str>) -> Vec<Fate> {
        let mut tasks = self.tasks.iter().map(|(step, _)| *step).peekable();
        let (mut all, mut count) = (Vec::new(), 0);
        for (step, node) in self.graph.nodes.iter().enumerate() {
            let what = if tasks.next_if_eq(&step).is_some() {
                count += 1;
                let over = if self.over[step] { ", over its operand" } else { "" };
                let stream = self.streamed[count - 1].to_string();
                let more = more(count - 1).map_or(String::new(), |more| format!("; {more}"));
                let chain = node.op.as_any().downcast_ref::<Chain>().map(Chain::names);
                let name = chain.unwrap_or_else(|| node.op.line().name.to_owned());
                format!("task {}, {name}{over}{stream}{more}", count - 1)
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
        for ((step, scratch), of) in self.tasks.iter().zip(&self.streamed) {
            let node = &self.graph.nodes[*step];
            let operands: Option<Vec<u32>> =
                node.inputs.iter().map(|input| own.tensor(*input)).collect();
            let outputs: Option<Vec<u32>> =
                node.outputs.iter().map(|output| own.tensor(*output)).collect();
            let (operands, outputs) = operands.zip(outputs).ok_or(CompileError::TooLarge)?;
            own.writer.task(&node.name, &*node.op, &operands, &outputs, *scratch);
            let after: Result<Vec<u32>, _> =
                of.after.iter().map(|task| (*task).try_into()).collect();
            let stream = of.stream.try_into().map_err(|_| CompileError::TooLarge)?;
            own.writer.order(stream, &after.map_err(|_| CompileError::TooLarge)?);
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
    use crate::testing::{D, Draft, FLOAT, check, noise};

    #[test]
    fn what_is_in_use_at_once_is_counted_under_every_name() {
        // a lives until c is made, under the name of r, too; b is gone by then.
        let draft = Draft::new(15)
            .input("x", FLOAT, &[D::N(16), D::N(16)])
            .int64s("flat", &[1], &[256])
            .int64s("square", &[2], &[16, 16])
            .node("Softmax", &["x"], "a")
            .node("Reshape", &["a", "flat"], "r")
            .node("Softmax", &["a"], "b")
            .node("Softmax", &["b"], "c")
            .node("Reshape", &["r", "square"], "s")
            .node("MatMul", &["s", "c"], "y");
        let report = draft.output("y", FLOAT, None).compile(&[]).unwrap().report;
        assert_eq!((report.live_bytes, report.arena_bytes), (3 * 1024, 3 * 1024));
        let short = Draft::new(15)
            .input("x", FLOAT, &[D::N(16), D::N(16)])
            .node("Softmax", &["x"], "a")
            .node("Softmax", &["a"], "b")
            .node("Softmax", &["b"], "c")
            .node("Softmax", &["c"], "y");
        let report = short.output("y", FLOAT, None).compile(&[]).unwrap().report;
        assert_eq!((report.live_bytes, report.arena_bytes), (2 * 1024, 2 * 1024));
    }

    #[test]
    fn constants_need_no_place() {
        let draft = Draft::new(15)
            .input("x", FLOAT, &[D::N(1), D::N(16)])
            .floats("w", &[16, 32], &noise(512, 1))
            .node("MatMul", &["x", "w"], "a")
            .node("Softmax", &["a"], "y");
        let report = draft.output("y", FLOAT, None).compile(&[]).unwrap().report;
        assert_eq!((report.live_bytes, report.arena_bytes), (128, 128));
    }

    /// x [16, 16], and what lies over what: the places of all results.
    fn places(draft: Draft) -> Vec<String> {
        let noise = noise(256, 1);
        let draft = draft.output("y", FLOAT, None);
        check(&draft, &draft.tasks().iter().map(String::as_str).collect::<Vec<_>>(), &noise);
        let tasks = draft.compile(&[]).unwrap().report.tasks;
        tasks.iter().map(|task| format!("{} {:?}", task.outputs[0].place, task.over)).collect()
    }

    fn square() -> Draft {
        Draft::new(15).input("x", FLOAT, &[D::N(16), D::N(16)]).node("Softmax", &["x"], "a")
    }

    #[test]
    fn a_result_lies_over_an_operand_that_nobody_needs() {
        // The caller's input stays as it is; in its output there are results on the way.
        let chain = square().node("Exp", &["a"], "b").node("Exp", &["b"], "y");
        assert_eq!(places(chain), ["output 0 None", "output 0 Some(0)"]);
        let input = Draft::new(15).input("x", FLOAT, &[D::N(16), D::N(16)]);
        assert_eq!(places(input.node("Exp", &["x"], "y")), ["output 0 None"]);
        // Over the second operand when the first one is read later.
        let second = square().node("Softmax", &["a"], "b").node("Sub", &["a", "b"], "c");
        let second = second.node("Softmax", &["a"], "z").node("Softmax", &["c"], "y");
        let second = second.output("z", FLOAT, None);
        let expected = ["arena+0 None", "arena+1024 None", "arena+1024 Some(1)"];
        assert_eq!(places(second)[..3], expected);
    }

    #[test]
    fn what_is_empty_lies_over_nothing() {
        let draft = Draft::new(15)
            .input("x", FLOAT, &[D::N(0), D::N(3)])
            .node("Tanh", &["x"], "a")
            .node("Sigmoid", &["a"], "b")
            .node("Abs", &["b"], "y")
            .output("b", FLOAT, None)
            .output("y", FLOAT, None);
        check(&draft, &["Tanh", "Sigmoid", "Abs"], &[]);
        let tasks = draft.compile(&[]).unwrap().report.tasks;
        assert!(tasks.iter().all(|task| task.over.is_none()));
    }

    #[test]
    fn what_is_needed_is_not_written_over() {
        // Read once more by the same task, as itself and under another name.
        let twice = square().node("Add", &["a", "a"], "b").node("Softmax", &["b"], "y");
        assert_eq!(places(twice)[1], "arena+1024 None");
        let view = square().int64s("shape", &[2], &[16, 16]).node("Reshape", &["a", "shape"], "r");
        let view = view.node("Add", &["a", "r"], "b").node("Softmax", &["b"], "y");
        assert_eq!(places(view)[1], "arena+1024 None");
        // Read later under another name.
        let later = square().int64s("flat", &[1], &[256]).node("Reshape", &["a", "flat"], "r");
        let later = later.node("Exp", &["a"], "b").node("Softmax", &["b"], "c");
        let later = later.output("r", FLOAT, None).node("Softmax", &["c"], "y");
        assert!(places(later)[1].ends_with("None"));
        // Smaller than the result, and of another size of elements.
        let row = Draft::new(15)
            .input("x", FLOAT, &[D::N(16), D::N(16)])
            .node_with("ReduceMean", &["x"], "m", &[])
            .node("Add", &["x", "m"], "b")
            .node("Softmax", &["b"], "y");
        assert!(places(row)[1].ends_with("None"));
        let output = square().output("a", FLOAT, None).node("Exp", &["a"], "y");
        assert!(places(output)[1].ends_with("None"));
    }
}
