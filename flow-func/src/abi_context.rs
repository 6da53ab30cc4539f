//! What a function can ask of the executor: [`InitContext`] at any time, [`Context`] inside `proc`.
//!
//! Both are two pointers; the invariants are those of [`crate::abi`].
#![allow(unsafe_code, reason = "calls the executor's table; one of the permitted files")]

use crate::abi::{ApiV1, AttrV1, ContextV1, MsgV1, ParamsV1, StrV1, kind, level};
use crate::abi_attr::Attr;
use crate::codes::{ATTR_NOT_EXISTS, ATTR_TYPE_MISMATCH, PARAM_INVALID};
use crate::text::StackText;
use crate::{AsMsg, Element, OutMsg, Result};
use core::fmt;
use core::marker::PhantomData;
use core::ops::Deref;
use executor_core::abi::{DataType, MsgType};

/// Alignment of payloads unless another one is asked for, bytes (udf §1.14).
pub const ALIGN_DEFAULT: u32 = 64;

/// Level of a log line, udf §1.17.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Level {
    /// For the author.
    Debug = level::DEBUG,
    /// For the operator.
    Info = level::INFO,
    /// Something is off but handled.
    Warn = level::WARN,
    /// Something failed.
    Error = level::ERROR,
}

/// Facts, attributes and the log of an instance: what `init` gets.
#[derive(Debug)]
pub struct InitContext<'c> {
    api: &'c ApiV1,
    ctx: *mut ContextV1,
    call: PhantomData<&'c mut ContextV1>,
}

/// What `proc` gets: an [`InitContext`] that can also make and send messages.
#[derive(Debug)]
pub struct Context<'c> {
    base: InitContext<'c>,
}

impl<'c> Deref for Context<'c> {
    type Target = InitContext<'c>;

    fn deref(&self) -> &InitContext<'c> {
        &self.base
    }
}

impl<'c> InitContext<'c> {
    /// # Safety
    /// `ctx` is the context of the call that runs now and that outlives `'c`; `api` belongs to it
    /// (abi I1, I2).
    pub(crate) unsafe fn new(api: &'c ApiV1, ctx: *mut ContextV1) -> Self {
        InitContext { api, ctx, call: PhantomData }
    }

