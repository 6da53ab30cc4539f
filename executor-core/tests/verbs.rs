//! Verbs of `executor-core` at their boundaries: the expected values of spec/device-runtime.md §7
//! nos. 21 to 24 and 27 to 29 on the Rust API, names, rights, generations, overwriting, sole
//! owners, adoption.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

mod common;

use common::{BLOCK, Room, send, slot, take};
use executor_core::abi::MsgInfo;
use executor_core::abi::control::MAX_CHAIN;
use executor_core::abi::head::{EOS_OFFSET, EOS_VALUE, HEAD_SIZE, MSG_INFO_OFFSET};
use executor_core::error::{AllocError, Code, DequeueError, EnqueueError, QueueError};
use executor_core::inspect;
use executor_core::owner::{QueueId, SlotId};
use executor_core::pool::Head;
use executor_core::queue::{Consumer, Producer, QueueConfig, QueueFlags, QueueInfo, Rights};
use executor_core::sweep::{Inputs, Sweeper, suspect_words};

fn config(name: &str, depth: u32) -> QueueConfig<'_> {
    QueueConfig {
        name,
        depth,
        flags: QueueFlags::empty(),
        consumer: SlotId(1),
        consumer_waiter: 0,
        ready_bit: 0,
    }
}

/// §7 no. 21.
#[test]
fn depth_and_name_have_their_limits() {
    let room = Room::new();
    let host = room.worker(0);
    let create = |name: &str, depth| room.memory().create_queue(&host, &config(name, depth));
    let error = create("one", 1).unwrap_err();
    assert_eq!((error, error.code()), (QueueError::Invalid, Code(107_000)));
    assert_eq!(create("none", 0), Err(QueueError::Invalid));
    assert_eq!(create("deep", (1 << 20) + 1), Err(QueueError::Invalid));
    assert!(create("two", 2).is_ok());
    let name = "n".repeat(128);
    assert_eq!(create(&name, 2).unwrap_err().code(), Code::INVALID_VALUE);
    let longest = create(&name[..127], 2).unwrap();
    assert_eq!(room.memory().find_queue(&name[..127]), Some(longest));
    assert_eq!(room.memory().find_queue(&name), None);
    assert_eq!(create("", 2), Err(QueueError::Invalid));
    assert_eq!(create("a\0b", 2), Err(QueueError::Invalid));
    assert_eq!(create("two", 4).unwrap_err().code(), Code::REPEATED_INIT);
    let other = QueueConfig { consumer: SlotId(3), ..config("far", 2) };
    assert_eq!(room.memory().create_queue(&host, &other), Err(QueueError::Invalid));
}

/// §7 no. 22.
#[test]
fn full_and_empty_are_codes_and_the_mbuf_stays_with_the_caller() {
    let room = Room::new();
    let (mut a, mut b) = (room.worker(0), room.worker(1));
    let (mut from, mut to) = room.pipe(&a, &b, 2, QueueFlags::empty());
    let error = to.dequeue(&mut b).unwrap_err();
    assert_eq!((error, error.code()), (DequeueError::Empty, Code(207_013)));
    send(&mut from, &mut a, 1).unwrap();
    send(&mut from, &mut a, 2).unwrap();
    let (mbuf, reason) = send(&mut from, &mut a, 3).unwrap_err();
    assert_eq!((reason, reason.code()), (EnqueueError::Full, Code(207_014)));
    assert_eq!(a.of(&mbuf).msg_info().trans_id, 3);
    assert!(a.is_sole_owner(&mbuf));
    assert_eq!((take(&mut to, &mut b), take(&mut to, &mut b)), (Ok(1), Ok(2)));
    let _ = from.enqueue(&mut a, mbuf).unwrap();
    assert_eq!((take(&mut to, &mut b), take(&mut to, &mut b)), (Ok(3), Err(DequeueError::Empty)));
    room.assert_all_free();
}

/// §7 no. 23.
#[test]
fn query_tells_empty_partial_full_and_counts() {
    let room = Room::new();
    let (mut a, mut b) = (room.worker(0), room.worker(1));
    let (mut from, mut to) = room.pipe(&a, &b, 2, QueueFlags::empty());
    let query = |id| room.memory().query_queue(id).map(|info| (info.status, info.size));
    assert_eq!(query(from.id()), Ok((QueueInfo::EMPTY, 0)));
    send(&mut from, &mut a, 1).unwrap();
    assert_eq!(query(from.id()), Ok((QueueInfo::NORMAL, 1)));
    send(&mut from, &mut a, 2).unwrap();
    assert_eq!(query(from.id()), Ok((QueueInfo::FULL, 2)));
    take(&mut to, &mut b).unwrap();
    let info = room.memory().query_queue(from.id()).unwrap();
    assert_eq!((info.enqueued, info.dequeued, info.high_water, info.depth), (2, 1, 2, 2));
    assert_eq!((QueueInfo::NORMAL, QueueInfo::EMPTY, QueueInfo::FULL), (0, 1, 2));
    assert_eq!(query(QueueId(99)), Err(QueueError::Invalid));
}

