//! Runs a function in this process, on plain heap memory: for unit tests of functions, and as the
//! reference that a deployed flow is compared with.
//!
//! It has no queues, no other process and no back-pressure; it allocates freely.
//!
//! ```
//! use flow_func::testing::{LocalMsg, LocalRunner};
//! # use flow_func::{Context, FlowFunc, Msg, Result, export_flow_funcs};
//! # #[derive(Default)] struct Identity;
//! # impl FlowFunc for Identity {
//! #     fn proc(&mut self, ctx: &mut Context<'_>, inputs: &[Msg<'_>]) -> Result {
//! #         ctx.set_output(0, &inputs[0])
//! #     }
//! # }
//! # export_flow_funcs! { "identity" => Identity }
//! # fn main() -> Result {
//! let mut runner = LocalRunner::builder(flow_library(), "identity").attr("x", 7).build()?;
//! let input = LocalMsg::tensor(&[3], &[1.0_f32, 2.0, 3.0])?.with_trans_id(9);
//! let outputs = runner.run(&[&input])?;
//! assert_eq!(outputs[0][0].data::<f32>()?, [1.0, 2.0, 3.0]);
//! assert_eq!(outputs[0][0].info().trans_id, 9);
//! # Ok(()) }
//! ```

pub use crate::abi_local::{LocalBuilder, LocalRunner, LogLine};
pub use crate::abi_local_msg::LocalMsg;
