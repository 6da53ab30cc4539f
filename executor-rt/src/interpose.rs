//! The no-allocation proof: every call of the malloc family in this process is counted.
//!
//! [`interpose_malloc!`](crate::interpose_malloc) emits `malloc`, `calloc`, `realloc`, the aligned
//! family, `free` and `malloc_usable_size` in a *binary*; the dynamic linker then binds libc's own
//! calls and those of every loaded library to them. On targets without glibc the macro installs
//! [`CountingAlloc`] instead, which sees Rust's allocations of the executable only.
//!
//! It is not an allocator: blocks come from glibc, and `free` is passed on uncounted.
//!
//! State: `init` → [`seal`] → `sealed` → [`finalise`] → `finalising`. In `sealed` a call counts for
//! the calling thread's role: *runtime* ([`adopt_thread`], and the thread that sealed), *user*
//! (inside [`in_user_code`]), *exempt* (inside [`exempt`]: error texts, user exceptions, vectors
//! returned by value in the C++ API), *late set-up* (inside [`late_setup`]: a model that is loaded
//! while others run), or *foreign* (threads that the runtime did not start, such as
//! a library's own pool). Debug builds abort on a runtime call.
//!
//! Cost per call: two relaxed loads and one relaxed add; no lock, no allocation.
#![allow(unsafe_code, reason = "malloc-family symbols are C functions on raw pointers")]

use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::alloc::System;

const INIT: u8 = 0;
const SEALED: u8 = 1;
const FINALISING: u8 = 2;

// Relaxed everywhere below: the numbers are statistics and order nothing; `seal` is set before the
// loop starts, and a thread that sees it late counts its call as set-up.
static STATE: AtomicU8 = AtomicU8::new(INIT);
static ABORT: AtomicBool = AtomicBool::new(cfg!(debug_assertions));
static SETUP: AtomicU64 = AtomicU64::new(0);
static RUNTIME: AtomicU64 = AtomicU64::new(0);
static USER: AtomicU64 = AtomicU64::new(0);
static EXEMPT: AtomicU64 = AtomicU64::new(0);
static LATE: AtomicU64 = AtomicU64::new(0);
static FOREIGN: AtomicU64 = AtomicU64::new(0);
static FINAL: AtomicU64 = AtomicU64::new(0);

#[derive(Clone, Copy)]
enum Role {
    Foreign,
    Runtime,
    User,
    Exempt,
    Late,
}

thread_local! {
    // Const-initialised and without a destructor: access is one thread-register load, never a call
    // that registers or allocates (tests/interpose.rs checks it).
    static ROLE: Cell<Role> = const { Cell::new(Role::Foreign) };
}

/// Calls of the malloc family so far, by state and role.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Before [`seal`].
    pub setup: u64,
    /// After `seal`, by runtime threads in runtime code; 0 is the promise.
    pub runtime: u64,
    /// After `seal`, in user code.
    pub user: u64,
    /// After `seal`, in listed exempt paths.
    pub exempt: u64,
    /// After `seal`, in [`late_setup`].
    pub late: u64,
    /// After `seal`, by threads that the runtime did not start.
    pub foreign: u64,
    /// After [`finalise`].
    pub finalising: u64,
}

/// The counters now. Numbers of a process that still runs may be one call apart from each other.
#[must_use]
pub fn counts() -> Counts {
    Counts {
        setup: SETUP.load(Ordering::Relaxed),
        runtime: RUNTIME.load(Ordering::Relaxed),
        user: USER.load(Ordering::Relaxed),
        exempt: EXEMPT.load(Ordering::Relaxed),
        late: LATE.load(Ordering::Relaxed),
        foreign: FOREIGN.load(Ordering::Relaxed),
        finalising: FINAL.load(Ordering::Relaxed),
    }
}

