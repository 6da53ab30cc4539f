//! `figure-chain`: identity functions in a line, asleep, beside a bare futex ring.
//!
//! n executors and the host, all pinned to one core; a message goes host → p1 → … → pn → host, one
//! at a time. The ring is n processes and the host that hand a futex word around on the same core.
//! A hop is a hand-over from one process to the next one, asleep until then: n + 1 a round on both
//! sides. Ours includes all that an application does: tensor made, fed (copied in once), fetched,
//! compared, given back. `growth_vs_ring` is the ratio of n = 8 over that of n = 1, block by block.
//!
//! `sunk_vs_through_host`: one flow of 8 nodes beside the same 8 nodes as flows of one node each,
//! results copied out and fed again by the host; time per message of 1 MiB, a small page, and of
//! 4 KiB beside (`_4kib`), where hops alone count: 16 against 9.
//! `pipeline_vs_slowest_stage`: two stages of 1 ms on two cores; 1 ms over the time per message.

use benches::Failure;
use benches::args::Args;
use benches::blocks::{Plan, Side, Table, interleave};
use benches::cores::Cores;
use benches::flow::chain::{Chain, ThroughHost};
use benches::flow::pipeline::{Pipeline, STAGE_US};
use benches::limits::ring::FutexRing;
use benches::report::Report;
use benches::stats::{paired_ratios, summarise};

/// Lengths of the chains.
const LENGTHS: [usize; 4] = [1, 2, 4, 8];

/// Payload of the chains beside the ring.
const SMALL: usize = 8;

/// Payloads of the comparison with the host in between.
const SUNK: [(&str, usize); 2] = [("", 1 << 20), ("_4kib", 4096)];

/// Nodes of that comparison.
const SUNK_NODES: usize = 8;

fn main() -> Result<(), Failure> {
    if benches::play_role()? {
        return Ok(());
    }
    let args = Args::from_env()?;
    let cores = Cores::pin()?;
    let mut report = Report::new("chain");
    let mut copied = chains(&mut report, args.plan(), cores.near)?;
    for (suffix, bytes) in SUNK {
        copied += sunk(&mut report, args.plan(), cores.near, suffix, bytes)?;
    }
    report.put("bytes_copied", copied);
    pipeline(&mut report, args, cores)?;
    report.print()?;
    Ok(())
}

/// A chain whose counters are read after the blocks.
type Shared = std::rc::Rc<std::cell::RefCell<Chain>>;

struct Seen(String, Shared);

impl Side for Seen {
    fn name(&self) -> &str {
        &self.0
    }

    fn block(&mut self, rounds: u64) -> Result<f64, Failure> {
        self.1.borrow_mut().block(rounds)
    }
}

fn seen(chain: Chain, all: &mut Vec<Shared>) -> Box<dyn Side> {
    let name = chain.name().to_owned();
    let shared = Shared::new(chain.into());
    all.push(Shared::clone(&shared));
    Box::new(Seen(name, shared))
}

fn chains(report: &mut Report, plan: Plan, core: usize) -> Result<u64, Failure> {
    let (mut sides, mut ours): (Vec<Box<dyn Side>>, _) = (Vec::new(), Vec::new());
    for count in LENGTHS {
        let ring = FutexRing::start(&format!("ring_{count}"), &vec![core; count])?;
        sides.push(Box::new(ring));
        let chain = Chain::start(&format!("ours_{count}"), count, core, SMALL)?;
        sides.push(seen(chain, &mut ours));
    }
    let table = interleave(plan, &mut sides)?;
    for count in LENGTHS {
        let (ours, ring) = (format!("ours_{count}"), format!("ring_{count}"));
        let key = count.to_string();
        report.member("hop_ns", &key, table.summary(&ours)?);
        report.member("ring_hop_ns", &key, table.summary(&ring)?);
        report.member("ratio", &key, table.ratio(&ours, &ring)?);
    }
    let growth = paired_ratios(&ratios(&table, 8)?, &ratios(&table, 1)?);
    report.summary("growth_vs_ring", summarise(&growth).ok_or("no blocks")?);
    Ok(ours.iter().map(|chain| chain.borrow().bytes_copied()).sum())
}

fn ratios(table: &Table, count: usize) -> Result<Vec<f64>, Failure> {
    let ours = table.samples(&format!("ours_{count}"))?;
    Ok(paired_ratios(ours, table.samples(&format!("ring_{count}"))?))
}

fn sunk(
    report: &mut Report,
    plan: Plan,
    core: usize,
    suffix: &str,
    bytes: usize,
) -> Result<u64, Failure> {
    let mut chains = Vec::new();
    let chain = Chain::start("sunk", SUNK_NODES, core, bytes)?.per_message();
    let through = ThroughHost::start("through", SUNK_NODES, core, bytes)?;
    let mut sides = vec![Box::new(through) as Box<dyn Side>, seen(chain, &mut chains)];
    let blocks = plan.blocks / 2;
    let table = interleave(Plan { blocks, ..plan }, &mut sides)?;
    report.summary(&format!("sunk{suffix}_ns"), table.summary("sunk")?);
    report.summary(&format!("through_host{suffix}_ns"), table.summary("through")?);
    let key = format!("sunk_vs_through_host{suffix}");
    report.summary(&key, table.ratio("through", "sunk")?);
    Ok(chains.iter().map(|chain| chain.borrow().bytes_copied()).sum())
}

fn pipeline(report: &mut Report, args: Args, cores: Cores) -> Result<(), Failure> {
    // Its threads run where there is room.
    sys::affinity::set_current(&[cores.near, cores.far])?;
    let times = if args.full { 10 } else { 1 };
    let plan = Plan { blocks: 41 * times, block_ms: 100, budget_ms: 12_000 * times as u64 };
    let mut sides: Vec<Box<dyn Side>> = vec![Box::new(Pipeline::start([cores.near, cores.far])?)];
    let table = interleave(plan, &mut sides)?;
    #[allow(clippy::cast_precision_loss, reason = "a millisecond in nanoseconds")]
    let stage_ns = STAGE_US as f64 * 1e3;
    let shares: Vec<f64> =
        table.samples("pipeline")?.iter().map(|found| stage_ns / found).collect();
    report.summary("pipeline_message_ns", table.summary("pipeline")?);
    report.summary("pipeline_vs_slowest_stage", summarise(&shares).ok_or("no blocks")?);
    Ok(())
}
