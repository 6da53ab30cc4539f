//! Hostile peers, seeded and bounded: a function that writes random words into everything its
//! process can write, and processes that are started with garbage. `DFLOW_FUZZ_FULL=1` runs many
//! seeds, `DFLOW_FUZZ_SEED=N` starts at another one; a failure names its seed.
//!
//! Oracle of a session: no survivor (host, supervisor, the other executors) crashes, panics or
//! hangs; every fed id ends in exactly one event; waits keep their deadlines; `close` returns and
//! leaves nothing.
#![deny(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod garbage;
mod pokes;
mod scribble;
mod survivors;

use std::time::Duration;

/// True for the long run.
fn is_full() -> bool {
    std::env::var_os("DFLOW_FUZZ_FULL").is_some_and(|value| value == "1")
}

/// First seed of this run.
fn first_seed() -> u64 {
    let text = std::env::var("DFLOW_FUZZ_SEED").ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// Time after which no further seed is begun.
fn time_limit() -> Duration {
    if is_full() { Duration::from_secs(240) } else { Duration::from_secs(9) }
}
