//! What the figures share: interleaved blocks, statistics, roles, rivals and physical limits.
//!
//! A figure is a binary `figure-NAME` that prints one JSON object as its last line. Two things are
//! compared by running *blocks* of them in turn (A B A B …) and taking the median of the paired
//! ratios, because the machine's speed drifts within seconds: a ratio of two neighbours is stable
//! where two absolute numbers are not. Each side is set up before the first block and sleeps while
//! another side's block runs. Processes of a measurement are this binary again, started as
//! `/proc/self/exe role NAME …` with a shared memfd ([`role`]); rivals are binaries of
//! `benches/rivals`, spoken to line by line ([`rival`]).

#![deny(unsafe_code)]

pub mod args;
pub mod blocks;
pub mod cores;
pub mod device;
pub mod flow;
pub mod kernels;
pub mod limits;
pub mod machine;
pub mod ours;
pub mod report;
pub mod rival;
pub mod role;
pub mod shared;
pub mod spin;
pub mod stats;

/// Why a figure could not be measured; its text says what, where and what to do.
pub type Failure = Box<dyn std::error::Error>;

/// Nanoseconds per unit of a timed stretch.
#[must_use]
#[allow(clippy::cast_precision_loss, reason = "durations and counts of a block are below 2^53")]
pub fn ns_each(elapsed: std::time::Duration, units: u64) -> f64 {
    elapsed.as_nanos() as f64 / units as f64
}

/// Plays the role named on the command line, if there is one; true when it did and the process is
/// to end.
///
/// # Errors
/// The role is unknown or failed.
pub fn play_role() -> Result<bool, Failure> {
    let Some((name, member)) = role::Member::from_env()? else { return Ok(false) };
    match limits::play(&name, &member).or_else(|| ours::play(&name, &member)) {
        Some(played) => played.map(|()| true),
        None => Err(format!("no role named {name:?}").into()),
    }
}
