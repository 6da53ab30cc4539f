//! Sessions whose supervisor or watcher is killed or stopped.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use sys::pidfd::PidFd;
use sys::signal::Signal;

use super::busy::{Deployed, deploy, feeder, fetcher, leaks};
use super::{Config, Events, Report, left};
use crate::random::Random;

/// One session: `target` is "supervisor" or "watcher"; `kill` or stop it once at a random moment.
#[must_use]
pub fn supervisor(config: &Config<'_>, target: &str, kill: bool) -> Report {
    let files = left::files();
    let tag = left::new_tag(config.seed);
    let Deployed { session, .. } = deploy(config, &tag);
    let watcher = session.watcher_pid();
    let supervisors = sys::procfs::children(watcher);
    let victim = if target == "watcher" { Some(watcher) } else { supervisors.first().copied() };
    let pidfd = victim.and_then(|pid| PidFd::open(pid).ok());
    let (stop, fed, finished) = (AtomicBool::new(false), AtomicU64::new(0), AtomicBool::new(false));
    let (mut random, rhythm) = (Random::new(config.seed), config.subject.rhythm_us());
    let mut report = std::thread::scope(|scope| {
        let feeding = scope.spawn(|| {
            feeder(&session, config, &stop, &fed);
            finished.store(true, Ordering::Release);
        });
        let fetching =
            scope.spawn(|| fetcher(&session, config, &|| finished.load(Ordering::Acquire)));
        std::thread::sleep(Duration::from_micros(random.below(5 * rhythm)));
        let signalled = pidfd.as_ref().is_some_and(|pidfd| {
            let signal = if kill { Signal::KILL } else { Signal::STOP };
            pidfd.signal(signal).is_ok()
        });
        if !kill {
            std::thread::sleep(Duration::from_micros(random.below(8 * rhythm)));
            let _ = pidfd.as_ref().map(|pidfd| pidfd.signal(Signal::CONT));
        }
        stop.store(true, Ordering::Release);
        let _ = feeding.join();
        let seen = fetching.join().unwrap_or_default();
        let mut report = seen.finish(&session.counts(), config);
        let count =
            Events { kill: u64::from(kill && signalled), stop: u64::from(!kill && signalled) };
        report.events.insert(target.to_owned(), count);
        report
    });
    if kill && session.ended().is_none() {
        println!("{target} was killed and the session goes on");
        report.hangs += 1;
    }
    if !kill {
        (report.leaked_mbufs, report.leaked_blocks) = leaks(&session, config);
    }
    session.close();
    let pids: Vec<u32> = supervisors.into_iter().chain([watcher]).collect();
    report.orphans = left::wait_gone(&tag, &pids);
    report.files_left = left::count_since(&files);
    report
}
