//! Messages of the in-process executor: an mbuf's head and data area on the heap.
//!
//! L1 of [`crate::abi_local`] is kept here: a block's bytes are written through its address only,
//! by the handle that made it, before it is shared.
#![allow(unsafe_code, reason = "plays the executor's side of the views; a permitted file")]

use crate::abi::field::USER_DATA;
use crate::abi::{ACCESS_NULL_DATA, ACCESS_OWNED, ACCESS_WRITE_DATA, MsgV1};
use crate::codes::PARAM_INVALID;
use crate::element::Element;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU64, Ordering};
use executor_core::abi::head::{HEAD_WORDS, MSG_INFO_OFFSET, USER_DATA_SIZE};
use executor_core::abi::{
    DataFlag, DataType, MsgInfo, MsgType, RuntimeTensorDesc, TENSOR_DESC_SIZE,
};
use std::rc::Rc;

/// `private[0]` of an input's view.
pub(crate) const TAG_INPUT: u64 = 1;
/// `private[0]` of a handle's view.
pub(crate) const TAG_HANDLE: u64 = 2;
/// First word of the `MsgInfo` in a head.
pub(crate) const INFO_WORD: usize = MSG_INFO_OFFSET / 8;

/// 1024 aligned bytes: a descriptor, or a piece of payload with the strictest alignment of the ABI.
#[derive(Clone, Copy)]
#[repr(C, align(1024))]
struct Unit([u8; 1024]);

/// The data area of a message.
struct Block {
    units: UnsafeCell<Box<[Unit]>>,
    len: usize,
}

impl Block {
    fn new(len: usize) -> Rc<Self> {
        let units = vec![Unit([0; 1024]); len.div_ceil(1024).max(1)];
        Rc::new(Block { units: UnsafeCell::new(units.into_boxed_slice()), len })
    }

    fn units(&self) -> *mut Unit {
        // SAFETY: nobody holds a reference to the box itself; only its address is read here.
        unsafe { &mut *self.units.get() }.as_mut_ptr()
    }

    fn ptr(&self) -> *mut u8 {
        self.units().cast()
    }

    fn payload(&self, offset: usize) -> *mut u8 {
        self.ptr().wrapping_add(offset)
    }

    fn set_desc(&self, desc: &RuntimeTensorDesc) {
        // SAFETY: a block has at least one aligned unit of 1024 bytes; nobody reads it yet.
        unsafe { self.units().cast::<RuntimeTensorDesc>().write(*desc) }
    }
}

/// A message on the heap.
#[derive(Clone)]
pub struct LocalMsg {
    head: Rc<[AtomicU64; HEAD_WORDS]>,
    block: Rc<Block>,
    pub(crate) dims: Box<[i64]>,
    pub(crate) data_type: DataType,
    payload: usize,
}

impl core::fmt::Debug for LocalMsg {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("LocalMsg")
            .field("info", &self.info())
            .field("data_type", &self.data_type)
            .field("shape", &self.dims)
            .finish_non_exhaustive()
    }
}

/// A head as plain words.
pub(crate) type HeadWords = [u64; HEAD_WORDS];

fn new_head(words: &HeadWords) -> Rc<[AtomicU64; HEAD_WORDS]> {
    Rc::new(words.map(AtomicU64::new))
}

impl LocalMsg {
    pub(crate) fn alloc_tensor(
        words: &HeadWords,
        dims: &[i64],
        data_type: DataType,
    ) -> Result<LocalMsg, i32> {
        let desc = RuntimeTensorDesc::new(data_type, dims).ok_or(PARAM_INVALID)?;
        let size = usize::try_from(desc.data_size).map_err(|_| PARAM_INVALID)?;
        let block = Block::new(TENSOR_DESC_SIZE + size);
        block.set_desc(&desc);
        let payload = TENSOR_DESC_SIZE;
        let msg = LocalMsg { head: new_head(words), block, dims: dims.into(), data_type, payload };
        Ok(msg.with_kind(MsgType::TENSOR_DATA, false))
    }

