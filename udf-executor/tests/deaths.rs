//! The process dies at different places: what its successor adopts, answers, or gives to the
//! function again.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{Node, Setup};
use executor_core::error::Code;
use executor_core::primitive::Ordering;
use sys::pidfd::Event;
use sys::signal::Signal;

#[test]
fn killed_inside_the_function_the_id_is_answered_and_the_rest_goes_on() {
    let mut node = Node::start(Setup::new("slow").ports(1, 2));
    node.ready();
    for (id, stop) in [(1, 0), (2, 1), (3, 0)] {
        node.feed(0, id, &[stop]);
    }
    assert_eq!(node.fetch(0).id(), 1);
    node.fetch(1).assert_answer(1, Code::NO_OUTPUT);
    node.until_in_function(2);
    assert_eq!(node.kill_and_restart(), 1, "messages adopted");
    node.ready();
    node.fetch(0).assert_answer(2, Code::EXECUTOR_DIED);
    node.fetch(1).assert_answer(2, Code::EXECUTOR_DIED);
    assert_eq!(node.fetch(0).id(), 3);
    node.fetch(1).assert_answer(3, Code::NO_OUTPUT);
    node.finalize();
}

#[test]
fn redelivered_when_the_node_opted_in() {
    let setup = Setup::new("slow").options(|options| {
        options.redeliver = true;
        options.poison_limit = 1;
    });
    let mut node = Node::start(setup);
    node.ready();
    node.feed(0, 1, &[1]);
    node.feed(0, 2, &[0]);
    node.until_in_function(1);
    node.kill_and_restart();
    node.ready();
    for id in 1..=2 {
        let got = node.fetch(0);
        assert_eq!((got.id(), got.code()), (id, Code::SUCCESS));
    }
    node.finalize();
}

#[test]
fn a_poisonous_input_is_answered_after_its_limit() {
    let setup = Setup::new("segv-on-id").attr("id", 2).options(|options| {
        options.redeliver = true;
        options.poison_limit = 2;
    });
    let mut node = Node::start(setup);
    for id in 1..=3 {
        node.feed(0, id, &[1]);
    }
    for death in 1..=3 {
        node.ready();
        let event = node.end();
        assert!(
            matches!(event, Event::Signalled { signal: Signal::SEGV, .. }),
            "death {death}: {event:?}\n{}",
            node.logs()
        );
        node.sweep();
        node.spawn();
    }
    node.ready();
    assert_eq!(node.fetch(0).id(), 1);
    node.fetch(0).assert_answer(2, Code::POISON);
    assert_eq!(node.fetch(0).id(), 3);
    node.finalize();
}

#[test]
fn a_wild_write_is_a_death_like_any_other() {
    let mut node = Node::start(Setup::new("segv-on-id").attr("id", 1));
    node.ready();
    node.feed(0, 1, &[1]);
    assert!(matches!(node.end(), Event::Signalled { signal: Signal::SEGV, .. }));
    node.sweep();
    node.spawn();
    node.ready();
    node.fetch(0).assert_answer(1, Code::EXECUTOR_DIED);
    node.finalize();
}

#[test]
fn a_write_into_an_input_is_named() {
    let mut node = Node::start(Setup::new("write-into-input"));
    node.ready();
    node.feed(0, 9, &[1]);
    assert!(matches!(node.end(), Event::Signalled { signal: Signal::SEGV, .. }));
    assert_eq!(node.ctl().last_code.load(Ordering::Relaxed), Code::WRITE_FAULT.0);
    let logs = node.logs();
    let wanted = "function write-into-input wrote into input 0";
    assert!(logs.contains(wanted) && logs.contains("partition of slot 0"), "{logs}");
    assert!(logs.contains(" node 9 | "), "{logs}");
    node.sweep();
    node.spawn();
    node.ready();
    node.fetch(0).assert_answer(9, Code::WRITE_FAULT);
    node.finalize();
}

