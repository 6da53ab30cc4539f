//! A deployed flow under test.

use std::collections::BTreeSet;

use dflow::{
    DeployOptions, Event, Feed, FlowGraph, FlowNode, GraphInput, Limits, MonoTime, Session,
    SessionSettings,
};
use sys::memfd;
use sys::pidfd::PidFd;
use sys::signal::Signal;
use tests::fault::left;
use tests::flows;

/// Nothing here takes that long unless it hangs.
const WATCHDOG_MS: u64 = 30_000;

pub(crate) fn watchdog() -> Option<MonoTime> {
    Some(MonoTime::now().add_ms(WATCHDOG_MS))
}

/// What an id came to: the elements of its message, or a code.
pub(crate) type Outcome = Result<Vec<u64>, u32>;

/// A graph with one input `in` of `uint64 [-1]`.
pub(crate) fn graph(name: &str) -> FlowGraph {
    let input = GraphInput::new(dflow::DType::Uint64, [-1]).max_bytes(flows::ELEMENTS as u64 * 8);
    FlowGraph::new(name).input("in", input)
}

/// A session setting.
pub(crate) fn max_open(max_open: u32) -> SessionSettings {
    SessionSettings { max_open, ..SessionSettings::default() }
}

/// The function `act` behind `from`.
pub(crate) fn act(from: &str, what: &str, at: i64) -> FlowNode {
    flows::node("act", &[from]).attr("what", what).attr("at", at)
}

/// `in → node → out`.
pub(crate) fn single(node: FlowNode) -> FlowGraph {
    graph("single").node("node", node).output("out", "node.out")
}

/// A running flow.
pub(crate) struct Flow {
    pub(crate) session: Session,
    tag: String,
    files: BTreeSet<String>,
    pids: Vec<u32>,
}

/// Marks the processes of every node.
pub(crate) fn tagged(mut graph: FlowGraph, tag: &str) -> FlowGraph {
    let mut nodes = dflow::Named::default();
    for (name, node) in graph.nodes.iter() {
        let node = node.clone();
        // A model has no environment of its own.
        let is_model = node.model.is_some();
        nodes.push(name, if is_model { node } else { node.env(left::TAG, tag) });
    }
    graph.nodes = nodes;
    graph
}

impl Flow {
    pub(crate) fn start(graph: FlowGraph) -> Flow {
        Flow::start_with(graph, &DeployOptions::default())
    }

    pub(crate) fn start_with(graph: FlowGraph, options: &DeployOptions) -> Flow {
        let (files, tag) = (left::files(), left::new_tag(0));
        let checked = tagged(graph, &tag).check().unwrap_or_else(|refused| panic!("{refused}"));
        let plan = checked.plan(&Limits::default()).unwrap_or_else(|error| panic!("{error}"));
        let session = plan.deploy(options).unwrap_or_else(|error| panic!("{error}"));
        let watcher = session.watcher_pid();
        let pids = sys::procfs::children(watcher).into_iter().chain([watcher]).collect();
        Flow { session, tag, files, pids }
    }

    /// Feeds the message of `id`.
    pub(crate) fn feed(&self, id: u64) {
        self.feed_with(id, |_| {});
    }

    pub(crate) fn feed_with(&self, id: u64, change: impl FnOnce(&mut Feed)) {
        let mut feed = Feed::of(vec![flows::message(id, 16)]);
        change(&mut feed);
        let fed = self.session.feed(feed, watchdog()).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(fed, id);
    }

    pub(crate) fn event(&self) -> Event {
        self.session.fetch(watchdog()).unwrap_or_else(|error| panic!("{error}: {:?}", self.logs()))
    }

    /// The next event's id and outcome.
    pub(crate) fn next(&self) -> (u64, Outcome) {
        let event = self.event();
        (event.trans_id, outcome(&event))
    }

    /// The next `count` events in the order of their ids.
    pub(crate) fn outcomes(&self, count: usize) -> Vec<(u64, Outcome)> {
        let mut all: Vec<(u64, Outcome)> = (0..count).map(|_| self.next()).collect();
        all.sort();
        all
    }

    /// Feeds ids 1 to `count` one after the other; what each came to.
    pub(crate) fn one_by_one(&self, count: u64) -> Vec<Outcome> {
        (1..=count)
            .map(|id| {
                self.feed(id);
                let (found, outcome) = self.next();
                assert_eq!(found, id);
                outcome
            })
            .collect()
    }

    /// Logs of all executors.
    pub(crate) fn logs(&self) -> String {
        let count = self.session.plan().executors.len();
        let text = |index| {
            let (_, stderr) = self.session.logs(index).unwrap();
            String::from_utf8_lossy(&memfd::read_all(stderr).unwrap()).into_owned()
        };
        (0..count).map(text).collect()
    }

    pub(crate) fn restarts(&self) -> u32 {
        self.session.nodes().iter().map(|node| node.restarts).sum()
    }

    /// Kills the first executor.
    pub(crate) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// Sends `signal` to the first executor.
    pub(crate) fn signal(&self, signal: Signal) {
        // A child may have answered messages before its parent has written down who it is.
        self.wait_until(|session| session.nodes()[0].pid != 0);
        PidFd::open(self.session.nodes()[0].pid).unwrap().signal(signal).unwrap();
    }

    /// Waits for `condition`.
    pub(crate) fn wait_until(&self, condition: impl Fn(&Session) -> bool) {
        let limit = watchdog().unwrap();
        while !condition(&self.session) {
            assert!(MonoTime::now() < limit, "{}", self.logs());
            std::thread::yield_now();
        }
    }

    /// Closes the session; nothing is left.
    pub(crate) fn end(self) {
        let Flow { session, tag, files, pids } = self;
        session.close();
        assert_nothing_left(&tag, &files, &pids);
    }

    /// Drops the session; nothing is left.
    pub(crate) fn abandon(self) {
        let Flow { session, tag, files, pids } = self;
        drop(session);
        assert_nothing_left(&tag, &files, &pids);
    }
}

pub(crate) fn outcome(event: &Event) -> Outcome {
    match &event.outcome {
        Ok(output) => {
            let words = output.bytes().as_chunks::<8>().0.iter();
            Ok(words.map(|word| u64::from_le_bytes(*word)).collect())
        }
        Err(failure) => Err(failure.code.0),
    }
}

/// The message that [`Flow::feed`] sends.
pub(crate) fn message(id: u64) -> Outcome {
    Ok((id..id + 16).collect())
}

pub(crate) fn assert_nothing_left(tag: &str, files: &BTreeSet<String>, pids: &[u32]) {
    assert_eq!(left::wait_gone(tag, pids), 0, "processes left");
    // Other tests of this program have files of their own only while they run, and none by name.
    assert_eq!(left::files().difference(files).count(), 0, "files left");
}
