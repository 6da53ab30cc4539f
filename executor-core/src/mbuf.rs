//! The mbuf handle and everything that reads or writes one mbuf.
//!
//! An [`Mbuf`] is the right to one entry: it can't be cloned, is consumed by `enqueue` and `free`,
//! and has no `Drop` (giving it back needs a worker). Its head is 32 relaxed words; its payload is
//! a checked span.
//!
//! Invariants: M1 who holds an `Mbuf` is named by the entry's owner word. M2 a block is written
//! only by its own slot and only while one entry refers to it. M3 a head line that `Marks` does not
//! list is zero.
//!
//! Killed anywhere here: the entry is tagged with the dead worker, its words are what was written
//! so far. The sweep frees it, or leaves an input for the successor (whose payload nobody else
//! could write, M2). What hands it on commits elsewhere: [`crate::pool`], [`crate::queue`].

use crate::abi::MsgInfo;
use crate::abi::control::Entry;
use crate::abi::head::{EOS_OFFSET, EOS_VALUE, HEAD_SIZE, LINE_WORDS, MSG_INFO_OFFSET};
use crate::primitive::Ordering;
use crate::queue::{TURN, ring_parts, ring_word};
use crate::region::{BlockSpan, Memory};

/// The right to one mbuf entry: its ring word without the turn (entry, block, low bits of the
/// entry's generation), so that a queue stores and returns the handle as it is.
///
/// ```compile_fail
/// fn twice(worker: &mut executor_core::pool::Worker<'_>, mbuf: executor_core::mbuf::Mbuf) {
///     worker.free(mbuf);
///     worker.free(mbuf); // used after it was given back
/// }
/// ```
/// ```compile_fail
/// fn copy(mbuf: executor_core::mbuf::Mbuf) -> executor_core::mbuf::Mbuf {
///     mbuf.clone() // a second right to the same entry
/// }
/// ```
#[derive(Debug, PartialEq, Eq)]
#[must_use = "an mbuf that is neither enqueued nor freed is lost until its process dies"]
pub struct Mbuf {
    word: u64,
}

impl Mbuf {
    /// Index of the entry, for tools and journals.
    #[must_use]
    #[inline]
    pub fn entry(&self) -> u32 {
        ring_parts(self.word).0
    }

    /// Index of the block it refers to.
    #[must_use]
    #[inline]
    pub fn block(&self) -> u32 {
        ring_parts(self.word).1
    }

    /// Gives up the handle without giving back the mbuf; its index.
    #[must_use]
    pub fn into_entry(self) -> u32 {
        self.entry()
    }

    /// Takes the handle back. The caller got `entry` from [`Mbuf::into_entry`] and still owns it:
    /// checked by [`crate::pool::Worker::reclaim`].
    #[inline]
    pub(crate) fn from_parts(entry: u32, block: u32, generation: u32) -> Mbuf {
        Mbuf { word: ring_word(entry, block, generation, 0) }
    }

    /// The handle that a ring word stands for; the caller checked its parts.
    #[inline]
    pub(crate) fn from_ring(word: u64) -> Mbuf {
        Mbuf { word: word & !TURN }
    }

    /// The ring word at a position with this turn.
    #[inline]
    pub(crate) fn ring(&self, turn: u64) -> u64 {
        self.word | turn
    }
}

/// Small numbers of an entry, packed: input port plus one, head lines in use, mbufs in its chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Marks(pub u32);

impl Marks {
    /// Input port this entry was taken from.
    #[must_use]
    #[inline]
    pub fn port(self) -> Option<u32> {
        (self.0 & 0xFF).checked_sub(1)
    }

    /// With this port.
    #[must_use]
    #[inline]
    pub fn with_port(self, port: Option<u32>) -> Marks {
        Marks(self.0 & !0xFF | port.map_or(0, |p| (p + 1) & 0xFF))
    }

    /// Set of 64-byte head lines that may be non-zero; line 3 (`MsgInfo`) always counts as used.
    #[must_use]
    #[inline]
    pub fn lines(self) -> u32 {
        self.0 >> 8 & 0xF
    }

    /// With these lines.
    #[must_use]
    #[inline]
    pub fn with_lines(self, lines: u32) -> Marks {
        Marks(self.0 & !0xF00 | (lines & 0xF) << 8)
    }