/// §7 no. 24, without the waiting (that is the caller's).
#[test]
fn peek_tells_the_length_and_takes_nothing() {
    let room = Room::new();
    let (mut a, mut b) = (room.worker(0), room.worker(1));
    let (mut from, mut to) = room.pipe(&a, &b, 2, QueueFlags::empty());
    assert_eq!(to.peek(&b.memory).unwrap_err().code(), Code(207_013));
    let head = a.alloc(BLOCK, Head::Zeroed).unwrap();
    let member = a.alloc(BLOCK, Head::Zeroed).unwrap();
    assert!(a.of(&head).set_data_len(10) && a.of(&member).set_data_len(7));
    a.chain_append(&head, member).unwrap();
    let _ = from.enqueue(&mut a, head).unwrap();
    for _ in 0..2 {
        assert_eq!(to.peek(&b.memory).unwrap().len, 17);
    }
    take(&mut to, &mut b).unwrap();
    room.assert_all_free();
}

/// §7 no. 27.
#[test]
fn copies_share_data_and_have_their_own_head_and_length() {
    let room = Room::new();
    let mut a = room.worker(0);
    for first_freed in [0, 1] {
        let mbuf = a.alloc(100, Head::Zeroed).unwrap();
        let own = a.of(&mbuf);
        assert_eq!((own.data_len(), own.buffer_size()), (0, 100));
        assert!(own.set_data_len(100) && !own.set_data_len(101));
        own.set_msg_info(&MsgInfo { trans_id: 5, ..MsgInfo::default() });
        let copy = a.copy_ref(&mbuf).unwrap();
        let theirs = a.of(&copy);
        assert_eq!(theirs.span().pointer, own.span().pointer);
        assert_eq!((theirs.data_len(), theirs.msg_info().trans_id), (100, 5));
        assert!(theirs.set_data_len(50));
        theirs.set_msg_info(&MsgInfo { trans_id: 6, ..MsgInfo::default() });
        assert_eq!((own.data_len(), own.msg_info().trans_id), (100, 5));
        assert!(!a.is_sole_owner(&mbuf) && !a.is_sole_owner(&copy));
        let mut both = [Some(mbuf), Some(copy)];
        let _ = a.free(both[first_freed].take().unwrap());
        let rest = both[1 - first_freed].take().unwrap();
        assert!(a.is_sole_owner(&rest));
        let _ = a.free(rest);
        room.assert_all_free();
    }
}

#[test]
fn a_block_is_rewritten_only_by_its_own_slot() {
    let room = Room::new();
    let (mut a, mut b) = (room.worker(0), room.worker(1));
    let (mut from, mut to) = room.pipe(&a, &b, 2, QueueFlags::empty());
    send(&mut from, &mut a, 1).unwrap();
    let (mbuf, _) = to.dequeue(&mut b).unwrap();
    assert!(!b.is_sole_owner(&mbuf), "the only holder, but not its partition");
    let _ = b.free(mbuf);
}

#[test]
fn allocation_fails_with_its_reason() {
    let room = Room::new();
    let mut a = room.worker(0);
    assert_eq!(a.alloc(BLOCK * 2, Head::Zeroed), Err(AllocError::TooLarge));
    let mut all = Vec::new();
    while let Ok(mbuf) = a.alloc(1, Head::Zeroed) {
        all.push(mbuf);
    }
    assert_eq!(a.alloc(1, Head::Zeroed).unwrap_err().code(), Code::NO_MBUF);
    let mut copies = Vec::new();
    while let Ok(copy) = a.copy_ref(&all[0]) {
        copies.push(copy);
    }
    let desc = room.memory().slot_descs[0];
    assert_eq!(copies.len(), desc.extra_count as usize);
    assert_eq!(all.len(), desc.block_count as usize);
    for mbuf in all.into_iter().chain(copies) {
        let _ = a.free(mbuf);
    }
    room.assert_all_free();
}

