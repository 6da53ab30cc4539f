//! `figure-limits`: what this machine can do right now, and how quiet it is.
//!
//! The limits and the cross-process rival that other figures are quoted beside, alone: the line
//! transfer, iceoryx2 for two sizes, a memcpy, and the bare futex ring of 1, 2, 4 and 8 processes
//! asleep on one core and of one process on another core. Wide spreads mean that something else is
//! running, and no figure should be taken then.

use benches::Failure;
use benches::args::{Args, rivals_dir};
use benches::blocks::{Side, interleave};
use benches::cores::Cores;
use benches::limits::line::LineTransfer;
use benches::limits::memcpy::Memcpy;
use benches::limits::ring::FutexRing;
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
    let mut report = Report::new("limits");
    let mut sides = spinning_sides(cores)?;
    let table = interleave(args.plan(), &mut sides)?;
    drop(sides);
    report.summary("line_transfer_ns", table.summary("line")?);
    report.summary("iceoryx2_ns", table.summary("iceoryx2_8")?);
    report.summary("iceoryx2_lines", table.ratio("iceoryx2_8", "line")?);
    report.summary("iceoryx2_4mib_ns", table.summary("iceoryx2_4mib")?);
    report.summary("iceoryx2_4mib_lines", table.ratio("iceoryx2_4mib", "line")?);
    report.summary("memcpy_4mib_ns", table.summary("memcpy_4mib")?);
    let table = interleave(args.plan(), &mut rings(cores)?)?;
    for n in ["1", "2", "4", "8"] {
        report.member("futex_ring_one_core_ns", n, table.summary(n)?);
    }
    report.summary("futex_two_cores_ns", table.summary("two")?);
    report.print()?;
    Ok(())
}

fn spinning_sides(cores: Cores) -> Result<Vec<Box<dyn Side>>, Failure> {
    let rival = |name: &str, size: usize| {
        let args = [size, cores.near, cores.far].map(|number| number.to_string());
        Rival::start(name, &rivals_dir(), "rival-iceoryx2", &args)
    };
    Ok(vec![
        Box::new(LineTransfer::start(cores.far)?),
        Box::new(rival("iceoryx2_8", 8)?),
        Box::new(rival("iceoryx2_4mib", LARGE)?),
        Box::new(Memcpy::new("memcpy_4mib", LARGE)),
    ])
}

fn rings(cores: Cores) -> Result<Vec<Box<dyn Side>>, Failure> {
    let mut sides: Vec<Box<dyn Side>> = Vec::new();
    for n in [1usize, 2, 4, 8] {
        sides.push(Box::new(FutexRing::start(&n.to_string(), &vec![cores.near; n])?));
    }
    sides.push(Box::new(FutexRing::start("two", &[cores.far])?));
    Ok(sides)
}
