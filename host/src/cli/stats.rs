//! The summary of a run, and the tables of `--stats`.

use std::fmt::Write as _;

use super::report::Counts;
use super::table;
use crate::plan::{QueueKind, bytes_text};
use crate::session::{NodeCounts, Session};

/// One line about the whole run.
pub(super) fn summary(session: &Session, fed: u64, counts: &Counts, seconds: f64) -> String {
    let all = session.counts();
    let rate = if seconds > 0.0 { fed as f64 / seconds } else { 0.0 };
    let mut text = format!(
        "{fed} ids fed: {} data ({}), {} errors, {seconds:.2} s, {rate:.1} ids/s",
        counts.data,
        bytes_text(counts.bytes),
        counts.errors
    );
    let ledger = all.ledger;
    let odd = [
        ("not fed", counts.not_fed),
        ("restarts", all.restarts),
        ("expired", ledger.expired),
        ("lost", ledger.lost),
        ("late", ledger.late),
        ("duplicates", ledger.duplicates),
    ];
    for (name, count) in odd.into_iter().filter(|(_, count)| *count > 0) {
        // Writing to a string can't fail.
        let _ = write!(text, ", {name} {count}");
    }
    text
}

/// Both tables.
pub(super) fn tables(session: &Session) -> String {
    format!("\n{}\n{}", table(&nodes(session)), table(&queues(session)))
}

fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_owned).to_vec()
}

/// Milliseconds, with microseconds.
pub(super) fn ms(ns: u64) -> String {
    format!("{}.{:03}", ns / 1_000_000, ns / 1000 % 1000)
}

fn nodes(session: &Session) -> Vec<Vec<String>> {
    let mut rows = vec![row([
        "node",
        "processed",
        "coded",
        "restarts",
        "in function, ms",
        "per set, ms",
        "allocations: runtime",
        "user",
        "copied, bytes",
    ])];
    rows.extend(session.nodes().iter().map(|node: &NodeCounts| {
        let per_set = node.user_ns.checked_div(node.processed).map_or("-".to_owned(), ms);
        let (_, runtime, user) = node.allocations;
        vec![
            node.label.clone(),
            node.processed.to_string(),
            node.coded.to_string(),
            node.restarts.to_string(),
            ms(node.user_ns),
            per_set,
            runtime.to_string(),
            user.to_string(),
            node.bytes_copied.to_string(),
        ]
    }));
    rows
}

fn queues(session: &Session) -> Vec<Vec<String>> {
    let heading =
        ["queue", "depth", "enqueued", "queued", "high water", "full waits", "drops", "faults"];
    let mut rows = vec![row(heading)];
    let infos = session.queues();
    for plan in session.plan().queues.iter().filter(|queue| queue.kind == QueueKind::Data) {
        let Some(info) = infos.iter().find(|info| info.id.0 == plan.id) else { continue };
        let counts = [
            u64::from(info.depth),
            info.enqueued,
            u64::from(info.size),
            u64::from(info.high_water),
            info.full_waits,
            info.drops,
            info.faults,
        ];
        let counts = counts.iter().map(u64::to_string);
        rows.push(std::iter::once(plan.name.clone()).chain(counts).collect());
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::ms;

    #[test]
    fn milliseconds_keep_microseconds() {
        assert_eq!(ms(1_234_567), "1.234");
        assert_eq!(ms(999), "0.000");
    }
}
