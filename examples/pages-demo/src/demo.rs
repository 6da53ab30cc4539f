//! The demo from beginning to end.

use crate::args::Args;
use crate::chaos::{self, Kill};
use crate::input::{self, Inputs};
use crate::outcome::Outcome;
use crate::processes::Processes;
use crate::reference::{self, Reference};
use crate::report::{self, Report};
use crate::run::{self, Plan, Run};
use crate::style::Style;
use crate::table::{self, Row};
use crate::{flow, verdict};
use dflow::{CheckedFlow, Session};
use indicatif::{ProgressBar, ProgressStyle};
use pages_render::{Face, PageSpec, Renderer};
use serde_json::{Value, json};
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
    let hop = Hop::prepare(&flow)?;
    let demo = Demo { args, inputs: &inputs, reference: reference.as_ref(), hop, style };
    let redelivers = flow.graph().nodes.iter().all(|(_, node)| node.redeliver);
    let session = flow::deploy(flow)?;
    let (rows, report) = demo.run(session, redelivers)?;
    if args.json {
        println!("{}", report.json(demo.json_rows(&rows)));
    } else {
        print!("\n{}", report.text(style));
    }
    Ok(report.holds())
}

fn print_heading(inputs: &Inputs, flow: &CheckedFlow, style: Style) {
    println!("{}", style.bold(&flow::chain_text(flow)));
    let files = inputs.pages.len() - inputs.rendered;
    let other = match inputs.skipped {
        0 => String::new(),
        skipped => format!(" ({skipped} files of other kinds skipped)"),
    };
    println!("{files} image files{other}, {} pages rendered by code", inputs.rendered);
    for (name, reason) in &inputs.refused {
        println!("{} {name}: {reason}", style.red("✗"));
    }
    println!();
}

/// A bar on the terminal's stderr; without `count` a line that counts.
fn bar(count: Option<u64>, what: &'static str) -> ProgressBar {
    let bar = count.map_or_else(ProgressBar::no_length, ProgressBar::new).with_message(what);
    let look = match count {
        Some(_) => " {msg:12} {wide_bar} {pos}/{len}  {per_sec} ",
        None => " {msg:12} {pos} pages  {per_sec}  {elapsed} ",
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
    hop: Option<Hop>,
    style: Style,
}

/// A small page for the cost of a hop.
struct Hop {
    page: Vec<u8>,
    in_one_process: Duration,
}

impl Hop {
    /// Pages to take the median of.
    const ROUNDS: usize = 300;

    /// `None` without fonts to render a page with.
    fn prepare(flow: &CheckedFlow) -> Result<Option<Hop>, String> {
        let Ok(renderer) = Renderer::new() else { return Ok(None) };
        let (width, height, text_px) = (96, 64, 12.0);
        let face = Face::Sans;
        let spec = PageSpec { face, width, height, text_px, skew_degrees: 0.0, noise: 0, seed: 1 };
        let page = renderer.render(&spec).to_png().map_err(|error| error.to_string())?;
        let in_one_process = reference::time(flow, &page, Hop::ROUNDS)?;
        Ok(Some(Hop { page, in_one_process }))
    }

    /// Microseconds that each of so many hops adds.
    fn measure(&self, session: &Session) -> Result<(f64, f64), String> {
        let (latency, hops) =
            (run::idle_latency(session, &self.page, Hop::ROUNDS)?, run::hops(session));
        let longer = latency.saturating_sub(self.in_one_process);
        Ok((longer.as_secs_f64() * 1e6 / hops, hops))
    }
}

impl Demo<'_> {
    fn run(&self, session: Session, redelivers: bool) -> Result<(Vec<Row>, Report), String> {
        let hop = self.hop.as_ref().map(|hop| hop.measure(&session)).transpose()?;
        let idle = session.usage().entries;
        let before = session.nodes();
        let (run, rows, kills) = self.send(&session);
        let left = settle(&session, idle);
        let nodes = report::sums(&session, &before);
        let outcomes = self.reference.map(|reference| reference.outcomes.as_slice());
        let mut checks = vec![verdict::ids(&run, &session)];
        checks.push(verdict::data(&rows, outcomes, !redelivers));
        checks.extend(verdict::skews(&self.inputs.pages, &rows));
        checks.extend(verdict::frugality(&nodes));
        if !self.args.chaos {
            checks.push(verdict::deaths(&nodes));
        }
        checks.push(verdict::memory(left, idle));
        let processes = Processes::below(session.watcher_pid());
        session.close();
        checks.push(verdict::processes(processes.len(), &processes.left_after(SETTLE)));
        let reference_rate = self.reference.map(|reference| {
            let pages = u32::try_from(reference.outcomes.len()).unwrap_or(u32::MAX);
            f64::from(pages) / reference.took.as_secs_f64()
        });
        let (events, took) = (run.visits.len() as u64, run.took);
        let report = Report { events, took, reference_rate, nodes, hop, kills, checks };
        Ok((rows, report))
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
            println!("{}", table::header(self.style));
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
                    bar.suspend(|| println!("{}", self.line(next, &rows)));
                    next += 1;
                }
            });
            drop(stop);
            kills = chaos.and_then(|thread| thread.join().ok()).unwrap_or_default();
        });
        bar.finish_and_clear();
        if !live && !self.args.json {
            println!("\n{}", table::header(self.style));
        }
        for index in next..rows.len() {
            if !self.args.json {
                println!("{}", self.line(index, &rows));
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
            bar.suspend(|| println!(" {seconds:5.1} s  {what}  (process {pid})"));
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

/// Waits until no more than `idle` mbufs are in use: successors of the last victims still start.
/// How many are in use beyond that.
fn settle(session: &Session, idle: u32) -> u32 {
    let start = Instant::now();
    loop {
        let left = session.usage().entries.saturating_sub(idle);
        if left == 0 || start.elapsed() > SETTLE {
            return left;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
