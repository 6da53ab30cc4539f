//! `figure-hop`: one message from process to process, beside a cache line, iceoryx2 and a futex.
//!
//! One hop = alloc, write the MsgInfo and the descriptor's fields in use (three lines), enqueue →
//! dequeue, read both and the payload's first and last line, free. Spinning part: two processes on
//! two cores, ping-pong, half a round trip is one hop; the line transfer, both payload sizes and
//! both rivals take turns. Sleeping part: the consumer is parked in the kernel when the message
//! comes, beside a bare futex hand-over between the same cores. Excluded: set-up, the first rounds
//! of each block. Back of the envelope: slot word, head line and descriptor lines cross once each.

use benches::Failure;
use benches::args::{Args, rivals_dir};
use benches::blocks::{Side, Table, interleave};
use benches::cores::Cores;
use benches::limits::line::LineTransfer;
use benches::limits::memcpy::Memcpy;
use benches::limits::ring::FutexRing;
use benches::ours::hop::{Hop, Wait};
use benches::report::Report;
use benches::rival::Rival;

/// The large payload.
const LARGE: usize = 4 << 20;

fn main() -> Result<(), Failure> {
    if benches::play_role()? {
        return Ok(());
    }
    let args = Args::from_env()?;
    let cores = Cores::pin()?;
    let spinning = interleave(args.plan(), &mut spinning_sides(cores)?)?;
    let sleeping = interleave(args.plan(), &mut sleeping_sides(cores)?)?;
    let mut report = Report::new("hop");
    report_spinning(&mut report, &spinning)?;
    report_sleeping(&mut report, &sleeping)?;
    report.print()?;
    Ok(())
}

fn spinning_sides(cores: Cores) -> Result<Vec<Box<dyn Side>>, Failure> {
    let rival = |name: &str, size: usize| {
        let args = [size.to_string(), cores.near.to_string(), cores.far.to_string()];
        Rival::start(name, &rivals_dir(), "rival-iceoryx2", &args)
    };
    Ok(vec![
        Box::new(LineTransfer::start(cores.far)?),
        Box::new(Hop::start("ours_8", Wait::Spin, 8, cores.far)?),
        Box::new(rival("iceoryx2_8", 8)?),
        Box::new(Hop::start("ours_4mib", Wait::Spin, LARGE, cores.far)?),
        Box::new(rival("iceoryx2_4mib", LARGE)?),
        Box::new(Memcpy::new("memcpy_4mib", LARGE)),
    ])
}

fn sleeping_sides(cores: Cores) -> Result<Vec<Box<dyn Side>>, Failure> {
    Ok(vec![
        Box::new(FutexRing::start("futex_one", &[cores.near])?),
        Box::new(Hop::start("ours_one", Wait::Park, 8, cores.near)?),
        Box::new(FutexRing::start("futex_two", &[cores.far])?),
        Box::new(Hop::start("ours_two", Wait::Park, 8, cores.far)?),
    ])
}

fn report_spinning(report: &mut Report, table: &Table) -> Result<(), Failure> {
    report.summary("line_transfer_ns", table.summary("line")?);
    report.summary("spin_hop_ns", table.summary("ours_8")?);
    report.summary("spin_hop_lines", table.ratio("ours_8", "line")?);
    report.summary("iceoryx2_ns", table.summary("iceoryx2_8")?);
    report.summary("iceoryx2_lines", table.ratio("iceoryx2_8", "line")?);
    report.summary("vs_iceoryx2", table.ratio("ours_8", "iceoryx2_8")?);
    report.summary("spin_hop_4mib_ns", table.summary("ours_4mib")?);
    report.summary("iceoryx2_4mib_ns", table.summary("iceoryx2_4mib")?);
    report.summary("vs_iceoryx2_4mib", table.ratio("ours_4mib", "iceoryx2_4mib")?);
    report.summary("size_4mib_vs_8b", table.ratio("ours_4mib", "ours_8")?);
    report.summary("memcpy_4mib_ns", table.summary("memcpy_4mib")?);
    Ok(())
}

fn report_sleeping(report: &mut Report, table: &Table) -> Result<(), Failure> {
    report.summary("futex_one_core_ns", table.summary("futex_one")?);
    report.summary("wake_one_core_ns", table.summary("ours_one")?);
    report.summary("wake_one_core_vs_futex", table.ratio("ours_one", "futex_one")?);
    report.summary("futex_two_cores_ns", table.summary("futex_two")?);
    report.summary("wake_two_cores_ns", table.summary("ours_two")?);
    report.summary("wake_two_cores_vs_futex", table.ratio("ours_two", "futex_two")?);
    Ok(())
}
