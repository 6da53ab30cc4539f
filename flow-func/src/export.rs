//! From a [`FlowFunc`] to the records of the ABI: shims that catch panics, and the export macro.
//!
//! A panic anywhere in a function is turned into [`UDF_PANIC`] (a null instance for `create`), with
//! one log line that has the message and the place. It never unwinds into the executor (abi I6).
#![allow(unsafe_code, reason = "the C side of the export macro; one of the permitted files")]

use crate::abi::{ABI_VERSION, ApiV1, ContextV1, FuncV1, InstanceV1, LIBRARY_MAGIC, LibraryV1};
use crate::abi::{MsgV1, level};
use crate::codes::{FAILED, PARAM_INVALID, UDF_PANIC};
use crate::text::StackText;
use crate::{Context, FlowFunc, InitContext, Msg, Result};
use core::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

/// What stands behind an `InstanceV1` pointer.
struct Instance<T> {
    api: *const ApiV1,
    func: T,
}

/// The call that this thread is in, for the panic hook.
#[derive(Clone, Copy)]
struct Call {
    api: *const ApiV1,
    ctx: *mut ContextV1,
    verb: &'static str,
}

thread_local! {
    static CALL: Cell<Option<Call>> = const { Cell::new(None) };
}

static HOOK: Once = Once::new();

/// Panics inside a function go to the executor's log; all others to the hook that was there before.
fn install_hook() {
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let Some(call) = CALL.get() else { return before(info) };
            let line = StackText::format(format_args!("{}: {info}", call.verb));
            let text = line.as_str();
            // SAFETY: CALL is set only while the executor is inside a call on this thread, so the
            // table is live (abi I1).
            let api = unsafe { &*call.api };
            // SAFETY: so is the context (I1, I2); the text is valid for the call.
            unsafe { (api.log)(call.ctx, level::ERROR, text.as_ptr(), text.len() as u64) };
        }));
    });
}

/// Runs `body` with the call on record; `on_panic` is the answer when it panics. Calls may nest (a
/// function that runs others through `testing`), so the record before is put back.
fn guarded<R>(call: Call, on_panic: R, body: impl FnOnce() -> R) -> R {
    let before = CALL.replace(Some(call));
    let answer = catch_unwind(AssertUnwindSafe(body));
    CALL.set(before);
    answer.unwrap_or_else(|payload| {
        drop_quietly(payload);
        on_panic
    })
}

/// Drops `value`; a panic while doing so ends here (its own payload is leaked, since that one could
/// panic again).
fn drop_quietly<T>(value: T) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
        let _leaked = Box::leak(payload);
    }
}

fn to_code(result: Result) -> i32 {
    match result {
        Ok(()) => 0,
        // An error of value 0 would read as success.
        Err(0) => FAILED,
        Err(code) => code,
    }
}

unsafe extern "C" fn create<T: FlowFunc + Default>(
    api: *const ApiV1,
    ctx: *mut ContextV1,
) -> *mut InstanceV1 {
    install_hook();
    guarded(Call { api, ctx, verb: "create" }, core::ptr::null_mut(), || {
        Box::into_raw(Box::new(Instance { api, func: T::default() })).cast()
    })
}

/// # Safety
/// `instance` came from `create::<T>`, was not destroyed, and no other call on it runs (abi I2).
unsafe fn enter<'c, T>(instance: *mut InstanceV1) -> (&'c mut T, &'c ApiV1) {
    // SAFETY: the caller's obligation; the box is this call's alone.
    let instance = unsafe { &mut *instance.cast::<Instance<T>>() };
    // SAFETY: I1: the table outlives the instance.
    (&mut instance.func, unsafe { &*instance.api })
}

unsafe extern "C" fn init<T: FlowFunc>(instance: *mut InstanceV1, ctx: *mut ContextV1) -> i32 {
    // SAFETY: the executor passes an instance of `create::<T>` (I2).
    let (func, api) = unsafe { enter::<T>(instance) };
    guarded(Call { api, ctx, verb: "init" }, UDF_PANIC, || {
        // SAFETY: `ctx` is this call's; the context dies with this block.
        to_code(func.init(&unsafe { InitContext::new(api, ctx) }))
    })
}

unsafe extern "C" fn proc<T: FlowFunc>(
    instance: *mut InstanceV1,
    ctx: *mut ContextV1,
    inputs: *const *const MsgV1,
    input_count: u32,
) -> i32 {
    // SAFETY: the executor passes an instance of `create::<T>` (I2).
    let (func, api) = unsafe { enter::<T>(instance) };
    guarded(Call { api, ctx, verb: "proc" }, UDF_PANIC, || {
        // SAFETY: I3: the views live until this call returns.
        let Some(inputs) = (unsafe { Msg::from_views(inputs, input_count) }) else {
            return PARAM_INVALID;
        };
        // SAFETY: `ctx` is this call's; the context dies with this block.
        to_code(func.proc(&mut unsafe { Context::new(api, ctx) }, inputs))
    })
}

unsafe extern "C" fn reset<T: FlowFunc>(instance: *mut InstanceV1, ctx: *mut ContextV1) -> i32 {
    // SAFETY: the executor passes an instance of `create::<T>` (I2).
    let (func, api) = unsafe { enter::<T>(instance) };
    guarded(Call { api, ctx, verb: "reset" }, UDF_PANIC, || {
        // SAFETY: `ctx` is this call's; the context dies with this block.
        to_code(func.reset(&unsafe { InitContext::new(api, ctx) }))
    })
}

