//! Time-outs, deadlines, cancelling, and what a slow consumer does to its producers.

use dflow::session::FeedReason;
use dflow::{Feed, FetchError, FlowNode, GraphOutput, MonoTime, Named, NodeInput, QueuePolicy};
use executor_core::error::Code;
use tests::flows;

use crate::support::{Flow, act, graph, max_open, message, single, watchdog};

#[test]
fn fetch_returns_at_its_deadline() {
    let flow = Flow::start(single(flows::node("forward", &["in"])));
    for ms in [0, 1, 20] {
        let deadline = MonoTime::now().add_ms(ms);
        assert_eq!(flow.session.fetch(Some(deadline)).unwrap_err(), FetchError::TimedOut);
        assert!(MonoTime::now() >= deadline, "{ms} ms");
    }
    flow.end();
}

#[test]
fn feed_returns_at_its_deadline_with_everything() {
    let flow = Flow::start(single(act("in", "forward", 9)).session(max_open(1)));
    flow.feed(1);
    for ms in [0, 1, 20] {
        let deadline = MonoTime::now().add_ms(ms);
        let tensors = vec![flows::message(2, 16)];
        let error = flow.session.feed(Feed::of(tensors.clone()), Some(deadline)).unwrap_err();
        assert!(MonoTime::now() >= deadline, "{ms} ms");
        assert!(matches!(error.reason, FeedReason::TimedOut(_)), "{error}");
        assert!(error.to_string().contains("max_open"), "{error}");
        assert_eq!(error.feed.tensors, tensors);
    }
    assert_eq!(flow.next(), (1, message(1)));
    flow.feed(2);
    assert_eq!(flow.next(), (2, message(2)));
    flow.end();
}

#[test]
fn an_id_ends_at_its_deadline_and_late_data_is_dropped() {
    let flow = Flow::start(single(act("in", "wait", 1)));
    let begun = MonoTime::now();
    flow.feed_with(1, |feed| feed.deadline_ms = Some(50));
    assert_eq!(flow.next(), (1, Err(Code::DEADLINE.0)));
    assert!(MonoTime::now() >= begun.add_ms(50));
    assert_eq!(flow.session.counts().ledger.expired, 1);
    // The successor answers the id once more.
    flow.kill();
    flow.feed(2);
    assert_eq!(flow.next(), (2, message(2)));
    let counts = flow.session.counts().ledger;
    assert_eq!((counts.late, counts.duplicates, counts.closed), (1, 0, 2));
    flow.end();
}

#[test]
fn a_cancelled_id_ends_once_and_late_data_is_dropped() {
    let flow = Flow::start(single(act("in", "wait", 1)));
    flow.feed(1);
    assert!(flow.session.cancel(1));
    assert!(!flow.session.cancel(1));
    assert!(!flow.session.cancel(7));
    assert_eq!(flow.next(), (1, Err(Code::CANCELLED.0)));
    flow.wait_until(|session| session.held().any(|held| held.input.0.is_some()));
    flow.kill();
    flow.feed(2);
    assert_eq!(flow.next(), (2, message(2)));
    let counts = flow.session.counts().ledger;
    assert_eq!((counts.cancelled, counts.late, counts.closed), (1, 1, 2));
    flow.end();
}

#[test]
fn an_overwriting_queue_counts_what_it_drops_and_every_id_ends() {
    let input = NodeInput::new("in").depth(2).policy(QueuePolicy::Overwrite);
    let mut inputs = Named::default();
    inputs.push("in0", input);
    let node = FlowNode { inputs, ..flows::node("busy", &["in"]).attr("us", 3_000) };
    let flow = Flow::start(single(node));
    const IDS: u64 = 30;
    (1..=IDS).for_each(|id| flow.feed(id));
    let outcomes = flow.outcomes(30);
    assert!(outcomes.iter().map(|(id, _)| *id).eq(1..=IDS));
    let dropped: Vec<u64> = outcomes
        .iter()
        .filter(|(_, found)| *found == Err(Code::QUEUE_FULL.0))
        .map(|(id, _)| *id)
        .collect();
    let whole = outcomes.iter().filter(|(id, found)| *found == message(*id)).count();
    assert_eq!(dropped.len() + whole, 30, "{outcomes:?}");
    assert!(!dropped.is_empty() && !dropped.contains(&IDS), "{dropped:?}");
    let drops: u64 = flow.session.queues().iter().map(|queue| queue.drops).sum();
    assert_eq!(drops, dropped.len() as u64);
    assert_eq!(flow.session.counts().ledger.lost, drops);
    flow.end();
}

