//! `figure-device`: tasks of the device of streams, beside a call and a cache-line transfer.
//!
//! One core on the far processor, the host on the near one, both looking out before they sleep.
//! Back of the envelope: a submission is one lock, one line of 64 bytes and a fence; running is
//! that line, two counts of the function and its call. A first task needs four lines between the
//! two: the ready bit, the scheduler's lock, the entry, the tail.

use benches::Failure;
use benches::args::Args;
use benches::blocks::{Side, interleave};
use benches::cores::Cores;
use benches::device::{self, Calls, Empty, First, Run};
use benches::limits::line::LineTransfer;
use benches::report::Report;
use executor_rt::interpose;

executor_rt::interpose_malloc!();

/// Runs over which allocations are counted.
const COUNTED: u64 = 100;

fn main() -> Result<(), Failure> {
    if benches::play_role()? {
        return Ok(());
    }
    let args = Args::from_env()?;
    let cores = Cores::pin()?;
    let context = device::start(cores)?;
    let run = Run::new(&context)?;
    run.times(10)?;
    let before = interpose::counts().setup;
    run.times(COUNTED)?;
    let allocs = interpose::counts().setup - before;
    drop(std::hint::black_box(vec![0u8; 64]));
    let counts = interpose::counts().setup - before > allocs;
    let mut sides: Vec<Box<dyn Side>> = vec![
        Box::new(Empty::new(&context)?),
        Box::new(Calls::default()),
        Box::new(First::new(&context)?),
        Box::new(LineTransfer::start(cores.far)?),
        Box::new(run),
    ];
    let table = interleave(args.plan(), &mut sides)?;
    let mut report = Report::new("device");
    report.put("allocs", allocs);
    report.put("counter_counts", counts);
    report.summary("empty_task_ns", table.summary("empty")?);
    report.summary("submit_to_first_task_ns", table.summary("first")?);
    report.summary("run_1000_us", table.summary("run")?);
    report.summary("call_ns", table.summary("call")?);
    report.summary("line_transfer_ns", table.summary("line")?);
    report.summary("first_task_lines", table.ratio("first", "line")?);
    report.print()?;
    Ok(())
}
