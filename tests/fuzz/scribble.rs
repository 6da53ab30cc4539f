//! `in → pass → scribble → pass → out` while the function in the middle writes where it should not.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use dflow::session::FeedReason;
use dflow::{
    DType, DeployOptions, Feed, FetchError, FlowGraph, FlowNode, GraphInput, Limits, MonoTime,
    Named, NodeInput, QueuePolicy, Session, SessionSettings,
};
use executor_core::error::Code;
use tests::fault::left;
use tests::flows;
use tests::random::Random;

use crate::survivors::{self, Watchdog};

/// Milliseconds until an id is answered in any case.
const DEADLINE_MS: u32 = 2_000;
/// Milliseconds that a feed waits for room: a lane whose words were destroyed stands still.
const FEED_MS: u64 = 1_000;
/// Feeds without room in a row after which the flow counts as standing still.
const REFUSED_MAX: u32 = 2;
/// Nothing of one session takes that long unless it hangs.
const WATCHDOG: Duration = Duration::from_secs(90);
/// A wait that ends this much after its deadline hung.
const LATE_MS: u64 = 3_000;

/// What sessions reported, added up.
#[derive(Debug, Default)]
struct Tally {
    sessions: u64,
    fed: u64,
    refused: u64,
    data: u64,
    torn: u64,
    faults: u64,
    codes: HashMap<u32, u64>,
    deaths: u64,
    survivor_ends: Vec<String>,
}

/// One session's settings, all from its seed.
struct Case {
    seed: u64,
    part: &'static str,
    words: u64,
    ids: u64,
    overwrite: bool,
}

impl Case {
    fn new(seed: u64, part: &'static str) -> Case {
        let mut random = Random::new(seed);
        // From one word now and then to a storm.
        let words = [1, 4, 16, 64][random.index(4)];
        Case { seed, part, words, ids: 24 + random.below(24), overwrite: random.below(4) == 0 }
    }

    fn graph(&self, tag: &str) -> FlowGraph {
        let node = |function: &str, from: &str| flows::node(function, &[from]).env(left::TAG, tag);
        let number = |n: u64| i64::try_from(n).unwrap();
        let scribble = node("scribble", "first.out")
            .attr("seed", number(self.seed))
            .attr("from", 3)
            .attr("words", number(self.words))
            .attr("part", self.part);
        let input = GraphInput::new(DType::Uint64, [-1]).max_bytes(flows::ELEMENTS as u64 * 8);
        let policy = if self.overwrite { QueuePolicy::Overwrite } else { QueuePolicy::Fifo };
        let mut inputs = Named::default();
        inputs.push("in0", NodeInput::new("scribble.out").policy(policy));
        let last = FlowNode { inputs, stall_ms: 500, ..node("pass", "scribble.out") };
        FlowGraph::new("hostile")
            .input("in", input)
            .session(SessionSettings { max_open: 16, ..SessionSettings::default() })
            .node("first", node("pass", "in"))
            .node("scribble", scribble)
            .node("last", last)
            .output("out", "last.out")
    }
}

fn deploy(case: &Case, tag: &str) -> Session {
    let checked = case.graph(tag).check().unwrap_or_else(|refused| panic!("{refused}"));
    let plan = checked.plan(&Limits::default()).unwrap_or_else(|error| panic!("{error}"));
    let namespace = case.seed.is_multiple_of(2);
    let options = DeployOptions { namespace, ..DeployOptions::default() };
    plan.deploy(&options).unwrap_or_else(|error| panic!("{error}"))
}

/// Feeds every id, each with a deadline; the ids that went in.
fn feeder(session: &Session, case: &Case, faults: &Mutex<Vec<String>>) -> Vec<u64> {
    let (mut fed, mut refused) = (Vec::new(), 0);
    for id in 1..=case.ids {
        let deadline = MonoTime::now().add_ms(FEED_MS);
        let feed = Feed {
            trans_id: Some(id),
            deadline_ms: Some(DEADLINE_MS),
            ..Feed::of(vec![flows::message(id, flows::ELEMENTS)])
        };
        let result = session.feed(feed, Some(deadline));
        if deadline.add_ms(LATE_MS) < MonoTime::now() {
            faults.lock().unwrap().push(format!("feed of {id} returned too late"));
        }
        match result {
            Ok(id) => {
                fed.push(id);
                refused = 0;
            }
            Err(error) => {
                refused += 1;
                let early = MonoTime::now() < deadline;
                if early && matches!(error.reason, FeedReason::TimedOut(_)) {
                    faults.lock().unwrap().push(format!("feed of {id} timed out too early"));
                }
            }
        }
        if refused == REFUSED_MAX || session.ended().is_some() {
            break;
        }
    }
    fed
}

