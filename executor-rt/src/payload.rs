//! Payload bytes as slices: the one place that turns a checked span into `&[u8]` and `&mut [u8]`.
//!
//! Reading: the block is written only in its owner's partition and only until its first enqueue, so
//! a received payload does not change; a peer of the same uid that breaks this rule can make bytes
//! change under a reader (docs/layout.md). Writing: only a sole owner in its own partition gets
//! `&mut`.
#![allow(unsafe_code, reason = "turns checked spans into slices")]

use executor_core::abi::{RuntimeTensorDesc, TENSOR_DESC_SIZE};
use executor_core::mbuf::{Mbuf, MbufRef};
use executor_core::pool::Worker;

/// Bytes in use of a held mbuf.
#[must_use]
pub fn bytes<'m>(mbuf: &'m MbufRef<'_>) -> &'m [u8] {
    let len = usize::try_from(mbuf.data_len()).unwrap_or(0);
    // SAFETY:
    // - the span was checked against the arena at attach; `data_len` is clamped to it;
    // - nobody writes a queued or received block (mbuf invariant M2), the caller holds its entry.
    unsafe { core::slice::from_raw_parts(mbuf.span().pointer.as_ptr(), len) }
}

/// Bytes in use of the mbuf behind `handle`; they live as long as the handle is borrowed.
#[must_use]
pub fn bytes_of<'m>(access: MbufRef<'_>, handle: &'m Mbuf) -> &'m [u8] {
    let _ = handle;
    let len = usize::try_from(access.data_len()).unwrap_or(0);
    // SAFETY: as in `bytes`; the borrow of the handle keeps the mbuf from being given back.
    unsafe { core::slice::from_raw_parts(access.span().pointer.as_ptr(), len) }
}

/// The whole buffer for writing, `None` unless this worker is the only owner and the block is its
/// own.
#[must_use]
pub fn buffer_mut<'m>(worker: &Worker<'_>, mbuf: &'m mut Mbuf) -> Option<&'m mut [u8]> {
    if !worker.is_sole_owner(mbuf) {
        return None;
    }
    let access = worker.of(mbuf);
    let len = usize::try_from(access.buffer_size()).ok()?;
    // SAFETY:
    // - the span was checked against the arena at attach; `buffer_size` is clamped to it;
    // - sole owner in the own partition: mapped writable here, and no other reference exists (M2);
    // - the exclusive borrow of the handle keeps this process from making a second slice.
    Some(unsafe { core::slice::from_raw_parts_mut(access.span().pointer.as_ptr(), len) })
}

/// Writes `bytes` and sets the length; false when they do not fit or the mbuf is shared.
pub fn write(worker: &Worker<'_>, mbuf: &mut Mbuf, bytes: &[u8]) -> bool {
    let Some(buffer) = buffer_mut(worker, mbuf) else { return false };
    let Some(to) = buffer.get_mut(..bytes.len()) else { return false };
    to.copy_from_slice(bytes);
    worker.of(mbuf).set_data_len(bytes.len() as u64)
}

/// The tensor descriptor at the start of a payload; `None` when the payload is shorter.
#[must_use]
pub fn tensor_desc(mbuf: &MbufRef<'_>) -> Option<RuntimeTensorDesc> {
    let bytes = bytes(mbuf).get(..TENSOR_DESC_SIZE)?;
    // SAFETY:
    // - 1024 readable bytes; every bit pattern is a value of the type;
    // - blocks start 64-byte aligned, but the read does not rely on it.
    Some(unsafe { bytes.as_ptr().cast::<RuntimeTensorDesc>().read_unaligned() })
}

/// Writes a descriptor to the start of the buffer; false when it does not fit or the mbuf is
/// shared.
pub fn set_tensor_desc(worker: &Worker<'_>, mbuf: &mut Mbuf, desc: &RuntimeTensorDesc) -> bool {
    let Some(buffer) = buffer_mut(worker, mbuf) else { return false };
    if buffer.len() < TENSOR_DESC_SIZE {
        return false;
    }
    // SAFETY: 1024 writable bytes, checked above; the type is plain data.
    unsafe { buffer.as_mut_ptr().cast::<RuntimeTensorDesc>().write_unaligned(*desc) };
    true
}
