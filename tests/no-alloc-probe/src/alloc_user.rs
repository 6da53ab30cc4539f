//! Allocates, and therefore must fail to link: "no global memory allocator found".
#![no_std]
#![no_main]
#![allow(unsafe_code, reason = "the entry symbol of a program without std")]

extern crate alloc;

mod bare;

/// What the C start-up calls.
// SAFETY: the only `main` of this program.
#[unsafe(no_mangle)]
pub extern "C" fn main() -> i32 {
    let boxed = alloc::boxed::Box::new(executor_core::error::Code::SUCCESS);
    i32::from(!core::hint::black_box(boxed).is_success())
}