#[test]
fn half_a_set_is_adopted() {
    let mut node = Node::start(Setup::new("add").ports(2, 1));
    node.ready();
    node.feed(0, 1, &[4]);
    let limit = harness::watchdog().unwrap();
    while !node.inputs[0].is_empty() {
        assert!(!limit.is_past(sys::clock::MonoTime::now()), "{}", node.logs());
        std::thread::yield_now();
    }
    assert_eq!(node.kill_and_restart(), 1, "messages adopted");
    node.ready();
    node.feed(1, 1, &[5]);
    assert_eq!(node.fetch(0).ints(), [9]);
    node.finalize();
}

/// A function that writes over the runtime's own words before its process dies.
#[test]
fn set_numbers_that_can_not_be_cost_the_set_that_is_left() {
    for (delivered, done) in [(u64::MAX, 0), (7, 0), (0, 5), (u64::MAX, u64::MAX - 1)] {
        let mut node = Node::start(Setup::new("slow"));
        node.ready();
        node.feed(0, 1, &[1]);
        node.until_in_function(1);
        node.own_words().set_done.store(0, Ordering::Release);
        node.own_words().set_delivered.store(delivered, Ordering::Release);
        node.own_words().trans_id.store(99, Ordering::Release);
        node.signal(Signal::KILL);
        node.end();
        assert_eq!(node.sweep(), 1);
        node.own_words().set_done.store(done, Ordering::Release);
        node.spawn();
        node.ready();
        node.fetch(0).assert_answer(1, Code::PEER_FAULT);
        node.feed(0, 2, &[0]);
        assert_eq!(node.fetch(0).id(), 2);
        node.finalize();
    }
}

#[test]
fn the_process_leads_a_group_of_its_own() {
    let mut node = Node::start(Setup::new("identity"));
    node.ready();
    assert_eq!(node.process_group(), node.pid());
    node.finalize();
}

#[test]
fn sigterm_ends_an_idle_process_well() {
    let mut node = Node::start(Setup::new("identity"));
    node.ready();
    node.feed(0, 1, &[1]);
    assert_eq!(node.fetch(0).id(), 1);
    node.signal(Signal::TERM);
    assert_eq!(node.end(), Event::Exited(0), "{}", node.logs());
    assert!(node.logs().contains("the process ends: SIGTERM"), "{}", node.logs());
}

#[test]
fn a_log_at_the_limit_on_file_sizes_costs_lines_and_says_so() {
    let mut node = Node::start(Setup { file_limit: Some(64), ..Setup::new("panic-on-odd") });
    node.ready();
    node.feed(0, 1, &[1]);
    node.fetch(0).assert_answer(1, Code::UDF_PANIC);
    node.feed(0, 2, &[2]);
    assert_eq!(node.fetch(0).code(), Code::SUCCESS);
    assert!(!node.logs().contains("odd id 1"));
    node.log.set_len(0).unwrap();
    node.feed(0, 3, &[3]);
    node.fetch(0).assert_answer(3, Code::UDF_PANIC);
    node.until_logged("a write was refused: it met the limit on file sizes");
    node.finalize();
    assert!(node.logs().contains("odd id 3"), "{}", node.logs());
}

/// Kills between two arbitrary instructions: every id ends exactly once on each output.
#[test]
fn killed_over_and_over_every_id_ends_once() {
    const BATCH: u64 = 8;
    const KILLS: u64 = 60;
    let mut node = Node::start(Setup::new("two-outputs").ports(1, 2));
    node.ready();
    let mut died = 0;
    for kill in 0..KILLS {
        let ids = kill * BATCH + 1..=(kill + 1) * BATCH;
        for id in ids.clone() {
            node.feed(0, id, &[id.cast_signed(); 6]);
        }
        // The delay only varies the place of the kill.
        for _ in 0..kill * 997 % 6000 {
            core::hint::spin_loop();
        }
        node.kill_and_restart();
        node.ready();
        for output in 0..2 {
            for id in ids.clone() {
                let got = node.fetch(output);
                assert_eq!(got.id(), id, "output {output}, kill {kill}\n{}", node.logs());
                died += u32::from(got.code() == Code::EXECUTOR_DIED);
                assert!(matches!(got.code(), Code::SUCCESS | Code::EXECUTOR_DIED), "{got:?}");
            }
        }
        assert!(node.is_silent(0) && node.is_silent(1), "kill {kill}\n{}", node.logs());
    }
    node.finalize();
    println!("{KILLS} kills, {died} answers for the dead");
}
