//! The cost of a hop: one blank page at a time, once in this process and once through the flow, in
//! turn, so that both see the same machine.

use crate::reference::Chain;
use crate::run;
use dflow::{CheckedFlow, Session};
use pages_render::RenderedPage;
use std::time::{Duration, Instant};

/// Pages of each kind.
const ROUNDS: usize = 300;

/// What a hop costs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hop {
    /// What the page takes longer than in one process, a queue: median less median.
    pub(crate) cost: Duration,
    /// Queues from feed to fetch.
    pub(crate) queues: u32,
}

/// Measures it on a session that does nothing else.
///
/// # Errors
/// The flow does not answer with data.
pub(crate) fn measure(session: &Session, flow: &CheckedFlow) -> Result<Hop, String> {
    let (width, height) = (16, 16);
    let page = RenderedPage { width, height, pixels: vec![255; 16 * 16], lines: 0 };
    let file = page.to_png().map_err(|error| error.to_string())?;
    let mut chain = Chain::new(flow)?;
    let (mut here, mut through) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let start = Instant::now();
        chain.send(&file)?;
        here.push(start.elapsed());
        through.push(run::one(session, &file)?);
    }
    let queues = u32::try_from(flow.order().len() + 1).unwrap_or(u32::MAX);
    let cost = median(here).map_or(Duration::ZERO, |here| {
        median(through).unwrap_or_default().saturating_sub(here) / queues
    });
    Ok(Hop { cost, queues })
}

fn median(mut times: Vec<Duration>) -> Option<Duration> {
    times.sort_unstable();
    times.get(times.len() / 2).copied()
}
