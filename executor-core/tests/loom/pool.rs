//! Pools: allocation, reference counts, freeing from two processes at once.

use crate::support::{
    PEER, Side, VICTIM, assert_all_free, check, group, join_last, references, spawn,
};
use executor_core::primitive::Ordering;

/// Both holders of a block give it back at once: the count ends at 0 and the block can be had
/// again.
#[test]
fn two_holders_free_at_once() {
    check("two frees", || {
        let group = group([(0, 0), (1, 0), (0, 1)]);
        let mut one = Side::new(&group, VICTIM, 1);
        let mut two = Side::new(&group, PEER, 1);
        let mbuf = one.message(1);
        let copy = two.worker.copy_ref(&mbuf).unwrap();
        one.held.push(mbuf);
        two.held.push(copy);
        let other = spawn(move || two.free_all());
        one.free_all();
        join_last(other);
        assert_all_free(&group);
        let again = one.message(2);
        assert!(one.worker.is_sole_owner(&again));
    });
}

/// One holder copies while the other frees: the copy keeps the block alive (sole-owner store
/// against add).
#[test]
fn copy_against_free_keeps_the_block() {
    check("copy and free", || {
        let group = group([(0, 0), (1, 0), (0, 2)]);
        let mut one = Side::new(&group, VICTIM, 1);
        let mut two = Side::new(&group, PEER, 1);
        let mbuf = one.message(1);
        let copy = two.worker.copy_ref(&mbuf).unwrap();
        one.held.push(mbuf);
        two.held.push(copy);
        let other = spawn(move || {
            let second = two.worker.copy_ref(&two.held[0]).unwrap();
            two.held.push(second);
            two.free_first();
            two
        });
        one.free_all();
        assert!(one.worker.alloc(1, executor_core::pool::Head::Zeroed).is_err());
        let mut two = join_last(other);
        let block = two.held[0].block() as usize;
        let count = group.memory.entries[block].count.load(Ordering::Acquire);
        assert_eq!(references(count), 1);
        two.free_all();
        assert_all_free(&group);
    });
}

/// The owner allocates while the last foreign reference goes: it gets the block only when nobody
/// refers to it.
#[test]
fn alloc_against_the_last_foreign_free() {
    check("alloc and free", || {
        let group = group([(0, 0), (1, 0), (0, 1)]);
        let mut one = Side::new(&group, VICTIM, 1);
        let mut two = Side::new(&group, PEER, 1);
        let mbuf = one.message(1);
        let copy = two.worker.copy_ref(&mbuf).unwrap();
        two.held.push(copy);
        one.held.push(mbuf);
        one.free_all();
        let other = spawn(move || two.free_all());
        let got = one.worker.alloc(1, executor_core::pool::Head::Zeroed);
        if let Ok(mbuf) = &got {
            assert!(one.worker.is_sole_owner(mbuf));
        }
        join_last(other);
        if let Ok(mbuf) = got {
            one.held.push(mbuf);
        }
        one.free_all();
        assert_all_free(&group);
    });
}
