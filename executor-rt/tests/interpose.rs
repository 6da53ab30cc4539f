//! The interposed malloc family counts what it must: Rust, libc, a loaded library, a thread start.
//!
//! Without a harness, because libtest's threads allocate and the counters are process-wide.
#![cfg_attr(not(target_env = "gnu"), allow(unused, reason = "the proof needs glibc"))]
#![allow(unsafe_code, reason = "calls libc's malloc family and a loaded library")]
#![allow(clippy::unwrap_used, reason = "a test without libtest, so without cfg(test)")]

use std::alloc::{Layout, alloc, dealloc};
use std::ffi::{CString, c_void};
use std::hint::black_box;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::atomic::AtomicU64;

use executor_rt::interpose::{
    abort_on_violation, adopt_thread, counts, exempt, finalise, in_runtime, in_user_code, publish,
    seal,
};
use executor_rt::log::{Level, Logger, Stamp, Stream};

executor_rt::interpose_malloc!();

unsafe extern "C" {
    fn valloc(size: usize) -> *mut c_void;
}

/// A library with its own copy of std, as users build it.
const LIBRARY: &str = r#"
#[unsafe(no_mangle)]
pub extern "C" fn allocate(count: usize) -> usize {
    (0..count).map(|i| std::hint::black_box(Box::new(i))).map(|b| *b).sum()
}
"#;

fn main() {
    if std::env::args().nth(1).as_deref() == Some("violate") {
        abort_on_violation(true);
        seal();
        drop(black_box(Box::new(1_u64)));
        return;
    }
    if cfg!(not(target_env = "gnu")) {
        println!("interpose: skipped, no glibc");
        return;
    }
    let allocate = load_library();
    setup_is_counted();
    aligned_family_is_counted();
    libc_and_libraries_are_counted(allocate);
    threads_are_counted();
    violation_aborts();
    after_seal_is_split(allocate);
    println!("interpose: ok, {:?}", counts());
}

/// Calls of the malloc family during `f`, before seal. The black box keeps the optimiser from
/// dropping a block that nobody uses.
fn calls<R>(f: impl FnOnce() -> R) -> (u64, R) {
    let before = counts().setup;
    let result = black_box(f());
    (counts().setup - before, result)
}

fn setup_is_counted() {
    let (count, vector) = calls(|| black_box(Vec::<u64>::with_capacity(100)));
    assert_eq!(count, 1, "Vec");
    let (count, boxed) = calls(|| black_box(Box::new([1_u8; 64])));
    assert_eq!(count, 1, "Box");
    let (count, text) = calls(|| black_box(String::from("text on the heap")));
    assert_eq!(count, 1, "String");
    let (count, zeroed) = calls(|| black_box(vec![0_u32; 50]));
    assert_eq!(count, 1, "calloc");
    let (count, _) = calls(|| drop(black_box((vector, boxed, text, zeroed))));
    assert_eq!(count, 0, "free is not counted");
    let mut grown = Vec::<u64>::with_capacity(1);
    let (count, ()) = calls(|| grown.extend_from_slice(black_box(&[1; 64])));
    assert_eq!(count, 1, "realloc");
}

fn aligned_family_is_counted() {
    let layout = Layout::from_size_align(8192, 4096).unwrap();
    // SAFETY: the layout has a size.
    let (count, block) = calls(|| unsafe { alloc(layout) });
    assert_eq!((count, block.addr() % 4096), (1, 0), "Rust's aligned allocation");
    // SAFETY: the block came from `alloc` with this layout.
    unsafe { dealloc(block, layout) };

    let mut out: *mut c_void = std::ptr::null_mut();
    // SAFETY: `out` is valid for a pointer.
    let (count, code) = calls(|| unsafe { libc::posix_memalign(&raw mut out, 256, 100) });
    assert_eq!((count, code, out.addr() % 256), (1, 0, 0), "posix_memalign");
    // SAFETY: a live block.
    let usable = unsafe { libc::malloc_usable_size(out) };
    assert!(usable >= 100, "malloc_usable_size says {usable}");
    // SAFETY: a live block.
    unsafe { libc::free(out) };
    // 24 is no power of two, 4 no multiple of a pointer's size.
    for alignment in [24, 4] {
        // SAFETY: `out` is valid for a pointer.
        let code = unsafe { libc::posix_memalign(&raw mut out, alignment, 8) };
        assert_eq!(code, libc::EINVAL);
    }

    // SAFETY: no precondition.
    let (count, block) = calls(|| unsafe { libc::memalign(64, 640) });
    assert_eq!((count, block.addr() % 64), (1, 0), "memalign");
    // SAFETY: a live block.
    unsafe { libc::free(block) };
    // SAFETY: no precondition.
    let (count, block) = calls(|| unsafe { valloc(10) });
    assert_eq!((count, block.addr() % 4096), (1, 0), "valloc");
    // SAFETY: a live block.
    unsafe { libc::free(block) };
    // SAFETY: no precondition.
    let (count, block) = calls(|| unsafe { libc::aligned_alloc(128, 1280) });
    assert_eq!((count, block.addr() % 128), (1, 0), "aligned_alloc");
    // SAFETY: a live block.
    unsafe { libc::free(block) };
}

