//! Messages as an author sees them: [`Msg`] (an input) and [`OutMsg`] (a handle of the function).
//!
//! Invariants are those of [`crate::abi`]. A `Msg` is one pointer to the executor's view; an
//! `OutMsg` holds a view by value and gives it back when dropped. Reading either costs no call.
#![allow(unsafe_code, reason = "reads the executor's views; one of the permitted files")]

use crate::abi::{self, ACCESS_NULL_DATA, ACCESS_WRITE_DATA, ApiV1, ContextV1, MsgV1};
use crate::codes::PARAM_INVALID;
use crate::element::Element;
use crate::{FLAG_EOS, FLAG_SEG, Result};
use core::cell::Cell;
use core::marker::PhantomData;
use core::sync::atomic::{AtomicU64, Ordering};
use executor_core::abi::head::{MSG_INFO_OFFSET, USER_DATA_SIZE};
use executor_core::abi::{DataType, MsgInfo, MsgType};

/// An input of this call. It can't outlive the call:
///
/// ```compile_fail
/// use flow_func::{Context, FlowFunc, Msg, Result};
/// struct Keeper { last: Option<Msg<'static>> }
/// impl FlowFunc for Keeper {
///     fn proc(&mut self, _: &mut Context<'_>, inputs: &[Msg<'_>]) -> Result {
///         self.last = Some(inputs[0]);
///         Ok(())
///     }
/// }
/// ```
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Msg<'c>(&'c MsgV1);

/// A message of the function's own: written, then set on outputs, given back when dropped.
///
/// It can't be used after it was released:
///
/// ```compile_fail,E0382
/// # use flow_func::{Context, Result};
/// fn f(ctx: &mut Context<'_>) -> Result {
///     let out = ctx.alloc::<u8>(&[4])?;
///     out.release();
///     ctx.set_output(0, &out)
/// }
/// ```
///
/// nor outlive the call that made it, nor go to another thread:
///
/// ```compile_fail
/// # use flow_func::{Context, OutMsg, Result};
/// fn f(ctx: &mut Context<'_>) -> Result<OutMsg<'static>> {
///     ctx.alloc::<u8>(&[4])
/// }
/// ```
/// ```compile_fail,E0277
/// # use flow_func::{Context, Result};
/// fn f(ctx: &mut Context<'_>) -> Result {
///     let out = ctx.alloc::<u8>(&[4])?;
///     std::thread::scope(|scope| { scope.spawn(move || drop(out)); });
///     Ok(())
/// }
/// ```
#[derive(Debug)]
pub struct OutMsg<'c> {
    view: MsgV1,
    shared: Cell<bool>,
    api: &'c ApiV1,
    ctx: *mut ContextV1,
    call: PhantomData<&'c mut ContextV1>,
}

/// What can be set on an output: an input (forwarded without a copy) or an [`OutMsg`].
pub trait AsMsg {
    /// The message, for reading.
    fn as_msg(&self) -> Msg<'_>;

    /// Notes that the payload has another holder from now on.
    #[doc(hidden)]
    fn mark_shared(&self) {}
}

impl AsMsg for Msg<'_> {
    fn as_msg(&self) -> Msg<'_> {
        *self
    }
}

impl AsMsg for OutMsg<'_> {
    fn as_msg(&self) -> Msg<'_> {
        Msg(&self.view)
    }

    fn mark_shared(&self) {
        self.shared.set(true);
    }
}

/// # Safety
/// `ptr` is valid for reads of `count` values of `T` for `'a`, initialised, aligned and not written
/// meanwhile, or null with a zero `count` (abi I3, I5).
unsafe fn slice<'a, T>(ptr: *const T, count: usize) -> &'a [T] {
    if ptr.is_null() {
        return &[];
    }
    // SAFETY: the caller's obligation is the same.
    unsafe { core::slice::from_raw_parts(ptr, count) }
}

fn to_len(count: u64) -> usize {
    usize::try_from(count).unwrap_or(0)
}

