//! What goes along with a message, and what is not copied.

use dflow::session::FeedReason;
use dflow::{Feed, FlowGraph};
use executor_core::error::Code;
use tests::flows;

use crate::support::{Flow, graph, message, single, watchdog};

fn three(function: &str) -> FlowGraph {
    graph("three")
        .node("a", flows::node(function, &["in"]))
        .node("b", flows::node(function, &["a.out"]))
        .node("c", flows::node(function, &["b.out"]))
        .output("out", "c.out")
}

#[test]
fn forwarding_copies_nothing() {
    let flow = Flow::start(three("forward"));
    assert!(flow.one_by_one(20).iter().zip(1..).all(|(found, id)| *found == message(id)));
    // A set is counted after its outputs are under way.
    flow.wait_until(|session| session.nodes().iter().all(|node| node.processed == 20));
    for node in flow.session.nodes() {
        assert_eq!((node.bytes_copied, node.processed, node.allocations.1), (0, 20, 0), "{node:?}");
    }
    flow.end();
}

#[test]
fn heads_travel() {
    for function in ["forward", "pass"] {
        let flow = Flow::start(three(function));
        let user_data: Vec<u8> = (1..=64).collect();
        flow.feed_with(1, |feed| {
            feed.user_data.clone_from(&user_data);
            feed.flags = 3;
            feed.end_of_sequence = true;
            feed.times = (123_456, 654_321);
        });
        let event = flow.event();
        let output = event.outcome.as_ref().unwrap();
        assert_eq!(output.user_data().to_vec(), user_data);
        assert!(output.is_end_of_sequence());
        let info = output.info();
        assert_eq!((info.flags, info.start_time, info.end_time), (3, 123_456, 654_321));
        assert_eq!((info.trans_id, info.ret_code), (1, 0));
        drop(event);
        // Nothing of it clings to the next message.
        flow.feed(2);
        let event = flow.event();
        let output = event.outcome.as_ref().unwrap();
        assert_eq!((output.user_data(), output.is_end_of_sequence()), ([0; 64], false));
        assert_eq!((output.info().flags, output.info().start_time), (0, 0));
        drop(event);
        flow.end();
    }
}

#[test]
fn functions_read_the_user_data() {
    let flow = Flow::start(single(flows::node("user", &["in"])));
    flow.feed_with(1, |feed| feed.user_data = 0x1234_5678_9ABC_DEF0u64.to_le_bytes().to_vec());
    assert_eq!(flow.next(), (1, Ok(vec![0x1234_5678_9ABC_DEF0])));
    flow.end();
}

/// `in → scatter → work ×3 → gather → out`: 0 to 64 messages of an id, spread over the instances.
fn scattered() -> dflow::FlowGraph {
    graph("scattered")
        .node("scatter", flows::node("scatter", &["in"]))
        .node("work", flows::node("forward", &["scatter.out"]).instances(3))
        .node("gather", flows::node("gather", &["work.out"]).stateful())
        .output("out", "gather.out")
}

#[test]
fn one_message_becomes_many_and_many_become_one() {
    let flow = Flow::start(scattered());
    let expected = |id: u64| {
        let count = id % 5 * 16;
        (id, Ok(vec![count, count * count.saturating_sub(1) / 2]))
    };
    let count = 20;
    std::thread::scope(|scope| {
        scope.spawn(|| (1..=count).for_each(|id| flow.feed(id)));
        let all = flow.outcomes(usize::try_from(count).unwrap());
        assert_eq!(all, (1..=count).map(expected).collect::<Vec<_>>());
    });
    // 32 messages on average, by id and label: every instance has its third.
    flow.wait_until(|session| {
        session.nodes().iter().map(|node| node.processed).sum::<u64>() >= 1308
    });
    for node in flow.session.nodes().iter().filter(|node| node.node == "work") {
        assert!((200..=230).contains(&node.processed), "{node:?}");
    }
    flow.end();
}

#[test]
fn ids_follow_their_rules_and_refused_feeds_come_back() {
    let flow = Flow::start(single(flows::node("forward", &["in"])));
    let feed = |id: Option<u64>| {
        let tensors = vec![flows::message(id.unwrap_or(0), 16)];
        flow.session.feed(Feed { trans_id: id, ..Feed::of(tensors) }, watchdog())
    };
    assert_eq!(feed(Some(5)).unwrap(), 5);
    assert_eq!(feed(None).unwrap(), 6);
    for bad in [0, 3, u64::MAX] {
        let error = feed(Some(bad)).unwrap_err();
        assert_eq!(error.reason, FeedReason::TransId(bad));
        assert_eq!(error.reason.code(), Code::PARAM_INVALID);
        assert_eq!(error.feed.tensors, [flows::message(bad, 16)]);
    }
    assert_eq!(feed(Some(u64::from(u32::MAX))).unwrap(), u64::from(u32::MAX));
    assert_eq!(feed(None).unwrap(), u64::from(u32::MAX) + 1);
    let mut custom = Vec::new();
    for _ in 0..4 {
        let event = flow.event();
        custom.push((event.trans_id, event.outcome.as_ref().unwrap().info().data_flag & 2 != 0));
    }
    let last = u64::from(u32::MAX);
    assert_eq!(custom, [(5, true), (6, false), (last, true), (last + 1, false)]);
    flow.end();
}

#[test]
fn tensors_that_do_not_fit_come_back_with_the_reason() {
    let flow = Flow::start(single(flows::node("forward", &["in"])));
    let mut wrong = flows::message(1, 16);
    wrong.bytes.pop();
    let long = flows::message(1, flows::ELEMENTS + 1);
    let typed = dflow::Tensor { dtype: dflow::DType::Float64, ..flows::message(1, 16) };
    for (tensors, words) in [
        (vec![wrong], "found 127, expected 128"),
        (vec![long], "max_bytes"),
        (vec![typed], "element type: found float64, expected uint64"),
        (Vec::new(), "found 0 tensors, expected 1"),
    ] {
        let error = flow.session.feed(Feed::of(tensors.clone()), watchdog()).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
        assert_eq!(error.feed.tensors, tensors);
    }
    flow.feed(1);
    assert_eq!(flow.next(), (1, message(1)));
    flow.end();
}
