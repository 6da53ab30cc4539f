//! `figure-start`: how soon an executor is ready, how soon it is back, and what it weighs.
//!
//! One flow of one node with partitions of about 4 MiB, restart without a pause (`backoff_ms` 0);
//! the node's process is killed again and again. `ready_ms`: from the supervisor's spawn until the
//! slot is seen `Running`. `restart_ms`: from SIGKILL until a message fed right after it is
//! fetched: reaping, sweep, spawn, start and the message. `rss_anon_kib` and `pss_kib` are read
//! after a message went through; Pss is the share of everything but the arena, which is `arena_kib`
//! by itself. `prefault_ms_per_mib`: a group with populated pages beside one without.

use std::time::Instant;

use benches::Failure;
use benches::args::{Args, bin_dir};
use benches::cores::Cores;
use benches::flow::start::Starts;
use benches::report::Report;
use benches::stats::{Summary, summarise};
use executor_core::layout::{GroupConfig, PartitionConfig, PoolConfig};
use serde_json::json;

/// Executors whose size is reported.
const EXECUTORS: [&str; 3] = ["udf-executor", "npu-executor", "dflow-supervisor"];

/// Mebibytes of the group whose pages are touched.
const PREFAULT_MIB: u32 = 8;

fn main() -> Result<(), Failure> {
    if benches::play_role()? {
        return Ok(());
    }
    let args = Args::from_env()?;
    let cores = Cores::pin()?;
    // The executor on one core, the host on the other, the supervisor where there is room.
    sys::affinity::set_current(&[cores.near, cores.far])?;
    let starts = Starts::start(cores.far)?;
    sys::affinity::pin_current(cores.near)?;
    let mut report = Report::new("start");
    let blocks = if args.full { 410 } else { 41 };
    let (mut ready, mut restart, mut prefault) = (Vec::new(), Vec::new(), Vec::new());
    let (mut anonymous, mut proportional, mut arena) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..blocks {
        ready.push(starts.ready_ms()?);
        restart.push(starts.restart_ms()?);
        prefault.push((group_ms(true)? - group_ms(false)?) / f64::from(PREFAULT_MIB));
        let footprint = starts.footprint()?;
        anonymous.push(footprint.anonymous);
        proportional.push(footprint.proportional);
        arena.push(footprint.arena);
    }
    report.put("partition_kib", starts.partition_bytes() / 1024);
    report.put("restart_backoff_ms", 0);
    report.summary("ready_ms", summary(&ready)?);
    report.summary("restart_ms", summary(&restart)?);
    report.summary("rss_anon_kib", summary(&numbers(&anonymous))?);
    report.summary("pss_kib", summary(&numbers(&proportional))?);
    report.summary("arena_kib", summary(&numbers(&arena))?);
    report.summary("prefault_ms_per_mib", summary(&prefault)?);
    for name in EXECUTORS {
        report.at(&["binary_kib", name], json!(stripped_kib(name)?));
    }
    report.print()?;
    Ok(())
}

fn summary(samples: &[f64]) -> Result<Summary, Failure> {
    summarise(samples).ok_or_else(|| "a sample is not a number".into())
}

#[allow(clippy::cast_precision_loss, reason = "KiB of a process are far below 2^53")]
fn numbers(samples: &[u64]) -> Vec<f64> {
    samples.iter().map(|sample| *sample as f64).collect()
}

/// Milliseconds to make a group.
fn group_ms(populate: bool) -> Result<f64, Failure> {
    let pools = [PoolConfig { block_size: 1 << 20, block_count: PREFAULT_MIB }];
    let config = GroupConfig {
        name: "prefault",
        partitions: &[PartitionConfig { pools: &pools, extra_entries: 0 }],
        workers: 1,
        lanes: 1,
        heads: 1,
        ring_words: 2,
        queues: 1,
    };
    let started = Instant::now();
    let created = executor_rt::attach::create(&config, populate)?;
    let elapsed = started.elapsed();
    drop(created);
    Ok(elapsed.as_secs_f64() * 1e3)
}

/// Size of an executor's file, which the release profile strips.
fn stripped_kib(name: &str) -> Result<u64, Failure> {
    let path = bin_dir().join(name);
    let file = std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    if file.windows(8).any(|window| window == b".symtab\0") {
        return Err(format!("{} is not stripped; build it with --release", path.display()).into());
    }
    Ok((file.len() as u64).div_ceil(1024))
}
