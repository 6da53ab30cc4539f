//! `spin_hop_ns`, `wake_*`: two processes of one group, ping-pong; half a round trip is one hop.

use std::rc::Rc;
use std::time::Instant;

use executor_core::owner::{QueueId, SlotId};
use executor_core::pool::Worker;
use executor_core::queue::{QueueConfig, QueueFlags, Rights};

use crate::Failure;
use crate::blocks::Side;
use crate::ours::end::{DESCRIPTOR, End, PAYLOAD_MIN};
use crate::ours::group::{Memory, Sizes};
use crate::role::{Member, Role};
use crate::shared::Shared;

pub use crate::ours::end::Wait;

/// Role of the answering process.
pub const ROLE: &str = "hop-echo";

/// Blocks of each slot: a message under way, one being written, and slack.
const BLOCKS: u32 = 4;

/// Messages a queue holds.
const DEPTH: u32 = 4;

const ASKER: SlotId = SlotId(0);
const ECHO: SlotId = SlotId(1);
const PING: &str = "ping";
const PONG: &str = "pong";

/// The asking side.
#[derive(Debug)]
pub struct Hop {
    name: String,
    end: End,
    echo: Role,
    warm: u64,
}

impl Hop {
    /// Makes a group, starts the echo process on `core` and opens the queues.
    ///
    /// # Errors
    /// Memory was refused or the echo process did not start.
    pub fn start(name: &str, wait: Wait, size: usize, core: usize) -> Result<Self, Failure> {
        let block_size = (DESCRIPTOR + size.max(PAYLOAD_MIN)) as u64;
        let memory = Memory::create(Sizes { block_size, block_count: BLOCKS, depth: DEPTH })?;
        let worker = memory.worker()?;
        let ping = queue(&worker, PING, ECHO, ASKER)?;
        let pong = queue(&worker, PONG, ASKER, ECHO)?;
        let shared = Rc::new(Shared::create()?);
        let [control, arena] = memory.numbers().map(|number| number.to_string());
        let kind = if wait == Wait::Spin { "spin" } else { "park" }.to_owned();
        let extra = [control, arena, kind, size.to_string()];
        let echo = Role::start_with(ROLE, &shared, 0, core, &extra, &memory.fds())?;
        let end = End::open(worker, ping, pong, wait, size)?;
        let warm = if wait == Wait::Spin { 256 } else { 16 };
        Ok(Self { name: name.to_owned(), end, echo, warm })
    }

    fn round_trips(&mut self, rounds: u64) -> Result<(), Failure> {
        for trans_id in 1..=rounds {
            self.end.send(trans_id)?;
            let found = self.end.receive()?;
            if found != trans_id {
                return Err(format!("sent message {trans_id} and received {found}").into());
            }
        }
        Ok(())
    }
}

impl Side for Hop {
    fn name(&self) -> &str {
        &self.name
    }

    fn block(&mut self, rounds: u64) -> Result<f64, Failure> {
        self.echo.begin(rounds + self.warm);
        self.round_trips(self.warm)?;
        let started = Instant::now();
        self.round_trips(rounds)?;
        Ok(crate::ns_each(started.elapsed(), 2 * rounds))
    }
}

/// Makes a queue from `producer` to `consumer`; the worker may enqueue where it is the producer.
fn queue(
    worker: &Worker<'static>,
    name: &str,
    consumer: SlotId,
    producer: SlotId,
) -> Result<QueueId, Failure> {
    let config = QueueConfig {
        name,
        depth: DEPTH,
        flags: QueueFlags::empty(),
        consumer,
        consumer_waiter: 0,
        ready_bit: 0,
    };
    let failed = |error| format!("queue {name}: {error:?}");
    let id = worker.memory.create_queue(worker, &config).map_err(failed)?;
    worker.memory.grant_queue(worker, id, producer, Rights::WRITE).map_err(failed)?;
    Ok(id)
}

/// The answering process: sends each trans_id back in a message of its own.
///
/// # Errors
/// The arguments are incomplete, or the asking process stopped asking.
pub fn play(member: &Member) -> Result<(), Failure> {
    let [control, arena, kind, size] = member.extra.as_slice() else {
        return Err("hop-echo needs CONTROL ARENA spin|park SIZE".into());
    };
    let memory = Memory::inherited(control.parse()?, arena.parse()?, ECHO)?;
    let wait = if kind == "spin" { Wait::Spin } else { Wait::Park };
    let worker = memory.worker()?;
    let find = |name| worker.memory.find_queue(name).ok_or_else(|| format!("no queue {name}"));
    let (out, input) = (find(PONG)?, find(PING)?);
    let mut end = End::open(worker, out, input, wait, size.parse()?)?;
    member.serve(|_, rounds| {
        for _ in 0..rounds {
            let trans_id = end.receive()?;
            end.send(trans_id)?;
        }
        Ok(())
    })
}
