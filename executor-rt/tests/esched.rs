//! Numbered expected values of the event scheduler (device-runtime §7 nos. 30 and 33), with real
//! queues.

mod support;

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use executor_core::error::Code;
use executor_core::owner::{QueueId, SlotId};
use executor_core::queue::Rights;
use executor_rt::esched::{
    Config, Delivered, Event, EventError, EventId, Priority, Scheduler, SubscribeKind,
};
use executor_rt::exchange::{Exchange, QueueAttr, WorkMode};
use support::{Rig, plain, rig, until_parked};

const GROUP: u32 = 3;
const QUEUES: u64 = 1 << 6 | 1 << 7 | 1 << 8;

/// A scheduler with one group whose thread 0 wants `bitmap`.
fn scheduler(rig: &Rig, slot: u32, bitmap: u64) -> Arc<Scheduler<'static>> {
    let scheduler = rig.scheduler(slot, 2, &Config::default());
    scheduler.attach_device(0).expect("device");
    scheduler.create_group(GROUP, 1).expect("group");
    scheduler.subscribe(GROUP, 0, bitmap).expect("thread");
    scheduler
}

fn event(id: u32, subevent: u32) -> Event<'static> {
    let event = EventId::new(id).expect("an id");
    Event { pid: 0, group: GROUP, event, subevent, message: &[] }
}

fn next(scheduler: &Scheduler<'_>) -> Result<(u32, u32), EventError> {
    let delivered = scheduler.wait(GROUP, 0, 0, None)?;
    Ok((delivered.event.number(), delivered.subevent))
}

const NOTHING: Result<(u32, u32), EventError> = Err(EventError::TimedOut);

/// Producer in slot 0, consumer in slot 1 with a scheduler on waiter 2, and the queue.
fn consumer(
    rig: &Rig,
    attr: QueueAttr,
) -> (Exchange<'static>, Exchange<'static>, Arc<Scheduler<'static>>, QueueId) {
    let attr = QueueAttr { waiter: Some(2), ..attr };
    let (producer, mut consumer, queue) = support::pair(rig, attr);
    let scheduler = scheduler(rig, 1, QUEUES);
    consumer.link_events(Arc::clone(&scheduler));
    (producer, consumer, scheduler, queue)
}

#[test]
fn v30_not_empty_once_in_pull_mode() {
    let rig = rig(2);
    let (mut producer, mut consumer, events, queue) = consumer(&rig, QueueAttr::new(8));
    events.subscribe_not_empty(queue, GROUP, SubscribeKind::Single).unwrap();
    let again = events.subscribe_not_empty(queue, GROUP, SubscribeKind::Single);
    assert_eq!(again.unwrap_err().code(), Code::REPEATED_INIT);
    assert_eq!(next(&events), NOTHING);
    for _ in 0..3 {
        producer.enqueue(queue, b"x", &plain()).unwrap();
    }
    assert_eq!(next(&events), Ok((8, queue.0)), "the sub-event is the queue");
    assert_eq!(next(&events), NOTHING);
    // Not yet empty: more messages are no edge.
    for _ in 0..2 {
        consumer.dequeue_mbuf(queue, 0).map(|mbuf| consumer.free(mbuf)).unwrap();
    }
    producer.enqueue(queue, b"x", &plain()).unwrap();
    assert_eq!(next(&events), NOTHING);
    while let Ok(mbuf) = consumer.dequeue_mbuf(queue, 0) {
        consumer.free(mbuf);
    }
    assert_eq!(next(&events), NOTHING);
    producer.enqueue(queue, b"x", &plain()).unwrap();
    assert_eq!(next(&events), Ok((8, queue.0)));
    assert_eq!(next(&events), NOTHING);
}

#[test]
fn v30_not_empty_every_time_in_push_mode() {
    let rig = rig(2);
    let attr = QueueAttr { work_mode: WorkMode::Push, ..QueueAttr::new(8) };
    let (mut producer, _consumer, events, queue) = consumer(&rig, attr);
    events.subscribe_not_empty(queue, GROUP, SubscribeKind::Group).unwrap();
    for _ in 0..3 {
        producer.enqueue(queue, b"x", &plain()).unwrap();
    }
    for _ in 0..3 {
        assert_eq!(next(&events), Ok((6, queue.0)), "kind GROUP is delivered as ENQUEUE");
    }
    assert_eq!(next(&events), NOTHING);
}

