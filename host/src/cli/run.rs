//! `dflow run`: check, plan, deploy, feed from one thread, fetch and print in another, close.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use executor_core::error::Code;
use indicatif::ProgressBar;
use sys::clock::MonoTime;

use super::inputs::{self, Item};
use super::report::{Known, Report};
use super::{Failure, exit, interrupt, logs, progress, stats};
use crate::deploy::DeployOptions;
use crate::error::io_text;
use crate::plan::Limits;
use crate::session::{Ended, Feed, FeedReason, FetchError, Session};
use crate::{graph_file, notice};

/// Feed and fetch look around this often.
const SLICE_MS: u64 = 100;
/// Waiting for room is said after so long.
const WARN_MS: u64 = 10_000;
/// After an interrupt, open ids are waited for this long.
const GRACE_MS: u64 = 3_000;

const EXIT_CODES: &str = "\
Each (id, output) is one line on stdout, fields set apart by tabs:
  FILE  OUTPUT  DTYPE[SHAPE]  BYTES  MILLISECONDS  [VALUES]
  FILE  OUTPUT  error CODE (NAME)  NODE or -  REASON
A file that can't be read or does not fit is such an error line too, with `-` for the output.

Exit codes:
    0  every id came out as data on every output
    1  graph, plan or deployment was refused or failed, and nothing was fed; or results cannot be
       written (the summary on stderr says what was fed)
    2  wrong usage
    3  some ids ended with a code, or some files could not be fed
    4  the flow ended by itself: a node failed for good, or the supervisor died
  130  interrupted

SIGINT or SIGTERM ends a start-up; later it stops feeding and waits a few seconds for what is
open. A second one ends at once.";

/// Arguments of `dflow run`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct Args {
    /// Graph file (.yaml, .yml or .json)
    graph: PathBuf,
    /// Files for a graph input, or folders of files (sorted by name, without hidden ones), or `-`
    /// for stdin; more paths may follow
    #[arg(short, long, value_name = "NAME=PATH", num_args = 1..)]
    input: Vec<String>,
    /// Take the files of folders in folders, too
    #[arg(short, long)]
    recursive: bool,
    /// Write each output's bytes to a file of this folder
    #[arg(short, long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Show the first N values of each output in a further field
    #[arg(long, value_name = "N", default_value_t = 0)]
    values: usize,
    /// Feed everything so many times
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    repeat: u64,
    /// Answer an id with DEADLINE after so many milliseconds
    #[arg(long, value_name = "MS")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    deadline_ms: Option<u32>,
    /// Keep the nodes' logs as files of this folder
    #[arg(long, value_name = "DIR")]
    keep_logs: Option<PathBuf>,
    /// Show counters of nodes and queues at the end
    #[arg(long)]
    stats: bool,
    /// Compile models anew, without looking at or adding to the cache
    #[arg(long)]
    no_cache: bool,
    /// Do not use a PID namespace for the executors, even where it is permitted
    #[arg(long)]
    no_namespace: bool,
}

/// Runs the command; its exit code.
pub(super) fn run(args: &Args) -> Result<u8, Failure> {
    let mut graph = graph_file::read(&args.graph)?;
    graph.no_cache = args.no_cache;
    let plan = graph.check()?.plan(&Limits::of_machine())?;
    let items = inputs::items(&args.input, &plan.host, args.recursive)?;
    for folder in [&args.out, &args.keep_logs].into_iter().flatten() {
        writable(folder)?;
    }
    interrupt::install()?;
    let options = DeployOptions {
        namespace: !args.no_namespace,
        timing: args.stats,
        stop: Some(interrupt::flag()),
        ..DeployOptions::default()
    };
    let ids = (items.len() as u64).saturating_mul(args.repeat);
    let ports = plan.host.outputs.len() as u64;
    let bar = progress::bar(ids.saturating_mul(ports));
    let lines = bar.clone();
    notice::to(move |line| lines.suspend(|| notice::to_stderr(&format!("{line}\n"))));
    let session = plan.deploy(&options)?;
    let report = Report::new(session.plan(), args.out.clone(), args.values, bar.clone());
    let flow = Running { args, session: &session, items: &items, bar, report };
    let code = flow.drive()?;
    let kept = args.keep_logs.as_ref().map(|folder| (folder, logs::keep(&session)));
    session.close();
    if let Some((folder, kept)) = kept {
        kept.write(folder)?;
    }
    Ok(code)
}

/// Makes the folder, and a file in it for a moment: what can't be written later is refused now.
fn writable(folder: &Path) -> Result<(), Failure> {
    let refused = |what: &str, error: std::io::Error| {
        let what = format!("can't {what} {}", folder.display());
        Failure::system(&what, &io_text(&error), "a folder to write to", "name another one")
    };
    std::fs::create_dir_all(folder).map_err(|error| refused("make the folder", error))?;
    let probe = folder.join(format!(".dflow-{}", std::process::id()));
    if let Err(error) = std::fs::write(&probe, b".") {
        // A full disk makes the file and writes nothing into it.
        let _nothing_left = std::fs::remove_file(&probe);
        return Err(refused("write to the folder", error));
    }
    std::fs::remove_file(&probe).map_err(|error| refused("remove a file of the folder", error))
}

