//! The in-process executor behind [`crate::testing`]: the table of the ABI over heap memory.
//!
//! - L1. A block's bytes are written through its address only, by the handle that made it, before
//!   it is shared ([`crate::OutMsg::as_mut_slice`]); everything is on one thread.
//! - L2. Handles of a call live in `State::handles` at the index in `private[1]`; inputs in
//!   `State::inputs`. Both are cleared when the call returns (abi I4).
#![allow(unsafe_code, reason = "implements the ABI's table; one of the permitted files")]

use crate::abi::{ABI_VERSION, ACCESS_WRITE_DATA, API_MAGIC, field, level};
use crate::abi::{ApiV1, AttrV1, ContextV1, FuncV1, InstanceV1, MsgV1, ParamsV1, StrV1};
use crate::abi_local_msg::{HeadWords, INFO_WORD, LocalMsg, TAG_HANDLE, TAG_INPUT};
use crate::attrs::{AttrMap, AttrValue};
use crate::codes::{FAILED, PARAM_INVALID};
use crate::export::Library;
use core::cell::{Cell, RefCell};
use executor_core::abi::head::{HEAD_WORDS, USER_DATA_SIZE};
use executor_core::abi::{DataFlag, DataType, MsgInfo, MsgType};

/// One line that a function logged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// 0 debug … 3 error.
    pub level: u32,
    /// Text.
    pub text: String,
}

/// What stands behind the `ContextV1` pointer; interior mutability, since calls nest.
struct State {
    params: ParamsV1,
    attrs: AttrMap,
    head: Cell<Option<HeadWords>>,
    inputs: RefCell<Vec<LocalMsg>>,
    handles: RefCell<Vec<Option<LocalMsg>>>,
    outputs: RefCell<Vec<Vec<LocalMsg>>>,
    logs: RefCell<Vec<LogLine>>,
}

/// # Safety
/// `ctx` came from a [`LocalRunner`] that lives and is inside a call.
unsafe fn state<'a>(ctx: *mut ContextV1) -> &'a State {
    // SAFETY: the caller's obligation.
    unsafe { &*ctx.cast::<State>() }
}

/// # Safety
/// `ptr` is valid for `len` values, or null.
unsafe fn list<'a, T>(ptr: *const T, len: usize) -> &'a [T] {
    if ptr.is_null() {
        return &[];
    }
    // SAFETY: the caller's obligation.
    unsafe { core::slice::from_raw_parts(ptr, len) }
}

impl State {
    fn current_head(&self) -> HeadWords {
        self.head.get().unwrap_or([0; HEAD_WORDS])
    }

    fn add(&self, msg: LocalMsg, write: bool) -> MsgV1 {
        let mut handles = self.handles.borrow_mut();
        let view = msg.view(TAG_HANDLE, handles.len(), write);
        handles.push(Some(msg));
        view
    }

    fn find(&self, view: &MsgV1) -> Option<LocalMsg> {
        let index = usize::try_from(view.private[1]).ok()?;
        match view.private[0] {
            TAG_INPUT => self.inputs.borrow().get(index).cloned(),
            TAG_HANDLE => self.handles.borrow().get(index).cloned().flatten(),
            _ => None,
        }
    }
}

fn answer<T>(result: Result<T, i32>, out: *mut T) -> i32 {
    match result {
        Ok(value) => {
            // SAFETY: the ABI's `out` is valid for one value (abi, every caller is flow-func).
            unsafe { out.write(value) };
            0
        }
        Err(code) => code,
    }
}

unsafe extern "C" fn get_params(ctx: *mut ContextV1) -> *const ParamsV1 {
    // SAFETY: called by flow-func inside a call.
    &raw const unsafe { state(ctx) }.params
}

unsafe extern "C" fn get_attr(
    ctx: *mut ContextV1,
    name: *const u8,
    name_len: u64,
    kind: u32,
    out: *mut AttrV1,
) -> i32 {
    // SAFETY: called by flow-func inside a call.
    let state = unsafe { state(ctx) };
    // SAFETY: a text of the caller.
    let name = unsafe { list(name, usize::try_from(name_len).unwrap_or(0)) };
    answer(state.attrs.get(name, kind), out)
}

