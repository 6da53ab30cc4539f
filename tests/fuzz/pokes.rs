//! One word of the shared section destroyed on purpose: who notices, and by which name.

use std::time::Duration;

use dflow::session::FeedReason;
use dflow::{
    DType, DeployOptions, DeployPlan, Feed, FetchError, FlowGraph, FlowNode, GraphInput, Limits,
    MonoTime, Named, NodeInput, QueuePolicy, Session,
};
use executor_core::abi::control::QueueCtl;
use executor_core::error::Code;
use executor_core::owner::Owner;
use tests::fault::left;
use tests::flows;

use crate::survivors::{self, Watchdog};

const DEADLINE_MS: u32 = 2_000;
const IDS: u64 = 12;
/// The id at which the word is written.
const AT: u64 = 4;

/// `in → poke → last → out`; `place` says offset and value of the word, once the plan is known.
fn deploy(policy: QueuePolicy, tag: &str, place: &dyn Fn(&DeployPlan) -> (usize, u64)) -> Session {
    let node = |function: &str, from: &str| flows::node(function, &[from]).env(left::TAG, tag);
    let plan = |offset: usize, value: u64| {
        let poke = node("poke", "in")
            .attr("at", AT.cast_signed())
            .attr("offset", i64::try_from(offset).unwrap())
            .attr("value", value.cast_signed());
        let mut inputs = Named::default();
        inputs.push("in0", NodeInput::new("poke.out").policy(policy));
        let last = FlowNode { inputs, stall_ms: 300, ..node("pass", "poke.out") };
        let input = GraphInput::new(DType::Uint64, [-1]).max_bytes(flows::ELEMENTS as u64 * 8);
        let graph = FlowGraph::new("poked")
            .input("in", input)
            .node("poke", poke)
            .node("last", last)
            .output("out", "last.out");
        let checked = graph.check().unwrap_or_else(|refused| panic!("{refused}"));
        checked.plan(&Limits::default()).unwrap_or_else(|error| panic!("{error}"))
    };
    let (offset, value) = place(&plan(0, 0));
    let session = plan(offset, value).deploy(&DeployOptions::default());
    session.unwrap_or_else(|error| panic!("{error}"))
}

/// Offset of a queue's words in the shared section, which begins with them.
fn queue(plan: &DeployPlan, name: &str, field: usize) -> usize {
    let id = plan.queues.iter().position(|queue| queue.name == name);
    let names: Vec<&str> = plan.queues.iter().map(|queue| queue.name.as_str()).collect();
    id.unwrap_or_else(|| panic!("{name} is none of {names:?}")) * size_of::<QueueCtl>() + field
}

/// Active, of a generation that it never had.
const OTHER_GENERATION: u64 = 1 | 0x7777_0000 << 32;
/// Offset of the lock's word.
const LOCK: usize = core::mem::offset_of!(QueueCtl, lock);

/// Feeds and fetches one id after the other until the flow ends; codes of the ids, 0 for data.
fn ids(session: &Session) -> Vec<u32> {
    let mut codes = Vec::new();
    for id in 1..=IDS {
        let feed =
            Feed { deadline_ms: Some(DEADLINE_MS), ..Feed::of(vec![flows::message(id, 16)]) };
        match session.feed(feed, Some(MonoTime::now().add_ms(10_000))) {
            Ok(fed) => assert_eq!(fed, id),
            Err(error) => {
                assert!(matches!(error.reason, FeedReason::Ended(_)), "{error}");
                break;
            }
        }
        let event = session.fetch(Some(MonoTime::now().add_ms(20_000))).unwrap();
        assert_eq!(event.trans_id, id);
        codes.push(event.outcome.map_or_else(|failure| failure.code.0, |_| 0));
    }
    codes
}

fn end(session: Session, tag: &str) {
    let watcher = session.watcher_pid();
    session.close();
    assert_eq!(left::wait_gone(tag, &[watcher]), 0);
    assert_eq!(survivors::take_panics(), Vec::<String>::new());
}

#[test]
fn a_destroyed_output_queue_ends_the_session_and_is_named() {
    let _watchdog = Watchdog::new(Duration::from_secs(60), "output queue".to_owned());
    survivors::watch_panics();
    let tag = left::new_tag(1);
    let session =
        deploy(QueuePolicy::Fifo, &tag, &|plan| (queue(plan, "host:out", 0), OTHER_GENERATION));
    let codes = ids(&session);
    // One more may be under way before the word is written, and one end by its deadline.
    assert!((3..=6).contains(&codes.len()), "{codes:?}");
    assert!(codes.iter().take(3).all(|code| *code == 0), "{codes:?}");
    let ended = session.ended().unwrap();
    assert_eq!(ended.code, Code::PEER_FAULT);
    assert!(ended.reason.contains("queue `host:out`"), "{}", ended.reason);
    let fetched = session.fetch(Some(MonoTime::now().add_ms(10_000)));
    assert!(matches!(fetched, Err(FetchError::Ended(_))), "{fetched:?}");
    end(session, &tag);
}

#[test]
fn a_destroyed_queue_between_nodes_is_named_and_opened_anew() {
    let _watchdog = Watchdog::new(Duration::from_secs(60), "queue between nodes".to_owned());
    survivors::watch_panics();
    let tag = left::new_tag(2);
    let session =
        deploy(QueuePolicy::Fifo, &tag, &|plan| (queue(plan, "last:in0", 0), OTHER_GENERATION));
    let codes = ids(&session);
    assert_eq!(codes.len(), 12, "{:?}", session.ended());
    assert_eq!(codes.last(), Some(&0), "{codes:?}");
    let log = survivors::log_of(&session, 1);
    assert!(log.contains("input 0: ") && log.contains("it is gone"), "{log}");
    assert!(!survivors::ends(&log).any(survivors::is_crash), "{log}");
    end(session, &tag);
}

#[test]
fn a_lock_that_nobody_alive_holds_is_broken() {
    let _watchdog = Watchdog::new(Duration::from_secs(60), "lock".to_owned());
    survivors::watch_panics();
    let words = [
        u64::MAX,
        Owner::Worker { slot: 0, worker: 0, generation: 0 }.word(),
        Owner::Worker { slot: 2, worker: 0, generation: 7 }.word(),
    ];
    for word in words {
        let tag = left::new_tag(3);
        let session =
            deploy(QueuePolicy::Overwrite, &tag, &|plan| (queue(plan, "last:in0", LOCK), word));
        let codes = ids(&session);
        assert_eq!((codes.len(), codes.last()), (12, Some(&0)), "{word:#x}: {codes:?}");
        let restarts: u32 = session.nodes().iter().map(|node| node.restarts).sum();
        assert_eq!(restarts, 0, "{word:#x}");
        end(session, &tag);
    }
}