    /// Mbufs behind this head.
    #[must_use]
    #[inline]
    pub fn chained(self) -> u32 {
        self.0 >> 16 & 0xFF
    }

    /// With this number of mbufs behind this head.
    #[must_use]
    #[inline]
    pub fn with_chained(self, count: u32) -> Marks {
        Marks(self.0 & !0xFF_0000 | (count & 0xFF) << 16)
    }
}

/// Words of the head line `line`.
fn line_words(line: usize) -> core::ops::Range<usize> {
    line * LINE_WORDS..line * LINE_WORDS + LINE_WORDS
}

const MSG_INFO_LINE: usize = MSG_INFO_OFFSET / 64;

/// Head access on an entry; used by [`MbufRef`], the inspection tools and the pool.
pub(crate) trait HeadWords {
    fn words(&self) -> &Entry;

    fn msg_info(&self) -> MsgInfo {
        let mut words = [0u64; 8];
        let line = self.words().head.get(line_words(MSG_INFO_LINE)).unwrap_or(&[]);
        for (to, from) in words.iter_mut().zip(line) {
            *to = from.load(Ordering::Relaxed);
        }
        MsgInfo::from_words(words)
    }

    fn set_msg_info(&self, info: &MsgInfo) {
        let line = self.words().head.get(line_words(MSG_INFO_LINE)).unwrap_or(&[]);
        for (to, from) in line.iter().zip(info.to_words()) {
            to.store(from, Ordering::Relaxed);
        }
    }

    #[inline]
    fn marks(&self) -> Marks {
        Marks(self.words().marks.load(Ordering::Relaxed))
    }

    #[inline]
    fn set_marks(&self, marks: Marks) {
        self.words().marks.store(marks.0, Ordering::Relaxed);
    }

    /// Zeroes every line in use (M3).
    fn zero_head(&self) {
        let marks = self.marks();
        for line in 0..4 {
            if marks.lines() & 1 << line != 0 || line == MSG_INFO_LINE {
                for word in self.words().head.get(line_words(line)).unwrap_or(&[]) {
                    word.store(0, Ordering::Relaxed);
                }
            }
        }
        self.set_marks(marks.with_lines(0));
    }

    /// Makes this head equal to `from`'s; touches only lines that either uses.
    fn copy_head(&self, from: &Entry) {
        let marks = self.marks();
        let lines = from.marks().lines();
        for line in 0..4 {
            if (marks.lines() | lines) & 1 << line == 0 && line != MSG_INFO_LINE {
                continue;
            }
            let to = self.words().head.get(line_words(line)).unwrap_or(&[]);
            let from = from.head.get(line_words(line)).unwrap_or(&[]);
            for (to, from) in to.iter().zip(from) {
                to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
            }
        }
        self.set_marks(marks.with_lines(lines));
    }
}

impl HeadWords for Entry {
    fn words(&self) -> &Entry {
        self
    }
}

/// Read and write access to one mbuf, borrowed from its handle and the memory.
#[derive(Clone, Copy, Debug)]
pub struct MbufRef<'g> {
    entry: &'g Entry,
    span: BlockSpan,
}

impl<'g> Memory<'g> {
    /// Access to `mbuf`; `None` only for a handle of another group.
    #[must_use]
    #[inline]
    pub fn mbuf(&self, mbuf: &Mbuf) -> Option<MbufRef<'g>> {
        let entry = self.entries.get(mbuf.entry() as usize)?;
        Some(MbufRef { entry, span: self.block_span(mbuf.block())? })
    }
}