/// Stores the counters in cells that others read (they live in the control segment).
///
/// `user` gets user and foreign calls: both are the library's doing.
pub fn publish(setup: &AtomicU64, runtime: &AtomicU64, user: &AtomicU64) {
    let now = counts();
    // Relaxed: independent statistics.
    setup.store(now.setup, Ordering::Relaxed);
    runtime.store(now.runtime, Ordering::Relaxed);
    user.store(now.user.saturating_add(now.foreign), Ordering::Relaxed);
}

/// Ends set-up; the calling thread becomes a runtime thread.
///
/// # Panics
/// When called twice, or after [`finalise`].
pub fn seal() {
    adopt_thread();
    let before = STATE.compare_exchange(INIT, SEALED, Ordering::Relaxed, Ordering::Relaxed);
    assert!(before.is_ok(), "seal() is called once, at the end of set-up");
}

/// Ends the steady state; calls are counted as `finalising` from now on.
pub fn finalise() {
    STATE.store(FINALISING, Ordering::Relaxed);
}

/// Makes the calling thread a runtime thread. Each thread that the runtime starts does this first.
pub fn adopt_thread() {
    ROLE.with(|role| role.set(Role::Runtime));
}

/// Whether a runtime call after `seal` aborts the process; the default is true in debug builds.
pub fn abort_on_violation(abort: bool) {
    ABORT.store(abort, Ordering::Relaxed);
}

/// Runs `f`; its calls count as the user's.
pub fn in_user_code<R>(f: impl FnOnce() -> R) -> R {
    as_role(Role::User, f)
}

/// Runs `f` as runtime code again: for call-backs from user code into the runtime.
pub fn in_runtime<R>(f: impl FnOnce() -> R) -> R {
    as_role(Role::Runtime, f)
}

/// Runs `f`, a listed path that may allocate: errors, exceptions, vectors returned by value.
pub fn exempt<R>(f: impl FnOnce() -> R) -> R {
    as_role(Role::Exempt, f)
}

/// Runs `f`, set-up after `seal` (a model loaded while others run): it may allocate, is counted
/// apart, and is no part of anybody's loop.
pub fn late_setup<R>(f: impl FnOnce() -> R) -> R {
    as_role(Role::Late, f)
}

fn as_role<R>(role: Role, f: impl FnOnce() -> R) -> R {
    /// Restores the role on every way out, unwinding included.
    struct Restore(Role);
    impl Drop for Restore {
        fn drop(&mut self) {
            ROLE.with(|cell| cell.set(self.0));
        }
    }
    let _restore = Restore(ROLE.with(|cell| cell.replace(role)));
    f()
}

#[inline]
fn count() {
    match STATE.load(Ordering::Relaxed) {
        INIT => add(&SETUP),
        SEALED => match ROLE.with(Cell::get) {
            Role::User => add(&USER),
            Role::Exempt => add(&EXEMPT),
            Role::Late => add(&LATE),
            Role::Foreign => add(&FOREIGN),
            Role::Runtime => violation(),
        },
        _ => add(&FINAL),
    }
}

#[inline]
fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

#[cold]
fn violation() {
    const TEXT: &[u8] = b"dflow: the runtime allocated after seal(); aborting (debug build). \
        Run under a debugger and look at the caller of malloc.\n";
    add(&RUNTIME);
    if ABORT.load(Ordering::Relaxed) {
        // SAFETY: the buffer is a constant of that length; a failed write changes nothing.
        let _written =
            unsafe { libc::write(libc::STDERR_FILENO, TEXT.as_ptr().cast(), TEXT.len()) };
        // SAFETY: no precondition; never returns.
        unsafe { libc::abort() }
    }
}

/// Counts Rust's allocations of one executable, where malloc can't be interposed (musl).
///
/// It does not see libc's own allocations nor those of loaded libraries; docs/status.md says so.
#[derive(Clone, Copy, Debug, Default)]
pub struct CountingAlloc;

