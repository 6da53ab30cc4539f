//! What a program without std must bring itself: a panic handler and a personality that is named
//! by precompiled `core` but never called, because panics abort.

#![allow(unsafe_code, reason = "symbols that std would define")]

use core::panic::PanicInfo;

// The C library only for memcpy and its like, which `core` calls.
#[link(name = "c")]
unsafe extern "C" {}

#[panic_handler]
fn on_panic(_: &PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}

/// Never called: both profiles abort on panic.
// SAFETY: the name is the compiler's own; nothing else in this program defines it.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}
