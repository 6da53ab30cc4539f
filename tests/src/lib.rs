//! Shared parts of the integration and fault tests: a seeded random source, flows of the test
//! functions, and sessions that are killed and stopped while they work.
#![deny(unsafe_code)]

pub mod fault;
pub mod flows;
pub mod random;
