//! Submission queue entries: 64 bytes that say all about a task.
//!
//! ```text
//! byte  bits    field                    byte  size  field
//!   0   6+1+1   kind, locks                8     6   object: notify (13 bits) or event
//!   1   2+2+2+1 ie, pre, post, wr_cqe     14     1   kernel_credit
//!   2   16      block_dim or task type    16    48   payload
//!   4   16      stream
//!   6   16      task
//! ```
//! A kind is what hardware tells apart. Most tasks of this device are *placeholders* (kind 3) whose
//! task type, in bytes 2 and 3, says what they are.

use std::mem::{offset_of, size_of};
use std::sync::atomic::{AtomicU64, Ordering};

/// Kinds, bits 0 to 5 of byte 0.
pub mod kind {
    /// A kernel of the cores.
    pub const KERNEL: u8 = 0;
    /// A kernel of the device's CPU.
    pub const AICPU: u8 = 1;
    /// A task by its task type.
    pub const PLACE_HOLDER: u8 = 3;
    /// Marks an event.
    pub const EVENT_RECORD: u8 = 4;
    /// Waits for an event's mark.
    pub const EVENT_WAIT: u8 = 5;
    /// Sets a notify.
    pub const NOTIFY_RECORD: u8 = 6;
    /// Waits for a notify and clears it.
    pub const NOTIFY_WAIT: u8 = 7;
    /// Writes a value.
    pub const WRITE_VALUE: u8 = 8;
    /// Copies memory.
    pub const SDMA: u8 = 11;
}

/// Task types of placeholders.
pub mod task {
    /// A maintenance operation on a model.
    pub const MODEL_MAINTENANCE: u16 = 12;
    /// Starts a model.
    pub const MODEL_EXECUTE: u16 = 13;
    /// Starts a stream of the model if a value compares.
    pub const STREAM_SWITCH: u16 = 18;
    /// Starts a stream of the model.
    pub const STREAM_ACTIVE: u16 = 19;
    /// A place to jump to.
    pub const LABEL_SET: u16 = 20;
    /// Makes an event as if it had never been recorded.
    pub const EVENT_RESET: u16 = 24;
    /// Fills memory.
    pub const MEMSET: u16 = 32;
    /// Calls a function on the host's thread.
    pub const HOST_FUNCTION: u16 = 72;
    /// Jumps to one label of a list.
    pub const LABEL_SWITCH_BY_INDEX: u16 = 75;
    /// Jumps to a label.
    pub const LABEL_GOTO: u16 = 77;
    /// Nothing.
    pub const NOP: u16 = 103;
    /// Waits until a value is as asked for.
    pub const WAIT_VALUE: u16 = 114;
    /// Runs a branch of a condition.
    pub const CAPTURE_CONDITION: u16 = 133;
    /// Marks an event for what is outside the model.
    pub const CAPTURE_RECORD_EXTERNAL: u16 = 134;
    /// Waits for an event that is recorded outside the model.
    pub const CAPTURE_WAIT_EXTERNAL: u16 = 135;
}

/// Bit of byte 1: the task writes a report.
pub const WRITE_REPORT: u8 = 1 << 6;

/// Bits of a notify's number.
pub const NOTIFY_BITS: u32 = 13;

/// Bytes of an entry.
pub const SQE_BYTES: usize = 64;

/// What all entries begin with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Header {
    /// Kind in bits 0 to 5.
    pub kind: u8,
    /// Interrupt, barriers, report.
    pub flags: u8,
    /// Blocks of a kernel; task type of a placeholder.
    pub block_dim: u16,
    /// Stream that users know.
    pub stream: u16,
    /// Task within the stream.
    pub task: u16,
}

/// One entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Sqe {
    /// Kind, stream, task.
    pub header: Header,
    /// Notify or event; build version of a placeholder.
    pub object: u32,
    /// Not used.
    pub reserved: u16,
    /// Time credit of a kernel.
    pub kernel_credit: u8,
    /// Not used.
    pub reserved_end: u8,
    /// By kind.
    pub payload: [u64; 6],
}

