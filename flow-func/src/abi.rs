//! The versioned C ABI between `udf-executor` and a library of user functions.
//!
//! A library exports one symbol, [`ENTRY_SYMBOL`], a [`LibraryEntryV1`]. It returns a [`LibraryV1`]
//! that lists [`FuncV1`] records. The executor hands every call an [`ApiV1`] (a table of functions)
//! and an opaque [`ContextV1`]. Messages are [`MsgV1`] views: the executor fills them, so reading a
//! message costs no call. Nothing on the path of a message allocates on the heap.
//!
//! This file is *not* what an author writes against (that is the crate root), and says nothing of
//! how messages travel (`executor-core`).
//!
//! Contract, numbered for `SAFETY` comments:
//! - I1. `ApiV1`, `ParamsV1` and attribute memory live from `create` until `destroy` has returned.
//! - I2. All calls on one instance come from one thread, one at a time. The library calls the API
//!   only from that thread and only while the executor is inside a call on that instance.
//! - I3. A `MsgV1` of an input is valid until `proc` returns; the owner protocol lets nobody write
//!   the payload meanwhile. Payload bytes are always initialised (their content may be stale).
//! - I4. A `MsgV1` that an `alloc_*` or `copy_ref` call filled is a *handle*: the function's until
//!   `release`, at the latest until `proc` returns, when the executor releases what is left.
//! - I5. `data` is valid for `data_size` bytes, `area` for `area_size`, `dims` for `rank` values,
//!   `head` for 32 words; a null pointer comes with a zero count.
//! - I6. No unwinding crosses this boundary in either direction; the executor never calls a library
//!   whose `panic_strategy` is [`PANIC_ABORT`].
//! - I7. Tables grow at their end only. A reader checks `size` before it reads a field that was not
//!   in the first version. All of this file is, but [`ApiV1::log_run`].
//! - I8. `log` and `log_run` may be called from any thread, from `create` until `destroy` returns.
#![allow(unsafe_code, reason = "extern \"C\" function pointer types of the ABI")]

use core::ffi::c_void;
use core::mem::{offset_of, size_of};
use executor_core::abi::RuntimeTensorDesc;
use static_assertions::const_assert_eq;

/// Name of the one exported symbol, NUL-terminated for `dlsym`.
pub const ENTRY_SYMBOL: &core::ffi::CStr = c"dflow_library_v1";
/// [`LibraryV1::magic`]: the bytes `DFLWUDF1`.
pub const LIBRARY_MAGIC: u64 = u64::from_le_bytes(*b"DFLWUDF1");
/// [`ApiV1::magic`]: the bytes `DFLWAPI1`.
pub const API_MAGIC: u64 = u64::from_le_bytes(*b"DFLWAPI1");
/// Version of everything in this file.
pub const ABI_VERSION: u32 = 1;
/// [`LibraryV1::panic_strategy`] of a library that unwinds: the only one a loader accepts.
pub const PANIC_UNWIND: u32 = 0;
/// [`LibraryV1::panic_strategy`] of a library that was built to abort.
pub const PANIC_ABORT: u32 = 1;
/// [`MsgV1::access`]: the function may write the payload.
pub const ACCESS_WRITE_DATA: u16 = 1;
/// [`MsgV1::access`]: the message is a handle of the function (fields may be set, must be
/// released).
pub const ACCESS_OWNED: u16 = 2;
/// [`MsgV1::access`]: null data, an empty message (udf §2.2 data_flag bit 0).
pub const ACCESS_NULL_DATA: u16 = 4;