/// §7 no. 28.
#[test]
fn chains_have_128_members_and_no_more() {
    let room = Room::new();
    let mut a = room.worker(0);
    let head = a.alloc(1, Head::Zeroed).unwrap();
    assert_eq!(a.of(&head).chain_len(), 1);
    for count in 2..=MAX_CHAIN {
        let member = a.copy_ref(&head).unwrap();
        a.chain_append(&head, member).unwrap();
        assert_eq!(a.of(&head).chain_len(), count);
    }
    let one_more = a.copy_ref(&head).unwrap();
    let (back, error) = a.chain_append(&head, one_more).unwrap_err();
    assert_eq!(error.code(), Code::INVALID_VALUE);
    assert!(a.chain_get(&head, 0).is_some() && a.chain_get(&head, 127).is_some());
    assert!(a.chain_get(&head, MAX_CHAIN).is_none());
    let _ = (a.free(back), a.free(head));
    room.assert_all_free();
}

#[test]
fn a_chain_moves_with_its_head_and_is_not_nested() {
    let room = Room::new();
    let (mut a, mut b) = (room.worker(0), room.worker(1));
    let (mut from, mut to) = room.pipe(&a, &b, 2, QueueFlags::empty());
    let head = a.alloc(1, Head::Zeroed).unwrap();
    let member = a.alloc(1, Head::Zeroed).unwrap();
    a.chain_append(&head, member).unwrap();
    let outer = a.alloc(1, Head::Zeroed).unwrap();
    let (head, error) = a.chain_append(&outer, head).unwrap_err();
    assert_eq!(error, AllocError::Invalid);
    let _ = a.free(outer);
    let _ = from.enqueue(&mut a, head).unwrap();
    let (head, _) = to.dequeue(&mut b).unwrap();
    assert!(b.chain_get(&head, 1).is_some() && b.chain_get(&head, 2).is_none());
    let _ = b.free(head);
    room.assert_all_free();
}

/// §7 no. 29.
#[test]
fn the_head_has_its_fields_where_they_belong() {
    let room = Room::new();
    let mut a = room.worker(0);
    let mbuf = a.alloc(1, Head::Zeroed).unwrap();
    let own = a.of(&mbuf);
    assert!(own.write_head(0, &[7; 96]));
    assert!(!own.write_head(HEAD_SIZE - 95, &[7; 96]));
    assert!(!own.write_head(usize::MAX, &[7; 2]));
    own.set_eos(true);
    let info = MsgInfo { trans_id: 0x0102, ret_code: -1, ..MsgInfo::default() };
    own.set_msg_info(&info);
    let bytes = own.head_bytes();
    assert_eq!(bytes[..96], [7; 96]);
    assert_eq!((EOS_OFFSET, bytes[128], EOS_VALUE), (128, 0x5A, 0x5A));
    assert_eq!((MSG_INFO_OFFSET, bytes[192], bytes[193]), (192, 2, 1));
    assert_eq!(bytes[204..208], [0xFF; 4]);
    assert_eq!(own.msg_info(), info);
    let copy = a.copy_ref(&mbuf).unwrap();
    assert_eq!(a.of(&copy).head_bytes(), bytes);
    own.set_eos(false);
    assert!(!own.is_eos() && a.of(&copy).is_eos());
    let fresh = a.alloc(1, Head::Of(&copy)).unwrap();
    assert_eq!(a.of(&fresh).head_bytes(), bytes);
    for mbuf in [mbuf, copy, fresh] {
        let _ = a.free(mbuf);
    }
    for _ in 0..room.memory().slot_descs[0].block_count {
        let again = a.alloc(1, Head::Zeroed).unwrap();
        assert_eq!(a.of(&again).head_bytes(), [0; HEAD_SIZE], "a fresh head is zero (M3)");
        let _ = a.free(again);
    }
}

#[test]
fn order_is_kept_and_lanes_take_turns() {
    let room = Room::new();
    let (mut a, mut b, mut c) = (room.worker(0), room.worker(1), room.worker(2));
    let (mut from, mut to) = room.pipe(&a, &b, 3, QueueFlags::empty());
    room.memory().grant_queue(&a, from.id(), slot(2), Rights::WRITE).unwrap();
    let mut second = Producer::open(&c, from.id(), None).unwrap();
    for id in 1..=3 {
        send(&mut from, &mut a, 10 + id).unwrap();
        send(&mut second, &mut c, 20 + id).unwrap();
    }
    let order: Vec<u64> = std::iter::from_fn(|| take(&mut to, &mut b).ok()).collect();
    assert_eq!(order, [11, 21, 12, 22, 13, 23]);
    room.assert_all_free();
}

