//! The device as a C library: `libdflow_acl.so`, declared in `include/acl/`.
//!
//! Functions have the names and arguments of the programming model we follow, and give its codes.
//! Handles are numbers in disguise, looked up in `state`: one that was destroyed, or never
//! made, is a code. Pointers for results and memory are the caller's word (`raw`). Memory of
//! the device is memory of the process, so C programs may also look at it directly.
//!
//! What each function does, and its codes, stand in the header.
#![deny(unsafe_code)]

#[macro_use]
mod raw;
mod capture;
mod desc;
mod event;
mod memory;
mod model;
mod params;
mod program;
mod runtime;
mod state;
mod stream;
mod task;