/// A chain whose queues hold two messages each.
fn narrow(stall_ms: u32) -> dflow::FlowGraph {
    let node = |from: &str| {
        let mut inputs = Named::default();
        inputs.push("in0", NodeInput::new(from).depth(2));
        FlowNode { inputs, stall_ms, ..flows::node("pass", &[from]) }
    };
    graph("narrow")
        .session(max_open(8))
        .node("a", node("in"))
        .node("b", node("a.out"))
        .node("c", node("b.out"))
        .output("out", GraphOutput::new("c.out").depth(2))
}

#[test]
fn a_slow_consumer_stops_its_producers_and_nothing_is_lost() {
    let flow = Flow::start(narrow(60_000));
    std::thread::scope(|scope| {
        scope.spawn(|| (1..=200).for_each(|id| flow.feed(id)));
        // Every room is taken before the first message is fetched, and again and again later.
        for id in 1..=200u64 {
            if id % 50 == 1 {
                let open = usize::try_from(8.min(201 - id)).unwrap();
                flow.wait_until(|session| session.counts().open == open);
            }
            assert_eq!(flow.next(), (id, message(id)));
        }
    });
    let full: u64 = flow.session.queues().iter().map(|queue| queue.full_waits).sum();
    assert!(full > 0, "no queue was ever full");
    assert_eq!(flow.session.counts().ledger.closed, 200);
    flow.end();
}

#[test]
fn waiting_for_room_is_no_stall() {
    const STALL_MS: u32 = 40;
    let flow = Flow::start(narrow(STALL_MS));
    (1..=8).for_each(|id| flow.feed(id));
    // Nobody fetches for ten times the limit: every node stands in a set and waits for the next.
    let deadline = MonoTime::now().add_ms(u64::from(10 * STALL_MS));
    let refused = flow.session.feed(Feed::of(vec![flows::message(9, 16)]), Some(deadline));
    assert!(matches!(refused.unwrap_err().reason, FeedReason::TimedOut(_)));
    for id in 1..=8 {
        assert_eq!(flow.next(), (id, message(id)));
    }
    assert_eq!(flow.restarts(), 0, "{}", flow.logs());
    flow.end();
}

#[test]
fn two_sessions_work_side_by_side_each_with_two_threads() {
    let flows = [Flow::start(narrow(60_000)), Flow::start(narrow(60_000))];
    std::thread::scope(|scope| {
        for flow in &flows {
            scope.spawn(|| (1..=100).for_each(|id| flow.feed(id)));
            scope.spawn(|| (1..=100).for_each(|id| assert_eq!(flow.next(), (id, message(id)))));
        }
    });
    let [first, second] = flows;
    first.end();
    second.feed(101);
    assert_eq!(second.next(), (101, message(101)));
    second.end();
}

#[test]
fn a_fetch_that_sleeps_sees_what_is_fed_later() {
    let flow = Flow::start(single(flows::node("forward", &["in"])));
    std::thread::scope(|scope| {
        let fetching = scope.spawn(|| flow.next());
        // Threads take turns at fetching, each until its own deadline.
        let deadline = MonoTime::now().add_ms(5);
        let second = flow.session.fetch(Some(deadline));
        assert_eq!(second.unwrap_err(), FetchError::TimedOut);
        assert!(MonoTime::now() >= deadline);
        flow.feed(1);
        assert_eq!(fetching.join().unwrap(), (1, message(1)));
    });
    assert_eq!(
        flow.session.fetch(watchdog().map(|_| MonoTime::now())).unwrap_err(),
        FetchError::TimedOut
    );
    flow.end();
}