#[test]
fn overwriting_drops_the_oldest_and_names_it() {
    let room = Room::new();
    let (mut a, mut b) = (room.worker(0), room.worker(1));
    let (mut from, mut to) = room.pipe(&a, &b, 2, QueueFlags::OVERWRITE);
    for id in 1..=5 {
        send(&mut from, &mut a, id).unwrap();
    }
    let info = room.memory().query_queue(from.id()).unwrap();
    assert_eq!((info.drops, info.size, info.status), (3, 2, QueueInfo::FULL));
    let ctl = &room.memory().queues[from.id().0 as usize];
    let order = std::sync::atomic::Ordering::Relaxed;
    assert_eq!((ctl.drop_first.load(order), ctl.drop_last.load(order)), (1, 3));
    assert_eq!((take(&mut to, &mut b), take(&mut to, &mut b)), (Ok(4), Ok(5)));
    room.assert_all_free();
}

#[test]
fn rights_are_checked() {
    let room = Room::new();
    let (a, b, c) = (room.worker(0), room.worker(1), room.worker(2));
    let memory = room.memory();
    let id = memory.create_queue(&a, &config("q", 2)).unwrap();
    let denied = Producer::open(&c, id, None).unwrap_err();
    assert_eq!((denied, denied.code()), (QueueError::NotPermitted, Code(207_006)));
    assert_eq!(Consumer::open(&c, id).unwrap_err(), QueueError::NotPermitted);
    let granted = memory.grant_queue(&b, id, slot(2), Rights::WRITE);
    assert_eq!(granted, Err(QueueError::NotPermitted));
    memory.grant_queue(&a, id, slot(2), Rights::READ).unwrap();
    assert!(Producer::open(&c, id, None).is_err(), "read only: no enqueue");
    assert!(Consumer::open(&c, id).is_err(), "the exclusive end is slot 1's");
    memory.grant_queue(&a, id, slot(2), Rights::WRITE).unwrap();
    assert!(Producer::open(&c, id, None).is_ok());
    assert_eq!(memory.grant_queue(&a, id, slot(3), Rights::READ), Err(QueueError::Invalid));
}

#[test]
fn handles_of_a_destroyed_queue_are_refused() {
    let room = Room::new();
    let (mut a, mut b) = (room.worker(0), room.worker(1));
    let (mut from, to) = room.pipe(&a, &b, 2, QueueFlags::empty());
    room.memory().grant_queue(&a, from.id(), slot(1), Rights::MANAGE).unwrap();
    send(&mut from, &mut a, 1).unwrap();
    let _ = room.memory().destroy_queue(&mut b, to).unwrap();
    room.assert_all_free();
    let (mbuf, reason) = send(&mut from, &mut a, 2).unwrap_err();
    assert_eq!(reason, EnqueueError::NotPermitted);
    let _ = a.free(mbuf);
    let (mut again, mut to) = room.pipe(&a, &b, 3, QueueFlags::empty());
    assert_eq!(again.id(), from.id(), "the index is used again");
    let (mbuf, _) = send(&mut from, &mut a, 3).unwrap_err();
    let _ = a.free(mbuf);
    send(&mut again, &mut a, 4).unwrap();
    assert_eq!(take(&mut to, &mut b), Ok(4));
    assert_eq!(take(&mut to, &mut b), Err(DequeueError::Empty));
}

/// Places are used again by another queue whose generation count is the same.
#[test]
fn a_lane_of_a_destroyed_queue_starts_empty_for_the_next_one() {
    let room = Room::new();
    let (mut a, mut b) = (room.worker(0), room.worker(1));
    let memory = room.memory();
    let (mut from, mut to) = room.pipe(&a, &b, 2, QueueFlags::empty());
    let next = memory.create_queue(&a, &config("next", 4)).unwrap();
    memory.grant_queue(&a, from.id(), slot(1), Rights::MANAGE).unwrap();
    for id in 0..3 {
        send(&mut from, &mut a, id).unwrap();
        take(&mut to, &mut b).unwrap();
    }
    let _ = memory.destroy_queue(&mut b, to).unwrap();
    memory.grant_queue(&a, next, slot(0), Rights::WRITE).unwrap();
    let mut from = Producer::open(&a, next, None).unwrap();
    let mut to = Consumer::open(&b, next).unwrap();
    assert!(from.is_empty());
    for id in 0..8 {
        assert_eq!(take(&mut to, &mut b), Err(DequeueError::Empty), "before message {id}");
        send(&mut from, &mut a, id).unwrap();
        assert_eq!(take(&mut to, &mut b), Ok(id));
    }
}