/// Field numbers of [`ApiV1::set_info`]; values are zero- or sign-extended to 64 bits.
pub mod field {
    /// `MsgInfo.ret_code`, i32.
    pub const RET_CODE: u32 = 0;
    /// `MsgInfo.flags`, u32: the whole word is replaced.
    pub const FLAGS: u32 = 1;
    /// `MsgInfo.trans_id`, u64: non-zero also sets the custom bit, 0 clears it (udf §1.8).
    pub const TRANS_ID: u32 = 2;
    /// `MsgInfo.msg_type`, u16.
    pub const MSG_TYPE: u32 = 3;
    /// `MsgInfo.start_time`, u64.
    pub const START_TIME: u32 = 4;
    /// `MsgInfo.end_time`, u64.
    pub const END_TIME: u32 = 5;
    /// `MsgInfo.route_label`, u32; 0 = none.
    pub const ROUTE_LABEL: u32 = 6;
    /// `MsgInfo.data_label`, u32; 0 = none.
    pub const DATA_LABEL: u32 = 7;
    /// First of eight numbers, one for each word of the user data, little-endian. Not in the first
    /// version: an executor without them answers 164000.
    pub const USER_DATA: u32 = 16;
}

/// Kinds of [`ApiV1::get_attr`] and what [`AttrV1::data`] then points at.
pub mod kind {
    /// One [`super::StrV1`].
    pub const STR: u32 = 0;
    /// Many [`super::StrV1`].
    pub const STR_LIST: u32 = 1;
    /// One i64.
    pub const INT: u32 = 2;
    /// Many i64.
    pub const INT_LIST: u32 = 3;
    /// Many [`super::IntsV1`].
    pub const INT_LIST_LIST: u32 = 4;
    /// One f32.
    pub const FLOAT: u32 = 5;
    /// Many f32.
    pub const FLOAT_LIST: u32 = 6;
    /// One u8, 0 or 1.
    pub const BOOL: u32 = 7;
    /// Many u8, 0 or 1.
    pub const BOOL_LIST: u32 = 8;
    /// One i32, a `TensorDataType` value.
    pub const DATA_TYPE: u32 = 9;
    /// Many i32, `TensorDataType` values.
    pub const DATA_TYPE_LIST: u32 = 10;

    /// In words.
    #[must_use]
    pub const fn name(kind: u32) -> &'static str {
        match kind {
            STR => "a text",
            STR_LIST => "a list of texts",
            INT => "an integer",
            INT_LIST => "a list of integers",
            INT_LIST_LIST => "a list of lists of integers",
            FLOAT => "a float",
            FLOAT_LIST => "a list of floats",
            BOOL => "a boolean",
            BOOL_LIST => "a list of booleans",
            DATA_TYPE => "a data type",
            DATA_TYPE_LIST => "a list of data types",
            _ => "something unknown",
        }
    }
}

/// Levels of [`ApiV1::log`], udf §1.17.
pub mod level {
    /// Debug.
    pub const DEBUG: u32 = 0;
    /// Info.
    pub const INFO: u32 = 1;
    /// Warning.
    pub const WARN: u32 = 2;
    /// Error.
    pub const ERROR: u32 = 3;
}

/// The executor's side of one instance; opaque to the library.
#[repr(C)]
#[derive(Debug)]
pub struct ContextV1 {
    opaque: [u8; 0],
}

/// One instance of a function; opaque to the executor.
#[repr(C)]
#[derive(Debug)]
pub struct InstanceV1 {
    opaque: [u8; 0],
}

/// UTF-8 text, not NUL-terminated. 16 bytes: 0 `ptr`, 8 `len`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct StrV1 {
    /// First byte; null only when `len` is 0.
    pub ptr: *const u8,
    /// Bytes.
    pub len: u64,
}

/// A list of i64. 16 bytes: 0 `ptr`, 8 `len`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct IntsV1 {
    /// First value; null only when `len` is 0.
    pub ptr: *const i64,
    /// Values.
    pub len: u64,
}

/// An attribute as [`ApiV1::get_attr`] answers it. 16 bytes: 0 `data`, 8 `count`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct AttrV1 {
    /// First element, typed by the kind that was asked for ([`kind`]); I1.
    pub data: *const c_void,
    /// Elements; 1 for the scalar kinds.
    pub count: u64,
}

