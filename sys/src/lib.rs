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
#![deny(unsafe_code)]

pub mod affinity;
pub mod clock;
pub mod errno;
pub mod futex;
pub mod mapping;
pub mod memfd;

pub use errno::{Errno, Result, SysError};
