//! How a flow ends by itself, and what a session that ends leaves.

use dflow::session::FeedReason;
use dflow::{Feed, FetchError, FlowNode, Restart, RestartPolicy};
use executor_core::error::Code;
use sys::signal::Signal;
use tests::flows;

use crate::support::{Flow, act, graph, message, single, watchdog};

fn restart(node: FlowNode, policy: RestartPolicy, max: u32) -> FlowNode {
    node.restart(Restart { policy, max, backoff_ms: 1 })
}

#[test]
fn a_node_that_is_never_restarted_ends_the_flow_and_answers_everything() {
    let node = restart(act("in", "segv", 2), RestartPolicy::Never, 0);
    let chain = graph("never")
        .node("fragile", node)
        .node("last", flows::node("pass", &["fragile.out"]))
        .output("out", "last.out");
    let flow = Flow::start(chain);
    flow.feed(1);
    assert_eq!(flow.next(), (1, message(1)));
    // What is fed behind the deadly one: its death may be known already.
    flow.feed(2);
    let mut fed = 2usize;
    for id in 3..=5 {
        match flow.session.feed(Feed::of(vec![flows::message(id, 16)]), watchdog()) {
            Ok(found) => assert_eq!(found, id),
            Err(error) => {
                assert!(matches!(error.reason, FeedReason::Ended(_)), "{error}");
                break;
            }
        }
        fed = usize::try_from(id).unwrap();
    }
    let failed = Err(Code::NODE_FAILED.0);
    for (id, (found, outcome)) in (2..).zip(flow.outcomes(fed - 1)) {
        assert_eq!((found, outcome), (id, failed.clone()));
    }
    let ended = flow.session.ended().unwrap();
    assert_eq!(ended.code, Code::NODE_FAILED);
    assert!(
        ended.reason.contains("node `fragile`") && ended.reason.contains("SIGSEGV"),
        "{}",
        ended.reason
    );
    let error = flow.session.feed(Feed::of(vec![flows::message(9, 16)]), watchdog()).unwrap_err();
    assert_eq!((error.reason.code(), error.feed.tensors.len()), (Code::NODE_FAILED, 1));
    assert!(matches!(flow.session.fetch(watchdog()), Err(FetchError::Ended(_))));
    flow.end();
}

#[test]
fn after_the_maximum_of_restarts_the_node_has_failed() {
    let node = restart(act("in", "abort", 0), RestartPolicy::OnFailure, 2);
    let flow = Flow::start(single(node));
    let mut codes = Vec::new();
    for id in 1.. {
        match flow.session.feed(Feed::of(vec![flows::message(id, 16)]), watchdog()) {
            Ok(_) => codes.push(flow.next().1.unwrap_err()),
            Err(error) => {
                assert!(matches!(error.reason, FeedReason::Ended(_)), "{error}");
                break;
            }
        }
    }
    let (died, failed) = (Code::EXECUTOR_DIED.0, Code::NODE_FAILED.0);
    assert_eq!(codes, [died, died, failed]);
    let reason = flow.session.ended().unwrap().reason;
    assert!(reason.contains("node `node`") && reason.contains("after 2 restarts"), "{reason}");
    flow.end();
}

/// An executor ends well on SIGTERM, but nobody of the flow sent it.
#[test]
fn a_sigterm_from_outside_costs_no_more_than_a_kill() {
    let flow = Flow::start(single(flows::node("sum", &["in"]).stateful().attr("every", 2)));
    for id in 1..=3 {
        flow.feed(id);
        flow.wait_until(|session| session.nodes()[0].processed == id);
        let before = flow.restarts();
        flow.signal(Signal::TERM);
        assert_eq!(flow.next(), (id, Err(Code::EXECUTOR_DIED.0)));
        flow.wait_until(|session| session.nodes()[0].restarts == before + 1);
        assert!(flow.session.ended().is_none());
    }
    let logs = flow.logs();
    assert_eq!(logs.matches("the process ends: SIGTERM").count(), 3, "{logs}");
    assert_eq!(logs.matches("exit code 0, which nobody asked for").count(), 3, "{logs}");
    flow.end();
}

#[test]
fn the_death_of_a_stateful_node_answers_the_ids_it_may_have_kept() {
    let node = flows::node("sum", &["in"]).stateful().attr("every", 2);
    let flow = Flow::start(single(node));
    flow.feed(1);
    flow.feed(2);
    assert_eq!(flow.next(), (2, Ok(vec![3])));
    flow.feed(3);
    flow.wait_until(|session| session.nodes()[0].processed == 3);
    assert_eq!(flow.session.counts().open, 2);
    flow.kill();
    let died = Err(Code::EXECUTOR_DIED.0);
    assert_eq!(flow.outcomes(2), [(1, died.clone()), (3, died)]);
    // Its successor knows nothing of them.
    flow.feed(4);
    flow.feed(5);
    assert_eq!(flow.next(), (5, Ok(vec![9])));
    flow.end();
}

#[test]
fn a_session_that_is_dropped_leaves_nothing() {
    let flow = Flow::start(flows::diamond());
    for id in 1..=8 {
        flow.feed(id);
    }
    flow.abandon();
}

#[test]
fn outputs_outlive_their_session() {
    let flow = Flow::start(single(flows::node("pass", &["in"])));
    flow.feed(1);
    let event = flow.event();
    flow.end();
    let output = event.outcome.unwrap();
    assert!(flows::is_message(1, output.bytes()));
}
