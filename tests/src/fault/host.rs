//! Sessions whose host is a child process of the test: it is killed, or stopped while executors
//! die.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use sys::clock::MonoTime;
use sys::pidfd::PidFd;
use sys::signal::Signal;

use super::busy::{Deployed, deploy, feeder, fetcher, leaks};
use super::{Config, Events, Report, left};
use crate::random::Random;

/// The host's side, in the child: says who its processes are, works, prints its report.
pub fn host_role(config: &Config<'_>, tag: &str) {
    let Deployed { session, .. } = deploy(config, tag);
    let watcher = session.watcher_pid();
    let supervisor = sys::procfs::children(watcher).first().copied().unwrap_or(0);
    println!("READY {watcher} {supervisor}");
    let _ = std::io::stdout().flush();
    let (stop, fed, finished) = (AtomicBool::new(true), AtomicU64::new(0), AtomicBool::new(false));
    let mut report = std::thread::scope(|scope| {
        scope.spawn(|| {
            feeder(&session, config, &stop, &fed);
            finished.store(true, Ordering::Release);
        });
        let fetching =
            scope.spawn(|| fetcher(&session, config, &|| finished.load(Ordering::Acquire)));
        fetching.join().unwrap_or_default().finish(&session.counts(), config)
    });
    (report.leaked_mbufs, report.leaked_blocks) = leaks(&session, config);
    session.close();
    println!("REPORT {}", serde_json::to_string(&report).unwrap_or_default());
}

struct Hosted {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
    pids: Vec<u32>,
}

fn start(config: &Config<'_>, tag: &str) -> Hosted {
    let namespace = if config.namespace { "1" } else { "0" };
    let program = std::env::current_exe().unwrap_or_default();
    let mut child = Command::new(program)
        .args(["role", "host", tag, namespace])
        .args([config.seed, config.ids, u64::from(config.patience_ms)].map(|n| n.to_string()))
        .args(config.subject.folder())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the test's own program starts");
    let mut lines = BufReader::new(child.stdout.take().expect("stdout is piped"));
    let mut line = String::new();
    let _ = lines.read_line(&mut line);
    let pids = line.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
    Hosted { child, lines, pids }
}

/// Kills the host at a random moment; looks for processes and files left.
#[must_use]
pub fn host_killed(config: &Config<'_>) -> Report {
    let files = left::files();
    let tag = left::new_tag(config.seed);
    let mut hosted = start(config, &tag);
    let moment = Random::new(config.seed).below(5 * config.subject.rhythm_us());
    std::thread::sleep(Duration::from_micros(moment));
    let _ = hosted.child.kill();
    let _ = hosted.child.wait();
    let mut report = Report::default();
    report.events.insert("host".to_owned(), Events { kill: 1, stop: 0 });
    report.orphans = left::wait_gone(&tag, &hosted.pids);
    report.files_left = left::count_since(&files);
    report
}

/// Stops the host, kills an executor meanwhile, sees its successor start, and lets the host go on.
#[must_use]
pub fn host_stopped(config: &Config<'_>) -> Report {
    let files = left::files();
    let tag = left::new_tag(config.seed);
    let mut hosted = start(config, &tag);
    let mut random = Random::new(config.seed);
    let host = PidFd::open(hosted.child.id());
    std::thread::sleep(Duration::from_micros(random.below(config.subject.rhythm_us())));
    let stopped = host.as_ref().is_ok_and(|host| host.signal(Signal::STOP).is_ok());
    let revived = kill_one_and_wait(&tag, &mut random);
    let _ = host.map(|host| host.signal(Signal::CONT));
    let mut report = read_report(&mut hosted);
    report.events.insert("host".to_owned(), Events { kill: 0, stop: u64::from(stopped) });
    report.hangs += u64::from(!revived);
    let _ = hosted.child.wait();
    report.orphans = left::wait_gone(&tag, &hosted.pids);
    report.files_left = left::count_since(&files);
    report
}

/// Kills one tagged executor and waits until another process of that name runs; true when it does
/// (or the flow had ended before).
fn kill_one_and_wait(tag: &str, random: &mut Random) -> bool {
    let executors = || -> Vec<u32> {
        let tagged = left::tagged(tag).into_iter();
        tagged
            .filter(|pid| sys::procfs::comm(*pid).is_some_and(|c| c.ends_with("-executor")))
            .collect()
    };
    let before = executors();
    if before.is_empty() {
        return true;
    }
    let victim = before[random.index(before.len())];
    if PidFd::open(victim).and_then(|pidfd| pidfd.signal(Signal::KILL)).is_err() {
        return true;
    }
    let watchdog = MonoTime::now().add_ms(10_000);
    while MonoTime::now() < watchdog {
        if executors().iter().any(|pid| !before.contains(pid)) {
            return true;
        }
        std::thread::yield_now();
    }
    println!("no successor of {victim} while the host was stopped");
    false
}

fn read_report(hosted: &mut Hosted) -> Report {
    let mut line = String::new();
    while hosted.lines.read_line(&mut line).is_ok_and(|read| read > 0) {
        if let Some(report) = line.strip_prefix("REPORT ") {
            return serde_json::from_str(report).unwrap_or_default();
        }
        line.clear();
    }
    Report { hangs: 1, ..Report::default() }
}
