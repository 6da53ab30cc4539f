//! The only door to the operating system: one thin file per subject, no policy.
//!
//! A function here is one system call (or a fixed short sequence) with owned descriptors, named
//! flags and [`SysError`]; what to do about a result is decided elsewhere. Linux only.
//!
//! | subject | what |
//! |---|---|
//! | [`errno`] | error numbers and the error type |
//! | [`memfd`], [`mapping`] | sealed memory files and their mappings |
//! | [`futex`], [`clock`], [`affinity`] | waiting on a shared word, monotonic time, processors |
//! | [`doorbell`], [`poll`] | event counters and waiting for descriptors |
//! | [`signal`], [`signalfd`] | masks, dispositions, flags, memory faults, signals as descriptors |
//! | [`process`], [`spawn`], [`inherited`], [`pidfd`] | this process, children, what it was given |
//! | [`socket`] | pairs of sockets, descriptor passing, peer credentials |
//! | [`dylib`], [`procfs`] | shared libraries, what `/proc` tells |
#![deny(unsafe_code)]

pub mod affinity;
pub mod clock;
pub mod doorbell;
pub mod dylib;
pub mod errno;
mod fault;
pub mod futex;
pub mod inherited;
pub mod mapping;
pub mod memfd;
pub mod pidfd;
pub mod poll;
pub mod process;
pub mod procfs;
pub mod sealed;
pub mod signal;
pub mod signalfd;
pub mod socket;
pub mod spawn;

pub use errno::{Errno, Result, SysError};
