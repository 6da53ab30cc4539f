//! The device of the software NPU: streams of tasks, what they wait for, models made of streams,
//! and the scheduler whose threads are the device's cores.
//!
//! ```text
//! Device ── Context ── Stream  tasks in order, each an entry of 64 bytes ([`sqe`])
//!    │         │         Notify, Event, Label: what tasks wait for, mark and jump to
//!    │         └─ Model  streams that run again and again; begins with its head streams
//!    └─ scheduler        cores take streams, not tasks: a stream keeps its core until it has
//!                        nothing to do, waits, or something more urgent is there
//! ```
//! A task is all in its entry: what it names, it names by number, and the numbers are looked up
//! when it runs. So submitting and running allocate nothing, and an object that is gone by then is
//! a code, never a wild access. Every object here is safe. Nothing polls, but for values in
//! raw memory ([`RawMemory`]), whose writers say nothing.
//!
//! Reasons: docs/adr/0013. Codes: docs/device.md.
#![deny(unsafe_code)]

mod capture;
pub mod codes;
mod context;
mod device;
mod event;
mod feed;
mod host;
mod kernel;
mod label;
mod lock;
mod memory;
mod model;
mod notify;
mod program;
mod report;
mod run;
mod sched;
pub mod sqe;
mod step;
mod stream;
mod table;
mod trace;

pub use capture::{
    CaptureMode, CaptureStatus, CondHandle, CondType, TaskGroup, exchange_capture_mode,
};
pub use codes::{Error, Result};
pub use context::Context;
pub use device::{Config, Device};
pub use event::{Event, EventFlags};
pub use executor_core::error::Code;
pub use feed::{
    Abnormal, Align, Feed, FeedConfig, Head, Message, MessageQueue, ModelOp, ModelState,
};
pub use kernel::{Call, Fault, Function, Kernel};
pub use label::{Label, LabelList};
pub use memory::{Memory, RawMemory};
pub use model::{CallbackId, Model, TaskChange};
pub use notify::Notify;
pub use program::ProgramTask;
pub use report::Report;
pub use sched::Priority;
pub use stream::{Compare, Stream, StreamFlags, TaskInfo, TaskType, WaitValue};
pub use trace::Detail;
