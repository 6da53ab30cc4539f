//! The table of the C ABI: each function checks nothing of its own, it turns pointers into values
//! and calls [`Context`].
//!
//! Every call comes out of a function that the executor is calling on this thread (abi I2), and
//! runs as runtime code: what it allocates counts as the runtime's.
#![allow(unsafe_code, reason = "extern \"C\" functions over the pointers of the ABI")]

use executor_rt::interpose::in_runtime;
use executor_rt::log::{Level, Logger, Stream};
use flow_func::abi::{ABI_VERSION, API_MAGIC, ApiV1, AttrV1, ContextV1, MsgV1, ParamsV1, level};
use flow_func::codes::PARAM_INVALID;

use crate::context::Context;

/// The table for a log that drops lines below its level.
pub(crate) fn table(logger: &Logger) -> ApiV1 {
    let levels =
        [(Level::Debug, level::DEBUG), (Level::Info, level::INFO), (Level::Warn, level::WARN)];
    let lowest = levels.into_iter().find(|(level, _)| logger.is_enabled(*level));
    ApiV1 {
        magic: API_MAGIC,
        abi_version: ABI_VERSION,
        size: u32::try_from(size_of::<ApiV1>()).unwrap_or(0),
        log_level: lowest.map_or(level::ERROR, |(_, number)| number),
        reserved: 0,
        get_params,
        get_attr,
        alloc_tensor,
        alloc_raw,
        alloc_empty,
        copy_ref,
        release,
        reshape,
        set_info,
        set_output,
        get_user_data,
        log,
        log_run,
    }
}

/// # Safety
/// `ctx` is the context that the executor passed with the call under way (abi I1, I2).
unsafe fn context<'a>(ctx: *mut ContextV1) -> &'a Context {
    // SAFETY: the executor passes `&'static Context` as this pointer, and nothing else.
    unsafe { &*ctx.cast::<Context>() }
}

/// # Safety
/// `ptr` is valid for reads of `len` values for the call, or null.
unsafe fn list<'a, T>(ptr: *const T, len: u64) -> &'a [T] {
    let len = usize::try_from(len).unwrap_or(0);
    if ptr.is_null() || len == 0 {
        return &[];
    }
    // SAFETY: the caller's obligation.
    unsafe { core::slice::from_raw_parts(ptr, len) }
}

/// # Safety
/// `view` is a view that the executor filled, valid for the call, or null.
unsafe fn read(view: *const MsgV1) -> Option<MsgV1> {
    // SAFETY: null, or valid: the caller's obligation. The copy ends the access at once.
    unsafe { view.as_ref() }.copied()
}

/// # Safety
/// `out` is valid for writing one value, or null.
unsafe fn answer<T>(result: Result<T, i32>, out: *mut T) -> i32 {
    match result {
        Ok(_) if out.is_null() => PARAM_INVALID,
        Ok(value) => {
            // SAFETY: not null, so valid: the caller's obligation.
            unsafe { out.write(value) };
            0
        }
        Err(code) => code,
    }
}

unsafe extern "C" fn get_params(ctx: *mut ContextV1) -> *const ParamsV1 {
    // SAFETY: inside a call (I2).
    &raw const unsafe { context(ctx) }.params
}

unsafe extern "C" fn get_attr(
    ctx: *mut ContextV1,
    name: *const u8,
    name_len: u64,
    kind: u32,
    out: *mut AttrV1,
) -> i32 {
    // SAFETY: inside a call (I2).
    let context = unsafe { context(ctx) };
    // SAFETY: a text of the caller.
    let name = unsafe { list(name, name_len) };
    // SAFETY: a place of the caller.
    unsafe { answer(context.attrs.get(name, kind), out) }
}

unsafe extern "C" fn alloc_tensor(
    ctx: *mut ContextV1,
    dims: *const i64,
    rank: u32,
    data_type: i32,
    align: u32,
    out: *mut MsgV1,
) -> i32 {
    // SAFETY: inside a call (I2).
    let context = unsafe { context(ctx) };
    // SAFETY: dimensions of the caller.
    let dims = unsafe { list(dims, u64::from(rank)) };
    let result = in_runtime(|| context.alloc_tensor(dims, data_type, align));
    // SAFETY: a place of the caller.
    unsafe { answer(result, out) }
}

unsafe extern "C" fn alloc_raw(
    ctx: *mut ContextV1,
    size: u64,
    _align: u32,
    out: *mut MsgV1,
) -> i32 {
    // SAFETY: inside a call (I2).
    let context = unsafe { context(ctx) };
    let result = in_runtime(|| context.alloc_raw(size));
    // SAFETY: a place of the caller.
    unsafe { answer(result, out) }
}

