//! A real process per test: what each kind of function does to its messages.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{Node, Setup};
use executor_core::error::Code;
use executor_core::primitive::Ordering;
use executor_rt::log::LogLine;
use harness::watchdog;
use sys::pidfd::Event;
use sys::poll::{Events, PollFd, poll};

#[test]
fn identity_forwards_without_a_copy() {
    let mut node = Node::start(Setup::new("identity"));
    node.ready();
    for id in 1..=200u64 {
        node.feed(0, id, &[id.cast_signed(), 7]);
        let got = node.fetch(0);
        assert_eq!((got.id(), got.code(), got.user), (id, Code::SUCCESS, id));
        assert_eq!(got.ints(), [id.cast_signed(), 7]);
        assert_eq!(got.home, 0, "still the host's block");
    }
    assert_eq!(node.ctl().bytes_copied.load(Ordering::Relaxed), 0);
    node.finalize();
    assert_eq!(node.ctl().processed.load(Ordering::Relaxed), 200);
}

#[test]
fn two_inputs_pair_by_position_and_codes_pass_through() {
    let mut node = Node::start(Setup::new("add").ports(2, 1));
    node.ready();
    for id in 1..=20 {
        node.feed(1, id, &[10, 20, 30]);
        node.feed(0, id, &[1, 2, id.cast_signed()]);
        let got = node.fetch(0);
        assert_eq!((got.id(), got.dims.as_slice()), (id, &[3][..]));
        assert_eq!(got.ints(), [11, 22, 30 + id.cast_signed()]);
        assert_eq!((got.home, got.user), (1, id), "an own block, with the input's head");
    }
    node.feed(0, 21, &[1]);
    let bad = node.tensor(21, &[1], &[1]);
    node.worker.of(&bad).update_msg_info(|info| info.ret_code = 9_900_001);
    node.feed_mbuf(1, bad);
    assert_eq!(node.fetch(0).code(), Code(9_900_001));
    node.finalize();
}

#[test]
fn inputs_of_different_ids_cost_the_older_id_only() {
    let mut node = Node::start(Setup::new("add").ports(2, 1));
    node.ready();
    for id in [1, 3, 4] {
        node.feed(0, id, &[id.cast_signed()]);
    }
    for id in 1..=4 {
        node.feed(1, id, &[100]);
    }
    assert_eq!(node.fetch(0).ints(), [101]);
    node.fetch(0).assert_answer(2, Code::MISPAIRED);
    assert_eq!(node.fetch(0).ints(), [103]);
    assert_eq!(node.fetch(0).ints(), [104]);
    assert!(node.is_silent(0));
    node.finalize();
}

#[test]
fn a_ready_process_rings() {
    let mut node = Node::start(Setup::new("identity"));
    let mut fds = [PollFd::new(&node.bell, Events::IN)];
    assert_eq!(poll(&mut fds, watchdog()), Ok(1), "{}", node.logs());
    assert!((2..100).contains(&node.ctl().state.load(Ordering::Acquire)));
    assert_eq!(node.bell.drain(), 1);
    node.ready();
    node.finalize();
}

#[test]
fn a_panic_costs_one_id() {
    let mut node = Node::start(Setup::new("panic-on-odd"));
    node.ready();
    for id in 1..=10 {
        node.feed(0, id, &[1]);
    }
    for id in 1..=10 {
        let got = node.fetch(0);
        if id % 2 == 1 {
            got.assert_answer(id, Code::UDF_PANIC);
        } else {
            assert_eq!((got.id(), got.code()), (id, Code::SUCCESS));
        }
    }
    assert_eq!(node.ctl().coded.load(Ordering::Relaxed), 5);
    node.finalize();
    assert!(node.logs().contains("odd id 9"), "{}", node.logs());
}

#[test]
fn a_panic_is_answered_on_every_output() {
    let mut node = Node::start(Setup::new("panic-on-odd").ports(1, 2));
    node.ready();
    node.feed(0, 1, &[1]);
    for output in [0, 1] {
        node.fetch(output).assert_answer(1, Code::UDF_PANIC);
    }
    node.finalize();
}

