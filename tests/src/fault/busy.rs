//! One session whose executors are killed and stopped at random while ids flow through it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use dflow::session::Counts;
use dflow::{DeployOptions, Event, Feed, FetchError, Limits, MonoTime, Session};
use executor_core::error::Code;
use executor_core::owner::Owner;
use sys::pidfd::PidFd;
use sys::signal::Signal;

use super::{Config, Report, left};
use crate::flows;
use crate::random::Random;

/// Deploys the diamond with a tag in every executor's environment.
pub(super) fn deploy(config: &Config, tag: &str) -> Session {
    let checked = flows::diamond(tag).check().unwrap_or_else(|refused| panic!("{refused}"));
    let plan = checked.plan(&Limits::default()).unwrap_or_else(|error| panic!("{error}"));
    let options = DeployOptions {
        namespace: config.namespace,
        sabotage: config.sabotage,
        ..DeployOptions::default()
    };
    plan.deploy(&options).unwrap_or_else(|error| panic!("{error}"))
}

/// Events of every id, as the fetcher saw them.
#[derive(Debug, Default)]
pub(super) struct Seen {
    ids: HashMap<u64, u64>,
    report: Report,
}

impl Seen {
    pub(super) fn note(&mut self, event: &Event) {
        let ports = self.ids.entry(event.trans_id).or_insert(0);
        let bit = 1 << event.port;
        if *ports & bit != 0 {
            self.report.duplicates += 1;
        }
        *ports |= bit;
        match &event.outcome {
            Ok(output) => {
                let whole = flows::is_message(event.trans_id, output.bytes());
                self.report.torn += u64::from(!whole);
            }
            Err(failure) => {
                self.report.coded += 1;
                self.report.hangs += u64::from(failure.code == Code::DEADLINE);
            }
        }
    }

    pub(super) fn finish(mut self, counts: &Counts, ports: u64) -> Report {
        self.report.fed = counts.ledger.fed;
        self.report.late = counts.ledger.late;
        self.report.terminal = self.ids.values().filter(|seen| **seen == ports).count() as u64;
        self.report
    }
}

/// Feeds until `stop` is set and at least `config.ids` were fed.
pub(super) fn feeder(session: &Session, config: &Config, stop: &AtomicBool, fed: &AtomicU64) {
    let watchdog = || MonoTime::now().add_ms(u64::from(config.patience_ms));
    let mut id = 0;
    while id < config.ids || !stop.load(Ordering::Acquire) {
        let feed = Feed {
            trans_id: Some(id + 1),
            deadline_ms: Some(config.patience_ms),
            ..Feed::of(vec![flows::message(id + 1, flows::ELEMENTS)])
        };
        match session.feed(feed, Some(watchdog())) {
            Ok(_) => id += 1,
            Err(error) => {
                if session.ended().is_none() {
                    println!("feed of {}: {error}", id + 1);
                }
                break;
            }
        }
        fed.store(id, Ordering::Release);
    }
    fed.store(id, Ordering::Release);
}

/// Fetches until every fed id ended or the session has; then notes what is still in use.
pub(super) fn fetcher(session: &Session, config: &Config, done: &dyn Fn() -> bool) -> Seen {
    let mut seen = Seen::default();
    loop {
        let slice = MonoTime::now().add_ms(100);
        match session.fetch(Some(slice)) {
            Ok(event) => seen.note(&event),
            Err(FetchError::TimedOut) if done() && session.counts().open == 0 => return seen,
            Err(FetchError::TimedOut) => {}
            Err(_) => return seen,
        }
        let _ = config;
    }
}

/// Mbufs that every executor keeps in hand for its next control reply: at most one each, empty.
fn reserves(session: &Session) -> u32 {
    let mut slots: Vec<u32> = session
        .held()
        .filter(|held| held.data_len == 0 && held.input.0.is_none())
        .filter_map(|held| match held.owner {
            Owner::Worker { slot, .. } if slot == held.home.0 && slot != 0 => Some(slot),
            _ => None,
        })
        .collect();
    slots.sort_unstable();
    slots.dedup();
    u32::try_from(slots.len()).unwrap_or(0)
}