#[test]
fn v30_not_full_after_the_first_dequeue_from_full() {
    let rig = rig(2);
    let (mut producer, mut consumer, queue) = support::pair(&rig, QueueAttr::new(2));
    let events = scheduler(&rig, 0, QUEUES);
    producer.link_events(Arc::clone(&events));
    events.subscribe_not_full(queue, GROUP).unwrap();
    assert_eq!(events.subscribe_not_full(queue, GROUP), Err(EventError::Exists));
    producer.enqueue(queue, b"x", &plain()).unwrap();
    consumer.dequeue_mbuf(queue, 0).map(|mbuf| consumer.free(mbuf)).unwrap();
    assert_eq!(next(&events), NOTHING, "it was never full");
    for _ in 0..2 {
        producer.enqueue(queue, b"x", &plain()).unwrap();
    }
    assert_eq!(next(&events), NOTHING);
    consumer.dequeue_mbuf(queue, 0).map(|mbuf| consumer.free(mbuf)).unwrap();
    assert_eq!(next(&events), Ok((7, queue.0)));
    consumer.dequeue_mbuf(queue, 0).map(|mbuf| consumer.free(mbuf)).unwrap();
    assert_eq!(next(&events), NOTHING, "only the first");
}

#[test]
fn a_sleeping_thread_is_woken_by_both_edges() {
    let rig = rig(2);
    let (mut producer, mut consumer, events, queue) = consumer(&rig, QueueAttr::new(2));
    let room = scheduler(&rig, 0, QUEUES);
    producer.link_events(Arc::clone(&room));
    events.subscribe_not_empty(queue, GROUP, SubscribeKind::Single).unwrap();
    room.subscribe_not_full(queue, GROUP).unwrap();
    let memory = producer.memory();
    let sleep = |scheduler: &Arc<Scheduler<'static>>| {
        let scheduler = Arc::clone(scheduler);
        thread::spawn(move || scheduler.wait(GROUP, 0, -1, None).map(|d| d.event))
    };
    for _ in 0..20 {
        let waiting = sleep(&events);
        until_parked(&memory, 1, 2);
        for _ in 0..2 {
            producer.enqueue(queue, b"x", &plain()).unwrap();
        }
        assert_eq!(waiting.join().unwrap(), Ok(EventId::EMPTY_TO_NOT_EMPTY));
        let waiting = sleep(&room);
        until_parked(&memory, 0, 2);
        while let Ok(mbuf) = consumer.dequeue_mbuf(queue, 0) {
            consumer.free(mbuf);
        }
        assert_eq!(waiting.join().unwrap(), Ok(EventId::FULL_TO_NOT_FULL));
    }
}

#[test]
fn v33_group_types() {
    let rig = rig(1);
    let scheduler = rig.scheduler(0, 2, &Config::default());
    assert_eq!(scheduler.create_group(0, 1).unwrap_err().code(), Code::INVALID_VALUE);
    scheduler.attach_device(65_535).unwrap();
    for kind in [0, 4] {
        assert_eq!(scheduler.create_group(0, kind).unwrap_err().code(), Code::INVALID_VALUE);
    }
    for kind in 1..4 {
        scheduler.create_group(kind, kind).unwrap();
    }
    assert_eq!(scheduler.create_group(1, 1), Err(EventError::Exists));
    assert_eq!(scheduler.create_group(8, 1).unwrap_err().code(), Code::INVALID_VALUE);
}

#[test]
fn v33_attach_twice() {
    let rig = rig(1);
    let scheduler = rig.scheduler(0, 2, &Config::default());
    assert_eq!((scheduler.attach_device(0), scheduler.attach_device(0)), (Ok(()), Ok(())));
    assert_eq!(scheduler.attach_device(7).unwrap_err().code(), Code::INVALID_VALUE);
    assert_eq!(scheduler.detach_device(0), Ok(()));
    assert!(scheduler.detach_device(0).is_err());
}

#[test]
fn v33_level0_before_level7() {
    let rig = rig(1);
    let events = scheduler(&rig, 0, u64::MAX);
    events.set_priority(EventId::new(50).unwrap(), Priority::LEVEL7);
    events.set_priority(EventId::new(51).unwrap(), Priority::LEVEL0);
    for (id, subevent) in [(50, 1), (49, 2), (51, 3), (50, 4), (51, 5)] {
        events.submit(&event(id, subevent)).unwrap();
    }
    for expected in [(51, 3), (51, 5), (49, 2), (50, 1), (50, 4)] {
        assert_eq!(next(&events), Ok(expected));
    }
    assert_eq!(next(&events), NOTHING);
}