impl MbufRef<'_> {
    /// The last 64 bytes of the head.
    #[must_use]
    #[inline]
    pub fn msg_info(&self) -> MsgInfo {
        self.entry.msg_info()
    }

    /// Replaces the last 64 bytes of the head.
    #[inline]
    pub fn set_msg_info(&self, info: &MsgInfo) {
        self.entry.set_msg_info(info);
    }

    /// Changes `MsgInfo` in place.
    pub fn update_msg_info(&self, change: impl FnOnce(&mut MsgInfo)) {
        let mut info = self.msg_info();
        change(&mut info);
        self.set_msg_info(&info);
    }

    /// The 32 words of the head, for callers that need other fields; [`MbufRef::write_head`] writes
    /// them.
    #[must_use]
    pub fn head_word(&self, index: usize) -> u64 {
        self.entry.head.get(index).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    /// The whole head as bytes.
    #[must_use]
    pub fn head_bytes(&self) -> [u8; HEAD_SIZE] {
        let mut bytes = [0; HEAD_SIZE];
        for (chunk, word) in bytes.chunks_exact_mut(8).zip(&self.entry.head) {
            chunk.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
        }
        bytes
    }

    /// Copies `bytes` into the head at `offset`; false (and nothing written) past its end.
    pub fn write_head(&self, offset: usize, bytes: &[u8]) -> bool {
        if offset.checked_add(bytes.len()).is_none_or(|end| end > HEAD_SIZE) {
            return false;
        }
        let mut lines = 0;
        for (at, byte) in (offset..).zip(bytes) {
            lines |= 1 << (at / 64);
            let Some(word) = self.entry.head.get(at / 8) else { return false };
            let shift = (at % 8) * 8;
            let old = word.load(Ordering::Relaxed);
            let new = old & !(0xFF << shift) | u64::from(*byte) << shift;
            word.store(new, Ordering::Relaxed);
        }
        let marks = self.entry.marks();
        self.entry.set_marks(marks.with_lines(marks.lines() | lines));
        true
    }

    /// True when the end-of-sequence byte is 0x5A.
    #[must_use]
    pub fn is_eos(&self) -> bool {
        let word = self.head_word(EOS_OFFSET / 8);
        word & 0xFF == u64::from(EOS_VALUE)
    }

    /// Sets or clears the end-of-sequence byte.
    pub fn set_eos(&self, eos: bool) {
        if eos || self.is_eos() {
            self.write_head(EOS_OFFSET, &[if eos { EOS_VALUE } else { 0 }]);
        }
    }

    /// Makes the head equal to that of `from`.
    pub fn copy_head_from(&self, from: &MbufRef<'_>) {
        self.entry.copy_head(from.entry);
    }

    /// Bytes in use, never more than the buffer has (what a peer wrote is clamped).
    #[must_use]
    #[inline]
    pub fn data_len(&self) -> u64 {
        self.entry.data_len.load(Ordering::Relaxed).min(self.span.len)
    }

    /// Sets the bytes in use; false for more than [`MbufRef::buffer_size`].
    pub fn set_data_len(&self, len: u64) -> bool {
        let fits = len <= self.buffer_size();
        if fits {
            self.entry.data_len.store(len, Ordering::Relaxed);
        }
        fits
    }

    /// Bytes asked for at allocation, never more than the block has.
    #[must_use]
    pub fn buffer_size(&self) -> u64 {
        self.entry.buffer_size.load(Ordering::Relaxed).min(self.span.len)
    }

    /// The whole block: first byte and capacity. Reading bytes behind `data_len` gives leftovers;
    /// writing is allowed to the block's own slot while one entry refers to it (M2), and faults
    /// elsewhere.
    #[must_use]
    #[inline]
    pub fn span(&self) -> BlockSpan {
        self.span
    }

    /// Input port and set this mbuf was marked with.
    #[must_use]
    pub fn input_mark(&self) -> (Option<u32>, u64) {
        (self.entry.marks().port(), self.entry.set.load(Ordering::Relaxed))
    }

    /// Marks this mbuf as the input `port` of set `set`; [`None`] unmarks it.
    pub fn mark_input(&self, port: Option<u32>, set: u64) {
        self.entry.set.store(set, Ordering::Relaxed);
        self.entry.set_marks(self.entry.marks().with_port(port));
    }

    /// Mbufs in this chain, the head included (device-runtime §2.2).
    #[must_use]
    pub fn chain_len(&self) -> u32 {
        self.entry.marks().chained() + 1
    }
}

#[cfg(test)]
mod tests {
    use super::Marks;

    #[test]
    fn marks_keep_their_fields_apart() {
        let marks = Marks::default().with_port(Some(3)).with_lines(0b1001).with_chained(127);
        assert_eq!((marks.port(), marks.lines(), marks.chained()), (Some(3), 0b1001, 127));
        let marks = marks.with_port(None).with_lines(0);
        assert_eq!((marks.port(), marks.lines(), marks.chained()), (None, 0, 127));
    }
}
