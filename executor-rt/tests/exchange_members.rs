//! Membership verbs (device-runtime §7 no. 32), and the exchange between two real processes.

mod support;

use std::os::fd::{AsFd, AsRawFd};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use executor_core::error::Code;
use executor_core::layout::{GroupConfig, PartitionConfig};
use executor_core::owner::SlotId;
use executor_core::queue::Rights;
use executor_rt::attach::{Role, attach, create};
use executor_rt::exchange::members::{AddressRange, Members, QueryOutput, ShareAttr};
use executor_rt::exchange::{ControlInfo, QueueAttr};
use executor_rt::waiter::Waiter;
use support::{NAME, Rig, code, exchange, plain, rig, until_parked};

const PEER: &str = "EXCHANGE_TEST_PEER";

fn members(rig: &Rig, slot: u32) -> Members {
    let attached = rig.attach(slot);
    let waiter = Waiter::new(&attached.group.memory, SlotId(slot), 0).expect("waiter");
    Members::new(attached, waiter)
}

#[test]
fn v32_group_name() {
    let partitions = [PartitionConfig { pools: &[support::SMALL], extra_entries: 0 }];
    let config = |name| GroupConfig {
        name,
        partitions: &partitions,
        workers: 1,
        lanes: 1,
        heads: 1,
        ring_words: 4,
        queues: 1,
    };
    let (fits, long) = ("g".repeat(31), "g".repeat(32));
    assert!(create(&config(&fits), false).is_ok());
    let refused = create(&config(&long), false).unwrap_err();
    assert_eq!(refused.code(), Code::INVALID_VALUE);
    let rig = rig(1);
    let owner = members(&rig, 0);
    assert_eq!(code(owner.create(&"g".repeat(32), 1)), Code::INVALID_VALUE);
    assert_eq!(code(owner.create("another", 1)), Code::INVALID_VALUE);
    assert_eq!(owner.create(NAME, 1), Ok(()));
    assert_eq!(code(owner.create(NAME, 1)), Code::REPEATED_INIT);
}

#[test]
fn v32_same_process_twice() {
    let rig = rig(3);
    let (owner, other) = (members(&rig, 0), members(&rig, 1));
    assert_eq!(code(owner.add_process(NAME, SlotId(1), 7, ShareAttr::MEMBER)), Code(207_006));
    owner.create(NAME, 1).unwrap();
    assert_eq!(owner.add_process(NAME, SlotId(1), 7, ShareAttr::MEMBER), Ok(()));
    for slot in [1, 2] {
        let again = owner.add_process(NAME, SlotId(slot), 7, ShareAttr::MEMBER);
        assert_eq!(code(again), Code::REPEATED_INIT);
    }
    let taken = owner.add_process(NAME, SlotId(1), 8, ShareAttr::MEMBER);
    assert_eq!(code(taken), Code::OVER_LIMIT);
    let no_admin = other.add_process(NAME, SlotId(2), 8, ShareAttr::MEMBER);
    assert_eq!(code(no_admin), Code::OPER_NOT_PERMITTED);
    // A successor takes the slot after its predecessor was taken out.
    owner.remove_process(7).unwrap();
    assert_eq!(owner.add_process(NAME, SlotId(1), 8, ShareAttr::MEMBER), Ok(()));
    assert_eq!(code(owner.remove_process(7)), Code::INVALID_VALUE);
    assert_eq!(owner.iter().count(), 2);
}

#[test]
fn v32_query() {
    let rig = rig(2);
    let owner = members(&rig, 0);
    owner.create(NAME, 1).unwrap();
    owner
        .add_process(NAME, SlotId(1), 7, ShareAttr { read: true, ..ShareAttr::default() })
        .unwrap();
    for command in [0, 4, u32::MAX] {
        let answer = owner.query(command, 7, &mut QueryOutput::default());
        assert_eq!(code(answer), Code::FEATURE_NOT_SUPPORT);
    }
    // Without room: only the count.
    assert_eq!(owner.query(1, 7, &mut QueryOutput::default()), Ok(1));
    let mut none = QueryOutput { groups: Some(&mut []), ..QueryOutput::default() };
    assert_eq!((owner.query(1, 7, &mut none), owner.query(1, 8, &mut none)), (Ok(1), Ok(0)));
    let mut rights = [ShareAttr::default(); 4];
    let mut some = QueryOutput { groups: Some(&mut rights), ..QueryOutput::default() };
    assert_eq!(owner.query(1, 7, &mut some), Ok(1));
    assert_eq!(rights[0], ShareAttr { read: true, ..ShareAttr::default() });
    // Commands 2 and 3 need a place.
    assert_eq!(code(owner.query(2, 1, &mut QueryOutput::default())), Code::INVALID_VALUE);
    assert_eq!(code(owner.query(3, 1, &mut QueryOutput::default())), Code::INVALID_VALUE);
    let (mut id, mut ranges) = (9, [AddressRange::default()]);
    let mut all = QueryOutput { group_id: Some(&mut id), ranges: Some(&mut ranges), groups: None };
    assert_eq!((owner.query(2, 1, &mut all), owner.query(3, 1, &mut all)), (Ok(1), Ok(1)));
    assert_eq!((id, ranges[0].len), (0, rig.created.layout.arena_len));
}

