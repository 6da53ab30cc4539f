//! Records of a program as bytes: the layouts of the module's documentation, field by field.

use std::ops::Range;

use crate::shape::RANK_MAX;

/// Bytes of the header.
pub(super) const HEADER_SIZE: usize = 64;
/// Bytes of an entry of the section table.
pub(super) const SECTION_SIZE: usize = 32;
/// Bytes of a task.
pub(super) const TASK_SIZE: usize = 64;
/// Bytes of a tensor.
pub(super) const TENSOR_SIZE: usize = 128;
/// Bytes of an operand.
pub(super) const OPERAND_SIZE: usize = 4;
/// Bytes of an entry of the IO section.
pub(super) const IO_SIZE: usize = 8;
/// Bytes of an event.
pub(super) const EVENT_SIZE: usize = 8;
/// Where a task's stream stands in its record.
pub(super) const STREAM_AT: usize = 4;

/// A number at an offset of a record that is long enough.
pub(super) fn u32_at(record: &[u8], offset: usize) -> u32 {
    record[offset..].first_chunk().map_or(0, |word| u32::from_le_bytes(*word))
}

/// A number at an offset of a record that is long enough.
pub(super) fn u64_at(record: &[u8], offset: usize) -> u64 {
    record[offset..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word))
}

fn u16_at(record: &[u8], offset: usize) -> u16 {
    record[offset..].first_chunk().map_or(0, |word| u16::from_le_bytes(*word))
}

fn put<const N: usize>(record: &mut [u8], offset: usize, word: [u8; N]) {
    record[offset..offset + N].copy_from_slice(&word);
}

/// Bytes within a section.
pub(super) type Span = Range<u64>;

fn span(offset: u64, size: u64) -> Span {
    offset..offset.saturating_add(size)
}

/// A task as it stands in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TaskRecord {
    pub(super) op: u16,
    pub(super) stream: u32,
    pub(super) operands: Span,
    pub(super) output: u32,
    pub(super) more: u32,
    pub(super) params: Span,
    pub(super) name: Span,
    pub(super) scratch: Span,
    pub(super) reserved_zero: bool,
}

impl TaskRecord {
    pub(super) fn read(record: &[u8]) -> Self {
        let operands = u64::from(u32_at(record, 8));
        Self {
            op: u16_at(record, 0),
            stream: u32_at(record, STREAM_AT),
            operands: span(operands, u64::from(u32_at(record, 12))),
            output: u32_at(record, 16),
            more: u32_at(record, 20),
            params: span(u64_at(record, 24), u64::from(u32_at(record, 32))),
            name: span(u64_at(record, 40), u64::from(u32_at(record, 36))),
            scratch: span(u64_at(record, 48), u64_at(record, 56)),
            reserved_zero: u16_at(record, 2) == 0,
        }
    }

    /// The bytes; `None` when a number does not fit its field.
    pub(super) fn bytes(&self) -> Option<[u8; TASK_SIZE]> {
        let length = |span: &Span| u32::try_from(span.end - span.start).ok();
        let mut record = [0; TASK_SIZE];
        put(&mut record, 0, self.op.to_le_bytes());
        put(&mut record, STREAM_AT, self.stream.to_le_bytes());
        put(&mut record, 8, u32::try_from(self.operands.start).ok()?.to_le_bytes());
        put(&mut record, 12, length(&self.operands)?.to_le_bytes());
        put(&mut record, 16, self.output.to_le_bytes());
        put(&mut record, 20, self.more.to_le_bytes());
        put(&mut record, 24, self.params.start.to_le_bytes());
        put(&mut record, 32, length(&self.params)?.to_le_bytes());
        put(&mut record, 36, length(&self.name)?.to_le_bytes());
        put(&mut record, 40, self.name.start.to_le_bytes());
        put(&mut record, 48, self.scratch.start.to_le_bytes());
        put(&mut record, 56, (self.scratch.end - self.scratch.start).to_le_bytes());
        Some(record)
    }
}

/// A tensor as it stands in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TensorRecord {
    pub(super) dtype: i32,
    pub(super) rank: u32,
    pub(super) dims: [u64; RANK_MAX],
    pub(super) place: u32,
    pub(super) slot: u32,
    pub(super) offset: u64,
    pub(super) size: u64,
    pub(super) name: Span,
    pub(super) reserved_zero: bool,
}

impl TensorRecord {
    pub(super) fn read(record: &[u8]) -> Self {
        Self {
            dtype: u32_at(record, 0).cast_signed(),
            rank: u32_at(record, 4),
            dims: std::array::from_fn(|dim| u64_at(record, 8 + 8 * dim)),
            place: u32_at(record, 72),
            slot: u32_at(record, 76),
            offset: u64_at(record, 80),
            size: u64_at(record, 88),
            name: span(u64_at(record, 96), u64::from(u32_at(record, 104))),
            reserved_zero: record[108..].iter().all(|byte| *byte == 0),
        }
    }

    /// The bytes; `None` when a number does not fit its field.
    pub(super) fn bytes(&self) -> Option<[u8; TENSOR_SIZE]> {
        let mut record = [0; TENSOR_SIZE];
        put(&mut record, 0, self.dtype.to_le_bytes());
        put(&mut record, 4, self.rank.to_le_bytes());
        for (dim, value) in self.dims.iter().enumerate() {
            put(&mut record, 8 + 8 * dim, value.to_le_bytes());
        }
        put(&mut record, 72, self.place.to_le_bytes());
        put(&mut record, 76, self.slot.to_le_bytes());
        put(&mut record, 80, self.offset.to_le_bytes());
        put(&mut record, 88, self.size.to_le_bytes());
        put(&mut record, 96, self.name.start.to_le_bytes());
        let length = u32::try_from(self.name.end - self.name.start).ok()?;
        put(&mut record, 104, length.to_le_bytes());
        Some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_keep_every_field_at_its_offset() {
        let task = TaskRecord {
            op: 0x0201,
            stream: 3,
            operands: 4..9,
            output: 6,
            more: 2,
            params: 7..15,
            name: 9..19,
            scratch: 64..192,
            reserved_zero: true,
        };
        let bytes = task.bytes().unwrap();
        assert_eq!(TaskRecord::read(&bytes), task);
        let at = |offset: usize| bytes[offset];
        let places = [0, 1, 4, 8, 12, 16, 20, 24, 32, 36, 40, 48, 56];
        assert_eq!(places.map(at), [1, 2, 3, 4, 5, 6, 2, 7, 8, 10, 9, 64, 128]);
        let mut strange = bytes;
        strange[3] = 1;
        assert!(!TaskRecord::read(&strange).reserved_zero);
        let tensor = TensorRecord {
            dtype: 9,
            rank: 2,
            dims: [2, 3, 0, 0, 0, 0, 0, 0],
            place: 1,
            slot: 5,
            offset: 64,
            size: 48,
            name: 7..11,
            reserved_zero: true,
        };
        let bytes = tensor.bytes().unwrap();
        assert_eq!(TensorRecord::read(&bytes), tensor);
        let at = |offset: usize| bytes[offset];
        let places = [0, 4, 8, 16, 72, 76, 80, 88, 96, 104];
        assert_eq!(places.map(at), [9, 2, 2, 3, 1, 5, 64, 48, 7, 4]);
        let mut strange = bytes;
        strange[127] = 1;
        assert!(!TensorRecord::read(&strange).reserved_zero);
    }
}
