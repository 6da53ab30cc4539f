//! From an mbuf to the view of it that a function reads (`MsgV1`), and descriptors of fresh
//! tensors.
//!
//! Tolerant where the specification is (udf §2.5): a malformed descriptor gives a view without
//! shape or with the bytes that are really there, never a refusal. What lies in a foreign partition
//! is read once, and every length handed on is clamped to the block.
#![allow(unsafe_code, reason = "reads and writes descriptors in mapped blocks")]

use core::ptr::NonNull;

use executor_core::abi::{
    DataType, FORMAT_ND, MAX_DIMS, MsgInfo, MsgType, RuntimeTensorDesc, TENSOR_DESC_SIZE,
};
use executor_core::mbuf::Mbuf;
use executor_core::pool::Worker;
use flow_func::abi::{ACCESS_NULL_DATA, MsgV1};

use crate::handles::Handles;

/// `private[0]` of an input's view.
pub(crate) const TAG_INPUT: u64 = 0x4946;
/// `private[0]` of a handle's view.
pub(crate) const TAG_HANDLE: u64 = 0x4846;
/// Tensors counted in one list at most.
const TENSORS_MAX: u32 = 1024;

/// Index of a descriptor's field in 64-bit words.
macro_rules! word {
    ($field:ident) => {
        core::mem::offset_of!(RuntimeTensorDesc, $field) / 8
    };
}

/// The descriptor's fields that a view shows.
struct Desc {
    at: *mut i64,
    data_type: DataType,
    rank: u32,
    elements: Option<u64>,
    logical: Option<u64>,
    data_size: u64,
}

/// A word of a descriptor.
///
/// # Safety
/// `at` is the start of 128 readable, aligned words, and `word` is one of them.
unsafe fn get(at: *mut i64, word: usize) -> i64 {
    // SAFETY: the caller's obligation; volatile, since the words may be a peer's.
    unsafe { at.wrapping_add(word).read_volatile() }
}

/// Writes a word of a descriptor.
///
/// # Safety
/// `at` is the start of 128 writable, aligned words that nobody else uses, and `word` is one of
/// them.
unsafe fn put(at: *mut i64, word: usize, value: i64) {
    // SAFETY: the caller's obligation.
    unsafe { at.wrapping_add(word).write(value) }
}

/// The words of the descriptor at `offset` of a block; `None` when fewer than 1024 bytes are there.
fn words(start: NonNull<u8>, offset: u64, len: u64) -> Option<*mut i64> {
    let end = offset.checked_add(TENSOR_DESC_SIZE as u64)?;
    let at = start.as_ptr().wrapping_add(usize::try_from(offset).ok()?);
    let aligned = at.addr().is_multiple_of(align_of::<i64>());
    #[allow(clippy::cast_ptr_alignment, reason = "checked in the line above")]
    (end <= len && aligned).then_some(at.cast::<i64>())
}

/// Reads a descriptor of a block; `None` when fewer than 1024 bytes are there.
fn read_desc(start: NonNull<u8>, offset: u64, len: u64) -> Option<Desc> {
    let at = words(start, offset, len)?;
    // SAFETY: 1024 bytes of the block, aligned (`words`); `len` is clamped to the block.
    let word = |index: usize| unsafe { get(at, index) };
    let rank = usize::try_from(word(word!(shape))).ok().filter(|rank| *rank <= MAX_DIMS);
    let mut all = [0; MAX_DIMS];
    let dims = all.get_mut(..rank.unwrap_or(0)).unwrap_or(&mut []);
    for (index, dim) in dims.iter_mut().enumerate() {
        *dim = word(word!(shape) + 1 + index);
    }
    let data_type = i32::try_from(word(word!(dtype))).map_or(DataType::UNDEFINED, DataType);
    Some(Desc {
        at,
        data_type: if data_type.bits().is_some() { data_type } else { DataType::UNDEFINED },
        rank: u32::try_from(dims.len()).unwrap_or(0),
        elements: rank.and_then(|_| DataType::element_count(dims)),
        logical: rank.and_then(|_| data_type.byte_size(dims)),
        data_size: word(word!(data_size)).cast_unsigned(),
    })
}

/// The view of `mbuf`. `index` and `tag` come back with calls on it.
pub(crate) fn view(
    worker: &Worker<'static>,
    mbuf: &Mbuf,
    (tag, index): (u64, usize),
    access: u16,
) -> MsgV1 {
    let msg = worker.of(mbuf);
    let info = msg.msg_info();
    let (start, len) = (msg.span().pointer, msg.data_len());
    let head = worker.memory.entries.get(mbuf.entry() as usize);
    let mut view = MsgV1 {
        head: head.map_or(core::ptr::null(), |entry| entry.head.as_ptr().cast()),
        area: start.as_ptr(),
        area_size: len,
        access,
        data_type: DataType::UNDEFINED.0,
        private: [tag, index as u64, 0],
        ..MsgV1::EMPTY
    };
    show_info(&mut view, &info);
    if info.is_null_data() {
        view.access |= ACCESS_NULL_DATA;
    } else if matches!(info.msg_type, MsgType::TENSOR_DATA | MsgType::TENSOR_LIST) {
        show_tensor(&mut view, start, len, info.msg_type);
    } else {
        view.data = start.as_ptr();
        view.data_size = len;
        view.capacity = len;
    }
    view
}

