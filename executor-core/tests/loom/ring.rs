//! Rings: one producer, lanes, locked and overwriting queues, with wrap-around.

use crate::support::{
    DEPTH, HOST, PEER, Side, VICTIM, advance_by, assert_all_free, check, full, group, join_last,
    queue, spawn,
};
use executor_core::error::{DequeueError, EnqueueError};
use executor_core::queue::QueueFlags;
use loom::thread;

/// Drains until `want` messages came; yields on empty.
fn drain(side: &mut Side, want: usize) {
    while side.received.len() < want {
        match side.receive() {
            Ok(_) => side.free_all(),
            Err(DequeueError::Empty | DequeueError::Busy) => thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
}

fn send_all(side: &mut Side, ids: impl IntoIterator<Item = u64>) {
    for id in ids {
        let mut mbuf = side.message(id);
        while let Err((back, reason)) = side.send(mbuf) {
            assert!(matches!(reason, EnqueueError::Full | EnqueueError::Busy), "{reason}");
            thread::yield_now();
            mbuf = back;
        }
    }
}

/// One producer, one consumer, depth 2, across the wrap; full and empty are both met.
#[test]
fn spsc_ring_keeps_order_across_the_wrap() {
    let messages = if full() { 4 } else { 3 };
    check("spsc", move || {
        let group = group([(0, 0), (4, 0), (0, 0)]);
        let id = queue(&group, PEER, &[VICTIM], QueueFlags::empty());
        let mut from = Side::new(&group, VICTIM, 1).produces(id);
        let mut to = Side::new(&group, PEER, 1).consumes(id);
        advance_by(3, &mut from, &mut to);
        let producer = spawn(move || send_all(&mut from, 1..=messages));
        drain(&mut to, usize::try_from(messages).unwrap());
        join_last(producer);
        assert!(to.received.iter().copied().eq(1..=messages), "{:?}", to.received);
        assert_eq!(to.receive(), Err(DequeueError::Empty));
        assert_all_free(&group);
    });
}

/// Two producer processes have a lane each; each lane keeps its order.
#[test]
fn lanes_merge_without_losing_order() {
    check("lanes", || {
        let group = group([(0, 0), (2, 0), (2, 0)]);
        let id = queue(&group, HOST, &[VICTIM, PEER], QueueFlags::empty());
        let mut to = Side::new(&group, HOST, 1);
        let mut one = Side::new(&group, VICTIM, 1).produces(id);
        let mut two = Side::new(&group, PEER, 1).produces(id);
        to = to.consumes(id);
        let first = spawn(move || send_all(&mut one, [11, 12]));
        let second = spawn(move || send_all(&mut two, [21]));
        drain(&mut to, 3);
        first.join().unwrap();
        join_last(second);
        let of = |lane: u64| to.received.iter().copied().filter(move |id| id / 10 == lane);
        assert!(of(1).eq([11, 12]) && of(2).eq([21]), "{:?}", to.received);
        assert_all_free(&group);
    });
}

/// A lane that is opened only after its consumer looked is found.
#[test]
fn a_lane_opened_late_is_found() {
    check("late lane", || {
        let group = group([(0, 0), (2, 0), (0, 0)]);
        let id = queue(&group, PEER, &[VICTIM], QueueFlags::empty());
        let mut to = Side::new(&group, PEER, 1).consumes(id);
        let mut from = Side::new(&group, VICTIM, 1);
        let producer = spawn(move || {
            from = from.produces(id);
            send_all(&mut from, [1, 2]);
        });
        drain(&mut to, 2);
        join_last(producer);
        assert_eq!(to.received, [1, 2]);
    });
}

/// Two processes share the consumer end: each message comes out once.
#[test]
fn shared_end_delivers_once() {
    check("shared end", || {
        let group = group([(2, 0), (0, 0), (0, 0)]);
        let id = queue(&group, VICTIM, &[HOST], QueueFlags::SHARED);
        let mut from = Side::new(&group, HOST, 1).produces(id);
        let grant = executor_core::queue::Rights::READ;
        group.memory.grant_queue(&from.worker, id, PEER, grant).unwrap();
        let mut one = Side::new(&group, VICTIM, 1).consumes(id);
        let mut two = Side::new(&group, PEER, 1).consumes(id);
        send_all(&mut from, [1, 2]);
        let other = spawn(move || {
            let _ = one.receive();
            one.free_all();
            one.received
        });
        let _ = two.receive();
        two.free_all();
        let mut all = join_last(other);
        all.extend(&two.received);
        let mut rest = Side::new(&group, HOST, 1).consumes(id);
        while rest.receive().is_ok() {}
        rest.free_all();
        all.extend(&rest.received);
        all.sort_unstable();
        assert_eq!(all, [1, 2]);
        assert_all_free(&group);
    });
}

/// An overwriting producer drops the oldest while a consumer takes it: no message twice, none lost
/// uncounted.
#[test]
fn overwrite_drops_or_delivers() {
    check("overwrite", || {
        let group = group([(0, 0), (4, 0), (0, 0)]);
        let id = queue(&group, PEER, &[VICTIM], QueueFlags::OVERWRITE);
        let mut from = Side::new(&group, VICTIM, 1).produces(id);
        let mut to = Side::new(&group, PEER, 1).consumes(id);
        send_all(&mut from, [1, 2]);
        let producer = spawn(move || send_all(&mut from, [3]));
        let _ = to.receive();
        join_last(producer);
        while to.receive().is_ok() {}
        to.free_all();
        let info = group.memory.query_queue(id).unwrap();
        assert_eq!(to.received.len() as u64 + info.drops, 3, "{:?}", to.received);
        assert!(to.received.is_sorted() && info.drops <= 1 && info.depth == DEPTH);
        assert_eq!(to.received.last(), Some(&3));
        assert_all_free(&group);
    });
}
