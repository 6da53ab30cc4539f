//! A checked program.

use std::ops::Range;

use crate::DataType;
use crate::aligned::{ALIGNMENT, is_aligned};
use crate::inspect::SectionReport;
use crate::ops::{self, Op};
use crate::program::check;
use crate::program::order::{Order, Segment};
use crate::program::packed::{self, Chosen, FOURS, Layout};
use crate::program::records::{
    EVENT_SIZE, IO_SIZE, OPERAND_SIZE, TASK_SIZE, TENSOR_SIZE, TaskRecord, TensorRecord, u32_at,
};
use crate::program::section::{Map, size};
use crate::program::{OmError, Place, STREAMS_MAX, Section};
use crate::shape::{RANK_MAX, Shape};
use crate::tensor::{OUTPUTS_MAX, TensorInfo, element_size, type_name};

/// A tensor of a program.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// Type and shape.
    pub info: TensorInfo,
    /// Where it lies.
    pub place: Place,
    /// Its bytes; as many as type and shape say.
    pub bytes: usize,
    name: Range<usize>,
}

/// A task of a program.
#[derive(Debug)]
pub struct Task {
    /// What it computes.
    pub op: Box<dyn Op>,
    /// Indices of the tensors that it reads.
    pub operands: Vec<usize>,
    /// Indices of the tensors that it writes; one at least, at most [`OUTPUTS_MAX`].
    pub outputs: Vec<usize>,
    /// Its scratch memory in the arena.
    pub scratch: Range<usize>,
    /// The operand whose memory the only output takes over.
    pub over: Option<usize>,
    /// Its stream, below [`STREAMS_MAX`].
    pub stream: usize,
    /// Tasks of other streams that end before it begins, ascending.
    pub after: Vec<usize>,
    name: Range<usize>,
}

#[cfg(test)]
impl Task {
    /// A task that is nowhere but in an order.
    pub(crate) fn nothing(stream: usize, after: Vec<usize>) -> Self {
        let op = Box::new(crate::ops::relu::Relu);
        let (operands, outputs, over) = (Vec::new(), Vec::new(), None);
        Self { op, operands, outputs, scratch: 0..0, over, stream, after, name: 0..0 }
    }
}

/// A checked program over the bytes of its file.
///
/// Having one means that the invariants of the module's documentation hold for what was read; it
/// says nothing of values among the weights.
#[derive(Debug)]
pub struct Om<B> {
    bytes: B,
    arena_bytes: usize,
    tensors: Vec<Tensor>,
    tasks: Vec<Task>,
    segments: Vec<Segment>,
    inputs: Vec<usize>,
    outputs: Vec<usize>,
    weights: Range<usize>,
    strings: Range<usize>,
    map: Map,
    /// Fours of tasks, and whether runs read them.
    fours: Chosen,
    reads_fours: bool,
}

impl<B: AsRef<[u8]>> Om<B> {
    /// Checks a file; keeps it to take weights and names from it. Allocates the tables.
    ///
    /// The bytes must not change while the program is used. If they do, nothing worse than wrong
    /// results and names comes of it.
    ///
    /// # Errors
    /// Whatever is wrong with the file: [`OmError`].
    pub fn open(bytes: B) -> Result<Self, OmError> {
        let file = bytes.as_ref();
        if !is_aligned(file) {
            return Err(OmError::Misaligned);
        }
        let map = Map::read(file)?;
        let strings = str::from_utf8(&file[map.of(Section::Strings)]).map_err(|error| {
            OmError::value(Section::Strings, error.valid_up_to(), "not UTF-8 from this byte on")
        })?;
        let reader = Reader { file, map: &map, strings };
        let (inputs, outputs) = reader.io()?;
        let tensors = reader.tensors(inputs.len(), outputs.len())?;
        let mut tasks = reader.tasks(&tensors)?;
        reader.events(&mut tasks)?;
        let order = Order::of(&tasks);
        let segments = order.segments();
        let (arena_bytes, weights) = (map.arena_bytes, map.of(Section::Weights));
        let strings = map.of(Section::Strings);
        let (fours, reads_fours) = (Chosen::default(), false);
        let mut own = Self {
            bytes,
            arena_bytes,
            tensors,
            tasks,
            segments,
            inputs,
            outputs,
            weights,
            strings,
            map,
            fours,
            reads_fours,
        };
        check::io(&own)?;
        check::tasks(&mut own, &order)?;
        let section = own.map.packed.iter().find(|(isa, _)| *isa == FOURS);
        if let Some((_, section)) = section {
            own.fours = packed::read(&own, own.file(), section)?;
        }
        Ok(own)
    }

