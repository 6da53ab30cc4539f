//! The demo from beginning to end.

use crate::args::Args;
use crate::chaos::{self, Kill};
use crate::hop::Hop;
use crate::input::{self, Inputs};
use crate::outcome::Outcome;
use crate::processes::Processes;
use crate::reference::{self, Reference};
use crate::report::{self, Report};
use crate::run::{self, Plan, Run};
use crate::style::Style;
use crate::table::{self, Row};
use crate::{flow, hop, verdict};
use dflow::plan::bytes_text;
use dflow::{CheckedFlow, Session};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use std::io::Write;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// How long processes and memory have to come to rest.
const SETTLE: Duration = Duration::from_secs(5);

/// Runs the demo; true when every check holds.
///
/// # Errors
/// Nothing could be fed, or the flow could not be deployed.
pub(crate) fn run(args: &Args) -> Result<bool, String> {
    let style = Style::of_stdout();
    let inputs = input::collect(args)?;
    let flow = flow::load(&args.graph, &inputs.pages)?;
    if !args.json {
        print_heading(&inputs, &flow, style);
    }
    let reference = match args.no_check {
        true => None,
        false => {
            let bar = bar(Some(inputs.pages.len() as u64), "one process");
            let reference = reference::run(&flow, &inputs.pages, || bar.inc(1))?;
            bar.finish_and_clear();
            Some(reference)
        }
    };
    let demo = Demo { args, inputs: &inputs, reference: reference.as_ref(), style };
    let redelivers = flow.graph().nodes.iter().all(|(_, node)| node.redeliver);
    let session = flow::deploy(flow.clone())?;
    if !args.json {
        let plan = session.plan();
        let (processes, memory) = (plan.executors.len(), bytes_text(plan.bytes()));
        say(&format!("{processes} processes, {memory} of shared memory\n"));
    }
    let hop = hop::measure(&session, &flow)?;
    let (rows, report) = demo.run(session, hop, redelivers);
    if args.json {
        say(&report.json(demo.json_rows(&rows)).to_string());
    } else {
        say(&format!("\n{}", report.text(style)));
    }
    Ok(report.holds())
}

fn print_heading(inputs: &Inputs, flow: &CheckedFlow, style: Style) {
    say(&style.bold(&flow::chain_text(flow)));
    let plural = |count: usize, one: &str| match count {
        1 => format!("1 {one}"),
        count => format!("{count} {one}s"),
    };
    let mut parts = Vec::new();
    let files = inputs.pages.len() - inputs.rendered;
    if files > 0 {
        parts.push(plural(files, "image file"));
    }
    if inputs.rendered > 0 {
        parts.push(format!("{} rendered by code", plural(inputs.rendered, "page")));
    }
    if inputs.skipped > 0 {
        parts.push(format!("{} of other kinds skipped", plural(inputs.skipped, "file")));
    }
    say(&parts.join(", "));
    for (name, reason) in &inputs.refused {
        say(&format!("{} {name}: {reason}", style.red("✗")));
    }
}

/// A bar on the terminal's stderr; without `count` a line that counts.
fn bar(count: Option<u64>, what: &'static str) -> ProgressBar {
    let bar = count.map_or_else(ProgressBar::no_length, ProgressBar::new).with_message(what);
    let look = match count {
        Some(_) => " {msg:12} {wide_bar} {pos}/{len} ",
        None => " {msg:12} {pos} pages  {elapsed} ",
    };
    if let Ok(style) = ProgressStyle::with_template(look) {
        bar.set_style(style.progress_chars("━╸─"));
    }
    bar
}

struct Demo<'a> {
    args: &'a Args,
    inputs: &'a Inputs,
    reference: Option<&'a Reference>,
    style: Style,
}

