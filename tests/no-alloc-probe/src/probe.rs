//! Calls the public entries of executor-core without std and without an allocator.
#![no_std]
#![no_main]
#![allow(unsafe_code, reason = "the entry symbol of a program without std")]

mod bare;

use core::hint::black_box;

/// What the C start-up calls.
// SAFETY: the only `main` of this program.
#[unsafe(no_mangle)]
pub extern "C" fn main() -> i32 {
    let (name, abi) = black_box(executor_core::VERSION);
    i32::from(name.is_empty() || abi == 0)
}
