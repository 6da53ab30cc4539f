//! Two system calls that std does not have: pinning and the parent-death signal.

#![allow(unsafe_code, reason = "system calls")]

use std::io;

use crate::Failure;

/// Pins the calling thread to one core.
pub fn pin(core: usize) -> Result<(), Failure> {
    if core >= libc::CPU_SETSIZE as usize {
        return Err(format!("core {core} is beyond what a cpu_set_t can name").into());
    }
    // SAFETY:
    // - all zeroes is the empty `cpu_set_t`, a plain bit array;
    // - `core` was checked against the array's size above;
    // - the pointer is to a live local and the size is its own.
    let result = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error().into()) }
}

/// Makes the kernel end this process when the one that started it ends.
pub(crate) fn die_with_parent() -> Result<(), Failure> {
    // SAFETY:
    // - PR_SET_PDEATHSIG takes one integer and touches no memory of ours.
    let result = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error().into()) }
}