/// Facts of an instance that never change, udf §1.11. 56 bytes.
///
/// | off | size | field |
/// |---|---|---|
/// | 0 | 16 | name |
/// | 16 | 16 | work_path |
/// | 32 | 4 | input_count |
/// | 36 | 4 | output_count |
/// | 40 | 4 | device_id |
/// | 44 | 4 | instance_id |
/// | 48 | 4 | instance_num |
/// | 52 | 4 | reserved, 0 |
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct ParamsV1 {
    /// Name of the node.
    pub name: StrV1,
    /// Folder of the model's files, or empty.
    pub work_path: StrV1,
    /// Inputs of the function.
    pub input_count: u32,
    /// Outputs of the function.
    pub output_count: u32,
    /// Device number, -1 when there is none.
    pub device_id: i32,
    /// Which replica this is, from 0.
    pub instance_id: i32,
    /// Replicas.
    pub instance_num: i32,
    /// 0.
    pub reserved: u32,
}

/// A message as the executor shows it. 128 bytes, align 8; the executor fills every field.
///
/// | off | size | field | meaning |
/// |---|---|---|---|
/// | 0 | 8 | head | 32 words, `MsgInfo` from byte 192; read-only to the library |
/// | 8 | 8 | desc | first tensor's descriptor; null for raw and empty messages |
/// | 16 | 8 | data | payload; null when there is none |
/// | 24 | 8 | data_size | logical payload bytes |
/// | 32 | 8 | capacity | bytes usable at `data`, ≥ `data_size` |
/// | 40 | 8 | area | the whole data area, descriptor included (udf §1.8 `GetRawData`) |
/// | 48 | 8 | area_size | bytes of it |
/// | 56 | 8 | dims | the tensor's dimensions |
/// | 64 | 8 | element_count | product of dims; -1 where unknown |
/// | 72 | 8 | trans_id | as in `MsgInfo` |
/// | 80 | 4 | ret_code | as in `MsgInfo` |
/// | 84 | 4 | flags | as in `MsgInfo`: EOS 1, SEG 2 |
/// | 88 | 4 | data_type | `TensorDataType` value; 33 where undefined |
/// | 92 | 4 | rank | 0..=32 |
/// | 96 | 2 | msg_type | as in `MsgInfo` |
/// | 98 | 2 | access | `ACCESS_*` bits |
/// | 100 | 4 | tensor_count | tensors parsed, 0 for raw and empty |
/// | 104 | 24 | private | three words of the executor |
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct MsgV1 {
    /// The 256-byte head, read by relaxed atomic words.
    pub head: *const u64,
    /// The first tensor's descriptor, or null.
    pub desc: *const RuntimeTensorDesc,
    /// First payload byte, or null. Aligned to 64 (to `align` where that was asked for).
    pub data: *mut u8,
    /// Logical bytes at `data`.
    pub data_size: u64,
    /// Usable bytes at `data`.
    pub capacity: u64,
    /// Whole data area, or null.
    pub area: *const u8,
    /// Bytes of it.
    pub area_size: u64,
    /// Dimensions; may point at a process-local copy after a reshape.
    pub dims: *const i64,
    /// Elements, -1 where unknown.
    pub element_count: i64,
    /// Transaction id.
    pub trans_id: u64,
    /// Return code, 0 = good.
    pub ret_code: i32,
    /// Flow flags.
    pub flags: u32,
    /// `TensorDataType` value.
    pub data_type: i32,
    /// Number of dimensions.
    pub rank: u32,
    /// Message type.
    pub msg_type: u16,
    /// `ACCESS_*` bits.
    pub access: u16,
    /// Tensors in the message.
    pub tensor_count: u32,
    /// Private to the executor: which mbuf this is.
    pub private: [u64; 3],
}

