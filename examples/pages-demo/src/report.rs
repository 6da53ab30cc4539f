//! The end of a run: checks, numbers, as text and as JSON.

use crate::chaos::Kill;
use crate::hop::Hop;
use crate::style::Style;
use dflow::Session;
use dflow::session::NodeCounts;
use serde_json::{Value, json};
use std::fmt::Write;
use std::time::Duration;

/// One thing that has to hold.
#[derive(Debug)]
pub(crate) struct Check {
    /// Key in JSON.
    pub(crate) key: &'static str,
    /// What holds, or does not.
    pub(crate) text: String,
    /// Whether it holds.
    pub(crate) holds: bool,
}

/// Counters of one node, its processes together, during the run.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct NodeSum {
    /// Node.
    pub(crate) name: String,
    /// Processes.
    pub(crate) processes: u64,
    /// Messages it took.
    pub(crate) processed: u64,
    /// Time inside the function.
    pub(crate) in_function: Duration,
    /// Restarts.
    pub(crate) restarts: u64,
    /// Heap allocations after start-up by the runtime, and by the function.
    pub(crate) allocations: (u64, u64),
    /// Payload bytes that the runtime copied.
    pub(crate) bytes_copied: u64,
}

impl NodeSum {
    /// Milliseconds a message inside the function.
    pub(crate) fn millis(&self) -> f64 {
        ratio(self.in_function.as_secs_f64() * 1e3, count(self.processed))
    }
}

/// Counters of `session` since `before`, by node in the graph's order.
pub(crate) fn sums(session: &Session, before: &[NodeCounts]) -> Vec<NodeSum> {
    let mut sums: Vec<NodeSum> = Vec::new();
    for now in session.nodes() {
        let old = before.iter().find(|old| old.label == now.label).cloned().unwrap_or_default();
        if sums.last().is_none_or(|sum| sum.name != now.node) {
            sums.push(NodeSum { name: now.node.clone(), ..NodeSum::default() });
        }
        let Some(sum) = sums.last_mut() else { continue };
        sum.processes += 1;
        sum.processed += now.processed.saturating_sub(old.processed);
        let nanos = now.user_ns.saturating_sub(old.user_ns);
        sum.in_function += Duration::from_nanos(nanos);
        sum.restarts += u64::from(now.restarts.saturating_sub(old.restarts));
        // Since start-up, the first messages too: nothing is warmed up before counting.
        sum.allocations.0 += now.allocations.1;
        sum.allocations.1 += now.allocations.2;
        sum.bytes_copied += now.bytes_copied;
    }
    sums
}

/// Numbers of a run.
#[derive(Debug)]
pub(crate) struct Report {
    /// Events.
    pub(crate) events: u64,
    /// From first feed to last event.
    pub(crate) took: Duration,
    /// Pages a second of the reference.
    pub(crate) reference_rate: Option<f64>,
    /// By node.
    pub(crate) nodes: Vec<NodeSum>,
    /// Cost of a hop.
    pub(crate) hop: Hop,
    /// Kills.
    pub(crate) kills: Vec<Kill>,
    /// All that has to hold.
    pub(crate) checks: Vec<Check>,
}

impl Report {
    /// Pages a second.
    pub(crate) fn rate(&self) -> f64 {
        ratio(count(self.events), self.took.as_secs_f64())
    }

    /// True when every check holds.
    pub(crate) fn holds(&self) -> bool {
        self.checks.iter().all(|check| check.holds)
    }

    fn restarts(&self) -> u64 {
        self.nodes.iter().map(|node| node.restarts).sum()
    }

    /// For people.
    pub(crate) fn text(&self, style: Style) -> String {
        let mut text = self.node_table(style);
        let mut line = |name: &str, value: String| {
            let name = style.dim(&format!("{name:<11}"));
            let _ = writeln!(text, " {name}{value}");
        };
        let one = self.reference_rate.map_or(String::new(), |rate| {
            format!("; the same functions in one process: {rate:.1}/s")
        });
        let (events, seconds) = (self.events, self.took.as_secs_f64());
        let rate = style.bold(&format!("{:.1} pages/s", self.rate()));
        line("throughput", format!("{rate} ({events} pages in {seconds:.2} s){one}"));
        let Hop { cost, queues } = self.hop;
        let cost = style.bold(&format!("{:.1} µs", cost.as_secs_f64() * 1e6));
        line(
            "hop",
            format!("{cost} (a blank page alone, everyone asleep before it comes: what it takes"),
        );
        line("", format!("longer than in one process, by the {queues} queues it passes)"));
        let user: u64 = self.nodes.iter().map(|node| node.allocations.1).sum();
        let alive = if self.kills.is_empty() { "" } else { ", of the processes that live now" };
        line("heap", format!("{user} allocations by functions (image decoders){alive}"));
        text.push('\n');
        for check in &self.checks {
            let mark = if check.holds { style.green("✓") } else { style.red("✗") };
            let _ = writeln!(text, " {mark} {}", check.text);
        }
        text.truncate(text.trim_end().len());
        text
    }

    fn node_table(&self, style: Style) -> String {
        let titles = format!(
            " {:14}  {:>9}  {:>6}  {:>8}  {:>5}  {:>8}",
            "node", "processes", "pages", "ms/page", "busy", "restarts"
        );
        let mut text = style.dim(&titles) + "\n";
        for node in &self.nodes {
            let busy = ratio(node.in_function.as_secs_f64(), self.took.as_secs_f64());
            let busy = format!("{:.0}%", 100.0 * ratio(busy, count(node.processes)));
            let NodeSum { name, processes, processed, restarts, .. } = node;
            let millis = node.millis();
            let _ = writeln!(
                text,
                " {name:14}  {processes:>9}  {processed:>6}  {millis:>8.2}  \
                 {busy:>5}  {restarts:>8}"
            );
        }
        text.push('\n');
        text
    }

    /// For programs.
    pub(crate) fn json(&self, rows: Vec<Value>) -> Value {
        let nodes = self.nodes.iter().map(|node| {
            json!({
                "node": node.name, "processes": node.processes, "pages": node.processed,
                "ms_per_page": node.millis(), "restarts": node.restarts,
                "allocations_runtime": node.allocations.0, "allocations_user": node.allocations.1,
                "bytes_copied": node.bytes_copied,
            })
        });
        let kills = self.kills.iter().map(
            |kill| json!({"seconds": kill.at.as_secs_f64(), "node": kill.label, "pid": kill.pid}),
        );
        let checks = self
            .checks
            .iter()
            .map(|check| json!({"check": check.key, "holds": check.holds, "text": check.text}));
        json!({
            "pages": rows, "events": self.events, "seconds": self.took.as_secs_f64(),
            "pages_per_s": self.rate(), "reference_pages_per_s": self.reference_rate,
            "hop_us": self.hop.cost.as_secs_f64() * 1e6, "nodes": nodes.collect::<Vec<_>>(),
            "kills": kills.collect::<Vec<_>>(), "restarts": self.restarts(),
            "checks": checks.collect::<Vec<_>>(), "holds": self.holds(),
        })
    }
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
fn count(number: u64) -> f64 {
    number as f64
}