impl<'c> Msg<'c> {
    /// The inputs of one call; `None` if a pointer is null.
    ///
    /// # Safety
    /// `inputs` is valid for `count` pointers, each null or to a view valid for `'c` (abi I3).
    pub(crate) unsafe fn from_views(
        inputs: *const *const MsgV1,
        count: u32,
    ) -> Option<&'c [Msg<'c>]> {
        // SAFETY: the caller's obligation; a `Msg` is transparent over a non-null pointer, checked
        // before anything is made of it.
        let views = unsafe { slice(inputs, count as usize) };
        if views.iter().any(|view| view.is_null()) {
            return None;
        }
        // SAFETY: as above; no null among them.
        Some(unsafe { slice(inputs.cast::<Msg<'c>>(), count as usize) })
    }

    pub(crate) fn view(&self) -> &'c MsgV1 {
        self.0
    }

    /// Elements of the payload as `T`. 164000 when the message's data type is another one, the
    /// payload is no whole number of elements, or it is not aligned for `T`. A message without data
    /// has no elements.
    ///
    /// # Errors
    /// [`PARAM_INVALID`].
    pub fn data<T: Element>(&self) -> Result<&'c [T]> {
        let bytes = self.bytes();
        if bytes.is_empty() {
            return Ok(&[]);
        }
        let fits = T::accepts(self.data_type())
            && bytes.len().is_multiple_of(size_of::<T>())
            && bytes.as_ptr().addr().is_multiple_of(align_of::<T>());
        if !fits {
            return Err(PARAM_INVALID);
        }
        // SAFETY: `bytes` is initialised and shared for 'c (I3); `Element` types have no invalid
        // bit pattern; length and alignment were checked above.
        Ok(unsafe { slice(bytes.as_ptr().cast::<T>(), bytes.len() / size_of::<T>()) })
    }

    /// The payload, whatever its type: tensor data, or all bytes of a raw message.
    #[must_use]
    pub fn bytes(&self) -> &'c [u8] {
        // SAFETY: I3 and I5: `data` is valid for `data_size` initialised bytes while 'c lasts.
        unsafe { slice(self.0.data, to_len(self.0.data_size)) }
    }

    /// The whole data area, descriptors included (udf §1.8 `GetRawData`).
    #[must_use]
    pub fn area(&self) -> &'c [u8] {
        // SAFETY: I3 and I5: `area` is valid for `area_size` initialised bytes while 'c lasts.
        unsafe { slice(self.0.area, to_len(self.0.area_size)) }
    }

    /// Dimensions; empty for a scalar and for messages without a tensor.
    #[must_use]
    pub fn shape(&self) -> &'c [i64] {
        // SAFETY: I3 and I5: `dims` is valid for `rank` values while 'c lasts.
        unsafe { slice(self.0.dims, self.0.rank as usize) }
    }

    /// Data type; [`DataType::UNDEFINED`] without a tensor.
    #[must_use]
    pub fn data_type(&self) -> DataType {
        DataType(self.0.data_type)
    }

    /// Product of the dimensions, -1 where unknown.
    #[must_use]
    pub fn element_count(&self) -> i64 {
        self.0.element_count
    }

    /// True when there is a tensor (message types tensor and tensor list).
    #[must_use]
    pub fn has_tensor(&self) -> bool {
        !self.0.desc.is_null()
    }

    /// True for a message without data: end of sequence, or only a code.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.access & ACCESS_NULL_DATA != 0
    }

    /// Message type.
    #[must_use]
    pub fn msg_type(&self) -> MsgType {
        MsgType(self.0.msg_type)
    }

    /// Return code; 0 = good.
    #[must_use]
    pub fn ret_code(&self) -> i32 {
        self.0.ret_code
    }

    /// Transaction id.
    #[must_use]
    pub fn trans_id(&self) -> u64 {
        self.0.trans_id
    }

    /// Flow flags.
    #[must_use]
    pub fn flags(&self) -> u32 {
        self.0.flags
    }

    /// True for the last message of a sequence (udf §1.3).
    #[must_use]
    pub fn is_eos(&self) -> bool {
        self.0.flags & FLAG_EOS != 0
    }

    /// True for the last message of a segment (udf §1.3).
    #[must_use]
    pub fn is_seg(&self) -> bool {
        self.0.flags & FLAG_SEG != 0
    }

    /// A copy of the whole `MsgInfo` (times, labels, step).
    #[must_use]
    pub fn info(&self) -> MsgInfo {
        if self.0.head.is_null() {
            return MsgInfo::default();
        }
        let words = core::array::from_fn(|index| {
            // SAFETY: I5: a head has 32 words, so all eight behind the offset are inside.
            let word = unsafe { self.0.head.add(MSG_INFO_OFFSET / 8 + index) };
            // SAFETY: I5: aligned and live; peers access heads by atomic words only.
            let word = unsafe { AtomicU64::from_ptr(word.cast_mut()) };
            // Relaxed: the message was handed over with the queue's acquire.
            word.load(Ordering::Relaxed)
        });
        MsgInfo::from_words(words)
    }

    /// A copy of the 64 bytes of user data.
    #[must_use]
    pub fn user_data(&self) -> [u8; USER_DATA_SIZE] {
        let mut bytes = [0; USER_DATA_SIZE];
        if self.0.head.is_null() {
            return bytes;
        }
        for (index, to) in bytes.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            // SAFETY: I5: a head has 32 words, so the first eight are inside.
            let word = unsafe { self.0.head.add(index) };
            // SAFETY: I5: aligned and live; peers access heads by atomic words only.
            let word = unsafe { AtomicU64::from_ptr(word.cast_mut()) };
            // Relaxed: the message was handed over with the queue's acquire.
            *to = word.load(Ordering::Relaxed).to_le_bytes();
        }
        bytes
    }
}

impl<'c> OutMsg<'c> {
    /// # Safety
    /// `view` was filled by an `alloc_*` or `copy_ref` call of `api` with `ctx` that answered 0,
    /// and
    /// `'c` ends before the call on the instance does (abi I4).
    pub(crate) unsafe fn from_view(view: MsgV1, api: &'c ApiV1, ctx: *mut ContextV1) -> Self {
        OutMsg { view, shared: Cell::new(false), api, ctx, call: PhantomData }
    }

