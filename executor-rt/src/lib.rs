//! What every executor process shares, and what joins `executor-core` (decides) with `sys` (acts).
//!
//! | module | what it is |
//! |---|---|
//! | [`attach`] | create a memory group, attach this process to one |
//! | [`waiter`], [`port`] | sleeping and ringing; alloc, enqueue, dequeue with a deadline |
//! | [`plan`] | what the host tells the supervisor |
//! | [`bridge`] | queue readiness as an eventfd |
//! | [`payload`] | payload bytes as slices |
//! | [`argv`] | command lines of the built-in executors and of `udf-executor` |
//! | [`exchange`] | queue verbs of the specification: timeouts, ids, heads, gather, members |
//! | [`esched`] | event scheduler: groups of threads, priorities, queue events |
//! | [`exit`] | one table from codes to process exit codes |
//! | [`interpose`] | counted malloc family, `seal()`, the *in user code* split |
//! | [`log`] | log lines without allocation, their parser, the rate limiter |
//! | [`proto`] | control messages (protobuf, fixed field numbers), bounded decoding |
//! | [`server`] | the message server as a state machine without I/O |
//!
//! It is not: models, user functions, or a policy of any kind.
#![deny(unsafe_code)]

pub mod argv;
pub mod attach;
pub mod bridge;
pub mod esched;
pub mod exchange;
pub mod exit;
pub mod interpose;
pub mod log;
pub mod payload;
pub mod plan;
pub mod port;
pub mod proto;
pub mod server;
pub mod waiter;
