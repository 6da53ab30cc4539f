//! What every executor process shares, and what joins `executor-core` (decides) with `sys` (acts).
//!
//! | module | what it is |
//! |---|---|
//! | [`attach`] | create a memory group, attach this process to one |
//! | [`process`] | start and end of an executor: limits, group, signals, seal, exit code |
//! | [`environment`] | attaching from the variables that the parent sets; the log of the process |
//! | [`node`] | the loop of one node: collect, execute, send, give back |
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
//! | [`server`], [`control`] | the message server as a state machine without I/O; its queues |
//! | [`report`] | log lines of the executor itself |
//!
//! It is not: models, user functions (they come in as a [`node::Task`]), or a policy of any kind.
#![deny(unsafe_code)]

pub mod argv;
pub mod attach;
pub mod bridge;
pub mod control;
pub mod environment;
pub mod esched;
pub mod exchange;
pub mod exit;
pub mod interpose;
pub mod log;
pub mod node;
pub mod payload;
pub mod plan;
pub mod port;
pub mod process;
pub mod proto;
pub mod report;
pub mod server;
pub mod waiter;
