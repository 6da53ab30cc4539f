//! One session whose executors are killed and stopped at random while ids flow through it.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use dflow::plan::Work;
use dflow::session::Counts;
use dflow::{DeployOptions, Event, Feed, FetchError, Limits, MonoTime, Session};
use executor_core::error::Code;
use executor_core::owner::Owner;
use sys::pidfd::PidFd;
use sys::signal::Signal;

use super::{Config, Events, Report, left};
use crate::random::Random;

/// A session and its executors: their labels, and what they are called in reports.
pub(super) struct Deployed {
    pub(super) session: Session,
    pub(super) executors: Vec<(String, String)>,
}

/// Deploys with a tag in every executor's environment.
pub(super) fn try_deploy(config: &Config<'_>, tag: &str) -> Result<Deployed, String> {
    let mut plan =
        config.subject.flow()?.plan(&Limits::default()).map_err(|error| error.to_string())?;
    for executor in &mut plan.executors {
        executor.env.insert(left::TAG.to_owned(), tag.to_owned());
        executor.redeliver &= config.redeliver;
    }
    let called = |executor: &dflow::plan::ExecutorPlan| match executor.work {
        Work::Device(_) => "npu-executor".to_owned(),
        _ => executor.label.clone(),
    };
    let executors = plan.processes().map(|one| (one.label.clone(), called(one))).collect();
    let options = DeployOptions {
        namespace: config.namespace,
        sabotage: config.sabotage,
        ..DeployOptions::default()
    };
    let session = plan.deploy(&options).map_err(|error| error.to_string())?;
    Ok(Deployed { session, executors })
}

/// As [`try_deploy`], where nothing is wrong with flow and machine.
pub(super) fn deploy(config: &Config<'_>, tag: &str) -> Deployed {
    let name = config.subject.name();
    try_deploy(config, tag).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Events of every id, as the fetcher saw them.
#[derive(Debug, Default)]
pub(super) struct Seen {
    ids: HashMap<u64, u64>,
    report: Report,
}

impl Seen {
    fn note(&mut self, event: &Event, config: &Config<'_>) {
        let ports = self.ids.entry(event.trans_id).or_insert(0);
        let bit = 1 << event.port;
        if *ports & bit != 0 {
            self.report.duplicates += 1;
        }
        *ports |= bit;
        match &event.outcome {
            Ok(output) => {
                let whole = config.subject.is_result(event.trans_id, output.bytes());
                self.report.torn += u64::from(!whole);
            }
            Err(failure) => {
                self.report.coded += 1;
                self.report.hangs += u64::from(failure.code == Code::DEADLINE);
            }
        }
    }

    pub(super) fn finish(mut self, counts: &Counts, config: &Config<'_>) -> Report {
        let ports = (1 << config.subject.outputs()) - 1;
        self.report.fed = counts.ledger.fed;
        self.report.late = counts.ledger.late;
        self.report.terminal = self.ids.values().filter(|seen| **seen == ports).count() as u64;
        self.report
    }
}

/// Feeds until `stop` is set and at least `config.ids` were fed.
pub(super) fn feeder(session: &Session, config: &Config<'_>, stop: &AtomicBool, fed: &AtomicU64) {
    let watchdog = || MonoTime::now().add_ms(u64::from(config.patience_ms));
    let mut id = 0;
    while id < config.ids || !stop.load(Ordering::Acquire) {
        let feed = Feed {
            trans_id: Some(id + 1),
            deadline_ms: Some(config.patience_ms),
            ..Feed::of(vec![config.subject.message(id + 1)])
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
pub(super) fn fetcher(session: &Session, config: &Config<'_>, done: &dyn Fn() -> bool) -> Seen {
    let mut seen = Seen::default();
    loop {
        let slice = MonoTime::now().add_ms(100);
        match session.fetch(Some(slice)) {
            Ok(event) => seen.note(&event, config),
            Err(FetchError::TimedOut) if done() && session.counts().open == 0 => return seen,
            Err(FetchError::TimedOut) => {}
            Err(_) => return seen,
        }
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
pub(super) fn leaks(session: &Session, config: &Config<'_>) -> (u64, u64) {
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
pub fn executors(config: &Config<'_>) -> Report {
    let files = left::files();
    let tag = left::new_tag(config.seed);
    let Deployed { session, executors } = deploy(config, &tag);
    let (stop, fed, finished) = (AtomicBool::new(false), AtomicU64::new(0), AtomicBool::new(false));
    let mut report = std::thread::scope(|scope| {
        let feeding = scope.spawn(|| {
            feeder(&session, config, &stop, &fed);
            finished.store(true, Ordering::Release);
        });
        let fetching =
            scope.spawn(|| fetcher(&session, config, &|| finished.load(Ordering::Acquire)));
        let events = harass(&session, &executors, config);
        stop.store(true, Ordering::Release);
        let _ = feeding.join();
        let seen = fetching.join().unwrap_or_default();
        let mut report = seen.finish(&session.counts(), config);
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
    report.files_left = left::count_since(&files);
    report
}

/// Kills and stops executors in random order until each had its share.
fn harass(
    session: &Session,
    executors: &[(String, String)],
    config: &Config<'_>,
) -> BTreeMap<String, Events> {
    let (mut random, rhythm) = (Random::new(config.seed), config.subject.rhythm_us());
    let mut events: BTreeMap<String, Events> =
        executors.iter().map(|(_, target)| (target.clone(), Events::default())).collect();
    let mut last: HashMap<&str, u32> = HashMap::new();
    let watchdog =
        MonoTime::now().add_ms(120_000 + 100 * (config.events.kill + config.events.stop));
    while MonoTime::now() < watchdog && session.ended().is_none() {
        let lacks = |target: &str| {
            let had = events.get(target).copied().unwrap_or_default();
            had.kill < config.events.kill || had.stop < config.events.stop
        };
        let open: Vec<_> = executors.iter().filter(|(_, target)| lacks(target)).collect();
        if open.is_empty() {
            break;
        }
        let (label, target) = open[random.index(open.len())];
        // A pause between events is the load's rhythm, not a wait for anything.
        std::thread::sleep(Duration::from_micros(random.below(rhythm)));
        let node = session.nodes().into_iter().find(|node| node.label == *label);
        let pid = node.map_or(0, |node| node.pid);
        if pid == 0 || last.get(label.as_str()) == Some(&pid) {
            continue;
        }
        let Ok(pidfd) = PidFd::open(pid) else { continue };
        let count = events.entry(target.clone()).or_default();
        let kill = count.stop >= config.events.stop
            || (count.kill < config.events.kill && random.below(2) == 0);
        if kill {
            if pidfd.signal(Signal::KILL).is_ok() {
                last.insert(label, pid);
                count.kill += 1;
            }
        } else if pidfd.signal(Signal::STOP).is_ok() {
            std::thread::sleep(Duration::from_micros(random.below(2 * rhythm)));
            let _ = pidfd.signal(Signal::CONT);
            count.stop += 1;
        }
    }
    events
}