// SAFETY: every call is passed to `System` unchanged; counting touches no memory of the allocator.
unsafe impl GlobalAlloc for CountingAlloc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's contract is that of `System::alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's contract is that of `System::alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's contract is that of `System::realloc`; blocks came from `System`.
        unsafe { System.realloc(block, layout, new_size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's contract is that of `System::dealloc`; blocks came from `System`.
        unsafe { System.dealloc(block, layout) }
    }
}

/// The bodies behind the symbols that [`interpose_malloc!`](crate::interpose_malloc) emits.
#[doc(hidden)]
#[cfg(target_env = "gnu")]
pub mod glibc {
    use core::ffi::{c_int, c_void};
    use core::ptr::null_mut;
    use core::sync::atomic::{AtomicPtr, Ordering};

    use super::count;

    unsafe extern "C" {
        fn __libc_malloc(size: usize) -> *mut c_void;
        fn __libc_calloc(count: usize, size: usize) -> *mut c_void;
        fn __libc_realloc(block: *mut c_void, size: usize) -> *mut c_void;
        fn __libc_free(block: *mut c_void);
        fn __libc_memalign(alignment: usize, size: usize) -> *mut c_void;
        fn __libc_valloc(size: usize) -> *mut c_void;
        fn __libc_pvalloc(size: usize) -> *mut c_void;
    }

    /// # Safety
    /// C's `malloc`: no precondition; `unsafe` because it backs a C symbol.
    #[inline]
    pub unsafe fn malloc(size: usize) -> *mut c_void {
        count();
        // SAFETY: glibc's malloc takes any size.
        unsafe { __libc_malloc(size) }
    }

    /// # Safety
    /// C's `calloc`: no precondition.
    #[inline]
    pub unsafe fn calloc(elements: usize, size: usize) -> *mut c_void {
        count();
        // SAFETY: glibc's calloc takes any two numbers and checks their product.
        unsafe { __libc_calloc(elements, size) }
    }

    /// # Safety
    /// - `block` is null or a live block of this process's malloc family.
    #[inline]
    pub unsafe fn realloc(block: *mut c_void, size: usize) -> *mut c_void {
        count();
        // SAFETY: the caller's contract; all blocks of the family are glibc's.
        unsafe { __libc_realloc(block, size) }
    }

    /// # Safety
    /// - `block` is null or a live block of this process's malloc family.
    #[inline]
    pub unsafe fn free(block: *mut c_void) {
        // SAFETY: the caller's contract; all blocks of the family are glibc's.
        unsafe { __libc_free(block) }
    }

    /// # Safety
    /// C's `memalign`: no precondition.
    #[inline]
    pub unsafe fn memalign(alignment: usize, size: usize) -> *mut c_void {
        count();
        // SAFETY: glibc's memalign takes any two numbers and checks them.
        unsafe { __libc_memalign(alignment, size) }
    }

    /// # Safety
    /// C's `valloc`: no precondition.
    pub unsafe fn valloc(size: usize) -> *mut c_void {
        count();
        // SAFETY: glibc's valloc takes any size.
        unsafe { __libc_valloc(size) }
    }

    /// # Safety
    /// C's `pvalloc`: no precondition.
    pub unsafe fn pvalloc(size: usize) -> *mut c_void {
        count();
        // SAFETY: glibc's pvalloc takes any size.
        unsafe { __libc_pvalloc(size) }
    }

    /// # Safety
    /// - `out` is valid for writing one pointer.
    pub unsafe fn posix_memalign(out: *mut *mut c_void, alignment: usize, size: usize) -> c_int {
        if !alignment.is_power_of_two() || !alignment.is_multiple_of(size_of::<usize>()) {
            return libc::EINVAL;
        }
        // SAFETY: no precondition.
        let block = unsafe { memalign(alignment, size) };
        if block.is_null() {
            return libc::ENOMEM;
        }
        // SAFETY: the caller's contract.
        unsafe { out.write(block) };
        0
    }

    /// # Safety
    /// - `block` is null or a live block of this process's malloc family.
    pub unsafe fn malloc_usable_size(block: *mut c_void) -> usize {
        // glibc has no other name for it, so it is looked up in libc itself; RTLD_NEXT could find a
        // preloaded allocator that never made this block.
        static REAL: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
        let mut real = REAL.load(Ordering::Relaxed); // Relaxed: the function is immutable code
        if real.is_null() {
            // SAFETY: a constant C string; RTLD_NOLOAD only finds what is loaded.
            let libc =
                unsafe { libc::dlopen(c"libc.so.6".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
            // SAFETY: a handle of dlopen or null (the default scope), and a constant C string.
            real = unsafe { libc::dlsym(libc, c"malloc_usable_size".as_ptr()) };
            REAL.store(real, Ordering::Relaxed);
        }
        if real.is_null() {
            return 0;
        }
        // SAFETY: the symbol is libc's function of this C type.
        let real: unsafe extern "C" fn(*mut c_void) -> usize =
            unsafe { core::mem::transmute(real) };
        // SAFETY: the caller's contract; all blocks of the family are glibc's.
        unsafe { real(block) }
    }
}

/// Emits the counted malloc family in the binary that calls it, once, at module level.
///
/// Needs glibc; elsewhere it installs [`CountingAlloc`] as the global allocator.
#[macro_export]
macro_rules! interpose_malloc {
    () => {
        #[cfg(target_env = "gnu")]
        #[allow(unsafe_code, reason = "C symbols of the malloc family, with the contracts of C")]
        mod interposed_malloc {
            use ::core::ffi::{c_int, c_void};
            use $crate::interpose::glibc;

            #[unsafe(no_mangle)]
            unsafe extern "C" fn malloc(size: usize) -> *mut c_void {
                // SAFETY: the C caller's contract.
                unsafe { glibc::malloc(size) }
            }
            #[unsafe(no_mangle)]
            unsafe extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
                // SAFETY: the C caller's contract.
                unsafe { glibc::calloc(count, size) }
            }
            #[unsafe(no_mangle)]
            unsafe extern "C" fn realloc(block: *mut c_void, size: usize) -> *mut c_void {
                // SAFETY: the C caller's contract.
                unsafe { glibc::realloc(block, size) }
            }
            #[unsafe(no_mangle)]
            unsafe extern "C" fn free(block: *mut c_void) {
                // SAFETY: the C caller's contract.
                unsafe { glibc::free(block) }
            }
            #[unsafe(no_mangle)]
            unsafe extern "C" fn memalign(alignment: usize, size: usize) -> *mut c_void {
                // SAFETY: the C caller's contract.
                unsafe { glibc::memalign(alignment, size) }
            }
            #[unsafe(no_mangle)]
            unsafe extern "C" fn aligned_alloc(alignment: usize, size: usize) -> *mut c_void {
                // SAFETY: the C caller's contract.
                unsafe { glibc::memalign(alignment, size) }
            }
            #[unsafe(no_mangle)]
            unsafe extern "C" fn valloc(size: usize) -> *mut c_void {
                // SAFETY: the C caller's contract.
                unsafe { glibc::valloc(size) }
            }
            #[unsafe(no_mangle)]
            unsafe extern "C" fn pvalloc(size: usize) -> *mut c_void {
                // SAFETY: the C caller's contract.
                unsafe { glibc::pvalloc(size) }
            }
            #[unsafe(no_mangle)]
            unsafe extern "C" fn posix_memalign(
                out: *mut *mut c_void,
                alignment: usize,
                size: usize,
            ) -> c_int {
                // SAFETY: the C caller's contract.
                unsafe { glibc::posix_memalign(out, alignment, size) }
            }
            #[unsafe(no_mangle)]
            unsafe extern "C" fn malloc_usable_size(block: *mut c_void) -> usize {
                // SAFETY: the C caller's contract.
                unsafe { glibc::malloc_usable_size(block) }
            }
        }

        #[cfg(not(target_env = "gnu"))]
        #[global_allocator]
        static COUNTING_ALLOC: $crate::interpose::CountingAlloc = $crate::interpose::CountingAlloc;
    };
}