struct Running<'a> {
    args: &'a Args,
    session: &'a Session,
    items: &'a [Item],
    bar: ProgressBar,
    report: Report,
}

/// What feeding and fetching tell each other.
#[derive(Debug, Default)]
struct Progress {
    /// Ids fed.
    fed: AtomicU64,
    /// Nothing more will be fed.
    all_fed: AtomicBool,
}

impl Running<'_> {
    fn drive(&self) -> Result<u8, Failure> {
        let started = Instant::now();
        let progress = Progress::default();
        let ended = std::thread::scope(|scope| {
            scope.spawn(|| self.feed_all(&progress));
            self.fetch_all(&progress)
        });
        // All answers can have been fetched before the end was seen.
        let ended = ended.or_else(|| self.session.ended());
        self.bar.finish_and_clear();
        let counts = self.report.counts();
        let seconds = started.elapsed().as_secs_f64();
        let fed = progress.fed.load(Ordering::Acquire);
        let mut text = stats::summary(self.session, fed, &counts, seconds);
        text.push('\n');
        if self.args.stats {
            text.push_str(&stats::tables(self.session));
        }
        notice::to_stderr(&text);
        if let Some(failure) = counts.failure {
            return Err(failure);
        }
        if let Some(ended) = ended {
            let (reason, log) = (ended.reason, ended.log);
            notice::to_stderr(&format!("error: the flow ended: {reason}\n{log}"));
            return Ok(exit::ENDED);
        }
        if counts.unwritten > 0 {
            let count = counts.unwritten;
            notice::to_stderr(&format!("{count} lines were not written: nothing reads stdout\n"));
        }
        let open = self.session.counts().open;
        if open > 0 {
            notice::to_stderr(&format!("{open} ids were not finished\n"));
        }
        Ok(match (interrupt::asked(), counts.errors) {
            (true, _) if !counts.unread => exit::INTERRUPTED,
            (_, 0) => exit::DONE,
            _ => exit::CODES,
        })
    }

    fn feed_all(&self, progress: &Progress) {
        let times =
            std::iter::repeat_n((), usize::try_from(self.args.repeat).unwrap_or(usize::MAX));
        for item in times.flat_map(|()| self.items) {
            if interrupt::asked() || self.session.ended().is_some() {
                break;
            }
            match item.tensors(&self.session.plan().host) {
                Ok(tensors) => {
                    let feed = Feed { deadline_ms: self.args.deadline_ms, ..Feed::of(tensors) };
                    self.feed(item, feed, progress);
                }
                Err(_) if interrupt::asked() => break,
                Err(reason) => self.report.not_fed(item, Code::PARAM_INVALID, &reason),
            }
        }
        progress.all_fed.store(true, Ordering::Release);
    }

    fn feed(&self, item: &Item, mut feed: Feed, progress: &Progress) {
        let begun = MonoTime::now();
        // The deadline of an id counts from here, too: nobody may ever take what is fed.
        let deadline = self.args.deadline_ms.map(|ms| begun.add_ms(u64::from(ms)));
        let mut warn = begun.add_ms(WARN_MS);
        loop {
            match self.session.feed(feed, Some(MonoTime::now().add_ms(SLICE_MS))) {
                Ok(id) => {
                    self.report.fed(id, Known::of(item));
                    progress.fed.fetch_add(1, Ordering::AcqRel);
                    return;
                }
                Err(refused) => match refused.reason {
                    FeedReason::TimedOut(text) if !interrupt::asked() => {
                        let now = MonoTime::now();
                        if deadline.is_some_and(|deadline| deadline.is_past(now)) {
                            let reason = format!("not fed before its deadline: {text}");
                            return self.report.not_fed(item, Code::DEADLINE, &reason);
                        }
                        if warn.is_past(now) {
                            let seconds = now.since_ns(begun) / 1_000_000_000;
                            notice::say(&format!("waiting for room for {seconds} s: {text}"));
                            warn = now.add_ms(6 * WARN_MS);
                        }
                        feed = *refused.feed;
                    }
                    FeedReason::TimedOut(_) | FeedReason::Ended(_) => return,
                    reason => {
                        return self.report.not_fed(item, reason.code(), &reason.to_string());
                    }
                },
            }
        }
    }

    /// Fetches until everything fed is answered; why the session ended, if it ended by itself.
    fn fetch_all(&self, progress: &Progress) -> Option<Ended> {
        let ports = self.session.plan().host.outputs.len() as u64;
        let mut fetched = 0;
        let mut last = None;
        loop {
            // In this order: what is fed before `all_fed` is counted.
            let all_fed = progress.all_fed.load(Ordering::Acquire);
            if all_fed && fetched == progress.fed.load(Ordering::Acquire) * ports {
                return None;
            }
            let now = MonoTime::now();
            if interrupt::asked() && last.get_or_insert(now.add_ms(GRACE_MS)).is_past(now) {
                return None;
            }
            match self.session.fetch(Some(now.add_ms(SLICE_MS))) {
                Ok(event) => {
                    fetched += 1;
                    self.report.event(&event);
                }
                Err(FetchError::TimedOut) => {}
                Err(FetchError::Ended(ended)) => return Some(ended),
            }
        }
    }
}