    /// Elements of the payload as `T`, to be written. Its first content is whatever the block held
    /// before. 164000 when the data type is another one, or the payload is shared: after `copy_ref`
    /// and after `set_output`, others may be reading it.
    ///
    /// # Errors
    /// [`PARAM_INVALID`].
    pub fn as_mut_slice<T: Element>(&mut self) -> Result<&mut [T]> {
        if self.view.access & ACCESS_WRITE_DATA == 0 || self.shared.get() {
            return Err(PARAM_INVALID);
        }
        let (ptr, count) = {
            let elements = self.as_msg().data::<T>()?;
            (self.view.data.cast::<T>(), elements.len())
        };
        if count == 0 {
            return Ok(&mut []);
        }
        // SAFETY: same bounds and alignment as the shared slice just made; ACCESS_WRITE_DATA says
        // that the block is this function's alone (abi I4), and `&mut self` that no other slice is
        // out.
        Ok(unsafe { core::slice::from_raw_parts_mut(ptr, count) })
    }

    /// New dimensions with the same number of elements.
    ///
    /// # Errors
    /// [`PARAM_INVALID`]; the shape is unchanged then.
    pub fn reshape(&mut self, shape: &[i64]) -> Result {
        let rank = u32::try_from(shape.len()).map_err(|_| PARAM_INVALID)?;
        // SAFETY: the view is a live handle of this context (I4), the dims are valid for `rank`.
        let code =
            unsafe { (self.api.reshape)(self.ctx, &raw mut self.view, shape.as_ptr(), rank) };
        if code == 0 { Ok(()) } else { Err(code) }
    }

    fn try_set(&mut self, field: u32, value: u64) -> i32 {
        // SAFETY: the view is a live handle of this context (I4).
        unsafe { (self.api.set_info)(self.ctx, &raw mut self.view, field, value) }
    }

    fn set(&mut self, field: u32, value: u64) {
        let code = self.try_set(field, value);
        debug_assert_eq!(code, 0, "set_info refused field {field}");
    }

    /// Sets the return code; user codes lie in 9900000..=9999999.
    pub fn set_ret_code(&mut self, code: i32) {
        self.set(abi::field::RET_CODE, i64::from(code).cast_unsigned());
    }

    /// Replaces the flow flags ([`FLAG_EOS`], [`FLAG_SEG`]).
    pub fn set_flags(&mut self, flags: u32) {
        self.set(abi::field::FLAGS, u64::from(flags));
    }

    /// Sets the transaction id; 0 means "the one of the current input".
    pub fn set_trans_id(&mut self, trans_id: u64) {
        self.set(abi::field::TRANS_ID, trans_id);
    }

    /// Sets the message type.
    pub fn set_msg_type(&mut self, msg_type: MsgType) {
        self.set(abi::field::MSG_TYPE, u64::from(msg_type.0));
    }

    /// Sets the start time (unit of the feeder's choice).
    pub fn set_start_time(&mut self, time: u64) {
        self.set(abi::field::START_TIME, time);
    }

    /// Sets the end time (unit of the feeder's choice).
    pub fn set_end_time(&mut self, time: u64) {
        self.set(abi::field::END_TIME, time);
    }

    /// Sets the instance routing label; 0 = none.
    pub fn set_route_label(&mut self, label: u32) {
        self.set(abi::field::ROUTE_LABEL, u64::from(label));
    }

    /// Writes into the message's 64 bytes of user data from `offset` on. What is not written stays
    /// as it is: of a new message, what the current input has. It travels on with everything made
    /// of this message, through models, too.
    ///
    /// # Errors
    /// [`PARAM_INVALID`] when the range is empty or beyond 64.
    pub fn set_user_data(&mut self, data: &[u8], offset: usize) -> Result {
        let mut bytes = self.as_msg().user_data();
        let to = offset.checked_add(data.len()).and_then(|end| bytes.get_mut(offset..end));
        let to = to.filter(|to| !to.is_empty()).ok_or(PARAM_INVALID)?;
        to.copy_from_slice(data);
        let written = offset / 8..(offset + data.len()).div_ceil(8);
        for (number, word) in (abi::field::USER_DATA..).zip(bytes.as_chunks::<8>().0) {
            let index = (number - abi::field::USER_DATA) as usize;
            if !written.contains(&index) {
                continue;
            }
            match self.try_set(number, u64::from_le_bytes(*word)) {
                0 => {}
                code => return Err(code),
            }
        }
        Ok(())
    }

    /// Gives the message back now rather than at the end of its scope.
    pub fn release(self) {}
}

impl Drop for OutMsg<'_> {
    fn drop(&mut self) {
        // SAFETY: the view is a live handle of this context (I4); it is dead afterwards, as is
        // self.
        unsafe { (self.api.release)(self.ctx, &raw mut self.view) }
    }
}
