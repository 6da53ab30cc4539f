//! Writing a program. The same calls give the same bytes.

use crate::aligned::{AlignedBytes, align_up};
use crate::checksum::checksum;
use crate::ops::Op;
use crate::params::ParamWriter;
use crate::program::records::{
    HEADER_SIZE, SECTION_SIZE, STREAM_AT, Span, TASK_SIZE, TENSOR_SIZE, TaskRecord, TensorRecord,
};
use crate::program::section::{Contents, header_checksum};
use crate::program::{FORMAT_VERSION, MAGIC, Place, Section};
use crate::shape::RANK_MAX;
use crate::tensor::TensorInfo;

/// Collects the parts of a program. What it is given is written, not checked:
/// [`crate::program::Om::open`] does that.
#[derive(Debug, Default)]
pub struct Writer {
    tasks: Vec<u8>,
    tensors: Vec<u8>,
    operands: Vec<u8>,
    params: Vec<u8>,
    io: Vec<u8>,
    strings: Vec<u8>,
    weights: Vec<u8>,
    events: Vec<u8>,
    /// A number did not fit its field.
    overflow: bool,
}

impl Writer {
    /// A program of nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn name(&mut self, name: &str) -> Span {
        let offset = self.strings.len() as u64;
        self.strings.extend_from_slice(name.as_bytes());
        offset..self.strings.len() as u64
    }

    fn index(&mut self, count: usize) -> u32 {
        u32::try_from(count).unwrap_or_else(|_| {
            self.overflow = true;
            u32::MAX
        })
    }

    /// Adds a tensor; gives its index.
    pub fn tensor(&mut self, name: &str, info: &TensorInfo, place: Place) -> u32 {
        let own = self.tensors.len() / TENSOR_SIZE;
        let name = self.name(name);
        let (place, slot, offset) = match place {
            Place::Arena(offset) => (0, 0, offset),
            Place::Weights(offset) => (1, 0, offset),
            Place::Input(slot) => (2, slot, 0),
            Place::Output(slot) => (3, slot, 0),
        };
        let mut dims = [0; RANK_MAX];
        for (to, dim) in dims.iter_mut().zip(info.shape.dims()) {
            *to = *dim as u64;
        }
        let rank = self.index(info.shape.rank());
        let slot = self.index(slot);
        let (dtype, offset, size) = (info.dtype.0, offset as u64, info.bytes() as u64);
        let reserved_zero = true;
        let record =
            TensorRecord { dtype, rank, dims, place, slot, offset, size, name, reserved_zero };
        match record.bytes() {
            Some(bytes) => self.tensors.extend_from_slice(&bytes),
            None => self.overflow = true,
        }
        self.index(own)
    }

    /// Adds a constant with its bytes; gives its index.
    pub fn constant(&mut self, name: &str, info: &TensorInfo, bytes: &[u8]) -> u32 {
        self.weights.resize(align_up(self.weights.len()), 0);
        let offset = self.weights.len();
        self.weights.extend_from_slice(bytes);
        self.tensor(name, info, Place::Weights(offset))
    }

    /// Adds the next input: a tensor whose place is that input.
    pub fn input(&mut self, tensor: u32) {
        self.io.extend_from_slice(&0u32.to_le_bytes());
        self.io.extend_from_slice(&tensor.to_le_bytes());
    }

    /// Adds the next output, after all inputs: a tensor whose place is that output.
    pub fn output(&mut self, tensor: u32) {
        self.io.extend_from_slice(&1u32.to_le_bytes());
        self.io.extend_from_slice(&tensor.to_le_bytes());
    }

    /// Adds the next task; `scratch` is the place in the arena and the size of what the op needs.
    pub fn task(
        &mut self,
        name: &str,
        op: &dyn Op,
        operands: &[u32],
        outputs: &[u32],
        scratch: (usize, usize),
    ) {
        let name = self.name(name);
        let mut writer = ParamWriter::default();
        op.encode(&mut writer);
        let params = self.params.len() as u64;
        self.params.extend_from_slice(&writer.into_bytes());
        let first = (self.operands.len() / 4) as u64;
        let (output, more) = outputs.split_first().unwrap_or((&u32::MAX, &[]));
        for tensor in operands.iter().chain(more) {
            self.operands.extend_from_slice(&tensor.to_le_bytes());
        }
        let more = self.index(more.len());
        let record = TaskRecord {
            op: op.code(),
            stream: 0,
            operands: first..first + operands.len() as u64,
            output: *output,
            more,
            params: params..self.params.len() as u64,
            name,
            scratch: scratch.0 as u64..scratch.0 as u64 + scratch.1 as u64,
            reserved_zero: true,
        };
        match record.bytes() {
            Some(bytes) => self.tasks.extend_from_slice(&bytes),
            None => self.overflow = true,
        }
    }

    /// Puts the task that was added last on a stream, where it begins after these tasks of others:
    /// ascending, each once.
    pub fn order(&mut self, stream: u32, after: &[u32]) {
        let Some(at) = self.tasks.len().checked_sub(TASK_SIZE) else { return };
        self.tasks[at + STREAM_AT..][..4].copy_from_slice(&stream.to_le_bytes());
        let task = self.index(at / TASK_SIZE);
        for after in after {
            self.events.extend_from_slice(&task.to_le_bytes());
            self.events.extend_from_slice(&after.to_le_bytes());
        }
    }

    /// The file, for an arena of this size; `None` when it has more of something than the format
    /// can count.
    #[must_use]
    pub fn finish(self, arena_bytes: usize) -> Option<AlignedBytes> {
        if self.overflow {
            return None;
        }
        debug_assert!(self.tasks.len().is_multiple_of(TASK_SIZE));
        let contents = [
            (Section::Tasks, self.tasks),
            (Section::Tensors, self.tensors),
            (Section::Operands, self.operands),
            (Section::Params, self.params),
            (Section::Io, self.io),
            (Section::Strings, self.strings),
            (Section::Weights, self.weights),
            (Section::Events, self.events),
        ];
        let contents = contents.each_ref().map(|(section, bytes)| Contents {
            kind: section.kind(),
            isa: 0,
            bytes,
        });
        file(&contents, arena_bytes)
    }
}