#[test]
fn v33_messages() {
    let rig = rig(1);
    let events = scheduler(&rig, 0, u64::MAX);
    let message = [7; 129];
    let with = |len: usize| Event { message: &message[..len], ..event(48, 0) };
    assert_eq!(events.submit(&with(129)).unwrap_err().code(), Code::INVALID_VALUE);
    events.submit(&with(128)).unwrap();
    let mut small = [0; 127];
    let refused = events.wait(GROUP, 0, 0, Some(&mut small));
    assert_eq!(refused, Err(EventError::TooSmall { needed: 128 }));
    let mut large = [0; 200];
    let got = events.wait(GROUP, 0, 0, Some(&mut large)).unwrap();
    assert_eq!((got.len, &large[..128], large[128]), (128, &message[..128], 0));
    assert_eq!(got.pid, std::process::id());
    events.submit(&with(5)).unwrap();
    assert_eq!(events.wait(GROUP, 0, 0, None).map(|d: Delivered| d.len), Ok(5));
}

#[test]
fn v33_sync_submit() {
    let rig = rig(1);
    let events = scheduler(&rig, 0, 1 << 25 | 1 << 56);
    let refused = events.submit_sync(&event(24, 0), &mut []);
    assert_eq!(refused.unwrap_err().code(), Code::FEATURE_NOT_SUPPORT);
    assert!(events.ack(EventId::QS_MSG, 4, b"nobody").is_err());
    for id in [25, 56] {
        let submitter = Arc::clone(&events);
        let waiting = thread::spawn(move || {
            let mut reply = [0; 8];
            let request = Event { message: b"ask", ..event(id, 4) };
            submitter.submit_sync(&request, &mut reply).map(|len| reply[..len].to_vec())
        });
        let mut message = [0; 8];
        let got = events.wait(GROUP, 0, -1, Some(&mut message)).unwrap();
        assert_eq!((got.event.number(), got.subevent, &message[..got.len]), (id, 4, &b"ask"[..]));
        assert!(events.ack(got.event, 5, b"other").is_err());
        events.ack(got.event, 4, b"answer").unwrap();
        assert_eq!(waiting.join().unwrap(), Ok(b"answer".to_vec()));
    }
}

#[test]
fn waiting_needs_a_subscription_and_keeps_its_time() {
    let rig = rig(1);
    let events = scheduler(&rig, 0, 1 << 48);
    assert_eq!(events.wait(GROUP, 1, 0, None), Err(EventError::NotSubscribed));
    assert_eq!(events.wait(GROUP, 1024, 0, None).unwrap_err().code(), Code::INVALID_VALUE);
    assert_eq!(events.wait(0, 0, 0, None).unwrap_err().code(), Code::INVALID_VALUE);
    events.submit(&event(49, 0)).unwrap();
    let start = Instant::now();
    let waited = events.wait(GROUP, 0, 40, None);
    assert_eq!(waited.unwrap_err().code(), Code::REPORT_TIMEOUT);
    assert!(start.elapsed() >= Duration::from_millis(40), "an unmatched event does not end it");
    events.subscribe(GROUP, 0, 1 << 49).unwrap();
    assert_eq!(next(&events), Ok((49, 0)), "unmatched events queue");
    let foreign = Event { pid: u32::MAX, ..event(48, 0) };
    assert_eq!(events.submit(&foreign).unwrap_err().code(), Code::FEATURE_NOT_SUPPORT);
}

#[test]
fn a_group_keeps_as_many_events_as_it_was_made_for() {
    let rig = rig(1);
    let events = rig.scheduler(0, 2, &Config { events: 4, ..Config::default() });
    events.attach_device(0).unwrap();
    events.create_group(GROUP, 2).unwrap();
    for subevent in 0..4 {
        events.submit(&event(48, subevent)).unwrap();
    }
    assert_eq!(events.submit(&event(48, 4)).unwrap_err().code(), Code::QUEUE_FULL);
    events.subscribe(GROUP, 0, 1 << 48).unwrap();
    assert_eq!(next(&events), Ok((48, 0)));
    events.submit(&event(48, 5)).unwrap();
}

#[test]
fn a_full_store_delays_queue_events() {
    let rig = rig(2);
    let attr = QueueAttr { waiter: Some(2), ..QueueAttr::new(4) };
    let (mut producer, _consumer, queue) = support::pair(&rig, attr);
    let events = rig.scheduler(1, 2, &Config { events: 1, ..Config::default() });
    events.attach_device(0).unwrap();
    events.create_group(GROUP, 2).unwrap();
    events.subscribe(GROUP, 0, 1 << 48 | QUEUES).unwrap();
    events.subscribe_not_empty(queue, GROUP, SubscribeKind::Single).unwrap();
    events.submit(&event(48, 0)).unwrap();
    producer.enqueue(queue, b"x", &plain()).unwrap();
    assert_eq!(next(&events), Ok((48, 0)));
    assert_eq!(next(&events), Ok((8, queue.0)));
    assert_eq!(next(&events), NOTHING);
}

