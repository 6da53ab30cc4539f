//! What has to hold at the end of a run.

use crate::input::Page;
use crate::outcome::Outcome;
use crate::report::{Check, NodeSum};
use crate::run::Run;
use crate::table::Row;
use dflow::Session;
use std::collections::HashSet;

/// Largest error of a found skew, degrees.
const SKEW_ERROR_MAX: f64 = 0.3;

/// Each id has exactly one event.
pub(crate) fn ids(run: &Run, session: &Session) -> Check {
    let ids: HashSet<u64> = run.visits.iter().map(|visit| visit.trans_id).collect();
    let (fed, events, counts) = (run.fed, run.visits.len() as u64, session.counts());
    let once = ids.len() as u64 == fed && events == fed && counts.open == 0;
    let mut text = match once {
        true => format!("each of {fed} ids ended exactly once"),
        false => format!("{fed} ids, {events} events of {} ids, {} open", ids.len(), counts.open),
    };
    let dropped = counts.ledger.duplicates + counts.ledger.late;
    if dropped > 0 {
        text += &format!(" ({dropped} surplus messages dropped)");
    }
    if let Some(reason) = &run.broken {
        text += &format!("; {reason}");
    }
    Check { key: "ids", text, holds: once && run.broken.is_none() }
}

/// Every visit is what the reference says. With `coded_allowed` (nodes without redelivery) a code
/// of the runtime is an answer too.
pub(crate) fn data(rows: &[Row], reference: Option<&[Outcome]>, coded_allowed: bool) -> Check {
    let visits: usize = rows.iter().map(|row| row.visits).sum();
    let good: usize = rows.iter().map(|row| row.good).sum();
    let coded = reference.map_or(0, |all| all.iter().filter(|o| o.measure().is_none()).count());
    let mut text = match reference {
        Some(_) => format!("{good} of {visits} results equal those of one process, bit for bit"),
        None => format!("{good} of {visits} results have data; not compared (--no-check)"),
    };
    if coded > 0 {
        text += &format!(" ({coded} broken, with the same code)");
    }
    Check { key: "data", text, holds: good == visits || coded_allowed || reference.is_none() }
}

/// Skews of rendered pages were found; `None` without any.
pub(crate) fn skews(pages: &[Page], rows: &[Row]) -> Option<Check> {
    let errors = pages.iter().zip(rows).filter_map(|(page, row)| {
        let found = row.outcome.as_ref().and_then(Outcome::measure)?;
        Some((found.skew_degrees() - page.known_skew?).abs())
    });
    let worst = errors.max_by(f64::total_cmp)?;
    let text = format!("skews of rendered pages found: worst error {worst:.2}°");
    Some(Check { key: "skew", text, holds: worst <= SKEW_ERROR_MAX })
}

/// The runtime neither copied nor allocated.
pub(crate) fn frugality(nodes: &[NodeSum]) -> [Check; 2] {
    let bytes: u64 = nodes.iter().map(|node| node.bytes_copied).sum();
    let allocations: u64 = nodes.iter().map(|node| node.allocations.0).sum();
    [
        Check {
            key: "copies",
            text: format!("{bytes} bytes copied between processes"),
            holds: bytes == 0,
        },
        Check {
            key: "allocations",
            text: format!("{allocations} heap allocations by the runtime after start-up"),
            holds: allocations == 0,
        },
    ]
}

/// Whoever was killed was replaced, and nobody died otherwise.
pub(crate) fn deaths(nodes: &[NodeSum], kills: usize) -> Check {
    let restarts: u64 = nodes.iter().map(|node| node.restarts).sum();
    let text = format!("{kills} processes killed, {restarts} restarts");
    Check { key: "restarts", text, holds: restarts == kills as u64 }
}

/// Nothing is left in shared memory.
pub(crate) fn memory(left: u32) -> Check {
    let besides = "each process keeps one for its next control message";
    let text = format!("{left} mbufs left behind ({besides})");
    Check { key: "leaked", text, holds: left == 0 }
}

/// No process is left.
pub(crate) fn processes(all: usize, left: &[u32]) -> Check {
    let text = match left {
        [] => format!("0 of {all} processes left behind"),
        pids => format!("{} of {all} processes left behind: {pids:?}", pids.len()),
    };
    Check { key: "orphans", text, holds: left.is_empty() }
}