unsafe extern "C" fn destroy<T>(instance: *mut InstanceV1) {
    // SAFETY: the executor passes an instance of `create::<T>`, once.
    let instance = unsafe { Box::from_raw(instance.cast::<Instance<T>>()) };
    // A panic here has no message to answer and no context to log to: the default hook prints it.
    drop_quietly(instance);
}

/// The record of function type `T` under `name`; used by [`crate::export_flow_funcs`].
#[must_use]
pub const fn func_record<T: FlowFunc + Default>(name: &'static str) -> FuncV1 {
    FuncV1 {
        name: name.as_ptr(),
        name_len: name.len() as u64,
        create: create::<T>,
        init: init::<T>,
        proc: proc::<T>,
        destroy: destroy::<T>,
        reset: Some(reset::<T>),
        reserved: 0,
    }
}

/// The functions of a library with its record; used by [`crate::export_flow_funcs`].
#[derive(Debug)]
#[repr(transparent)]
pub struct Library(LibraryV1);

// SAFETY: the record points at 'static, immutable data only.
unsafe impl Sync for Library {}
// SAFETY: as above.
unsafe impl Send for Library {}

/// Records of functions that live in a static.
#[derive(Debug)]
#[repr(transparent)]
pub struct Funcs<const N: usize>(pub [FuncV1; N]);

// SAFETY: the records point at 'static, immutable data only.
unsafe impl<const N: usize> Sync for Funcs<N> {}

impl Library {
    /// A record of `funcs` under `name`; `panic_strategy` is that of the exporting crate.
    #[must_use]
    pub const fn new<const N: usize>(
        name: &'static str,
        funcs: &'static Funcs<N>,
        panic_strategy: u32,
    ) -> Self {
        assert!(N > 0 && N <= 1024, "a library exports 1 to 1024 functions");
        #[expect(clippy::cast_possible_truncation, reason = "bounded above, and by the ABI's 64")]
        let (func_count, func_size) = (N as u32, size_of::<FuncV1>() as u32);
        #[expect(clippy::cast_possible_truncation, reason = "64 bytes")]
        let size = size_of::<LibraryV1>() as u32;
        Library(LibraryV1 {
            magic: LIBRARY_MAGIC,
            abi_version: ABI_VERSION,
            size,
            panic_strategy,
            func_count,
            name: name.as_ptr(),
            name_len: name.len() as u64,
            funcs: funcs.0.as_ptr(),
            func_size,
            reserved: [0; 3],
        })
    }

    /// The record of function `name`.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&'static FuncV1> {
        // SAFETY: `new` was given a 'static array of this many records.
        let funcs =
            unsafe { core::slice::from_raw_parts(self.0.funcs, self.0.func_count as usize) };
        funcs.iter().find(|func| {
            // SAFETY: `func_record` was given a 'static name of this length.
            let bytes = unsafe {
                core::slice::from_raw_parts(func.name, usize::try_from(func.name_len).unwrap_or(0))
            };
            bytes == name.as_bytes()
        })
    }

    /// The record as a loader sees it.
    #[must_use]
    pub const fn record(&self) -> &LibraryV1 {
        &self.0
    }
}

/// Exports the functions of a library: the symbol that a loader asks for, and `flow_library()` for
/// use inside one process (tests, references). Once per library.
///
/// ```
/// use flow_func::{Context, FlowFunc, Msg, Result, export_flow_funcs};
///
/// /// Sends its input on.
/// #[derive(Default)]
/// struct Identity;
///
/// impl FlowFunc for Identity {
///     fn proc(&mut self, ctx: &mut Context<'_>, inputs: &[Msg<'_>]) -> Result {
///         ctx.set_output(0, &inputs[0])
///     }
/// }
///
/// export_flow_funcs! { "identity" => Identity }
/// # fn main() { assert_eq!(flow_library().record().func_count, 1); }
/// ```
#[macro_export]
macro_rules! export_flow_funcs {
    ($($name:literal => $ty:ty),+ $(,)?) => {
        /// The functions that this library exports.
        #[must_use]
        pub fn flow_library() -> &'static $crate::export::Library {
            const FUNCS: &[$crate::abi::FuncV1] = &[$($crate::export::func_record::<$ty>($name)),+];
            static RECORDS: $crate::export::Funcs<{ FUNCS.len() }> =
                $crate::export::Funcs([$($crate::export::func_record::<$ty>($name)),+]);
            static LIBRARY: $crate::export::Library = $crate::export::Library::new(
                env!("CARGO_PKG_NAME"),
                &RECORDS,
                if cfg!(panic = "abort") {
                    $crate::abi::PANIC_ABORT
                } else {
                    $crate::abi::PANIC_UNWIND
                },
            );
            &LIBRARY
        }

        /// Entry of the loader.
        #[allow(unsafe_code, reason = "the one exported symbol")]
        #[unsafe(no_mangle)]
        pub extern "C" fn dflow_library_v1() -> *const $crate::abi::LibraryV1 {
            flow_library().record()
        }
    };
}