impl MsgV1 {
    /// A view of nothing, to be filled by an executor.
    pub const EMPTY: MsgV1 = MsgV1 {
        head: core::ptr::null(),
        desc: core::ptr::null(),
        data: core::ptr::null_mut(),
        data_size: 0,
        capacity: 0,
        area: core::ptr::null(),
        area_size: 0,
        dims: core::ptr::null(),
        element_count: 0,
        trans_id: 0,
        ret_code: 0,
        flags: 0,
        data_type: 33,
        rank: 0,
        msg_type: 0,
        access: 0,
        tensor_count: 0,
        private: [0; 3],
    };
}

/// What the executor offers. 128 bytes (120 in the first version); every pointer is set. Functions
/// that return i32 answer 0 or a code of [`crate::codes`]; `out` is written on 0 only.
///
/// | off | field | off | field |
/// |---|---|---|---|
/// | 0 | magic | 64 | copy_ref |
/// | 8 | abi_version | 72 | release |
/// | 12 | size | 80 | reshape |
/// | 16 | log_level | 88 | set_info |
/// | 20 | reserved | 96 | set_output |
/// | 24 | get_params | 104 | get_user_data |
/// | 32 | get_attr | 112 | log |
/// | 40 | alloc_tensor | 120 | log_run |
/// | 48 | alloc_raw | 128 | (end) |
/// | 56 | alloc_empty | | |
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct ApiV1 {
    /// [`API_MAGIC`].
    pub magic: u64,
    /// [`ABI_VERSION`].
    pub abi_version: u32,
    /// `size_of::<ApiV1>()` of the executor's build.
    pub size: u32,
    /// Lowest [`level`] that is written at all; formatting below it can be skipped.
    pub log_level: u32,
    /// 0.
    pub reserved: u32,
    /// Facts of the instance (I1).
    pub get_params: unsafe extern "C" fn(ctx: *mut ContextV1) -> *const ParamsV1,
    /// An attribute by name and [`kind`]: 164001 when missing, 164002 when of another kind.
    pub get_attr: unsafe extern "C" fn(
        ctx: *mut ContextV1,
        name: *const u8,
        name_len: u64,
        kind: u32,
        out: *mut AttrV1,
    ) -> i32,
    /// A new tensor message, head inherited from the current input (udf §1.14). `align` is one of
    /// 32, 64, 128, 256, 512, 1024. 164000 for a bad argument, 14614539 without a free mbuf,
    /// 14614540 when no block is that large, 564101 otherwise.
    pub alloc_tensor: unsafe extern "C" fn(
        ctx: *mut ContextV1,
        dims: *const i64,
        rank: u32,
        data_type: i32,
        align: u32,
        out: *mut MsgV1,
    ) -> i32,
    /// A new raw message of `size` bytes; codes as `alloc_tensor`.
    pub alloc_raw:
        unsafe extern "C" fn(ctx: *mut ContextV1, size: u64, align: u32, out: *mut MsgV1) -> i32,
    /// A new message without data; `msg_type` must be 0 (tensor), else 164000.
    pub alloc_empty:
        unsafe extern "C" fn(ctx: *mut ContextV1, msg_type: u16, out: *mut MsgV1) -> i32,
    /// Another handle on the same data, with a head of its own (copied from `msg`).
    pub copy_ref:
        unsafe extern "C" fn(ctx: *mut ContextV1, msg: *const MsgV1, out: *mut MsgV1) -> i32,
    /// Gives a handle back; the view is dead afterwards.
    pub release: unsafe extern "C" fn(ctx: *mut ContextV1, msg: *mut MsgV1),
    /// New dimensions with the same element count, on a handle; updates the view. 164000 otherwise.
    pub reshape: unsafe extern "C" fn(
        ctx: *mut ContextV1,
        msg: *mut MsgV1,
        dims: *const i64,
        rank: u32,
    ) -> i32,
    /// Sets a [`field`] of a handle's `MsgInfo` and updates the view. 164000 for a bad field, or
    /// when `msg` is no handle.
    pub set_info:
        unsafe extern "C" fn(ctx: *mut ContextV1, msg: *mut MsgV1, field: u32, value: u64) -> i32,
    /// Sends `msg` (an input or a handle) to output `index`. The executor takes a reference of its
    /// own; a handle stays the function's. A full queue is no error (udf §3.7).
    pub set_output: unsafe extern "C" fn(ctx: *mut ContextV1, index: u32, msg: *const MsgV1) -> i32,
    /// Copies `size` bytes from `offset` of the current input's 64 bytes of user data (udf §1.14).
    pub get_user_data:
        unsafe extern "C" fn(ctx: *mut ContextV1, out: *mut u8, size: u64, offset: u64) -> i32,
    /// One log line at a [`level`]; UTF-8, no line end. The executor adds node and trans_id (I8).
    pub log: unsafe extern "C" fn(ctx: *mut ContextV1, level: u32, text: *const u8, len: u64),
    /// The same as a line of the run log, which has limits of its own (udf §1.17).
    pub log_run: unsafe extern "C" fn(ctx: *mut ContextV1, level: u32, text: *const u8, len: u64),
}