/// Payload of a maintenance entry, the last 48 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Maintenance {
    /// The model.
    pub model: u16,
    /// The stream that is bound or unbound.
    pub stream: u16,
    /// What is to be done: [`Operation`].
    pub operation: u16,
    /// 0 head, 1 waits to be activated.
    pub stream_type: u16,
    /// First task of the stream.
    pub first_task: u16,
    /// The model's end notify.
    pub end_notify: u16,
    /// 1: executed by the device; 2: by its CPU.
    pub executor_flag: u32,
    /// Not used here.
    pub times_address: u64,
    /// Not used here.
    pub reserved: [u32; 6],
}

/// What a maintenance entry asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Operation {
    /// Binds a stream.
    StreamAdd = 0,
    /// Unbinds a stream.
    StreamDelete = 1,
    /// Ends a model's life.
    ModelDestroy = 3,
    /// Makes a model ready.
    ModelPreProc = 4,
}

const _: () = {
    assert!(size_of::<Sqe>() == SQE_BYTES);
    assert!(size_of::<Header>() == 8);
    assert!(offset_of!(Header, flags) == 1 && offset_of!(Header, block_dim) == 2);
    assert!(offset_of!(Header, stream) == 4 && offset_of!(Header, task) == 6);
    assert!(offset_of!(Sqe, object) == 8 && offset_of!(Sqe, kernel_credit) == 14);
    assert!(offset_of!(Sqe, payload) == 16);
    assert!(size_of::<Maintenance>() == 48);
    assert!(offset_of!(Maintenance, operation) == 4 && offset_of!(Maintenance, first_task) == 8);
    assert!(offset_of!(Maintenance, end_notify) == 10);
    assert!(offset_of!(Maintenance, executor_flag) == 12);
    assert!(offset_of!(Maintenance, times_address) == 16);
    assert!(offset_of!(Maintenance, reserved) == 24);
};

impl Sqe {
    /// An entry of a kind.
    #[must_use]
    pub fn new(kind: u8) -> Self {
        Self { header: Header { kind, ..Header::default() }, ..Self::default() }
    }

    /// A placeholder of a task type.
    #[must_use]
    pub fn place_holder(task_type: u16) -> Self {
        let mut sqe = Self::new(kind::PLACE_HOLDER);
        sqe.header.block_dim = task_type;
        sqe
    }

    /// Sets a notify; `timeout` in seconds is of waits.
    #[must_use]
    pub fn notify(kind: u8, notify: u32, timeout: u32) -> Self {
        let mut sqe = Self::new(kind);
        sqe.object = notify & ((1 << NOTIFY_BITS) - 1);
        sqe.payload[0] = u64::from(timeout);
        sqe
    }

    /// Marks an event or waits for its mark number `mark`; bytes 20 to 23 are the timeout.
    #[must_use]
    pub fn event(kind: u8, event: u16, mark: u64, timeout: u32) -> Self {
        let mut sqe = Self::new(kind);
        sqe.object = u32::from(event);
        sqe.payload[0] = u64::from(timeout) << 32;
        sqe.payload[1] = mark;
        sqe
    }

    /// A maintenance entry.
    #[must_use]
    pub fn maintenance(m: &Maintenance) -> Self {
        let mut sqe = Self::place_holder(task::MODEL_MAINTENANCE);
        let half = |a: u16, b: u16, c: u16, d: u16| {
            [a, b, c, d].iter().rev().fold(0, |word, part| word << 16 | u64::from(*part))
        };
        sqe.payload[0] = half(m.model, m.stream, m.operation, m.stream_type);
        sqe.payload[1] = half(m.first_task, m.end_notify, 0, 0) | u64::from(m.executor_flag) << 32;
        sqe.payload[2] = m.times_address;
        sqe
    }

    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> u8 {
        self.header.kind & 0x3F
    }

    /// Task type of a placeholder.
    #[must_use]
    pub fn task_type(&self) -> u16 {
        self.header.block_dim
    }

    /// A 16-bit field of the payload, counted in pairs of bytes.
    #[must_use]
    pub fn half(&self, index: usize) -> u16 {
        u16::try_from(self.payload[index / 4] >> (index % 4 * 16) & 0xFFFF).unwrap_or_default()
    }

