//! Loom models of `executor-core`: every schedule of two or three threads up to a preemption bound.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p executor-core --release --test loom
//! ```
//! Bound 2; 3 with `DFLOW_LOOM_FULL=1`, which also runs the larger variants. The models execute the
//! very code of the product over loom's atomics; `kill` lets a participant vanish at every point
//! where a store of its could be its last.
#![cfg(loom)]
#![allow(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

#[path = "loom/gate.rs"]
mod gate;
#[path = "loom/kill.rs"]
mod kill;
#[path = "loom/kill_pool.rs"]
mod kill_pool;
#[path = "loom/kill_queue.rs"]
mod kill_queue;
#[path = "loom/life.rs"]
mod life;
#[path = "loom/points.rs"]
mod points;
#[path = "loom/pool.rs"]
mod pool;
#[path = "loom/ring.rs"]
mod ring;
#[path = "loom/support.rs"]
mod support;
#[path = "loom/wake.rs"]
mod wake;
