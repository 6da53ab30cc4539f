//! Layouts, memory group, pools, mbufs, queues, wake protocol and sweep of dflow.
//!
//! This crate *decides and never acts*: no system call, no clock, no allocation, no I/O. A caller
//! maps memory, hands it over as a region, and rings the futexes that a verb names.
//!
//! Start with [`abi`] (what the bytes are) and [`error`] (what can go wrong).
#![no_std]
#![deny(unsafe_code)]
#![warn(clippy::std_instead_of_core, clippy::alloc_instead_of_core, clippy::indexing_slicing)]
#![warn(clippy::panic)]

pub mod abi;
pub mod error;
pub mod gate;
pub mod group;
pub mod inspect;
pub mod journal;
#[cfg(loom)]
pub mod kill;
pub mod layout;
pub mod mbuf;
pub mod model_state;
pub mod near;
pub mod owner;
pub mod pool;
pub mod primitive;
pub mod queue;
pub mod region;
pub mod sweep;
pub mod wake;

/// Version of this crate and of its ABI.
pub const VERSION: (&str, u32) = (env!("CARGO_PKG_VERSION"), abi::ABI_VERSION);
