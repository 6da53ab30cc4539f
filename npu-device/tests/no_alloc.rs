//! Running a complete model, and submitting to streams, allocates nothing on any thread: counted by
//! an allocator around the system's.
#![allow(unsafe_code, reason = "an allocator that counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use npu_device::{Call, Config, Context, Device, EventFlags, StreamFlags, WaitValue};

static COUNT: AtomicUsize = AtomicUsize::new(0);
static COUNTING: AtomicBool = AtomicBool::new(false);

struct Counting;

// SAFETY: every call is handed on to `System` unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if COUNTING.load(Ordering::Relaxed) {
            COUNT.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: the caller's promises are those of `System.alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: `place` came from `System.alloc` with this layout, as the caller promises.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn runs_and_submissions_allocate_nothing() {
    let device = Device::new(Config { cores: 2, ..Config::default() }).unwrap();
    let context = Context::new(&device).unwrap();
    let [first, second] =
        [0, 1].map(|_| context.stream(StreamFlags(StreamFlags::PERSISTENT)).unwrap());
    let model = context.build_begin().unwrap();
    model.bind(&first, true).unwrap();
    model.bind(&second, true).unwrap();
    let event = context.event(EventFlags::default()).unwrap();
    let notify = context.notify().unwrap();
    let memory = context.allocate(64).unwrap();
    let kernel = context.register("nothing", Arc::new(|_: &Call| Ok(()))).unwrap();
    for _ in 0..200 {
        first.launch(&kernel, 1, [0; 4]).unwrap();
        second.launch(&kernel, 1, [0; 4]).unwrap();
    }
    first.write_value(&memory, 0, 1).unwrap();
    first.record_event(&event).unwrap();
    first.wait_notify(&notify, 5).unwrap();
    second.wait_event(&event, 0).unwrap();
    second.wait_value(&memory, 0, WaitValue::Equal, 1).unwrap();
    second.host_function(&kernel, [0; 4]).unwrap();
    second.record_notify(&notify).unwrap();
    model.end_task(&first).unwrap();
    model.build_end().unwrap();
    let users = [0, 1].map(|_| context.stream(StreamFlags::default()).unwrap());
    let round = || {
        for user in &users {
            model.execute_async(user).unwrap();
            user.launch(&kernel, 1, [0; 4]).unwrap();
            user.wait_event(&event, 0).unwrap();
        }
        model.execute(Some(Duration::from_secs(60))).unwrap();
        users.iter().for_each(|user| user.synchronize(Some(Duration::from_secs(60))).unwrap());
    };
    (0..5).for_each(|_| round());
    COUNTING.store(true, Ordering::SeqCst);
    (0..100).for_each(|_| round());
    let counted = COUNT.load(Ordering::SeqCst);
    drop(std::hint::black_box(Box::new(1)));
    let deliberate = COUNT.load(Ordering::SeqCst);
    COUNTING.store(false, Ordering::SeqCst);
    assert_eq!(counted, 0);
    assert_eq!(deliberate, 1, "a deliberate allocation is seen");
}