    pub(crate) fn alloc_raw(words: &HeadWords, size: usize) -> LocalMsg {
        let (block, data_type) = (Block::new(size), DataType::UNDEFINED);
        let msg =
            LocalMsg { head: new_head(words), block, dims: Box::default(), data_type, payload: 0 };
        msg.with_kind(MsgType::RAW_MSG, false)
    }

    pub(crate) fn alloc_empty(words: &HeadWords) -> LocalMsg {
        let block = Block::new(TENSOR_DESC_SIZE);
        block.set_desc(&RuntimeTensorDesc::empty());
        let (dims, data_type) = (Box::default(), DataType::UNDEFINED);
        let payload = TENSOR_DESC_SIZE;
        LocalMsg { head: new_head(words), block, dims, data_type, payload }
            .with_kind(MsgType::TENSOR_DATA, true)
    }

    fn with_kind(self, msg_type: MsgType, null_data: bool) -> Self {
        self.change(|info| {
            info.msg_type = msg_type;
            info.data_flag &= !DataFlag::NULL_DATA.bits();
            if null_data {
                info.data_flag |= DataFlag::NULL_DATA.bits();
            }
            // Raw messages inherit the code of the input (udf §1.14).
            if msg_type != MsgType::RAW_MSG {
                info.ret_code = 0;
            }
        });
        self
    }

    /// A tensor of `T` with the elements given, row by row.
    ///
    /// # Errors
    /// [`PARAM_INVALID`] when the shape is bad or does not have as many elements.
    pub fn tensor<T: Element>(shape: &[i64], elements: &[T]) -> Result<LocalMsg, i32> {
        let mut msg = Self::alloc_tensor(&[0; HEAD_WORDS], shape, T::DATA_TYPE)?;
        let to = msg.payload_mut::<T>();
        if to.len() != elements.len() {
            return Err(PARAM_INVALID);
        }
        to.copy_from_slice(elements);
        Ok(msg)
    }

    /// A raw message.
    #[must_use]
    pub fn raw(bytes: &[u8]) -> LocalMsg {
        let mut msg = Self::alloc_raw(&[0; HEAD_WORDS], bytes.len());
        msg.payload_mut::<u8>().copy_from_slice(bytes);
        msg
    }

    /// A message without data that carries `ret_code`.
    #[must_use]
    pub fn empty(ret_code: i32) -> LocalMsg {
        let msg = Self::alloc_empty(&[0; HEAD_WORDS]);
        msg.change(|info| info.ret_code = ret_code);
        msg
    }

    /// The payload of a message that was just made.
    fn payload_mut<T: Element>(&mut self) -> &mut [T] {
        let count = (self.block.len - self.payload) / size_of::<T>();
        debug_assert_eq!(Rc::strong_count(&self.block), 1);
        // SAFETY: inside the block, aligned to 1024; the only holder is borrowed exclusively (L1).
        unsafe {
            core::slice::from_raw_parts_mut(self.block.payload(self.payload).cast::<T>(), count)
        }
    }

    pub(crate) fn words(&self) -> HeadWords {
        core::array::from_fn(|index| self.head[index].load(Ordering::Relaxed))
    }

    pub(crate) fn change(&self, edit: impl FnOnce(&mut MsgInfo)) {
        let mut info = self.info();
        edit(&mut info);
        for (to, word) in self.head[INFO_WORD..].iter().zip(info.to_words()) {
            to.store(word, Ordering::Relaxed);
        }
    }

    /// Sets the transaction id.
    #[must_use]
    pub fn with_trans_id(self, trans_id: u64) -> Self {
        self.change(|info| info.trans_id = trans_id);
        self
    }

    /// Sets the flow flags.
    #[must_use]
    pub fn with_flags(self, flags: u32) -> Self {
        self.change(|info| info.flags = flags);
        self
    }

    /// Sets the return code.
    #[must_use]
    pub fn with_ret_code(self, ret_code: i32) -> Self {
        self.change(|info| info.ret_code = ret_code);
        self
    }