#[test]
fn v32_attach_waits_for_the_add() {
    let rig = rig(2);
    let (owner, other) = (members(&rig, 0), members(&rig, 1));
    owner.create(NAME, 1).unwrap();
    let start = Instant::now();
    assert_eq!(code(other.attach(NAME, 30)), Code::REPORT_TIMEOUT);
    assert!(start.elapsed() >= Duration::from_millis(30));
    assert_eq!(code(other.attach(NAME, 0)), Code::REPORT_TIMEOUT);
    let waiting = thread::spawn(move || other.attach(NAME, -1));
    until_parked(&rig.attach(0).group.memory, 1, 0);
    owner.add_process(NAME, SlotId(1), 7, ShareAttr::MEMBER).unwrap();
    assert_eq!(waiting.join().unwrap(), Ok(ShareAttr::MEMBER));
    assert!(owner.iter().find(|member| member.pid == 7).unwrap().attached);
}

/// The child of [`two_processes_talk`]: attaches, answers what it gets, ends with the empty
/// message.
#[test]
fn peer_process() {
    let Ok(fds) = std::env::var(PEER) else { return };
    let open = |path: &str| {
        let mut options = std::fs::OpenOptions::new();
        options.read(true).write(true).open(path).expect("a descriptor of the parent")
    };
    let (control, arena) = fds.split_once(',').expect("two paths");
    let (control, arena) = (open(control), open(arena));
    let attached = attach(control.as_fd(), arena.as_fd(), Role::Member(SlotId(1))).expect("attach");
    let waiter = Waiter::new(&attached.group.memory, SlotId(1), 1).expect("waiter");
    Members::new(attached, waiter).attach(NAME, 10_000).expect("added by the parent");
    let mut peer = exchange(attached, 0);
    let (requests, answers) =
        (peer.find_queue("requests").unwrap(), peer.find_queue("answers").unwrap());
    loop {
        let mut control = ControlInfo { timeout_ms: 10_000, ..plain() };
        let mut data = [0; 64];
        let len = peer.dequeue(requests, &mut data, &mut control).unwrap();
        data[..len].reverse();
        peer.enqueue(answers, &data[..len], &control).unwrap();
        if len == 1 {
            break;
        }
    }
}

#[test]
fn two_processes_talk() {
    let rig = rig(2);
    let owner = members(&rig, 0);
    owner.create(NAME, std::process::id()).unwrap();
    let mut host = rig.member(0, 0);
    let requests = QueueAttr::new(3).consumed_by(SlotId(1));
    let requests = host.create_queue("requests", &requests).unwrap();
    let answers = host.create_queue("answers", &QueueAttr::new(3)).unwrap();
    host.grant(requests, SlotId(0), Rights::WRITE).unwrap();
    host.grant(answers, SlotId(1), Rights::WRITE).unwrap();
    let path = |fd: i32| format!("/proc/{}/fd/{fd}", std::process::id());
    let fds = (rig.created.control.as_raw_fd(), rig.created.arena.as_raw_fd());
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "peer_process", "--test-threads=1"])
        .env(PEER, format!("{},{}", path(fds.0), path(fds.1)))
        .spawn()
        .unwrap();
    owner.add_process(NAME, SlotId(1), child.id(), ShareAttr::MEMBER).unwrap();
    for text in ["abc", "hello", "x"] {
        let mut control = ControlInfo { timeout_ms: 10_000, ..plain() };
        control.msg_info = Some(executor_core::abi::MsgInfo::default());
        host.enqueue(requests, text.as_bytes(), &control).unwrap();
        let mut data = [0; 64];
        let len = host.dequeue(answers, &mut data, &mut control).unwrap();
        let reversed: String = text.chars().rev().collect();
        assert_eq!(&data[..len], reversed.as_bytes());
    }
    assert!(child.wait().unwrap().success());
    assert_eq!(rig.usage().entries, 0);
}
