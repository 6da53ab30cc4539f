//! `enqueue_dequeue_ns`: one thread moves one mbuf into a queue and out again.

use std::hint::black_box;
use std::time::Instant;

use executor_core::mbuf::Mbuf;
use executor_core::owner::SlotId;
use executor_core::pool::{Head, Worker};
use executor_core::queue::{Consumer, Producer, QueueConfig, QueueFlags, Rights};
use executor_rt::waiter::ring;

use crate::Failure;
use crate::blocks::Side;
use crate::ours::group::{Memory, Sizes};

/// Messages the queue holds, as the rival's.
const DEPTH: u32 = 64;

const SLOT: SlotId = SlotId(0);

/// Both ends of a queue in one process.
#[derive(Debug)]
pub struct QueuePair {
    name: String,
    worker: Worker<'static>,
    producer: Producer<'static>,
    consumer: Consumer<'static>,
    mbuf: Option<Mbuf>,
}

impl QueuePair {
    /// Makes a group, a queue and one mbuf.
    ///
    /// # Errors
    /// Memory was refused.
    pub fn start(name: &str) -> Result<Self, Failure> {
        let sizes = Sizes { block_size: 64, block_count: 4, depth: DEPTH };
        let memory = Memory::create(sizes)?;
        let mut worker = memory.worker()?;
        let (producer, consumer) = pair(&worker, DEPTH)?;
        let mbuf = worker.alloc(64, Head::Zeroed).map_err(|error| format!("alloc: {error:?}"))?;
        Ok(Self { name: name.to_owned(), worker, producer, consumer, mbuf: Some(mbuf) })
    }
}

/// Makes a queue from slot 0 to itself and opens both ends. Once a group.
///
/// # Errors
/// The depth is impossible, or the group has such a queue already.
pub fn pair(
    worker: &Worker<'static>,
    depth: u32,
) -> Result<(Producer<'static>, Consumer<'static>), Failure> {
    let config = QueueConfig {
        name: "self",
        depth,
        flags: QueueFlags::empty(),
        consumer: SLOT,
        consumer_waiter: 0,
        ready_bit: 0,
    };
    let failed = |error| format!("queue: {error:?}");
    let id = worker.memory.create_queue(worker, &config).map_err(failed)?;
    worker.memory.grant_queue(worker, id, SLOT, Rights::WRITE).map_err(failed)?;
    let producer = Producer::open(worker, id, None).map_err(failed)?;
    Ok((producer, Consumer::open(worker, id).map_err(failed)?))
}

impl Side for QueuePair {
    fn name(&self) -> &str {
        &self.name
    }

    fn block(&mut self, rounds: u64) -> Result<f64, Failure> {
        let memory = self.worker.memory;
        let mut mbuf = self.mbuf.take().ok_or("the mbuf was lost in an earlier block")?;
        let started = Instant::now();
        for _ in 0..rounds {
            let wakes = self
                .producer
                .enqueue(&mut self.worker, black_box(mbuf))
                .map_err(|rejected| format!("enqueue: {:?}", rejected.reason))?;
            ring(&memory, wakes);
            let (taken, wakes) = self
                .consumer
                .dequeue(&mut self.worker)
                .map_err(|error| format!("dequeue: {error:?}"))?;
            ring(&memory, wakes);
            mbuf = taken;
        }
        let elapsed = started.elapsed();
        self.mbuf = Some(mbuf);
        Ok(crate::ns_each(elapsed, rounds))
    }
}

#[cfg(test)]
mod tests {
    use super::{Memory, Sizes, pair};
    use executor_core::pool::Head;

    /// A ring word holds entry, block, 15 bits of the entry's generation and the turn bit: none of
    /// their combinations may look like an empty slot, least of all all zeros.
    #[test]
    fn every_generation_of_the_first_entry_gets_through() {
        for block_count in 1..=4 {
            let memory = Memory::create(Sizes { block_size: 64, block_count, depth: 4 }).unwrap();
            let mut worker = memory.worker().unwrap();
            let (mut producer, mut consumer) = pair(&worker, 4).unwrap();
            for message in 0..40_000 * u64::from(block_count) {
                let mbuf = worker.alloc(64, Head::Unset).unwrap();
                let entry = mbuf.entry();
                assert!(producer.enqueue(&mut worker, mbuf).unwrap().is_empty());
                let taken = consumer.dequeue(&mut worker);
                let (mbuf, wakes) = taken
                    .unwrap_or_else(|error| panic!("message {message}, entry {entry}: {error:?}"));
                assert!(wakes.is_empty() && worker.free(mbuf).is_empty());
            }
        }
    }
}