/// Fetches until the feeder is done and nothing is open; the events of each id.
fn fetcher(
    session: &Session,
    tally: &mut Tally,
    done: &AtomicBool,
    faults: &Mutex<Vec<String>>,
) -> HashMap<u64, u32> {
    let mut seen = HashMap::new();
    loop {
        let last = done.load(Ordering::Acquire) && session.counts().open == 0;
        let deadline = MonoTime::now().add_ms(50);
        let result = session.fetch(Some(deadline));
        let now = MonoTime::now();
        match result {
            Ok(event) => {
                *seen.entry(event.trans_id).or_insert(0) += 1;
                match event.outcome {
                    Ok(output) => {
                        tally.data += 1;
                        let whole = flows::is_message(event.trans_id, output.bytes());
                        tally.torn += u64::from(!whole);
                    }
                    Err(failure) => *tally.codes.entry(failure.code.0).or_insert(0) += 1,
                }
            }
            Err(FetchError::TimedOut) => {
                if now < deadline || deadline.add_ms(LATE_MS) < now {
                    faults.lock().unwrap().push("fetch missed its deadline".to_owned());
                }
                if last {
                    return seen;
                }
            }
            Err(_) => return seen,
        }
    }
}

/// One session from its deployment to what is left of it; the oracle's objections.
fn run(case: &Case, tally: &mut Tally) -> Vec<String> {
    let what = format!("{} with seed {}, {} words", case.part, case.seed, case.words);
    let _watchdog = Watchdog::new(WATCHDOG, what);
    survivors::watch_panics();
    let files = left::files();
    let tag = left::new_tag(case.seed);
    let session = deploy(case, &tag);
    let watcher = session.watcher_pid();
    let supervisors = sys::procfs::children(watcher);
    let (done, faults) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let (fed, seen) = std::thread::scope(|scope| {
        let feeding = scope.spawn(|| {
            let fed = feeder(&session, case, &faults);
            done.store(true, Ordering::Release);
            fed
        });
        let seen = fetcher(&session, tally, &done, &faults);
        (feeding.join().unwrap(), seen)
    });
    let mut faults = faults.into_inner().unwrap();
    faults.extend(
        fed.iter()
            .filter(|id| seen.get(id) != Some(&1))
            .map(|id| format!("id {id} had {} events", seen.get(id).copied().unwrap_or(0))),
    );
    if let Some(ended) = session.ended()
        && ended.code == Code::SUPERVISOR_DIED
    {
        faults.push(ended.reason);
    }
    tally.sessions += 1;
    tally.fed += fed.len() as u64;
    tally.refused += case.ids - fed.len() as u64;
    tally.faults += session.queues().iter().map(|queue| queue.faults.min(1_000)).sum::<u64>();
    ends(&session, tally, &mut faults);
    let begun = Instant::now();
    session.close();
    if begun.elapsed() > Duration::from_secs(25) {
        faults.push(format!("close took {:?}", begun.elapsed()));
    }
    let pids: Vec<u32> = supervisors.into_iter().chain([watcher]).collect();
    let orphans = left::wait_gone(&tag, &pids);
    let left_files = left::files_since(&files);
    if orphans != 0 || !left_files.is_empty() {
        faults.push(format!("{orphans} processes left, and files: {left_files:?}"));
    }
    faults.extend(survivors::take_panics().into_iter().map(|text| format!("host: {text}")));
    faults
}

/// How the executors ended: a crash of one that did not scribble is a fault.
fn ends(session: &Session, tally: &mut Tally, faults: &mut Vec<String>) {
    for (index, node) in session.nodes().iter().enumerate() {
        let log = survivors::log_of(session, index);
        for line in survivors::ends(&log) {
            if node.node == "scribble" {
                tally.deaths += 1;
            } else if survivors::is_crash(line) {
                faults.push(format!("survivor {}: {line}\n{log}", node.label));
            } else {
                tally.survivor_ends.push(format!("{}: {line}", node.label));
            }
        }
    }
}

/// Seeds one after the other until the time is up.
fn seeds(part: &'static str) -> Tally {
    let (begun, mut tally) = (Instant::now(), Tally::default());
    for seed in crate::first_seed().. {
        if begun.elapsed() > crate::time_limit() {
            break;
        }
        let case = Case::new(seed, part);
        let faults = run(&case, &mut tally);
        assert!(
            faults.is_empty(),
            "{part}, seed {seed}, {} words{}: {}",
            case.words,
            if case.overwrite { ", overwriting" } else { "" },
            faults.join("\n")
        );
    }
    let named = |(code, count): (&u32, &u64)| format!("{}: {count}", Code(*code));
    let codes: Vec<String> = tally.codes.iter().map(named).collect();
    println!(
        "{part}: {} sessions, {} ids fed, {} refused, {} data ({} torn), {} queue faults, {} \
         deaths of the scribbler, {} ends of others; codes: {}",
        tally.sessions,
        tally.fed,
        tally.refused,
        tally.data,
        tally.torn,
        tally.faults,
        tally.deaths,
        tally.survivor_ends.len(),
        codes.join(", ")
    );
    tally.survivor_ends.iter().take(10).for_each(|line| println!("  {line}"));
    assert!(tally.sessions > 0 && tally.fed > 0);
    tally
}

#[test]
fn shared_section() {
    seeds("shared");
}

#[test]
fn private_part() {
    seeds("private");
}

#[test]
fn own_partition() {
    let tally = seeds("partition");
    // Nothing but the bytes of its own messages can be wrong: no word of a queue.
    assert_eq!(tally.faults, 0);
}

#[test]
fn everything() {
    seeds("all");
}