/// A ring word may be all zeros: entry 0, block 0, a generation that wrapped, the second lap.
#[test]
fn every_generation_of_entry_0_passes_the_ring() {
    let room = Room::new();
    let (mut a, mut b) = (room.worker(0), room.worker(1));
    let (mut from, mut to) = room.pipe(&a, &b, 2, QueueFlags::empty());
    let mut spare = Vec::new();
    let first = a.alloc(1, Head::Zeroed).unwrap();
    assert_eq!((first.entry(), first.block()), (0, 0));
    while let Ok(mbuf) = a.alloc(1, Head::Zeroed) {
        spare.push(mbuf);
    }
    let _ = a.free(first);
    // Generation g of entry 0 goes to position (g - 2) % 4: 0x8000 must meet the second lap.
    for id in 0..2 * 0x8000_u64 + 8 {
        if id == 2 * 0x8000 + 3 {
            let _ = a.free(spare.pop().unwrap());
            send(&mut from, &mut a, 1).unwrap();
            take(&mut to, &mut b).unwrap();
        }
        send(&mut from, &mut a, id).unwrap();
        assert_eq!(take(&mut to, &mut b), Ok(id), "message {id}");
    }
    for _ in 0..3 {
        // The other three phases of generation against position.
        let other = spare.pop().unwrap();
        let _ = from.enqueue(&mut a, other).unwrap();
        let (other, _) = to.dequeue(&mut b).unwrap();
        for id in 0..0x8000_u64 + 8 {
            send(&mut from, &mut a, id).unwrap();
            assert_eq!(take(&mut to, &mut b), Ok(id), "message {id}");
        }
        drop_back(other, &mut spare);
    }
}

fn drop_back(mbuf: executor_core::mbuf::Mbuf, spare: &mut Vec<executor_core::mbuf::Mbuf>) {
    spare.insert(0, mbuf);
}

#[test]
fn a_successor_adopts_what_was_not_answered() {
    let room = Room::new();
    let (mut a, mut b) = (room.worker(0), room.worker(1));
    let (mut from, mut to) = room.pipe(&a, &b, 3, QueueFlags::empty());
    for id in 1..=3 {
        send(&mut from, &mut a, id).unwrap();
    }
    for set in 1..=2 {
        let (mbuf, _) = to.dequeue_input(&mut b, 0, set).unwrap();
        let _ = mbuf.into_entry();
    }
    let _ = to.dequeue(&mut b).unwrap().0.into_entry();
    b.private.ctl.set_done.store(1, std::sync::atomic::Ordering::Release);
    let mut words = vec![0; suspect_words(&room.group)];
    let swept = Sweeper::new(&room.group, &mut words).sweep(slot(1), Inputs::Adopt);
    assert_eq!((swept.adopted, swept.freed, swept.suspects), (1, 2, 0));
    let mut next = room.worker_of(1, 2);
    let left: Vec<_> = inspect::adoptable(&room.group, slot(1)).collect();
    assert_eq!(left.iter().map(|(set, port, _)| (*set, *port)).collect::<Vec<_>>(), [(2, 0)]);
    let mut foreign = room.worker(2);
    assert!(foreign.adopt(left[0].2).is_none(), "another slot's input");
    let mbuf = next.adopt(left[0].2).unwrap();
    assert_eq!(next.of(&mbuf).msg_info().trans_id, 2);
    assert!(next.adopt(left[0].2).is_none(), "adopted once");
    let _ = next.free(mbuf);
    room.assert_all_free();
}

/// A message that was an input of its last holder is none of the next holder's.
#[test]
fn a_mark_does_not_outlive_the_hand_over() {
    let room = Room::new();
    let (mut a, mut b) = (room.worker(0), room.worker(1));
    let (mut from, mut to) = room.pipe(&a, &b, 2, QueueFlags::empty());
    let mbuf = a.alloc(1, Head::Zeroed).unwrap();
    a.of(&mbuf).mark_input(Some(3), 99);
    let _ = from.enqueue(&mut a, mbuf).unwrap();
    let (mbuf, _) = to.dequeue(&mut b).unwrap();
    assert_eq!(b.of(&mbuf).input_mark(), (None, 0));
    let _ = b.free(mbuf);
}