/// One function of a library. 64 bytes.
///
/// | off | size | field |
/// |---|---|---|
/// | 0 | 8 | name |
/// | 8 | 8 | name_len |
/// | 16 | 8 | create |
/// | 24 | 8 | init |
/// | 32 | 8 | proc |
/// | 40 | 8 | destroy |
/// | 48 | 8 | reset (may be null) |
/// | 56 | 8 | reserved, 0 |
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct FuncV1 {
    /// UTF-8 name, what a graph says as `func`.
    pub name: *const u8,
    /// Bytes of it.
    pub name_len: u64,
    /// A new instance; null when it could not be made (a log line says why).
    pub create: unsafe extern "C" fn(api: *const ApiV1, ctx: *mut ContextV1) -> *mut InstanceV1,
    /// Once before the first `proc`: 0 ready, 144 call again later, else the process gives up.
    pub init: unsafe extern "C" fn(instance: *mut InstanceV1, ctx: *mut ContextV1) -> i32,
    /// One set of inputs: 0 done, 145 keep the inputs and call again, 14614531 it panicked,
    /// else unrecoverable (udf §3.5).
    pub proc: unsafe extern "C" fn(
        instance: *mut InstanceV1,
        ctx: *mut ContextV1,
        inputs: *const *const MsgV1,
        input_count: u32,
    ) -> i32,
    /// Ends the instance. Never called twice.
    pub destroy: unsafe extern "C" fn(instance: *mut InstanceV1),
    /// Clears state for suspend and recover: 0, or 564002 to be destroyed and created anew.
    pub reset: Option<unsafe extern "C" fn(instance: *mut InstanceV1, ctx: *mut ContextV1) -> i32>,
    /// 0.
    pub reserved: u64,
}

/// What a library is. 64 bytes.
///
/// | off | size | field |
/// |---|---|---|
/// | 0 | 8 | magic |
/// | 8 | 4 | abi_version |
/// | 12 | 4 | size |
/// | 16 | 4 | panic_strategy |
/// | 20 | 4 | func_count |
/// | 24 | 8 | name |
/// | 32 | 8 | name_len |
/// | 40 | 8 | funcs |
/// | 48 | 4 | func_size |
/// | 52 | 12 | reserved, 0 |
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct LibraryV1 {
    /// [`LIBRARY_MAGIC`].
    pub magic: u64,
    /// [`ABI_VERSION`].
    pub abi_version: u32,
    /// `size_of::<LibraryV1>()` of the library's build.
    pub size: u32,
    /// [`PANIC_UNWIND`] or [`PANIC_ABORT`].
    pub panic_strategy: u32,
    /// Records at `funcs`.
    pub func_count: u32,
    /// UTF-8 name of the library.
    pub name: *const u8,
    /// Bytes of it.
    pub name_len: u64,
    /// First [`FuncV1`]; the next is `func_size` bytes further.
    pub funcs: *const FuncV1,
    /// `size_of::<FuncV1>()` of the library's build.
    pub func_size: u32,
    /// 0.
    pub reserved: [u32; 3],
}

