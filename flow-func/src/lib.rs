//! What the author of a user function (UDF) sees.
//!
//! Implement [`FlowFunc`] and list it in [`export_flow_funcs!`]; the crate is built as a `cdylib`
//! with
//! `--profile udf`, loaded by `udf-executor`, and called with messages that lie in shared memory:
//!
//! ```
//! use flow_func::{Context, FlowFunc, InitContext, Msg, Result, flow_info};
//!
//! /// Multiplies a float tensor by the attribute `factor`.
//! #[derive(Default)]
//! struct Scale { factor: f32 }
//!
//! impl FlowFunc for Scale {
//!     fn init(&mut self, ctx: &InitContext<'_>) -> Result {
//!         self.factor = ctx.attr_or("factor", 1.0)?;
//!         flow_info!(ctx, "factor {}", self.factor);
//!         Ok(())
//!     }
//!
//!     fn proc(&mut self, ctx: &mut Context<'_>, inputs: &[Msg<'_>]) -> Result {
//!         let input = &inputs[0];
//!         if input.ret_code() != 0 || input.is_empty() {
//!             return ctx.set_output(0, input);                // forward, no copy
//!         }
//!         let Ok(from) = input.data::<f32>() else {
//!             return ctx.set_code(0, 9_900_001);              // fails this message only
//!         };
//!         let mut out = ctx.alloc::<f32>(input.shape())?;     // from shared memory, no heap
//!         for (to, from) in out.as_mut_slice::<f32>()?.iter_mut().zip(from) {
//!             *to = from * self.factor;
//!         }
//!         ctx.set_output(0, &out)
//!     }
//! }
//! ```
//!
//! | module | what |
//! |---|---|
//! | [`abi`] | the C structs and function tables, with offsets |
//! | [`codes`] | return codes |
//! | [`export`] | shims from the trait to the ABI |
//! | [`attrs`] | the executor's side of attributes |
//! | [`testing`] | runs a function in this process, on the heap |
//!
//! It is *not* the processor (states, queues, back-pressure: `udf-executor`) and not the shared
//! memory (`executor-core`). Crash table: a function that dies takes its executor process with it;
//! what it held is swept by the supervisor, since the executor, not this crate, owns every message.
#![deny(unsafe_code)]

pub mod abi;
mod abi_attr;
mod abi_context;
mod abi_local;
mod abi_local_msg;
mod abi_msg;
pub mod attrs;
pub mod codes;
mod element;
pub mod export;
pub mod testing;
mod text;

pub use abi_attr::{Attr, Bools, IntLists, Strs};
pub use abi_context::{ALIGN_DEFAULT, Context, InitContext, Level};
pub use abi_msg::{AsMsg, Msg, OutMsg};
pub use element::Element;
pub use executor_core::abi::{DataType, MsgInfo, MsgType, RuntimeTensorDesc};
pub use text::{LINE_MAX, StackText};

/// Answer of every call; the error is a return code (see [`codes`]).
pub type Result<T = ()> = core::result::Result<T, i32>;

/// Last message of a sequence, udf §1.3.
pub const FLAG_EOS: u32 = 1;
/// Last message of a segment, udf §1.3.
pub const FLAG_SEG: u32 = 2;

/// A user function. One instance per node instance; it stays on one thread.
pub trait FlowFunc: 'static {
    /// Called once before the first `proc`, with the attributes of the node.
    ///
    /// # Errors
    /// [`codes::INIT_AGAIN`] to be called again later; any other code ends the process.
    fn init(&mut self, ctx: &InitContext<'_>) -> Result {
        let _ = ctx;
        Ok(())
    }

    /// Called with one message per input.
    ///
    /// # Errors
    /// [`codes::PENDING`] keeps the inputs and asks for another call. Any other code ends the
    /// process: the open ids are answered with it and the restart policy decides. To fail one
    /// message only, set a code on the outputs ([`Context::set_code`]) and return `Ok`.
    fn proc(&mut self, ctx: &mut Context<'_>, inputs: &[Msg<'_>]) -> Result;

    /// Clears the state that was gathered, when the flow is suspended and recovered.
    ///
    /// # Errors
    /// [`codes::NOT_SUPPORT`] (the default): the instance is destroyed and created anew.
    fn reset(&mut self, ctx: &InitContext<'_>) -> Result {
        let _ = ctx;
        Err(codes::NOT_SUPPORT)
    }
}

/// Writes a log line at debug level: `flow_debug!(ctx, "format", …)`. No allocation.
#[macro_export]
macro_rules! flow_debug {
    ($ctx:expr, $($arg:tt)+) => { $ctx.log($crate::Level::Debug, format_args!($($arg)+)) };
}

/// Writes a log line at info level: `flow_info!(ctx, "format", …)`. No allocation.
#[macro_export]
macro_rules! flow_info {
    ($ctx:expr, $($arg:tt)+) => { $ctx.log($crate::Level::Info, format_args!($($arg)+)) };
}

/// Writes a log line at warning level: `flow_warn!(ctx, "format", …)`. No allocation.
#[macro_export]
macro_rules! flow_warn {
    ($ctx:expr, $($arg:tt)+) => { $ctx.log($crate::Level::Warn, format_args!($($arg)+)) };
}

/// Writes a log line at error level: `flow_error!(ctx, "format", …)`. No allocation.
#[macro_export]
macro_rules! flow_error {
    ($ctx:expr, $($arg:tt)+) => { $ctx.log($crate::Level::Error, format_args!($($arg)+)) };
}