    fn params(&self) -> &'c ParamsV1 {
        // SAFETY: the context is live (constructor).
        let params = unsafe { (self.api.get_params)(self.ctx) };
        // SAFETY: I1: never null, and longer-lived than the call.
        unsafe { &*params }
    }

    /// An attribute of the node, read as `T`.
    ///
    /// # Errors
    /// [`ATTR_NOT_EXISTS`] or [`ATTR_TYPE_MISMATCH`].
    pub fn attr<T: Attr<'c>>(&self, name: &str) -> Result<T> {
        let raw = self.raw_attr(name, T::KIND).inspect_err(|code| {
            if *code == ATTR_TYPE_MISMATCH {
                self.log_mismatch(name, T::KIND);
            }
        })?;
        // SAFETY: the answer for this kind; it lives as long as the instance, so longer than 'c
        // (I1).
        unsafe { T::from_raw(raw) }.ok_or(ATTR_TYPE_MISMATCH)
    }

    fn raw_attr(&self, name: &str, kind: u32) -> Result<AttrV1> {
        let mut raw = AttrV1 { data: core::ptr::null(), count: 0 };
        // SAFETY: name and out are valid for the call; the context is live.
        let code = unsafe {
            (self.api.get_attr)(self.ctx, name.as_ptr(), name.len() as u64, kind, &raw mut raw)
        };
        if code == 0 { Ok(raw) } else { Err(code) }
    }

    /// A line about an attribute that is of another kind than the one asked for.
    fn log_mismatch(&self, name: &str, asked: u32) {
        let found = (kind::STR..=kind::DATA_TYPE_LIST)
            .find(|kind| self.raw_attr(name, *kind).is_ok())
            .map_or("missing", kind::name);
        let hint = match (found, asked) {
            ("an integer", kind::FLOAT) => "; write it with a point, as 2.0, in the graph",
            ("a text", kind::DATA_TYPE) => "; write it as {dtype: float32} in the graph",
            _ => "",
        };
        let expected = kind::name(asked);
        let text =
            format!("attribute `{name}`: found {found}, the function asks for {expected}{hint}");
        // SAFETY: the context is live and the text is valid for the call.
        unsafe { (self.api.log_run)(self.ctx, level::ERROR, text.as_ptr(), text.len() as u64) };
    }

    /// An attribute of the node, or `default` when there is none of this name.
    ///
    /// # Errors
    /// [`ATTR_TYPE_MISMATCH`].
    pub fn attr_or<T: Attr<'c>>(&self, name: &str, default: T) -> Result<T> {
        match self.attr(name) {
            Err(ATTR_NOT_EXISTS) => Ok(default),
            other => other,
        }
    }

    /// Name of the node.
    #[must_use]
    pub fn name(&self) -> &'c str {
        // SAFETY: part of the params (I1).
        unsafe { text(self.params().name) }
    }

    /// Folder of the model's files; empty when there is none.
    #[must_use]
    pub fn work_path(&self) -> &'c str {
        // SAFETY: part of the params (I1).
        unsafe { text(self.params().work_path) }
    }

    /// Number of inputs.
    #[must_use]
    pub fn input_count(&self) -> u32 {
        self.params().input_count
    }

    /// Number of outputs.
    #[must_use]
    pub fn output_count(&self) -> u32 {
        self.params().output_count
    }

    /// Device number, -1 when there is none.
    #[must_use]
    pub fn device_id(&self) -> i32 {
        self.params().device_id
    }

    /// Which of [`Self::instance_num`] replicas this is, from 0.
    #[must_use]
    pub fn instance_id(&self) -> i32 {
        self.params().instance_id
    }

    /// Number of replicas of the node.
    #[must_use]
    pub fn instance_num(&self) -> i32 {
        self.params().instance_num
    }

    /// True when a line of this level would be written.
    #[must_use]
    pub fn log_enabled(&self, level: Level) -> bool {
        level as u32 >= self.api.log_level
    }

    /// Writes a log line; it is formatted on the stack and cut at 1024 bytes. The macros
    /// [`crate::flow_info`] … are shorter.
    pub fn log(&self, level: Level, args: fmt::Arguments<'_>) {
        if !self.log_enabled(level) {
            return;
        }
        let line = StackText::format(args);
        let text = line.as_str();
        // SAFETY: the text is valid for the call; the context is live.
        unsafe { (self.api.log)(self.ctx, level as u32, text.as_ptr(), text.len() as u64) }
    }
}

impl<'c> Context<'c> {
    /// # Safety
    /// As [`InitContext::new`], inside a `proc` call.
    pub(crate) unsafe fn new(api: &'c ApiV1, ctx: *mut ContextV1) -> Self {
        // SAFETY: the caller's obligation.
        Context { base: unsafe { InitContext::new(api, ctx) } }
    }

    fn fill(
        &mut self,
        call: impl FnOnce(&'c ApiV1, *mut ContextV1, *mut MsgV1) -> i32,
    ) -> Result<OutMsg<'c>> {
        let mut view = MsgV1::EMPTY;
        match call(self.base.api, self.base.ctx, &raw mut view) {
            // SAFETY: filled by the table's function, which answered 0; 'c is inside the call.
            0 => Ok(unsafe { OutMsg::from_view(view, self.base.api, self.base.ctx) }),
            code => Err(code),
        }
    }

