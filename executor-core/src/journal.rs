//! The one-entry journal of a worker: what it is doing right now.
//!
//! ```text
//! operation 63 op 56|55 out 48|47 block 24|23 entry 0
//! detail    63 queue 48|47 lane 40|31 position 0
//! ```
//! `detail` is stored first, `operation` last (release); clearing stores operation 0. A worker that
//! vanishes therefore leaves either no operation or a complete one. Cost: two stores and one to
//! clear, all to a line that only this worker writes.
//!
//! | op | named | a sweep of the dead worker |
//! |---|---|---|
//! | ALLOC | entry = block | entry is tagged: freed by the tag scan; block becomes suspect |
//! | COPY | new entry, block | entry freed by the tag scan; block becomes suspect |
//! | FREE | entry, block | block becomes suspect; entry without a block freed, else tag scan |
//! | ENQUEUE, ring word there | entry, place | committed: tail finished, destination marked |
//! | ENQUEUE, ring word absent | entry, place | entry goes back to the worker and is freed |
//! | DEQUEUE, head at position | entry, place | not committed: entry goes back to the queue |
//! | DEQUEUE, head beyond | entry, place | the worker owns it |
//! | CHAIN | head, member | linked: tail and length finished; only tagged: the worker's again |

use crate::abi::control::Journal;
use crate::primitive::{Ordering, kill_point};

/// Kind of operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Op {
    /// Taking a block with its primary entry.
    Alloc = 1,
    /// Taking an extra entry for a block.
    Copy = 2,
    /// Giving an entry back.
    Free = 3,
    /// Moving an entry into a queue.
    Enqueue = 4,
    /// Moving an entry out of a queue.
    Dequeue = 5,
    /// Appending an entry to a chain.
    Chain = 6,
}

/// A decoded journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// Kind of operation.
    pub op: Op,
    /// Destination number plus one of an ENQUEUE; 0 = not an output.
    pub out: u32,
    /// Entry.
    pub entry: u32,
    /// Block; for CHAIN the head entry.
    pub block: u32,
    /// Queue.
    pub queue: u32,
    /// Lane of the queue.
    pub lane: u32,
    /// Ring position, 0..2*depth.
    pub position: u32,
}

impl Record {
    /// A record without a queue.
    #[must_use]
    pub const fn of(op: Op, entry: u32, block: u32) -> Record {
        Record { op, out: 0, entry, block, queue: 0, lane: 0, position: 0 }
    }
}

const INDEX_MASK: u64 = 0x00FF_FFFF;

/// What an end of a lane writes into `detail` besides the position.
#[inline]
#[must_use]
pub const fn place(queue: u32, lane: u32) -> u64 {
    (queue as u64 & 0xFFFF) << 48 | (lane as u64 & 0xFF) << 40
}

/// What it writes into `operation` besides entry and block.
#[inline]
#[must_use]
pub const fn action(op: Op, out: u32) -> u64 {
    (op as u64) << 56 | (out as u64 & 0xFF) << 48
}

/// Opens the journal: from here on a sweep would find `record`.
#[inline]
pub fn open(journal: &Journal, record: &Record) {
    let detail = place(record.queue, record.lane) | u64::from(record.position);
    let entry = (u64::from(record.block) & INDEX_MASK) << 24 | u64::from(record.entry) & INDEX_MASK;
    open_words(journal, action(record.op, record.out) | entry, detail);
}

/// As [`open`], of words made by [`action`] and [`place`]. The low 48 bits of `operation` are those
/// of a ring word: block and entry.
#[inline]
pub(crate) fn open_words(journal: &Journal, operation: u64, detail: u64) {
    // SYNC: release, pairs with `read`: who sees the operation sees its detail.
    journal.detail.store(detail, Ordering::Relaxed);
    journal.operation.store(operation, Ordering::Release);
    kill_point!("journal opened");
}

/// Closes the journal.
#[inline]
pub fn close(journal: &Journal) {
    // SYNC: release: a cleared journal means every store of the operation is visible.
    journal.operation.store(0, Ordering::Release);
    kill_point!("journal closed");
}

/// What the worker was doing, if anything. Unknown operations read as none.
#[must_use]
#[allow(clippy::cast_possible_truncation, reason = "fields are cut out of the words")]
pub fn read(journal: &Journal) -> Option<Record> {
    // SYNC: acquire, pairs with `open`.
    let operation = journal.operation.load(Ordering::Acquire);
    let op = match operation >> 56 {
        1 => Op::Alloc,
        2 => Op::Copy,
        3 => Op::Free,
        4 => Op::Enqueue,
        5 => Op::Dequeue,
        6 => Op::Chain,
        _ => return None,
    };
    let detail = journal.detail.load(Ordering::Relaxed);
    Some(Record {
        op,
        out: (operation >> 48) as u32 & 0xFF,
        block: ((operation >> 24) & INDEX_MASK) as u32,
        entry: (operation & INDEX_MASK) as u32,
        queue: (detail >> 48) as u32 & 0xFFFF,
        lane: (detail >> 40) as u32 & 0xFF,
        position: detail as u32,
    })
}
