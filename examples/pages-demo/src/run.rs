//! The run: one thread feeds pages, this one fetches what became of them.

use crate::input::Page;
use crate::outcome::Outcome;
use dflow::{Feed, FetchError, MonoTime, Session, Tensor};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Milliseconds without any event after which the flow counts as hanging.
const PATIENCE_MS: u64 = 60_000;
/// The same.
const PATIENCE: Duration = Duration::from_millis(PATIENCE_MS);

/// What is to be fed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan<'a> {
    /// The pages of a round.
    pub(crate) pages: &'a [Page],
    /// Fewest rounds.
    pub(crate) rounds: u64,
    /// Rounds go on for so long.
    pub(crate) at_least: Duration,
}

/// One event: what became of one id.
#[derive(Debug)]
pub(crate) struct Visit {
    /// The id.
    pub(crate) trans_id: u64,
    /// Index of its page.
    pub(crate) page: usize,
    /// What came.
    pub(crate) outcome: Outcome,
    /// From feed to fetch; zero when the session itself answered.
    pub(crate) latency: Duration,
}

/// A whole run.
#[derive(Debug, Default)]
pub(crate) struct Run {
    /// Events in the order they came.
    pub(crate) visits: Vec<Visit>,
    /// Ids fed.
    pub(crate) fed: u64,
    /// From the first feed to the last event.
    pub(crate) took: Duration,
    /// Why it ended early.
    pub(crate) broken: Option<String>,
}

/// Shared between feeder and fetcher.
#[derive(Debug, Default)]
struct Progress {
    fed: AtomicU64,
    done: AtomicBool,
    broken: Mutex<Option<String>>,
}

impl Progress {
    fn fail(&self, reason: String) {
        if let Ok(mut broken) = self.broken.lock() {
            broken.get_or_insert(reason);
        }
    }
}

/// Feeds and fetches all of `plan`; `seen` is called with every event.
pub(crate) fn run(session: &Session, plan: Plan<'_>, mut seen: impl FnMut(&Visit)) -> Run {
    let progress = Progress::default();
    let start = Instant::now();
    // Ids count on from what was fed before.
    let first = session.counts().ledger.fed + 1;
    let mut visits = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            feed_all(session, plan, &progress, start);
            progress.done.store(true, Ordering::Release);
        });
        let mut quiet_since = Instant::now();
        loop {
            let done = progress.done.load(Ordering::Acquire);
            if done && visits.len() as u64 >= progress.fed.load(Ordering::Acquire) {
                break;
            }
            match session.fetch(Some(MonoTime::now().add_ms(50))) {
                Ok(event) => {
                    quiet_since = Instant::now();
                    let visit = Visit {
                        trans_id: event.trans_id,
                        page: page_of(event.trans_id, first, plan.pages.len()),
                        outcome: Outcome::of(&event),
                        latency: Duration::from_micros(event.micros),
                    };
                    seen(&visit);
                    visits.push(visit);
                }
                Err(FetchError::TimedOut) if quiet_since.elapsed() < PATIENCE => {}
                Err(error) => {
                    progress.fail(format!("fetch: {error}"));
                    break;
                }
            }
        }
    });
    let fed = progress.fed.into_inner();
    let broken = progress.broken.into_inner().unwrap_or_default();
    Run { visits, fed, took: start.elapsed(), broken }
}

fn page_of(trans_id: u64, first: u64, pages: usize) -> usize {
    let index = trans_id.saturating_sub(first) % (pages as u64).max(1);
    usize::try_from(index).unwrap_or(0)
}

fn feed_all(session: &Session, plan: Plan<'_>, progress: &Progress, start: Instant) {
    let mut rounds = 0;
    while rounds < plan.rounds || start.elapsed() < plan.at_least {
        for page in plan.pages {
            let feed = Feed::of(vec![Tensor::bytes(page.file.clone())]);
            match session.feed(feed, Some(MonoTime::now().add_ms(PATIENCE_MS))) {
                Ok(_) => progress.fed.fetch_add(1, Ordering::AcqRel),
                Err(error) => return progress.fail(format!("feed of {}: {error}", page.name)),
            };
        }
        rounds += 1;
    }
}

/// From feed to fetch of `file` alone: every process sleeps when its message comes.
///
/// # Errors
/// The flow does not answer with data.
pub(crate) fn one(session: &Session, file: &[u8]) -> Result<Duration, String> {
    let feed = Feed::of(vec![Tensor::bytes(file.to_vec())]);
    let wait = || Some(MonoTime::now().add_ms(PATIENCE_MS));
    session.feed(feed, wait()).map_err(|error| format!("feed of a small page: {error}"))?;
    let event = session.fetch(wait()).map_err(|error| format!("fetch: {error}"))?;
    match event.outcome {
        Ok(_) => Ok(Duration::from_micros(event.micros)),
        Err(_) => Err(format!("a small page: {}", Outcome::of(&event).text())),
    }
}

/// The middle value; 0 of none.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_name_pages_round_after_round() {
        assert_eq!([5, 6, 7, 8, 11].map(|id| page_of(id, 5, 3)), [0, 1, 2, 0, 0]);
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut []), 0.0);
    }
}