    /// Has runs read weights in this layout: from the file or, where that has none, packed now.
    pub(crate) fn choose(&mut self, layout: Layout) {
        self.reads_fours = layout == Layout::Fours;
        if self.reads_fours && !self.map.packed.iter().any(|(isa, _)| *isa == FOURS) {
            self.fours = packed::pack(self);
        }
    }

    /// The fours of each task, when they were chosen.
    pub(crate) fn fours<'a>(&'a self) -> impl Fn(usize) -> Option<&'a [u8]> + Sync {
        let (chosen, file) = (self.reads_fours.then_some(&self.fours), self.file());
        move |task| chosen?.of(file, task)
    }

    /// Bytes of weights that were packed at load, for want of a section.
    #[must_use]
    pub fn packed_bytes(&self) -> usize {
        self.fours.own_bytes()
    }

    /// Bytes of the fours that a task has, in the file or packed at load.
    #[must_use]
    pub fn fours_bytes(&self, task: usize) -> usize {
        self.fours.of(self.file(), task).map_or(0, <[u8]>::len)
    }

    /// All sections of the file, in order.
    #[must_use]
    pub fn sections(&self) -> Vec<SectionReport> {
        let plain = Section::ALL.map(|section| (section.to_string(), 0, self.map.of(section)));
        let packed = self.map.packed.iter().cloned();
        let packed = packed.map(|(isa, place)| ("PACKED".to_owned(), isa, place));
        let report = |(name, isa, place): (String, u32, Range<usize>)| {
            let (isa, bytes) = (packed::isa_name(isa), place.len() as u64);
            SectionReport { name, isa, bytes }
        };
        plain.into_iter().chain(packed).map(report).collect()
    }

    pub(super) fn file(&self) -> &[u8] {
        self.bytes.as_ref()
    }

    /// A section; empty if the bytes have become fewer.
    pub(super) fn section(&self, section: Section) -> &[u8] {
        self.file().get(self.map.of(section)).unwrap_or_default()
    }

    /// Bytes of the file.
    #[must_use]
    pub fn file_bytes(&self) -> usize {
        self.bytes.as_ref().len()
    }

    /// Bytes of working memory that a run needs.
    #[must_use]
    pub fn arena_bytes(&self) -> usize {
        self.arena_bytes
    }

    /// Bytes of the weights.
    #[must_use]
    pub fn weights_bytes(&self) -> usize {
        self.weights.len()
    }

    /// Leaves a task so many bytes of the scratch memory that it has.
    pub(super) fn trim_scratch(&mut self, task: usize, needed: usize) {
        let scratch = &mut self.tasks[task].scratch;
        scratch.end = scratch.end.min(scratch.start + needed);
    }

    /// Sets the operand that a task's output lies over.
    pub(super) fn lay_over(&mut self, task: usize, operand: Option<usize>) {
        self.tasks[task].over = operand;
    }

    /// The weights; empty if the bytes have become fewer.
    pub(crate) fn weights(&self) -> &[u8] {
        self.bytes.as_ref().get(self.weights.clone()).unwrap_or_default()
    }

    /// All tensors.
    #[must_use]
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// All tasks, in order.
    #[must_use]
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// The tasks cut into parts that run one after the other.
    pub(crate) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Indices of the tensors that are inputs, in the order in which they are bound.
    #[must_use]
    pub fn inputs(&self) -> &[usize] {
        &self.inputs
    }

    /// Indices of the tensors that are outputs, in the order in which they are bound.
    #[must_use]
    pub fn outputs(&self) -> &[usize] {
        &self.outputs
    }

    /// Name of a tensor in the model.
    #[must_use]
    pub fn tensor_name(&self, tensor: &Tensor) -> &str {
        self.string(&tensor.name)
    }

    /// Name of the node that a task was compiled from.
    #[must_use]
    pub fn task_name(&self, task: &Task) -> &str {
        self.string(&task.name)
    }

    fn string(&self, name: &Range<usize>) -> &str {
        let strings = self.bytes.as_ref().get(self.strings.clone()).unwrap_or_default();
        strings.get(name.clone()).and_then(|name| str::from_utf8(name).ok()).unwrap_or("?")
    }
}