impl LibraryV1 {
    /// What a loader checks before it reads anything else of a library.
    ///
    /// # Errors
    /// What is wrong, what was found and what to do, to be put behind the library's path.
    pub fn check(&self) -> Result<(), String> {
        let found = self.abi_version;
        if self.magic != LIBRARY_MAGIC {
            return Err("is no library of user functions (bad magic number)".to_owned());
        }
        if found != ABI_VERSION {
            return Err(format!("has ABI version {found}, expected {ABI_VERSION}: rebuild it"));
        }
        if (self.size as usize) < size_of::<LibraryV1>()
            || (self.func_size as usize) < size_of::<FuncV1>()
        {
            return Err(format!(
                "has records of {} and {} bytes, too short",
                self.size, self.func_size
            ));
        }
        if self.panic_strategy != PANIC_UNWIND {
            return Err(
                "was built with panic = \"abort\": build it with `--profile udf`".to_owned()
            );
        }
        if self.func_count == 0 || self.funcs.is_null() {
            return Err("exports no function".to_owned());
        }
        Ok(())
    }
}

/// Type of the symbol [`ENTRY_SYMBOL`]. The answer lives as long as the library is loaded.
pub type LibraryEntryV1 = unsafe extern "C" fn() -> *const LibraryV1;

const_assert_eq!(size_of::<usize>(), 8);
macro_rules! layout {
    ($ty:ident, $size:literal, $($field:ident = $offset:literal),+) => {
        const_assert_eq!(size_of::<$ty>(), $size);
        const_assert_eq!(align_of::<$ty>(), 8);
        $(const_assert_eq!(offset_of!($ty, $field), $offset);)+
    };
}
layout!(StrV1, 16, ptr = 0, len = 8);
layout!(IntsV1, 16, ptr = 0, len = 8);
layout!(AttrV1, 16, data = 0, count = 8);
layout!(
    ParamsV1,
    56,
    name = 0,
    work_path = 16,
    input_count = 32,
    output_count = 36,
    device_id = 40,
    instance_id = 44,
    instance_num = 48,
    reserved = 52
);
layout!(
    MsgV1,
    128,
    head = 0,
    desc = 8,
    data = 16,
    data_size = 24,
    capacity = 32,
    area = 40,
    area_size = 48,
    dims = 56,
    element_count = 64,
    trans_id = 72,
    ret_code = 80,
    flags = 84,
    data_type = 88,
    rank = 92,
    msg_type = 96,
    access = 98,
    tensor_count = 100,
    private = 104
);
layout!(
    ApiV1,
    128,
    magic = 0,
    abi_version = 8,
    size = 12,
    log_level = 16,
    reserved = 20,
    get_params = 24,
    get_attr = 32,
    alloc_tensor = 40,
    alloc_raw = 48,
    alloc_empty = 56,
    copy_ref = 64,
    release = 72,
    reshape = 80,
    set_info = 88,
    set_output = 96,
    get_user_data = 104,
    log = 112,
    log_run = 120
);
layout!(
    FuncV1,
    64,
    name = 0,
    name_len = 8,
    create = 16,
    init = 24,
    proc = 32,
    destroy = 40,
    reset = 48,
    reserved = 56
);
layout!(
    LibraryV1,
    64,
    magic = 0,
    abi_version = 8,
    size = 12,
    panic_strategy = 16,
    func_count = 20,
    name = 24,
    name_len = 32,
    funcs = 40,
    func_size = 48,
    reserved = 52
);