/// Puts the fields of a `MsgInfo` that a view repeats.
pub(crate) fn show_info(view: &mut MsgV1, info: &MsgInfo) {
    view.trans_id = info.trans_id;
    view.ret_code = info.ret_code;
    view.flags = info.flags;
    view.msg_type = info.msg_type.0;
}

fn show_tensor(view: &mut MsgV1, start: NonNull<u8>, len: u64, kind: MsgType) {
    let Some(desc) = read_desc(start, 0, len) else { return };
    let behind = len - TENSOR_DESC_SIZE as u64;
    let list = kind == MsgType::TENSOR_LIST;
    let buffer = if list { desc.data_size.min(behind) } else { behind };
    view.desc = desc.at.cast_const().cast();
    view.data = start.as_ptr().wrapping_add(TENSOR_DESC_SIZE);
    view.data_size = desc.logical.map_or(buffer, |logical| logical.min(buffer));
    view.capacity = buffer;
    view.dims = desc.at.wrapping_add(word!(shape) + 1);
    view.rank = desc.rank;
    view.data_type = desc.data_type.0;
    view.element_count = desc.elements.and_then(|count| i64::try_from(count).ok()).unwrap_or(-1);
    view.tensor_count = if list { count_tensors(start, len) } else { 1 };
}

/// Members of a tensor list up to the first bad one (udf §2.4, §2.5).
fn count_tensors(start: NonNull<u8>, len: u64) -> u32 {
    let (mut offset, mut count) = (0u64, 0);
    while count < TENSORS_MAX {
        let Some(desc) = read_desc(start, offset, len) else { break };
        let next = offset.checked_add(TENSOR_DESC_SIZE as u64 + desc.data_size.min(len));
        let Some(next) = next.filter(|next| *next <= len) else { break };
        count += 1;
        offset = next;
    }
    count
}

/// Shows the local shape of a handle instead of the descriptor's.
pub(crate) fn show_local_shape(view: &mut MsgV1, handles: &Handles, index: usize) {
    if let Some((dims, rank)) = handles.shape(index) {
        view.dims = dims.as_ptr().cast();
        view.rank = rank;
    }
}

/// Writes the fields in use of a fresh tensor's descriptor (three lines) and the mbuf's length. The
/// block must be this worker's alone, with room for descriptor and data.
pub(crate) fn write_desc(
    worker: &Worker<'static>,
    mbuf: &Mbuf,
    data_type: DataType,
    dims: &[i64],
    data_size: u64,
) -> bool {
    let msg = worker.of(mbuf);
    let size = TENSOR_DESC_SIZE as u64 + data_size;
    let at = words(msg.span().pointer, 0, msg.buffer_size());
    let Some(at) = at.filter(|_| worker.is_sole_owner(mbuf) && dims.len() <= MAX_DIMS) else {
        return false;
    };
    let fields = [
        (word!(data_addr), 0),
        (word!(data_offset_size), 0),
        (word!(dtype), i64::from(data_type.0)),
        (word!(original_shape), 0),
        (word!(format), FORMAT_ND),
        (word!(sub_format), 0),
        (word!(data_size), data_size.cast_signed()),
    ];
    for (index, value) in fields {
        // SAFETY: 1024 bytes of the own partition, mapped writable; nobody else refers to the block
        // (M2).
        unsafe { put(at, index, value) };
    }
    // SAFETY: as above.
    unsafe { put_dims(at, dims) };
    msg.set_data_len(size)
}

/// Writes rank and dimensions.
///
/// # Safety
/// As [`put`]; `dims` has at most 32 values.
unsafe fn put_dims(at: *mut i64, dims: &[i64]) {
    // SAFETY: the caller's obligation.
    unsafe { put(at, word!(shape), i64::try_from(dims.len()).unwrap_or(0)) };
    for (index, dim) in dims.iter().take(MAX_DIMS).enumerate() {
        // SAFETY: the caller's obligation; 32 words lie behind the rank.
        unsafe { put(at, word!(shape) + 1 + index, *dim) };
    }
}

/// Replaces the dimensions in the descriptor of a block that is this worker's alone.
pub(crate) fn write_dims(worker: &Worker<'static>, mbuf: &Mbuf, dims: &[i64]) -> bool {
    let msg = worker.of(mbuf);
    let at = words(msg.span().pointer, 0, msg.data_len());
    let Some(at) = at.filter(|_| worker.is_sole_owner(mbuf) && dims.len() <= MAX_DIMS) else {
        return false;
    };
    // SAFETY: as in `write_desc`.
    unsafe { put_dims(at, dims) };
    true
}