/// Waits for the sweeps' last repairs; entries and blocks still in use at the watchdog.
pub(super) fn leaks(session: &Session, config: &Config) -> (u64, u64) {
    let watchdog = MonoTime::now().add_ms(5_000);
    loop {
        let (usage, reserves) = (session.usage(), reserves(session));
        let entries = usage.entries.saturating_sub(reserves);
        let blocks = usage.blocks.saturating_sub(reserves);
        if entries + blocks == 0 || MonoTime::now() >= watchdog {
            if entries + blocks != 0 && config.sabotage == 0 {
                session.held().for_each(|held| println!("left: {held:?}"));
            }
            return (u64::from(entries), u64::from(blocks));
        }
        std::thread::yield_now();
    }
}

/// Runs one session with kills and stops of its executors.
#[must_use]
pub fn executors(config: &Config) -> Report {
    let files = left::files();
    let tag = left::new_tag(config.seed);
    let session = deploy(config, &tag);
    let (stop, fed, finished) = (AtomicBool::new(false), AtomicU64::new(0), AtomicBool::new(false));
    let mut report = std::thread::scope(|scope| {
        let feeding = scope.spawn(|| {
            feeder(&session, config, &stop, &fed);
            finished.store(true, Ordering::Release);
        });
        let fetching =
            scope.spawn(|| fetcher(&session, config, &|| finished.load(Ordering::Acquire)));
        let events = harass(&session, config);
        stop.store(true, Ordering::Release);
        let _ = feeding.join();
        let seen = fetching.join().unwrap_or_default();
        let mut report = seen.finish(&session.counts(), 0b11);
        report.events = events;
        report
    });
    if let Some(ended) = session.ended() {
        println!("the session ended: {}", ended.reason);
        report.hangs += 1;
    }
    (report.leaked_mbufs, report.leaked_blocks) = leaks(&session, config);
    let watcher = session.watcher_pid();
    let supervisors = sys::procfs::children(watcher);
    session.close();
    let pids: Vec<u32> = supervisors.into_iter().chain([watcher]).collect();
    report.orphans = left::wait_gone(&tag, &pids);
    report.files_left = left::files_since(&files).len() as u64;
    report
}

/// Kills and stops executors in random order until each had its share.
fn harass(session: &Session, config: &Config) -> std::collections::BTreeMap<String, super::Events> {
    let mut random = Random::new(config.seed);
    let mut events: std::collections::BTreeMap<String, super::Events> =
        session.nodes().into_iter().map(|node| (node.label, super::Events::default())).collect();
    let mut last: HashMap<String, u32> = HashMap::new();
    let watchdog =
        MonoTime::now().add_ms(120_000 + 100 * (config.events.kill + config.events.stop));
    while MonoTime::now() < watchdog && session.ended().is_none() {
        let open: Vec<String> = events
            .iter()
            .filter(|(_, e)| e.kill < config.events.kill || e.stop < config.events.stop)
            .map(|(label, _)| label.clone())
            .collect();
        if open.is_empty() {
            break;
        }
        let label = &open[random.index(open.len())];
        let node = session.nodes().into_iter().find(|node| node.label == *label);
        let pid = node.map_or(0, |node| node.pid);
        let count = events.entry(label.clone()).or_default();
        // A pause between events is the load's rhythm, not a wait for anything.
        std::thread::sleep(Duration::from_micros(random.below(4_000)));
        if pid == 0 || last.get(label) == Some(&pid) {
            continue;
        }
        let Ok(pidfd) = PidFd::open(pid) else { continue };
        let kill = count.stop >= config.events.stop
            || (count.kill < config.events.kill && random.below(2) == 0);
        if kill {
            if pidfd.signal(Signal::KILL).is_ok() {
                last.insert(label.clone(), pid);
                count.kill += 1;
            }
        } else if pidfd.signal(Signal::STOP).is_ok() {
            std::thread::sleep(Duration::from_micros(random.below(8_000)));
            let _ = pidfd.signal(Signal::CONT);
            count.stop += 1;
        }
    }
    events
}