unsafe extern "C" fn alloc_tensor(
    ctx: *mut ContextV1,
    dims: *const i64,
    rank: u32,
    data_type: i32,
    align: u32,
    out: *mut MsgV1,
) -> i32 {
    // SAFETY: called by flow-func inside a call.
    let state = unsafe { state(ctx) };
    // SAFETY: dimensions of the caller.
    let dims = unsafe { list(dims, rank as usize) };
    if !matches!(align, 32 | 64 | 128 | 256 | 512 | 1024) {
        return PARAM_INVALID;
    }
    let msg = LocalMsg::alloc_tensor(&state.current_head(), dims, DataType(data_type));
    answer(msg.map(|msg| state.add(msg, true)), out)
}

unsafe extern "C" fn alloc_raw(
    ctx: *mut ContextV1,
    size: u64,
    _align: u32,
    out: *mut MsgV1,
) -> i32 {
    // SAFETY: called by flow-func inside a call.
    let state = unsafe { state(ctx) };
    let Ok(size) = usize::try_from(size) else { return PARAM_INVALID };
    answer(Ok(state.add(LocalMsg::alloc_raw(&state.current_head(), size), true)), out)
}

unsafe extern "C" fn alloc_empty(ctx: *mut ContextV1, msg_type: u16, out: *mut MsgV1) -> i32 {
    // SAFETY: called by flow-func inside a call.
    let state = unsafe { state(ctx) };
    if msg_type != MsgType::TENSOR_DATA.0 {
        return PARAM_INVALID;
    }
    answer(Ok(state.add(LocalMsg::alloc_empty(&state.current_head()), false)), out)
}

unsafe extern "C" fn copy_ref(ctx: *mut ContextV1, msg: *const MsgV1, out: *mut MsgV1) -> i32 {
    // SAFETY: called by flow-func inside a call.
    let state = unsafe { state(ctx) };
    // SAFETY: a live view of the caller.
    let found = state.find(unsafe { &*msg }).ok_or(PARAM_INVALID);
    answer(found.map(|msg| state.add(msg.share(), false)), out)
}

unsafe extern "C" fn release(ctx: *mut ContextV1, msg: *mut MsgV1) {
    // SAFETY: called by flow-func inside a call.
    let state = unsafe { state(ctx) };
    // SAFETY: a live view of the caller.
    let index = usize::try_from(unsafe { (*msg).private[1] }).unwrap_or(usize::MAX);
    if let Some(handle) = state.handles.borrow_mut().get_mut(index) {
        *handle = None;
    }
}

/// Changes the message behind a handle and refreshes its view.
///
/// # Safety
/// As the functions of the table: `ctx` inside a call, `view` a live view.
unsafe fn edit(
    ctx: *mut ContextV1,
    view: *mut MsgV1,
    change: impl FnOnce(&mut LocalMsg) -> Result<(), i32>,
) -> i32 {
    // SAFETY: the caller's obligation.
    let state = unsafe { state(ctx) };
    // SAFETY: the caller's obligation; the copy ends this borrow at once.
    let old = unsafe { *view };
    if old.private[0] != TAG_HANDLE {
        return PARAM_INVALID;
    }
    let index = usize::try_from(old.private[1]).unwrap_or(usize::MAX);
    let mut handles = state.handles.borrow_mut();
    let Some(Some(msg)) = handles.get_mut(index) else { return PARAM_INVALID };
    let changed = change(msg);
    let write = old.access & ACCESS_WRITE_DATA != 0;
    answer(changed.map(|()| msg.view(TAG_HANDLE, index, write)), view)
}

unsafe extern "C" fn reshape(
    ctx: *mut ContextV1,
    msg: *mut MsgV1,
    dims: *const i64,
    rank: u32,
) -> i32 {
    // SAFETY: dimensions of the caller.
    let dims = unsafe { list(dims, rank as usize) };
    // SAFETY: called by flow-func inside a call with a live view.
    unsafe {
        edit(ctx, msg, |msg| {
            let same = DataType::element_count(dims) == DataType::element_count(&msg.dims);
            if dims.len() > 32 || !same || msg.data_type == DataType::UNDEFINED {
                return Err(PARAM_INVALID);
            }
            msg.dims = dims.into();
            Ok(())
        })
    }
}