#[test]
fn a_code_of_proc_answers_the_id_and_ends_the_process() {
    let setup = Setup::new("code-on-id").attr("id", 3).attr("code", 9_900_000);
    let mut node = Node::start(setup);
    node.ready();
    for id in 1..=5 {
        node.feed(0, id, &[1]);
    }
    assert_eq!(node.fetch(0).id(), 1);
    assert_eq!(node.fetch(0).id(), 2);
    node.fetch(0).assert_answer(3, Code(9_900_000));
    assert_eq!(node.end(), Event::Exited(224), "the low byte of 9900000");
    let ctl = node.ctl();
    assert_eq!(ctl.state.load(Ordering::Relaxed), 8);
    assert_eq!(ctl.last_code.load(Ordering::Relaxed), 9_900_000);
    assert_eq!(ctl.set_done.load(Ordering::Relaxed), 3);
    node.sweep();
    node.spawn();
    node.ready();
    assert_eq!(node.fetch(0).id(), 4);
    assert_eq!(node.fetch(0).id(), 5);
    node.finalize();
    let lines: Vec<LogLine> = node.logs().lines().filter_map(LogLine::parse).collect();
    let line = lines.iter().find(|line| line.text.contains("for id 3")).unwrap();
    assert_eq!((line.node.as_str(), line.trans_id), ("node", None));
    let line = lines.iter().find(|line| line.text.contains("proc returned")).unwrap();
    assert_eq!(line.trans_id, Some(3));
}

#[test]
fn pending_keeps_its_inputs() {
    let mut node = Node::start(Setup::new("pending-twice"));
    node.ready();
    for id in 1..=6 {
        node.feed(0, id, &[5]);
    }
    for id in 1..=6 {
        assert_eq!(node.fetch(0).id(), id);
    }
    node.finalize();
}

#[test]
fn no_output_is_answered_unless_the_node_is_stateful() {
    let mut node = Node::start(Setup::new("no-output").ports(1, 2));
    node.ready();
    node.feed(0, 1, &[5]);
    node.fetch(0).assert_answer(1, Code::NO_OUTPUT);
    node.fetch(1).assert_answer(1, Code::NO_OUTPUT);
    node.finalize();
    let stateful = Setup::new("no-output").options(|options| options.stateful = true);
    let mut node = Node::start(stateful);
    node.ready();
    node.feed(0, 1, &[5]);
    node.until("processed", |ctl| ctl.processed.load(Ordering::Acquire) == 1);
    assert!(node.is_silent(0));
    node.finalize();
}

#[test]
fn a_reshaped_foreign_block_is_copied_once() {
    let mut node = Node::start(Setup::new("two-outputs").ports(1, 2));
    node.ready();
    let mbuf = node.tensor(1, &[2, 3], &[1, 2, 3, 4, 5, 6]);
    node.feed_mbuf(0, mbuf);
    let (same, flat) = (node.fetch(0), node.fetch(1));
    assert_eq!((same.dims.as_slice(), same.home), (&[2, 3][..], 0));
    assert_eq!((flat.dims.as_slice(), flat.home), (&[6][..], 1));
    assert_eq!((flat.ints(), flat.user), (vec![1, 2, 3, 4, 5, 6], 1));
    assert_eq!(node.ctl().bytes_copied.load(Ordering::Relaxed), 1024 + 48);
    node.finalize();
}

#[test]
fn many_outputs_of_one_call_keep_their_order_through_a_small_queue() {
    let mut setup = Setup::new("alloc-many").attr("count", 100);
    setup.depth = 2;
    setup.blocks = 8;
    let mut node = Node::start(setup);
    node.ready();
    node.feed(0, 1, &[1]);
    node.feed(0, 2, &[1]);
    for id in 1..=2 {
        for index in 0..100u8 {
            let got = node.fetch(0);
            assert_eq!((got.id(), got.values.as_slice()), (id, &[index; 16][..]));
        }
    }
    assert!(node.is_silent(0));
    node.finalize();
}

#[test]
fn an_empty_pool_fails_the_id_and_names_the_holders() {
    let mut setup = Setup::new("hold-many").attr("count", 20);
    setup.blocks = 8;
    setup.request_attrs.push(("_dflow_alloc_timeout_ms", "20"));
    let mut node = Node::start(setup);
    node.ready();
    for id in 1..=2 {
        node.feed(0, id, &[1]);
        node.fetch(0).assert_answer(id, Code::NO_MBUF);
    }
    node.finalize();
    let logs = node.logs();
    assert!(logs.contains("no free mbuf for 1040 bytes within 20 ms"), "{logs}");
    assert!(logs.contains("held by slot 1: "), "{logs}");
}

