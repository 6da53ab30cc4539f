//! `line_transfer_ns`: how long one cache line takes from one core to another.
//!
//! Two pinned processes over a shared memfd take turns in writing one word; half a round trip is
//! one transfer. No system call, no fence beyond release and acquire. Both ends busy-wait.

use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::Failure;
use crate::blocks::Side;
use crate::role::{Member, Role};
use crate::shared::{FREE, Shared};
use crate::spin::spin_until;

/// Role of the answering process.
pub const ROLE: &str = "line-echo";

/// Round trips before the clock starts, in each block.
const WARM: u64 = 256;

/// The asking side; its process must be pinned to another core than the echo's.
#[derive(Debug)]
pub struct LineTransfer {
    shared: Rc<Shared>,
    echo: Role,
}

impl LineTransfer {
    /// Starts the echo process on `core`.
    ///
    /// # Errors
    /// The echo process can't be started.
    pub fn start(core: usize) -> Result<Self, Failure> {
        let shared = Rc::new(Shared::create()?);
        let echo = Role::start(ROLE, &shared, 0, core, &[])?;
        Ok(Self { shared, echo })
    }
}

impl Side for LineTransfer {
    fn name(&self) -> &str {
        "line"
    }

    fn block(&mut self, rounds: u64) -> Result<f64, Failure> {
        let word = &self.shared.line(FREE).value;
        word.store(0, Ordering::Relaxed);
        self.echo.begin(rounds + WARM);
        let mut started = Instant::now();
        for round in 0..rounds + WARM {
            if round == WARM {
                started = Instant::now();
            }
            word.store(2 * round + 1, Ordering::Release);
            spin_until(|| word.load(Ordering::Acquire) == 2 * round + 2)?;
        }
        Ok(crate::ns_each(started.elapsed(), 2 * rounds))
    }
}

/// The answering process: waits for each odd number and writes the next even one.
///
/// # Errors
/// The asking process stopped asking.
pub fn play(member: &Member) -> Result<(), Failure> {
    member.serve(|member, rounds| {
        let word = &member.shared.line(FREE).value;
        for round in 0..rounds {
            spin_until(|| word.load(Ordering::Acquire) == 2 * round + 1)?;
            word.store(2 * round + 2, Ordering::Release);
        }
        Ok(())
    })
}