#[expect(clippy::cast_possible_truncation, reason = "fields are narrower than the ABI's word")]
fn set_field(info: &mut MsgInfo, number: u32, value: u64) -> Result<(), i32> {
    match number {
        field::RET_CODE => info.ret_code = (value as u32).cast_signed(),
        field::FLAGS => info.flags = value as u32,
        field::TRANS_ID => {
            info.trans_id = value;
            info.data_flag &= !DataFlag::CUSTOM_TRANS_ID.bits();
            if value != 0 {
                info.data_flag |= DataFlag::CUSTOM_TRANS_ID.bits();
            }
        }
        field::MSG_TYPE => info.msg_type = MsgType(value as u16),
        field::START_TIME => info.start_time = value,
        field::END_TIME => info.end_time = value,
        field::ROUTE_LABEL => info.route_label = value as u32,
        field::DATA_LABEL => info.data_label = value as u32,
        _ => return Err(PARAM_INVALID),
    }
    Ok(())
}

unsafe extern "C" fn set_info(
    ctx: *mut ContextV1,
    msg: *mut MsgV1,
    number: u32,
    value: u64,
) -> i32 {
    // SAFETY: called by flow-func inside a call with a live view.
    unsafe {
        edit(ctx, msg, |msg| {
            if msg.set_user_word(number, value) {
                return Ok(());
            }
            let mut answer = Ok(());
            msg.change(|info| answer = set_field(info, number, value));
            answer
        })
    }
}

unsafe extern "C" fn set_output(ctx: *mut ContextV1, index: u32, msg: *const MsgV1) -> i32 {
    // SAFETY: called by flow-func inside a call.
    let state = unsafe { state(ctx) };
    // SAFETY: a live view of the caller.
    let Some(msg) = state.find(unsafe { &*msg }) else { return PARAM_INVALID };
    let mut outputs = state.outputs.borrow_mut();
    let Some(output) = outputs.get_mut(index as usize) else { return PARAM_INVALID };
    let msg = msg.share();
    if msg.info().trans_id == 0
        && let Some(words) = state.head.get()
    {
        msg.change(|info| info.trans_id = words[INFO_WORD]);
    }
    output.push(msg);
    0
}

unsafe extern "C" fn get_user_data(
    ctx: *mut ContextV1,
    out: *mut u8,
    size: u64,
    offset: u64,
) -> i32 {
    // SAFETY: called by flow-func inside a call.
    let state = unsafe { state(ctx) };
    let limit = USER_DATA_SIZE as u64;
    if size == 0 || offset >= limit || size > limit - offset {
        return PARAM_INVALID;
    }
    let Some(words) = state.head.get() else { return FAILED };
    let bytes = words.into_iter().flat_map(u64::to_le_bytes);
    let wanted = bytes.skip(usize::try_from(offset).unwrap_or(0));
    for (index, byte) in wanted.take(usize::try_from(size).unwrap_or(0)).enumerate() {
        // SAFETY: `out` is valid for `size` bytes, `index` is below.
        let to = unsafe { out.add(index) };
        // SAFETY: as above.
        unsafe { to.write(byte) };
    }
    0
}

unsafe extern "C" fn log(ctx: *mut ContextV1, level: u32, text: *const u8, len: u64) {
    // SAFETY: called by flow-func inside a call.
    let state = unsafe { state(ctx) };
    // SAFETY: a text of the caller.
    let text = unsafe { list(text, usize::try_from(len).unwrap_or(0)) };
    let text = String::from_utf8_lossy(text).into_owned();
    state.logs.borrow_mut().push(LogLine { level, text });
}

#[expect(clippy::cast_possible_truncation, reason = "128 bytes")]
static API: ApiV1 = ApiV1 {
    magic: API_MAGIC,
    abi_version: ABI_VERSION,
    size: size_of::<ApiV1>() as u32,
    log_level: level::DEBUG,
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
    log_run: log,
};

/// What a [`LocalRunner`] is made of.
#[derive(Debug)]
pub struct LocalBuilder {
    library: &'static Library,
    func: &'static str,
    counts: (u32, u32),
    attrs: AttrMap,
}

impl LocalBuilder {
    /// Number of inputs (1 unless set).
    #[must_use]
    pub fn inputs(mut self, count: u32) -> Self {
        self.counts.0 = count;
        self
    }

    /// Number of outputs (1 unless set).
    #[must_use]
    pub fn outputs(mut self, count: u32) -> Self {
        self.counts.1 = count;
        self
    }

    /// An attribute of the node.
    #[must_use]
    pub fn attr(mut self, name: &str, value: impl Into<AttrValue>) -> Self {
        self.attrs.set(name, value.into());
        self
    }

