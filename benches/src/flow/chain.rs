//! n identity functions in a line, and the same functions with the host in between.
//!
//! ```text
//! Chain         feed ─► p1 ─► p2 ─► … ─► pn ─► fetch                      n + 1 hops
//! ThroughHost   feed ─► p1 ─► fetch, copy, feed ─► p2 ─► fetch, …         2·n hops
//! ```
//! A hop is a message's way from one process, that enqueues it and rings, to the next, asleep
//! until then. One message is under way at a time, as in the bare ring. A round includes what an
//! application does: it makes the tensor, feeds it (one copy into the host's partition), fetches,
//! looks at the result and gives it back.

use std::time::Instant;

use dflow::{Session, Tensor};

use super::{bytes_copied, deploy, feed, fetch, line, message};
use crate::Failure;
use crate::blocks::Side;

/// The identity function: sets its input as its output.
const IDENTITY: &str = "forward";

/// Rounds before the clock starts, in each block.
const WARM: u64 = 16;

/// One flow of n nodes.
#[derive(Debug)]
pub struct Chain {
    name: String,
    session: Session,
    message: Tensor,
    units: u64,
}

impl Chain {
    /// Deploys a chain of `count` nodes on `core` for messages of `bytes`; time is per hop.
    ///
    /// # Errors
    /// The flow could not be deployed.
    pub fn start(name: &str, count: usize, core: usize, bytes: usize) -> Result<Self, Failure> {
        let functions = vec![IDENTITY; count];
        let graph = line(&format!("chain-{name}"), &functions, &vec![core; count], bytes as u64)?;
        let session = deploy(graph)?;
        let units = count as u64 + 1;
        Ok(Self { name: name.to_owned(), session, message: message(1, bytes), units })
    }

    /// The same with time per message.
    #[must_use]
    pub fn per_message(self) -> Self {
        Self { units: 1, ..self }
    }

    /// Payload bytes that the executors copied so far.
    #[must_use]
    pub fn bytes_copied(&self) -> u64 {
        bytes_copied(&self.session)
    }

    fn rounds(&self, rounds: u64) -> Result<(), Failure> {
        for _ in 0..rounds {
            let id = feed(&self.session, self.message.clone())?;
            let (found, output) = fetch(&self.session)?;
            if found != id || output.bytes() != self.message.bytes {
                return Err(format!("fed id {id} and fetched another message").into());
            }
        }
        Ok(())
    }
}

impl Side for Chain {
    fn name(&self) -> &str {
        &self.name
    }

    fn block(&mut self, rounds: u64) -> Result<f64, Failure> {
        self.rounds(WARM)?;
        let started = Instant::now();
        self.rounds(rounds)?;
        Ok(crate::ns_each(started.elapsed(), rounds * self.units))
    }
}

/// n flows of one node each.
#[derive(Debug)]
pub struct ThroughHost {
    name: String,
    sessions: Vec<Session>,
    message: Tensor,
}

impl ThroughHost {
    /// Deploys `count` flows on `core` for messages of `bytes`; time is per message.
    ///
    /// # Errors
    /// A flow could not be deployed.
    pub fn start(name: &str, count: usize, core: usize, bytes: usize) -> Result<Self, Failure> {
        let flow =
            |index| deploy(line(&format!("{name}-{index}"), &[IDENTITY], &[core], bytes as u64)?);
        let sessions = (0..count).map(flow).collect::<Result<_, Failure>>()?;
        Ok(Self { name: name.to_owned(), sessions, message: message(1, bytes) })
    }

    fn rounds(&self, rounds: u64) -> Result<(), Failure> {
        for _ in 0..rounds {
            let mut tensor = self.message.clone();
            for session in &self.sessions {
                feed(session, tensor)?;
                let (_, output) = fetch(session)?;
                let shape = output.shape().to_vec();
                tensor = Tensor { shape, bytes: output.bytes().to_vec(), ..self.message };
            }
            if tensor != self.message {
                return Err("fed a message and fetched another one".into());
            }
        }
        Ok(())
    }
}

impl Side for ThroughHost {
    fn name(&self) -> &str {
        &self.name
    }

    fn block(&mut self, rounds: u64) -> Result<f64, Failure> {
        self.rounds(WARM)?;
        let started = Instant::now();
        self.rounds(rounds)?;
        Ok(crate::ns_each(started.elapsed(), rounds))
    }
}
