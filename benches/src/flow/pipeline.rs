//! Two busy stages on two cores: how close a pipeline comes to its slowest stage.
//!
//! Feeder and fetcher are threads of the host. The feeder feeds a whole batch and sleeps until the
//! fetcher has fetched the batch before it; so at least one batch is under way, and the host's
//! threads wake for a batch or a result only. The functions spin for 1 ms by the clock, so the best
//! there is is one message a millisecond.

use std::sync::mpsc;
use std::time::Instant;

use dflow::{Session, Tensor};

use super::{deploy, feed, fetch, graph, message, node};
use crate::Failure;
use crate::blocks::Side;

/// Work of each stage, microseconds.
pub const STAGE_US: i64 = 1000;

/// Messages of a batch; two fit the session's open ids.
const BATCH: u64 = 25;

/// Payload.
const BYTES: usize = 4096;

/// A pipeline of two stages.
#[derive(Debug)]
pub struct Pipeline {
    session: Session,
    message: Tensor,
}

impl Pipeline {
    /// Deploys two stages on `cores`.
    ///
    /// # Errors
    /// The flow could not be deployed.
    pub fn start(cores: [usize; 2]) -> Result<Self, Failure> {
        let stage = |from: &str, core| -> Result<_, Failure> {
            Ok(node("busy", from, BYTES as u64, core)?.attr("us", STAGE_US))
        };
        let flow = graph("pipeline", BYTES as u64)
            .node("first", stage("in", cores[0])?)
            .node("second", stage("first.out", cores[1])?)
            .output("out", "second.out");
        Ok(Self { session: deploy(flow)?, message: message(1, BYTES) })
    }

    fn feed_batches(&self, batches: u64, fetched: &mpsc::Receiver<()>) -> Result<(), String> {
        for batch in 0..batches {
            if batch >= 2 {
                fetched.recv().map_err(|_| "the fetcher ended early".to_owned())?;
            }
            for _ in 0..BATCH {
                feed(&self.session, self.message.clone()).map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }

    /// From the first result on: the pipeline is full then.
    fn fetch_batches(&self, batches: u64, fetched: &mpsc::Sender<()>) -> Result<f64, Failure> {
        let _first = fetch(&self.session)?;
        let started = Instant::now();
        for index in 1..batches * BATCH {
            let _result = fetch(&self.session)?;
            if (index + 1).is_multiple_of(BATCH) {
                // The feeder may have fed everything and be gone.
                let _gone = fetched.send(());
            }
        }
        Ok(crate::ns_each(started.elapsed(), batches * BATCH - 1))
    }
}

impl Side for Pipeline {
    fn name(&self) -> &'static str {
        "pipeline"
    }

    /// `rounds` is taken as messages, in whole batches; nanoseconds a message.
    fn block(&mut self, rounds: u64) -> Result<f64, Failure> {
        let batches = rounds.div_ceil(BATCH).max(3);
        let (tell, told) = mpsc::channel();
        std::thread::scope(|scope| {
            let this = &*self;
            let feeder = scope.spawn(move || this.feed_batches(batches, &told));
            let found = self.fetch_batches(batches, &tell);
            feeder.join().map_err(|_| "the feeder panicked")??;
            found
        })
    }
}
