//! Functions whose inputs are put together by id: what they are called with when something does not
//! come, and what outlives the process.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{Node, Setup};
use executor_core::error::Code;
use executor_core::primitive::Ordering;
use harness::Fetched;
use sys::pidfd::Event;

const CODE: Code = Code::FLOW_FUNC_DATA_ALIGN_FAILED;

fn assert_codes(got: &Fetched, id: u64, codes: [i64; 3]) {
    assert_eq!((got.id(), got.code(), got.ints()), (id, Code::SUCCESS, codes.to_vec()));
}

#[test]
fn what_does_not_come_in_time_is_an_empty_message_with_a_code() {
    for copies in [false, true] {
        let setup = Setup::new("codes").ports(3, 1).align(8, 50, false);
        let mut node = Node::start(setup.options(|options| options.copy_inputs = copies));
        node.ready();
        node.feed(2, 1, &[1]);
        node.feed(0, 1, &[1]);
        assert_codes(&node.fetch(0), 1, [0, 364_000, 0]);
        // Each round the two missing messages need blocks, which come back.
        for round in 0..10 {
            let ids = 2 + round * 8..10 + round * 8;
            ids.clone().for_each(|id| node.feed(1, id, &[1]));
            ids.for_each(|id| assert_codes(&node.fetch(0), id, [364_000, 0, 364_000]));
        }
        for (input, id) in [(0, 91), (1, 90), (2, 91), (0, 90), (1, 91), (2, 90)] {
            node.feed(input, id, &[1]);
        }
        let mut ids = [90, 91].map(|_| {
            let got = node.fetch(0);
            assert_codes(&got, got.id(), [0, 0, 0]);
            got.id()
        });
        ids.sort_unstable();
        assert_eq!(ids, [90, 91]);
        assert!(node.logs().contains("1 of its 3 inputs did not come in time"));
        node.finalize();
    }
}

#[test]
fn what_is_given_up_is_answered_where_the_node_says_so() {
    let mut node = Node::start(Setup::new("codes").ports(3, 1).align(1, -1, true));
    node.ready();
    node.feed(0, 1, &[1]);
    node.feed(1, 2, &[1]);
    node.fetch(0).assert_answer(1, CODE);
    node.feed(2, 2, &[1]);
    node.feed(0, 2, &[1]);
    assert_codes(&node.fetch(0), 2, [0, 0, 0]);
    assert_eq!(node.ctl().coded.load(Ordering::Relaxed), 1);
    node.finalize();
}

/// Kills between two arbitrary instructions: every id ends once, whole, given up or answered.
#[test]
fn killed_over_and_over_every_id_ends_once() {
    const BATCH: u64 = 6;
    let mut node = Node::start(Setup::new("add").ports(2, 1).align(16, -1, false));
    node.ready();
    let mut died = 0;
    for kill in 0..25 {
        let first = kill * BATCH + 1;
        for n in 0..BATCH {
            let other = first + (n * 5 + kill) % BATCH;
            let value = |id: u64| i64::try_from(id).unwrap();
            node.feed(0, first + n, &[value(first + n)]);
            node.feed(1, other, &[value(other)]);
        }
        for _ in 0..kill * 1993 % 9000 {
            core::hint::spin_loop();
        }
        node.kill_and_restart();
        node.ready();
        let mut ids = Vec::new();
        for _ in 0..BATCH {
            let got = node.fetch(0);
            match got.code() {
                Code::SUCCESS => assert_eq!(got.ints(), [2 * i64::try_from(got.id()).unwrap()]),
                code => {
                    assert_eq!(code, Code::EXECUTOR_DIED);
                    died += 1;
                }
            }
            ids.push(got.id());
        }
        ids.sort_unstable();
        assert_eq!(ids, (first..first + BATCH).collect::<Vec<_>>(), "kill {kill}\n{}", node.logs());
        assert!(node.is_silent(0));
    }
    node.finalize();
    println!("25 kills, {died} answers for the dead");
}

/// udf §7, no. 39.
#[test]
fn v7_39_settings_out_of_their_range_end_the_start() {
    for (max, timeout, text) in [
        (1025, 1, "align_max_cache_num: found 1025, expected 0 to 1024"),
        (4, 0, "align_timeout: found 0, expected -1 or 1 to 600000"),
        (4, -2, "align_timeout: found -2"),
        (4, 600_001, "align_timeout: found 600001"),
    ] {
        let mut node = Node::start(Setup::new("codes").ports(3, 1).align(max, timeout, false));
        assert!(matches!(node.end(), Event::Exited(code) if code != 0));
        assert!(node.logs().contains(text), "{}", node.logs());
    }
}
