//! `figure-queue`: enqueue and dequeue in one thread, beside `crossbeam_queue::ArrayQueue`.
//!
//! Measured: one enqueue and one dequeue of an mbuf, journal and ownership included, ns per pair;
//! the rival pushes and pops a boxed handle. Both are pinned to the same core and take turns.
//! Back of the envelope: about 2.5 ns of protocol stores plus the two index updates of a ring.

use benches::Failure;
use benches::args::{Args, rivals_dir};
use benches::blocks::{Side, interleave};
use benches::cores::Cores;
use benches::ours::queue::QueuePair;
use benches::report::Report;
use benches::rival::Rival;

fn main() -> Result<(), Failure> {
    if benches::play_role()? {
        return Ok(());
    }
    let args = Args::from_env()?;
    let cores = Cores::pin()?;
    let core = [cores.near.to_string()];
    let mut sides: Vec<Box<dyn Side>> = vec![
        Box::new(QueuePair::start("ours")?),
        Box::new(Rival::start("array_queue", &rivals_dir(), "rival-array-queue", &core)?),
    ];
    let table = interleave(args.plan(), &mut sides)?;
    let mut report = Report::new("queue");
    report.summary("enqueue_dequeue_ns", table.summary("ours")?);
    report.summary("array_queue_ns", table.summary("array_queue")?);
    report.summary("vs_array_queue", table.ratio("ours", "array_queue")?);
    report.print()?;
    Ok(())
}