fn libc_and_libraries_are_counted(allocate: extern "C" fn(usize) -> usize) {
    let text = CString::new("inside libc").unwrap();
    // SAFETY: a C string.
    let (count, copy) = calls(|| unsafe { libc::strdup(text.as_ptr()) });
    assert_eq!(count, 1, "strdup allocates inside libc");
    // SAFETY: a live block.
    let (count, array) = calls(|| unsafe { libc::reallocarray(copy.cast(), 100, 10) });
    assert_eq!(count, 1, "reallocarray calls realloc inside libc");
    // SAFETY: a live block.
    unsafe { libc::free(array) };
    let (count, sum) = calls(|| allocate(100));
    assert_eq!((count, sum), (100, 4950), "a loaded Rust library with its own std");
}

fn threads_are_counted() {
    let (count, inside) = calls(|| {
        std::thread::spawn(|| {
            // The thread's role is const-initialised: touching it allocates nothing.
            calls(|| in_user_code(|| black_box(1))).0
        })
        .join()
        .unwrap()
    });
    assert!(count >= 3, "a thread start allocates, found {count} calls");
    assert_eq!(inside, 0, "the role of a thread costs no allocation");
}

fn violation_aborts() {
    let me = std::env::current_exe().unwrap();
    let output = Command::new(me).arg("violate").output().unwrap();
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{output:?}");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("the runtime allocated after seal()"), "{text}");
}

/// Log lines, limited ones too, cost no allocation.
fn logging_allocates_nothing(logger: &Logger) {
    let before = counts().runtime;
    for id in 0..1000 {
        let text = format_args!("line {id} of {:?} and {}", Some("a text"), 0.5_f64);
        let stamp = Stamp::with_monotonic(id);
        let run = (Stream::Run, Level::Info);
        logger.log_to(&mut std::io::sink(), run, stamp, Some(id), text);
    }
    let stamp = Stamp::now();
    logger.log(Stream::Runtime, Level::Info, stamp, None, format_args!("one line to stderr"));
    logger.report_dropped(&mut std::io::sink(), stamp);
    assert_eq!(logger.dropped().run, 600);
    assert_eq!(counts().runtime, before, "logging allocates");
}

fn after_seal_is_split(allocate: extern "C" fn(usize) -> usize) {
    let (start, stop) = std::sync::mpsc::sync_channel::<()>(1);
    let foreign = std::thread::spawn(move || {
        stop.recv().unwrap();
        drop(black_box(Box::new(1_u64)));
    });
    let logger = Logger::new("node", Level::Debug);
    abort_on_violation(false);
    seal();
    logging_allocates_nothing(&logger);
    for i in 0..1000_usize {
        in_user_code(|| assert_eq!(allocate(2), 1));
        exempt(|| drop(black_box(Box::new(i))));
    }
    let sealed = counts();
    assert_eq!((sealed.runtime, sealed.user, sealed.exempt), (0, 2000, 1000));
    in_user_code(|| {
        in_runtime(|| drop(black_box(Box::new(1_u64))));
        exempt(|| drop(black_box(Box::new(1_u64))));
        drop(black_box(Box::new(1_u64)));
    });
    drop(black_box(Box::new(1_u64)));
    let sealed = counts();
    assert_eq!((sealed.runtime, sealed.user, sealed.exempt), (2, 2001, 1001));

    let caught = std::panic::catch_unwind(|| {
        in_user_code(|| std::panic::resume_unwind(exempt(|| Box::new(()))))
    });
    assert!(caught.is_err());
    let before = counts().runtime;
    drop(black_box(Box::new(1_u64)));
    assert_eq!(counts().runtime - before, 1, "the role comes back when user code unwinds");

    start.send(()).unwrap();
    foreign.join().unwrap();
    assert!(counts().foreign >= 1, "a thread that nobody adopted is foreign");
    adopt_thread();

    let cells = [const { AtomicU64::new(0) }; 3];
    publish(&cells[0], &cells[1], &cells[2]);
    let [setup, runtime, user] = cells.map(AtomicU64::into_inner);
    let now = counts();
    assert_eq!((setup, runtime, user), (now.setup, now.runtime, now.user + now.foreign));
    assert_eq!(now.finalising, 0);
    finalise();
    drop(black_box(Box::new(1_u64)));
    assert_eq!((counts().finalising, counts().runtime), (1, runtime));
}

fn load_library() -> extern "C" fn(usize) -> usize {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, library) = (folder.join("allocates.rs"), folder.join("liballocates.so"));
    std::fs::write(&source, LIBRARY).unwrap();
    let status = Command::new("rustc")
        .args(["--edition=2024", "--crate-type=cdylib", "-O", "-o"])
        .arg(&library)
        .arg(&source)
        .status()
        .unwrap();
    assert!(status.success(), "rustc builds the library");
    let path = CString::new(library.to_str().unwrap()).unwrap();
    // SAFETY: a library without constructors of its own.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
    assert!(!handle.is_null(), "dlopen {}", library.display());
    // SAFETY: a handle of dlopen and a C string.
    let symbol = unsafe { libc::dlsym(handle, c"allocate".as_ptr()) };
    assert!(!symbol.is_null());
    // SAFETY: the library's source above has this signature.
    unsafe { std::mem::transmute::<*mut c_void, extern "C" fn(usize) -> usize>(symbol) }
}
