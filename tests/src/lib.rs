//! Shared parts of the integration, fault and conformance tests: a seeded random source, flows of
//! the test functions, sessions that are killed and stopped while they work, and the suite for
//! backends of models.
#![deny(unsafe_code)]

pub mod conformance;
pub mod fault;
pub mod flows;
pub mod random;