/// Reads tables; each value is checked on its own here, against others in [`check`].
struct Reader<'a> {
    file: &'a [u8],
    map: &'a Map,
    strings: &'a str,
}

impl Reader<'_> {
    fn section(&self, section: Section) -> &[u8] {
        &self.file[self.map.of(section)]
    }

    /// The records of a section.
    fn records(
        &self,
        section: Section,
        each: usize,
    ) -> Result<std::slice::ChunksExact<'_, u8>, OmError> {
        let bytes = self.section(section);
        let records = bytes.chunks_exact(each);
        if !records.remainder().is_empty() {
            let what = format!("{} bytes; expected a multiple of {each}", bytes.len());
            return Err(OmError::value(section, bytes.len() / each, what));
        }
        Ok(records)
    }

    /// A span of another section.
    fn span(&self, span: &Range<u64>, section: Section) -> Result<Range<usize>, String> {
        let (own, limit) = (size(span.start)..size(span.end), self.section(section).len());
        if own.end > limit {
            return Err(format!("{span:?} in {section}; it has {limit} bytes"));
        }
        Ok(own)
    }

    fn name(&self, span: &Range<u64>) -> Result<Range<usize>, String> {
        let own = self.span(span, Section::Strings)?;
        let text = self.strings.get(own.clone());
        text.map(|_| own).ok_or_else(|| format!("name {span:?} cuts a character"))
    }

    fn io(&self) -> Result<(Vec<usize>, Vec<usize>), OmError> {
        let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
        for (index, record) in self.records(Section::Io, IO_SIZE)?.enumerate() {
            let tensor = size(u64::from(u32_at(record, 4)));
            match u32_at(record, 0) {
                0 if outputs.is_empty() => inputs.push(tensor),
                1 => outputs.push(tensor),
                kind => {
                    let what = format!("kind {kind}; expected 0 (inputs), then 1 (outputs)");
                    return Err(OmError::value(Section::Io, index, what));
                }
            }
        }
        Ok((inputs, outputs))
    }

    fn tensors(&self, inputs: usize, outputs: usize) -> Result<Vec<Tensor>, OmError> {
        let records = self.records(Section::Tensors, TENSOR_SIZE)?.enumerate();
        records
            .map(|(index, record)| {
                self.tensor(&TensorRecord::read(record), inputs, outputs)
                    .map_err(|what| OmError::value(Section::Tensors, index, what))
            })
            .collect()
    }

    fn tensor(
        &self,
        record: &TensorRecord,
        inputs: usize,
        outputs: usize,
    ) -> Result<Tensor, String> {
        let dtype = DataType(record.dtype);
        if element_size(dtype).is_none() {
            return Err(format!("{} has no kernel", type_name(dtype)));
        }
        let rank = size(u64::from(record.rank));
        let dims = record.dims.map(size);
        if rank > RANK_MAX || dims[rank..].iter().any(|dim| *dim != 0) || !record.reserved_zero {
            return Err(format!("rank {rank}, dims {dims:?}; at most {RANK_MAX}, zeros behind"));
        }
        let shape = Shape::new(&dims[..rank]).map_err(|error| error.to_string())?;
        let info = TensorInfo::new(dtype, shape);
        let (offset, slot) = (size(record.offset), size(u64::from(record.slot)));
        let bytes = info.bytes();
        if size(record.size) != bytes {
            return Err(format!("{} bytes; {info} has {bytes}", record.size));
        }
        let inside = |limit: usize| {
            let end = offset.saturating_add(bytes);
            offset.is_multiple_of(ALIGNMENT) && end <= limit && slot == 0
        };
        let bound = |count: usize| offset == 0 && slot < count;
        let place = match record.place {
            0 if inside(self.map.arena_bytes) => Place::Arena(offset),
            1 if inside(self.section(Section::Weights).len()) => Place::Weights(offset),
            2 if bound(inputs) => Place::Input(slot),
            3 if bound(outputs) => Place::Output(slot),
            place => {
                return Err(format!("place {place}, slot {slot}, bytes {offset} + {bytes}"));
            }
        };
        Ok(Tensor { info, place, bytes, name: self.name(&record.name)? })
    }

    fn tasks(&self, tensors: &[Tensor]) -> Result<Vec<Task>, OmError> {
        let operands = self.records(Section::Operands, OPERAND_SIZE)?;
        let operands: Vec<u32> = operands.map(|operand| u32_at(operand, 0)).collect();
        // Operands are consecutive, so all tasks together have as many as the file holds.
        let mut rest = &operands[..];
        let records = self.records(Section::Tasks, TASK_SIZE)?.enumerate();
        let tasks = records
            .map(|(index, record)| {
                let record = TaskRecord::read(record);
                let first = operands.len() - rest.len();
                let reads = size(record.operands.end - record.operands.start);
                let count = reads.saturating_add(size(u64::from(record.more)));
                if size(record.operands.start) != first || count > rest.len() {
                    let (found, left) = (&record.operands, rest.len());
                    let what = format!("operands {found:?}; expected from {first} on, {left} left");
                    return Err(OmError::value(Section::Tasks, index, what));
                }
                let (own, after) = rest.split_at(count);
                rest = after;
                self.task(index, &record, own.split_at(reads), tensors.len())
            })
            .collect::<Result<Vec<Task>, OmError>>()?;
        if !rest.is_empty() {
            let what = format!("{} operands that no task has", rest.len());
            return Err(OmError::value(Section::Operands, operands.len() - rest.len(), what));
        }
        Ok(tasks)
    }

    fn task(
        &self,
        index: usize,
        record: &TaskRecord,
        (operands, more): (&[u32], &[u32]),
        tensors: usize,
    ) -> Result<Task, OmError> {
        let refuse = |what: String| OmError::value(Section::Tasks, index, what);
        let tensor = |index: u32| {
            let what = || refuse(format!("tensor {index}; there are {tensors}"));
            Some(size(u64::from(index))).filter(|own| *own < tensors).ok_or_else(what)
        };
        let line = ops::by_code(record.op)
            .ok_or_else(|| refuse(format!("op {} is not in the table", record.op)))?;
        let stream = size(u64::from(record.stream));
        if stream >= STREAMS_MAX || !record.reserved_zero {
            let what = format!("stream {stream}; expected less than {STREAMS_MAX}, reserved zero");
            return Err(refuse(what));
        }
        let name = self.name(&record.name).map_err(refuse)?;
        let operands = operands.iter().map(|index| tensor(*index)).collect::<Result<_, _>>()?;
        let outputs = std::iter::once(&record.output).chain(more).map(|index| tensor(*index));
        let outputs = outputs.collect::<Result<Vec<_>, _>>()?;
        if outputs.len() > OUTPUTS_MAX {
            let found = outputs.len();
            return Err(refuse(format!("{found} outputs; at most {OUTPUTS_MAX} are supported")));
        }
        let params = self.span(&record.params, Section::Params).map_err(refuse)?;
        let params = &self.section(Section::Params)[params];
        let op = line.decode_params(params).map_err(|error| OmError::Op {
            task: index,
            name: self.strings[name.clone()].to_owned(),
            op: line.name,
            error,
        })?;
        let scratch = size(record.scratch.start)..size(record.scratch.end);
        if scratch.end > self.map.arena_bytes || !scratch.start.is_multiple_of(ALIGNMENT) {
            let arena = self.map.arena_bytes;
            return Err(refuse(format!("scratch {scratch:?}; the arena has {arena} bytes")));
        }
        let (over, after) = (None, Vec::new());
        Ok(Task { op, operands, outputs, scratch, over, stream, after, name })
    }

    /// Gives each task what it begins after.
    fn events(&self, tasks: &mut [Task]) -> Result<(), OmError> {
        let mut last = None;
        for (index, record) in self.records(Section::Events, EVENT_SIZE)?.enumerate() {
            let [task, after] = [0, 4].map(|at| size(u64::from(u32_at(record, at))));
            let refuse = |what: String| Err(OmError::value(Section::Events, index, what));
            if last.replace((task, after)) >= Some((task, after)) {
                return refuse(format!("task {task} after {after}; expected ascending ones"));
            }
            if task >= tasks.len() || after >= task {
                let count = tasks.len();
                return refuse(format!("task {task} after {after}; there are {count}, in order"));
            }
            let (stream, own) = (tasks[task].stream, tasks[after].stream);
            if stream == own {
                return refuse(format!("task {task} after {after}: both are on stream {stream}"));
            }
            tasks[task].after.push(after);
        }
        Ok(())
    }
}