unsafe extern "C" fn alloc_empty(ctx: *mut ContextV1, msg_type: u16, out: *mut MsgV1) -> i32 {
    // SAFETY: inside a call (I2).
    let context = unsafe { context(ctx) };
    let result = in_runtime(|| context.alloc_empty(msg_type));
    // SAFETY: a place of the caller.
    unsafe { answer(result, out) }
}

unsafe extern "C" fn copy_ref(ctx: *mut ContextV1, msg: *const MsgV1, out: *mut MsgV1) -> i32 {
    // SAFETY: inside a call (I2).
    let context = unsafe { context(ctx) };
    // SAFETY: a view of the caller.
    let Some(msg) = (unsafe { read(msg) }) else { return PARAM_INVALID };
    let result = in_runtime(|| context.copy_ref(&msg));
    // SAFETY: a place of the caller.
    unsafe { answer(result, out) }
}

unsafe extern "C" fn release(ctx: *mut ContextV1, msg: *mut MsgV1) {
    // SAFETY: inside a call (I2).
    let context = unsafe { context(ctx) };
    // SAFETY: a view of the caller.
    if let Some(view) = unsafe { read(msg) } {
        in_runtime(|| context.release(&view));
    }
}

unsafe extern "C" fn reshape(
    ctx: *mut ContextV1,
    msg: *mut MsgV1,
    dims: *const i64,
    rank: u32,
) -> i32 {
    // SAFETY: inside a call (I2).
    let context = unsafe { context(ctx) };
    // SAFETY: dimensions of the caller.
    let dims = unsafe { list(dims, u64::from(rank)) };
    // SAFETY: a view of the caller.
    let Some(view) = (unsafe { read(msg) }) else { return PARAM_INVALID };
    let result = in_runtime(|| context.reshape(&view, dims));
    // SAFETY: the same view.
    unsafe { answer(result, msg) }
}

unsafe extern "C" fn set_info(ctx: *mut ContextV1, msg: *mut MsgV1, field: u32, value: u64) -> i32 {
    // SAFETY: inside a call (I2).
    let context = unsafe { context(ctx) };
    // SAFETY: a view of the caller.
    let Some(view) = (unsafe { read(msg) }) else { return PARAM_INVALID };
    let result = in_runtime(|| context.set_info(&view, field, value));
    // SAFETY: the same view.
    unsafe { answer(result, msg) }
}

unsafe extern "C" fn set_output(ctx: *mut ContextV1, index: u32, msg: *const MsgV1) -> i32 {
    // SAFETY: inside a call (I2).
    let context = unsafe { context(ctx) };
    // SAFETY: a view of the caller; no message is silently fine (udf §1.14).
    let Some(view) = (unsafe { read(msg) }) else { return 0 };
    match in_runtime(|| context.set_output(index, &view)) {
        Ok(()) => 0,
        Err(code) => code,
    }
}

unsafe extern "C" fn get_user_data(
    ctx: *mut ContextV1,
    out: *mut u8,
    size: u64,
    offset: u64,
) -> i32 {
    // SAFETY: inside a call (I2).
    let context = unsafe { context(ctx) };
    if out.is_null() {
        return PARAM_INVALID;
    }
    match in_runtime(|| context.user_data(offset, size)) {
        Ok(bytes) => {
            let size = usize::try_from(size).unwrap_or(0).min(bytes.len());
            // SAFETY: `out` is valid for `size` bytes (the caller's); `bytes` is on this stack.
            unsafe { out.copy_from_nonoverlapping(bytes.as_ptr(), size) };
            0
        }
        Err(code) => code,
    }
}

unsafe extern "C" fn log(ctx: *mut ContextV1, level: u32, text: *const u8, len: u64) {
    // SAFETY: the caller passes a text (I8).
    unsafe { line(ctx, Stream::Debug, level, text, len) }
}

unsafe extern "C" fn log_run(ctx: *mut ContextV1, level: u32, text: *const u8, len: u64) {
    // SAFETY: the caller passes a text (I8).
    unsafe { line(ctx, Stream::Run, level, text, len) }
}

/// # Safety
/// As the functions of the table: `text` is valid for `len` bytes. Any thread may call.
unsafe fn line(ctx: *mut ContextV1, stream: Stream, level: u32, text: *const u8, len: u64) {
    // SAFETY: the context lives for ever; what is used of it here is shared between threads (I8).
    let context = unsafe { context(ctx) };
    // SAFETY: a text of the caller.
    let text = unsafe { list(text, len) };
    let text = core::str::from_utf8(text).unwrap_or("a log line that is no UTF-8");
    in_runtime(|| context.log(stream, level, text));
}
