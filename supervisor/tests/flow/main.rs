//! The supervisor with real processes: shells as executors, a real memory group, signals as
//! failures.
//!
//! Every test waits on the status futex or on pidfds with a watchdog; none sleeps. Each runs with a
//! PID namespace and without one where that can matter.
#![deny(unsafe_code)]

mod deaths;
mod devices;
mod ends;
mod restarts;
mod support;
mod sweeps;