/// A file of these sections; `None` when there are more than can be counted.
pub(super) fn file(contents: &[Contents<'_>], arena_bytes: usize) -> Option<AlignedBytes> {
    let mut table = Vec::new();
    let mut end = HEADER_SIZE + contents.len() * SECTION_SIZE;
    let mut places = Vec::new();
    for Contents { kind, isa, bytes } in contents {
        let offset = align_up(end);
        end = offset + bytes.len();
        places.push(offset);
        table.extend_from_slice(&kind.to_le_bytes());
        table.extend_from_slice(&isa.to_le_bytes());
        table.extend_from_slice(&(offset as u64).to_le_bytes());
        table.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        table.extend_from_slice(&checksum(bytes).to_le_bytes());
    }
    let mut file = AlignedBytes::zeroed(align_up(end));
    let (size, sections) = (file.len() as u64, u32::try_from(contents.len()).ok()?);
    file[..8].copy_from_slice(&MAGIC);
    file[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    file[12..16].copy_from_slice(&sections.to_le_bytes());
    file[16..24].copy_from_slice(&size.to_le_bytes());
    file[24..32].copy_from_slice(&(arena_bytes as u64).to_le_bytes());
    file[HEADER_SIZE..][..table.len()].copy_from_slice(&table);
    let sum = header_checksum(&file[..HEADER_SIZE], &table);
    file[56..64].copy_from_slice(&sum.to_le_bytes());
    for (offset, Contents { bytes, .. }) in places.into_iter().zip(contents) {
        file[offset..][..bytes.len()].copy_from_slice(bytes);
    }
    Some(file)
}