#[test]
fn subscriptions_name_who_is_rung() {
    let rig = rig(2);
    let (mut producer, _consumer, queue) = support::pair(&rig, QueueAttr::new(2));
    let events = scheduler(&rig, 1, QUEUES);
    let elsewhere = events.subscribe_not_empty(queue, GROUP, SubscribeKind::Single);
    assert_eq!(elsewhere, Err(EventError::Queue(queue)), "its producers ring waiter 0");
    assert_eq!(events.subscribe_not_full(queue, GROUP), Err(EventError::Queue(queue)));
    producer.grant(queue, SlotId(1), Rights::WRITE).unwrap();
    assert_eq!(events.subscribe_not_full(queue, 7).unwrap_err().code(), Code::INVALID_VALUE);
    assert_eq!(events.subscribe_not_full(queue, GROUP), Ok(()));
}

#[test]
fn detaching_ends_every_wait() {
    let rig = rig(1);
    let events = scheduler(&rig, 0, 1 << 48);
    events.subscribe(GROUP, 1, 1 << 49).unwrap();
    events.subscribe(GROUP, 2, 1 << 25).unwrap();
    let wait = |thread| {
        let events = Arc::clone(&events);
        thread::spawn(move || events.wait(GROUP, thread, -1, None).map(drop))
    };
    let waiting = [wait(0), wait(1)];
    let submitter = Arc::clone(&events);
    let sync = thread::spawn(move || submitter.submit_sync(&event(25, 0), &mut []).map(drop));
    events.wait(GROUP, 2, -1, None).unwrap();
    events.detach_device(0).unwrap();
    // Whoever had not begun to wait yet finds no group any more.
    let ended = |result| matches!(result, Err(EventError::Detached | EventError::Invalid(_)));
    assert!(waiting.into_iter().all(|handle| ended(handle.join().unwrap())));
    assert!(ended(sync.join().unwrap()));
}

/// Four threads of one group and a queue: every event is delivered once, nobody sleeps over one.
#[test]
fn no_event_is_lost_among_threads() {
    const EVENTS: u32 = 2000;
    let rig = rig(2);
    let (mut producer, mut consumer, events, queue) = consumer(&rig, QueueAttr::new(4));
    events.subscribe_not_empty(queue, GROUP, SubscribeKind::Single).unwrap();
    events.subscribe(GROUP, 0, QUEUES).unwrap();
    let takers: Vec<_> = (1..4)
        .map(|index| {
            events.subscribe(GROUP, index, 1 << 48 | 1 << (48 + index)).unwrap();
            let events = Arc::clone(&events);
            thread::spawn(move || {
                let mut taken = 0;
                while events.wait(GROUP, index, -1, None).unwrap().subevent != u32::MAX {
                    taken += 1;
                }
                taken
            })
        })
        .collect();
    let drainer = Arc::clone(&events);
    let drain = thread::spawn(move || {
        let mut got = 0;
        while got < EVENTS {
            drainer.wait(GROUP, 0, -1, None).unwrap();
            while let Ok(mbuf) = consumer.dequeue_mbuf(queue, 0) {
                consumer.free(mbuf);
                got += 1;
            }
        }
    });
    for number in 0..EVENTS {
        let control = executor_rt::exchange::ControlInfo { timeout_ms: -1, ..plain() };
        producer.enqueue(queue, b"x", &control).unwrap();
        let id = 48 + number % 4;
        while events.submit(&event(id, number)) == Err(EventError::Full) {
            thread::yield_now();
        }
    }
    drain.join().unwrap();
    for index in 1..4 {
        while events.submit(&event(48 + index, u32::MAX)) == Err(EventError::Full) {
            thread::yield_now();
        }
    }
    let taken: u32 = takers.into_iter().map(|taker| taker.join().unwrap()).sum();
    // Events 48 may still wait behind the ends: count them too.
    events.subscribe(GROUP, 0, 1 << 48).unwrap();
    let left = core::iter::from_fn(|| next(&events).ok()).count();
    assert_eq!(taken + u32::try_from(left).unwrap(), EVENTS);
}
