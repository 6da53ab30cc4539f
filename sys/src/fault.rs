//! Memory faults of this process: a hook that runs on a stack of its own.
//!
//! The hook is where a process can write down *where* it faulted before it dies. After the hook the
//! process dies as it would have without it, so its parent sees the true signal.
//!
//! ```text
//! fault ── handler on the alternate stack ── hook(address, signal) ── default disposition ── death
//! ```
#![allow(unsafe_code, reason = "sigaltstack, sigaction and the handler itself")]

use core::mem::{ManuallyDrop, zeroed};
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, Ordering};

use crate::errno::{Result, SysError, check};
use crate::mapping::page_size;
use crate::signal::{Signal, reset, set_disposition};

/// Bytes of an alternate stack, without its guard page.
const STACK_SIZE: usize = 64 * 1024;

/// What runs at a fault: the address (zero when another process sent the signal) and the signal.
pub type FaultHook = fn(addr: usize, signal: i32);

/// The installed [`FaultHook`] as a pointer; null before the first [`on_fault`].
static HOOK: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

/// `int sigaction(int signum, const struct sigaction *act, NULL);` for `SIGSEGV` and `SIGBUS`.
///
/// Calls `hook` at a memory fault of any thread, then lets the process die of the signal. The hook
/// must be async-signal-safe: no allocation, no lock, no panic; it may end the process itself. The
/// calling thread gets an [`AlternateStack`] for good; other threads install their own, without
/// which a stack overflow there dies without the hook.
///
/// # Errors
/// As [`AlternateStack::install`].
///
/// # References
/// sigaction(2), sigaltstack(2), signal-safety(7)
pub fn on_fault(hook: FaultHook) -> Result<()> {
    // The stack stays until the thread ends, so its owner is never dropped.
    let _stays = ManuallyDrop::new(AlternateStack::install()?);
    // SYNC: release, pairs with the acquire load in `handle`.
    HOOK.store(hook as *mut (), Ordering::Release);
    let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) = handle;
    for signal in [Signal::SEGV, Signal::BUS] {
        let flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        set_disposition(signal, handler as *const () as libc::sighandler_t, flags)?;
    }
    Ok(())
}

extern "C" fn handle(signal: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo, which lives as long as the handler runs.
    let info = unsafe { &*info };
    let from_kernel = info.si_code > 0;
    // SAFETY: `si_addr` is the field that SIGSEGV and SIGBUS define; other senders leave other
    // fields, which are integers as well, and the value is used only when the kernel is the sender.
    let addr = unsafe { info.si_addr() }.addr();
    // SYNC: acquire, pairs with the release store in `on_fault`.
    let hook = HOOK.load(Ordering::Acquire);
    if !hook.is_null() {
        // SAFETY: not null, so `on_fault` stored a `FaultHook` here, and nothing else ever does.
        let hook = unsafe { core::mem::transmute::<*mut (), FaultHook>(hook) };
        hook(if from_kernel { addr } else { 0 }, signal);
    }
    if let Some(signal) = Signal::from_raw(signal) {
        // Nothing is left to do on an error: the process is dying.
        let _ = reset(signal);
    }
    if !from_kernel {
        // A fault repeats when the handler returns; a sent signal has to be sent again.
        // SAFETY: the signal is blocked while its handler runs, so it arrives after the return.
        unsafe { libc::raise(signal) };
    }
}

/// A signal stack of the thread that installed it, with a guard page below. Dropping it restores
/// the thread's previous one.
#[derive(Debug)]
pub struct AlternateStack {
    base: NonNull<libc::c_void>,
    len: usize,
    previous: libc::stack_t,
}

impl AlternateStack {
    /// `int sigaltstack(const stack_t *ss, stack_t *old_ss);` with 64 KiB of its own.
    ///
    /// # Errors
    /// `ENOMEM`: no memory for the stack; `EPERM`: called from a handler on an alternate stack.
    ///
    /// # References
    /// sigaltstack(2), mmap(2)
    pub fn install() -> Result<Self> {
        let guard = page_size();
        let len = guard + STACK_SIZE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the kernel chooses unused addresses, so no existing memory is affected.
        let base = unsafe { libc::mmap(ptr::null_mut(), len, protection, flags, -1, 0) };
        let mapped = if base == libc::MAP_FAILED { None } else { NonNull::new(base) };
        let base = mapped.ok_or_else(|| SysError::last("mmap"))?;
        match switch_to(base, guard) {
            Ok(previous) => Ok(Self { base, len, previous }),
            Err(error) => {
                unmap(base, len);
                Err(error)
            }
        }
    }
}

/// Guards the first page of a range and makes the rest the thread's signal stack; returns the old
/// one.
fn switch_to(base: NonNull<libc::c_void>, guard: usize) -> Result<libc::stack_t> {
    // SAFETY: the first page of a fresh range that nobody uses yet.
    check("mprotect", unsafe { libc::mprotect(base.as_ptr(), guard, libc::PROT_NONE) })?;
    let new = libc::stack_t {
        ss_sp: base.as_ptr().wrapping_byte_add(guard),
        ss_flags: 0,
        ss_size: STACK_SIZE,
    };
    // SAFETY: stack_t is integers and a pointer; all zeroes is a value.
    let mut previous: libc::stack_t = unsafe { zeroed() };
    // SAFETY: `new` describes memory that stays mapped until the owner's drop has replaced it.
    let result = unsafe { libc::sigaltstack(&raw const new, &raw mut previous) };
    check("sigaltstack", result).map(|_| previous)
}

fn unmap(base: NonNull<libc::c_void>, len: usize) {
    // SAFETY: the range was mapped by `install`, and the thread does not use it (any more).
    unsafe { libc::munmap(base.as_ptr(), len) };
}

impl Drop for AlternateStack {
    fn drop(&mut self) {
        // SAFETY: `previous` came from the kernel and was valid when `install` replaced it; its
        // owner outlives this one because both belong to one thread and nest. The type is not
        // `Send`.
        unsafe { libc::sigaltstack(&raw const self.previous, ptr::null_mut()) };
        unmap(self.base, self.len);
    }
}