    /// Sets the 64 bytes of user data.
    #[must_use]
    pub fn with_user_data(self, data: &[u8; USER_DATA_SIZE]) -> Self {
        for (to, bytes) in self.head.iter().zip(data.as_chunks::<8>().0) {
            to.store(u64::from_le_bytes(*bytes), Ordering::Relaxed);
        }
        self
    }

    /// The 64 bytes of user data.
    #[must_use]
    pub fn user_data(&self) -> [u8; USER_DATA_SIZE] {
        let mut data = [0; USER_DATA_SIZE];
        for (to, word) in data.as_chunks_mut::<8>().0.iter_mut().zip(self.head.iter()) {
            *to = word.load(Ordering::Relaxed).to_le_bytes();
        }
        data
    }

    /// Sets a word of the user data; false when `number` is not one's.
    pub(crate) fn set_user_word(&self, number: u32, value: u64) -> bool {
        let index = number.checked_sub(USER_DATA).and_then(|index| usize::try_from(index).ok());
        let Some(index) = index.filter(|index| *index < USER_DATA_SIZE / 8) else { return false };
        self.head[index].store(value, Ordering::Relaxed);
        true
    }

    /// The `MsgInfo`.
    #[must_use]
    pub fn info(&self) -> MsgInfo {
        let words = core::array::from_fn(|i| self.head[INFO_WORD + i].load(Ordering::Relaxed));
        MsgInfo::from_words(words)
    }

    /// Dimensions of the tensor.
    #[must_use]
    pub fn shape(&self) -> &[i64] {
        &self.dims
    }

    /// Data type; undefined without a tensor.
    #[must_use]
    pub fn data_type(&self) -> DataType {
        self.data_type
    }

    /// The payload.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        let len = self.block.len - self.payload;
        // SAFETY: inside the block, initialised; no writer exists outside a call (L1).
        unsafe { core::slice::from_raw_parts(self.block.payload(self.payload), len) }
    }

    /// The payload as `T`.
    ///
    /// # Errors
    /// [`PARAM_INVALID`] for another data type.
    pub fn data<T: Element>(&self) -> Result<&[T], i32> {
        if !T::accepts(self.data_type) {
            return Err(PARAM_INVALID);
        }
        let bytes = self.bytes();
        // SAFETY: aligned to 1024, initialised, and `Element` types have no invalid bit pattern.
        Ok(unsafe {
            core::slice::from_raw_parts(bytes.as_ptr().cast::<T>(), bytes.len() / size_of::<T>())
        })
    }

    /// A reference on the same data with a head of its own.
    pub(crate) fn share(&self) -> LocalMsg {
        LocalMsg { head: new_head(&self.words()), ..self.clone() }
    }

    pub(crate) fn view(&self, tag: u64, index: usize, write: bool) -> MsgV1 {
        let info = self.info();
        let null_data = info.is_null_data();
        let has_tensor = info.msg_type == MsgType::TENSOR_DATA && !null_data;
        let area = self.block.ptr();
        let payload = (self.block.len - self.payload) as u64;
        let mut access = if tag == TAG_HANDLE { ACCESS_OWNED } else { 0 };
        access |= if write { ACCESS_WRITE_DATA } else { 0 };
        access |= if null_data { ACCESS_NULL_DATA } else { 0 };
        MsgV1 {
            head: self.head.as_ptr().cast(),
            desc: if has_tensor { area.cast() } else { core::ptr::null() },
            data: if null_data { core::ptr::null_mut() } else { area.wrapping_add(self.payload) },
            data_size: payload,
            capacity: payload,
            area,
            area_size: self.block.len as u64,
            dims: self.dims.as_ptr(),
            element_count: DataType::element_count(&self.dims)
                .and_then(|count| i64::try_from(count).ok())
                .unwrap_or(-1),
            trans_id: info.trans_id,
            ret_code: info.ret_code,
            flags: info.flags,
            data_type: self.data_type.0,
            rank: u32::try_from(self.dims.len()).unwrap_or(0),
            msg_type: info.msg_type.0,
            access,
            tensor_count: u32::from(has_tensor),
            private: [tag, index as u64, 0],
        }
    }
}