    /// A tensor message of `T`'s data type. Its head comes from the current input, so trans_id,
    /// user data, flags, times and labels are inherited (udf §3.6). The payload is not cleared.
    ///
    /// # Errors
    /// [`PARAM_INVALID`] for a bad shape, `NO_MBUF`, `TOO_LARGE`, `MEM_BUF_ERROR`.
    pub fn alloc<T: Element>(&mut self, shape: &[i64]) -> Result<OutMsg<'c>> {
        self.alloc_typed(shape, T::DATA_TYPE, ALIGN_DEFAULT)
    }

    /// A tensor message of any data type, its payload aligned to `align` bytes, one of 32, 64, 128,
    /// 256, 512, 1024.
    ///
    /// # Errors
    /// As [`Self::alloc`].
    pub fn alloc_typed(
        &mut self,
        shape: &[i64],
        data_type: DataType,
        align: u32,
    ) -> Result<OutMsg<'c>> {
        let rank = u32::try_from(shape.len()).map_err(|_| PARAM_INVALID)?;
        // SAFETY: dims are valid for `rank`, out for the call; the context is live.
        self.fill(|api, ctx, out| unsafe {
            (api.alloc_tensor)(ctx, shape.as_ptr(), rank, data_type.0, align, out)
        })
    }

    /// A raw message of `size` bytes.
    ///
    /// # Errors
    /// As [`Self::alloc`].
    pub fn alloc_raw(&mut self, size: usize) -> Result<OutMsg<'c>> {
        // SAFETY: out is valid for the call; the context is live.
        self.fill(|api, ctx, out| unsafe { (api.alloc_raw)(ctx, size as u64, ALIGN_DEFAULT, out) })
    }

    /// A message without data, to carry a code or an end-of-sequence flag.
    ///
    /// # Errors
    /// `NO_MBUF`, `MEM_BUF_ERROR`.
    pub fn alloc_empty(&mut self) -> Result<OutMsg<'c>> {
        // SAFETY: out is valid for the call; the context is live.
        self.fill(|api, ctx, out| unsafe { (api.alloc_empty)(ctx, MsgType::TENSOR_DATA.0, out) })
    }

    /// Another handle on the same data with a head of its own, so that code, flags and shape can
    /// differ. The payload is shared and can't be written.
    ///
    /// # Errors
    /// `NO_MBUF`, `MEM_BUF_ERROR`.
    pub fn copy_ref(&mut self, msg: &impl AsMsg) -> Result<OutMsg<'c>> {
        let view: *const MsgV1 = msg.as_msg().view();
        msg.mark_shared();
        // SAFETY: the view is live while `msg` is borrowed; out is valid for the call.
        self.fill(|api, ctx, out| unsafe { (api.copy_ref)(ctx, view, out) })
    }

    /// Sends a message to output `index`: one of the function's own, or an input, without a copy.
    /// The executor takes a reference of its own; a full queue is no error (udf §3.7).
    ///
    /// # Errors
    /// [`PARAM_INVALID`] for an index that the function does not have, `MEM_BUF_ERROR`.
    pub fn set_output(&mut self, index: u32, msg: &impl AsMsg) -> Result {
        let view: *const MsgV1 = msg.as_msg().view();
        msg.mark_shared();
        // SAFETY: the view is live while `msg` is borrowed; the context is live.
        let code = unsafe { (self.base.api.set_output)(self.base.ctx, index, view) };
        if code == 0 { Ok(()) } else { Err(code) }
    }

    /// Ends this id on output `index` with `code`: an empty message that carries it. The way to
    /// fail one message and go on; an `Err` from `proc` ends the process (udf §1.15).
    ///
    /// # Errors
    /// As [`Self::alloc_empty`] and [`Self::set_output`].
    pub fn set_code(&mut self, index: u32, code: i32) -> Result {
        let mut msg = self.alloc_empty()?;
        msg.set_ret_code(code);
        self.set_output(index, &msg)
    }

    /// [`Self::set_code`] on every output.
    ///
    /// # Errors
    /// As there.
    pub fn set_code_on_all(&mut self, code: i32) -> Result {
        (0..self.output_count()).try_for_each(|index| self.set_code(index, code))
    }

    /// Copies from the current input's 64 bytes of user data, starting at `offset`.
    ///
    /// # Errors
    /// [`PARAM_INVALID`] when the range is empty or beyond 64, `FAILED` without an input.
    pub fn user_data(&self, out: &mut [u8], offset: usize) -> Result {
        let (ptr, size) = (out.as_mut_ptr(), out.len() as u64);
        // SAFETY: out is valid for `size` bytes; the context is live.
        let code =
            unsafe { (self.base.api.get_user_data)(self.base.ctx, ptr, size, offset as u64) };
        if code == 0 { Ok(()) } else { Err(code) }
    }
}

/// # Safety
/// `text` is valid for `'c`.
unsafe fn text<'c>(text: StrV1) -> &'c str {
    if text.ptr.is_null() {
        return "";
    }
    let len = usize::try_from(text.len).unwrap_or(0);
    // SAFETY: the caller's obligation.
    let bytes = unsafe { core::slice::from_raw_parts(text.ptr, len) };
    core::str::from_utf8(bytes).unwrap_or_default()
}