    /// As eight little-endian words.
    #[must_use]
    pub fn words(&self) -> [u64; 8] {
        let h = &self.header;
        let mut words = [0; 8];
        words[0] = u64::from(h.kind)
            | u64::from(h.flags) << 8
            | u64::from(h.block_dim) << 16
            | u64::from(h.stream) << 32
            | u64::from(h.task) << 48;
        words[1] = u64::from(self.object)
            | u64::from(self.reserved) << 32
            | u64::from(self.kernel_credit) << 48
            | u64::from(self.reserved_end) << 56;
        words[2..].copy_from_slice(&self.payload);
        words
    }

    /// The entry that these words are.
    #[must_use]
    pub fn from_words(words: [u64; 8]) -> Self {
        let [a, b, payload @ ..] = words;
        let (a, b) = (a.to_le_bytes(), b.to_le_bytes());
        let half = |bytes: [u8; 8], at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        Self {
            header: Header {
                kind: a[0],
                flags: a[1],
                block_dim: half(a, 2),
                stream: half(a, 4),
                task: half(a, 6),
            },
            object: u32::from_le_bytes([b[0], b[1], b[2], b[3]]),
            reserved: half(b, 4),
            kernel_credit: b[6],
            reserved_end: b[7],
            payload,
        }
    }

    /// As bytes, as they lie in a queue.
    #[must_use]
    pub fn bytes(&self) -> [u8; SQE_BYTES] {
        let mut bytes = [0; SQE_BYTES];
        for (to, word) in bytes.chunks_exact_mut(8).zip(self.words()) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }
}

/// One place of a submission queue. Its words are written before the queue's tail passes it and
/// read after that was seen, so they need no order of their own.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Place([AtomicU64; 8]);

impl Place {
    pub(crate) fn write(&self, sqe: &Sqe) {
        for (place, word) in self.0.iter().zip(sqe.words()) {
            place.store(word, Ordering::Relaxed);
        }
    }

    pub(crate) fn read(&self) -> Sqe {
        Sqe::from_words(std::array::from_fn(|index| self.0[index].load(Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::{Maintenance, Place, Sqe, kind};

    #[test]
    fn v7_20_golden_bytes_of_a_notify_record() {
        let mut sqe = Sqe::notify(kind::NOTIFY_RECORD, 5, 0);
        (sqe.header.stream, sqe.header.task) = (3, 9);
        let bytes = sqe.bytes();
        assert_eq!(bytes[0] & 0x3F, 6);
        assert_eq!(bytes[4..8], [3, 0, 9, 0]);
        assert_eq!(u16::from_le_bytes([bytes[8], bytes[9]]) & 0x1FFF, 5);
        assert!(bytes[10..].iter().all(|byte| *byte == 0));
        let wait = Sqe::notify(kind::NOTIFY_WAIT, 5, 0x0102_0304).bytes();
        assert_eq!((wait[0], &wait[16..20]), (7, &[4, 3, 2, 1][..]));
    }

    #[test]
    fn golden_bytes_of_events_and_maintenance() {
        let event = Sqe::event(kind::EVENT_WAIT, 0x0203, 7, 9).bytes();
        assert_eq!((event[0], event[8], event[9], event[20]), (5, 3, 2, 9));
        let m = Maintenance {
            model: 0x0102,
            stream: 0x0304,
            operation: 1,
            stream_type: 1,
            first_task: 0x0506,
            end_notify: 0x0708,
            executor_flag: 1,
            ..Maintenance::default()
        };
        let bytes = Sqe::maintenance(&m).bytes();
        assert_eq!(bytes[16..32], [2, 1, 4, 3, 1, 0, 1, 0, 6, 5, 8, 7, 1, 0, 0, 0]);
        assert_eq!((bytes[0], bytes[2]), (3, 12));
    }

    #[test]
    fn places_keep_every_word() {
        let words = [1 << 63 | 0x0102_0304, 2 << 50 | 7, 3, 4, 5, 6, 7, u64::MAX];
        let (place, sqe) = (Place::default(), Sqe::from_words(words));
        place.write(&sqe);
        assert_eq!(place.read().words(), words);
    }
}
