//! Whole flows on real processes: what a user of the host library sees. No test sleeps; every wait
//! has a watchdog, and every flow is looked at for what it leaves.
#![deny(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod align;
mod align_time;
mod codes;
mod deploys;
mod ends;
mod halves;
mod models;
mod refusals;
mod stalls;
mod stops;
mod support;
mod times;
mod travel;