    /// Creates and initialises the instance.
    ///
    /// # Errors
    /// [`PARAM_INVALID`] when the library has no such function, `UDF_PANIC` when it could not be
    /// created, or the code of `init`.
    pub fn build(self) -> Result<LocalRunner, i32> {
        let func = self.library.find(self.func).ok_or(PARAM_INVALID)?;
        let name = StrV1 { ptr: self.func.as_ptr(), len: self.func.len() as u64 };
        let state = Box::new(State {
            params: ParamsV1 {
                name,
                work_path: StrV1 { ptr: core::ptr::null(), len: 0 },
                input_count: self.counts.0,
                output_count: self.counts.1,
                device_id: -1,
                instance_id: 0,
                instance_num: 1,
                reserved: 0,
            },
            attrs: self.attrs,
            head: Cell::new(None),
            inputs: RefCell::default(),
            handles: RefCell::default(),
            outputs: RefCell::new(vec![Vec::new(); self.counts.1 as usize]),
            logs: RefCell::default(),
        });
        let ctx = Box::into_raw(state);
        // SAFETY: the table is static, the context lives until `destroy` has returned (abi I1).
        let instance = unsafe { (func.create)(&raw const API, ctx.cast()) };
        let runner = LocalRunner { func: *func, instance, state: ctx };
        if instance.is_null() {
            return Err(crate::codes::UDF_PANIC);
        }
        // SAFETY: the instance was just created.
        match unsafe { (func.init)(instance, ctx.cast()) } {
            0 => Ok(runner),
            code => Err(code),
        }
    }
}

/// One instance of a function, called in this thread.
#[derive(Debug)]
pub struct LocalRunner {
    func: FuncV1,
    instance: *mut InstanceV1,
    state: *mut State,
}

impl LocalRunner {
    /// A runner of function `func` of `library`, with one input and one output.
    #[must_use]
    pub fn builder(library: &'static Library, func: &'static str) -> LocalBuilder {
        LocalBuilder { library, func, counts: (1, 1), attrs: AttrMap::default() }
    }

    fn state(&self) -> &State {
        // SAFETY: made by `build`, freed by `drop` only; shared, with interior mutability.
        unsafe { &*self.state }
    }

    /// One call of `proc`: what it set on each output, in order.
    ///
    /// # Errors
    /// The code that `proc` answered; its outputs are dropped then.
    pub fn run(&mut self, inputs: &[&LocalMsg]) -> Result<Vec<Vec<LocalMsg>>, i32> {
        let state = self.state();
        *state.inputs.borrow_mut() = inputs.iter().map(|msg| msg.share()).collect();
        let views: Vec<MsgV1> = state
            .inputs
            .borrow()
            .iter()
            .enumerate()
            .map(|(index, msg)| msg.view(TAG_INPUT, index, false))
            .collect();
        let pointers: Vec<*const MsgV1> = views.iter().map(core::ptr::from_ref).collect();
        state.head.set(state.inputs.borrow().first().map(LocalMsg::words));
        let count = u32::try_from(pointers.len()).map_err(|_| PARAM_INVALID)?;
        // SAFETY: the views live until the call returned, and the messages behind them in `inputs`.
        let code =
            unsafe { (self.func.proc)(self.instance, self.state.cast(), pointers.as_ptr(), count) };
        state.head.set(None);
        state.handles.borrow_mut().clear();
        state.inputs.borrow_mut().clear();
        let outputs = state.outputs.borrow_mut().iter_mut().map(core::mem::take).collect();
        if code == 0 { Ok(outputs) } else { Err(code) }
    }

    /// Takes the lines logged so far.
    pub fn take_logs(&mut self) -> Vec<LogLine> {
        self.state().logs.take()
    }

    /// Handles that the function still holds; 0 between calls.
    #[must_use]
    pub fn open_handles(&self) -> usize {
        self.state().handles.borrow().iter().flatten().count()
    }
}

impl Drop for LocalRunner {
    fn drop(&mut self) {
        if !self.instance.is_null() {
            // SAFETY: created by `create`, destroyed here only.
            unsafe { (self.func.destroy)(self.instance) };
        }
        // SAFETY: made by `Box::into_raw` in `build`; the instance that used it is gone.
        drop(unsafe { Box::from_raw(self.state) });
    }
}