impl Demo<'_> {
    fn run(&self, session: Session, hop: Hop, redelivers: bool) -> (Vec<Row>, Report) {
        // The last blank page is still being put away.
        settle(&session, 0);
        let before = session.nodes();
        let (run, rows, kills) = self.send(&session);
        let left = settle(&session, kills.len());
        let nodes = report::sums(&session, &before);
        let outcomes = self.reference.map(|reference| reference.outcomes.as_slice());
        let mut checks = vec![verdict::ids(&run, &session)];
        checks.push(verdict::data(&rows, outcomes, !redelivers));
        checks.extend(verdict::skews(&self.inputs.pages, &rows));
        checks.extend(verdict::frugality(&nodes));
        checks.push(verdict::deaths(&nodes, kills.len()));
        checks.push(verdict::memory(left));
        let processes = Processes::below(session.watcher_pid());
        session.close();
        checks.push(verdict::processes(processes.len(), &processes.left_after(SETTLE)));
        let reference_rate = self.reference.map(|reference| {
            let pages = u32::try_from(reference.outcomes.len()).unwrap_or(u32::MAX);
            f64::from(pages) / reference.took.as_secs_f64()
        });
        let (events, took) = (run.visits.len() as u64, run.took);
        let report = Report { events, took, reference_rate, nodes, hop, kills, checks };
        (rows, report)
    }

    fn send(&self, session: &Session) -> (Run, Vec<Row>, Vec<Kill>) {
        let pages = &self.inputs.pages;
        let mut rows: Vec<Row> = pages.iter().map(|_| Row::default()).collect();
        let seconds = if self.args.chaos { self.args.seconds } else { 0 };
        let at_least = Duration::from_secs(seconds);
        let plan = Plan { pages, rounds: self.args.repeat.max(1), at_least };
        let count = (seconds == 0).then_some(plan.rounds * pages.len() as u64);
        let bar = bar(count, "processes");
        let live = plan.rounds == 1 && seconds == 0 && !self.args.json;
        if live {
            say(&table::header(self.style));
        }
        let (mut next, mut kills) = (0, Vec::new());
        let mut run = Run::default();
        std::thread::scope(|scope| {
            let (stop, stopped) = mpsc::channel();
            let bar = &bar;
            let chaos = self.args.chaos.then(|| {
                let tell = |kill: &Kill| self.tell(bar, kill);
                scope.spawn(move || chaos::run(session, self.args.seed, &stopped, tell))
            });
            run = run::run(session, plan, |visit| {
                if let Some(row) = rows.get_mut(visit.page) {
                    row.add(visit, self.expected(visit.page));
                }
                bar.inc(1);
                while live && rows.get(next).is_some_and(|row| row.visits > 0) {
                    bar.suspend(|| say(&self.line(next, &rows)));
                    next += 1;
                }
            });
            drop(stop);
            kills = chaos.and_then(|thread| thread.join().ok()).unwrap_or_default();
        });
        bar.finish_and_clear();
        if !live && !self.args.json {
            let space = if kills.is_empty() { "" } else { "\n" };
            say(&format!("{space}{}", table::header(self.style)));
        }
        for index in next..rows.len() {
            if !self.args.json {
                say(&self.line(index, &rows));
            }
        }
        (run, rows, kills)
    }

    fn expected(&self, page: usize) -> Option<&Outcome> {
        self.reference.and_then(|reference| reference.outcomes.get(page))
    }

    fn line(&self, index: usize, rows: &[Row]) -> String {
        let name = self.inputs.pages.get(index).map_or("", |page| page.name.as_str());
        let none = Row::default();
        let row = rows.get(index).unwrap_or(&none);
        table::lines(name, row, self.expected(index), self.style)
    }

    fn tell(&self, bar: &ProgressBar, kill: &Kill) {
        if !self.args.json {
            let (seconds, Kill { label, pid, .. }) = (kill.at.as_secs_f64(), kill);
            let what = self.style.yellow(&format!("kill -9 {label}"));
            bar.suspend(|| say(&format!(" {seconds:5.1} s  {what}  (process {pid})")));
        }
    }

    fn json_rows(&self, rows: &[Row]) -> Vec<Value> {
        let named = self.inputs.pages.iter().zip(rows).enumerate();
        let mut all: Vec<Value> = named
            .map(|(index, (page, row))| {
                let measure = row.outcome.as_ref().and_then(Outcome::measure);
                let expected = self.expected(index).map(|outcome| outcome.text());
                json!({
                    "file": page.name, "visits": row.visits, "good": row.good, "bad": row.bad,
                    "ms": row.millis(), "expected": expected,
                    "width": measure.map(|m| m.width), "height": measure.map(|m| m.height),
                    "skew_degrees": measure.map(|m| m.skew_degrees()),
                    "ink_ratio": measure.map(|m| m.ink_ratio()),
                    "checksum": measure.map(|m| format!("{:016x}", m.checksum)),
                })
            })
            .collect();
        let refused = self.inputs.refused.iter();
        all.extend(refused.map(|(name, reason)| json!({"file": name, "error": reason})));
        all
    }
}

/// A line on stdout; a reader that went away (`pages-demo | head`) is no error.
fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// Waits until nothing is in use but the mbuf that each process keeps for its next reply:
/// successors of the last of `kills` victims still start. How many are in use beyond that.
fn settle(session: &Session, kills: usize) -> u32 {
    let start = Instant::now();
    let kept = u32::try_from(session.plan().executors.len()).unwrap_or(0);
    loop {
        let left = session.usage().entries.saturating_sub(kept);
        let replaced = session.counts().restarts >= kills as u64;
        if left == 0 && replaced || start.elapsed() > SETTLE {
            return left;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
