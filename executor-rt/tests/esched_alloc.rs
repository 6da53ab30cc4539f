//! The event scheduler and the exchange allocate when they are made and when an end is opened,
//! never later.
#![allow(unsafe_code, reason = "a counting global allocator")]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use executor_rt::esched::{Config, Event, EventId, SubscribeKind};
use executor_rt::exchange::QueueAttr;
use support::{plain, rig};

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: everything is System's; the count is a thread-local without a destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn nothing_allocates_after_the_first_use() {
    let rig = rig(2);
    let attr = QueueAttr { waiter: Some(2), ..QueueAttr::new(4) };
    let (mut producer, mut consumer, queue) = support::pair(&rig, attr);
    let events = rig.scheduler(1, 2, &Config::default());
    consumer.link_events(Arc::clone(&events));
    events.attach_device(0).unwrap();
    events.create_group(0, 1).unwrap();
    events.subscribe(0, 0, u64::MAX).unwrap();
    events.subscribe_not_empty(queue, 0, SubscribeKind::Single).unwrap();
    let user = EventId::new(60).unwrap();
    let mut round = || {
        producer.enqueue(queue, b"data", &plain()).unwrap();
        let message = b"note";
        events.submit(&Event { pid: 0, group: 0, event: user, subevent: 1, message }).unwrap();
        let mut message = [0; 8];
        for _ in 0..2 {
            events.wait(0, 0, -1, Some(&mut message)).unwrap();
        }
        assert_eq!(consumer.dequeue(queue, &mut message, &mut plain()), Ok(4));
        assert!(events.wait(0, 0, 1, None).is_err(), "sleeps until its timeout");
    };
    round();
    let before = COUNT.with(Cell::get);
    for _ in 0..100 {
        round();
    }
    assert_eq!(COUNT.with(Cell::get), before);
}