#[test]
fn init_again_is_called_again_until_its_limit() {
    let mut node = Node::start(Setup::new("init-again").attr("again", 3));
    node.ready();
    node.feed(0, 1, &[1]);
    assert_eq!(node.fetch(0).id(), 1);
    node.finalize();
    let setup = Setup::new("init-again").attr("again", i64::MAX);
    let mut node = Node::start(setup.options(|options| options.init_timeout_ms = 30));
    let response = node.response();
    assert_eq!(Code(response.error_code), Code::FLOW_FUNC_TIME_OUT);
    assert_eq!(response.error_message, "Execute init failed.");
    assert_eq!(node.end(), Event::Exited(33), "the low byte of 564001");
}

#[test]
fn a_source_is_throttled_by_its_output() {
    let mut setup = Setup::new("count").ports(0, 1);
    setup.depth = 4;
    let mut node = Node::start(setup);
    node.ready();
    for id in 1..=100u64 {
        let got = node.fetch(0);
        assert_eq!((got.id(), got.ints()), (id, vec![id.cast_signed()]));
    }
    node.send(2, &[0]);
    assert_eq!(node.end(), Event::Exited(0));
}

#[test]
fn copied_inputs_may_be_written() {
    let setup = Setup::new("write-into-input").options(|options| options.copy_inputs = true);
    let mut node = Node::start(setup);
    node.ready();
    node.feed(0, 1, &[256]);
    let got = node.fetch(0);
    assert_eq!((got.ints(), got.home), (vec![256 + 7], 1));
    assert_eq!(node.ctl().bytes_copied.load(Ordering::Relaxed), 1024 + 8);
    node.finalize();
}

#[test]
fn forwarded_inputs_are_copied_where_that_was_asked_for() {
    for (copy_forwarded, home, copied) in [(false, 0, 0), (true, 1, 2 * (1024 + 8))] {
        let setup =
            Setup::new("identity").options(|options| options.copy_forwarded = copy_forwarded);
        let mut node = Node::start(setup);
        node.ready();
        for id in 1..=2 {
            node.feed(0, id, &[7]);
            let got = node.fetch(0);
            assert_eq!((got.id(), got.ints(), got.home), (id, vec![7], home));
        }
        assert_eq!(node.ctl().bytes_copied.load(Ordering::Relaxed), copied);
        node.finalize();
    }
    // What the function made itself is sent as it is.
    let setup = Setup::new("add").ports(2, 1).options(|options| options.copy_forwarded = true);
    let mut node = Node::start(setup);
    node.ready();
    node.feed(0, 1, &[1]);
    node.feed(1, 1, &[2]);
    assert_eq!(node.fetch(0).ints(), [3]);
    assert_eq!(node.ctl().bytes_copied.load(Ordering::Relaxed), 0);
    node.finalize();
}

#[test]
fn groups_get_everything_and_instances_their_ids() {
    let mut setup = Setup::new("identity").ports(1, 3);
    // Port 0: instances 0 and 1, and another consumer; port 1: nobody.
    setup.destinations = Some(vec![vec![vec![0, 1], vec![2]], vec![vec![u32::MAX]]]);
    let mut node = Node::start(setup);
    node.ready();
    for id in 1..=6 {
        node.feed(0, id, &[1]);
        assert_eq!(node.fetch(usize::try_from(id % 2).unwrap()).id(), id);
        assert_eq!(node.fetch(2).id(), id);
    }
    for output in 0..3 {
        assert!(node.is_silent(output));
    }
    assert_eq!(node.ctl().committed.load(Ordering::Relaxed), 3);
    node.finalize();
}

#[test]
fn spinning_and_timing_are_asked_for_by_environment() {
    let mut setup = Setup::new("identity");
    setup.env = vec![("DFLOW_SPIN", "2000"), ("DFLOW_TIMING", "1")];
    let mut node = Node::start(setup);
    node.ready();
    for id in 1..=50 {
        node.feed(0, id, &[1]);
        assert_eq!(node.fetch(0).id(), id);
    }
    node.finalize();
    assert!(node.ctl().user_ns.load(Ordering::Relaxed) > 0);
}
