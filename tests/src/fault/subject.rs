//! What is harassed: a flow, what is fed to it, and how its results are known to be right.

use std::fmt::Debug;
use std::path::Path;

use dflow::{CheckedFlow, Tensor};

use crate::flows;

/// A flow with its oracle.
pub trait Subject: Sync + Debug {
    /// Its name in reports.
    fn name(&self) -> &'static str;

    /// The flow, checked.
    ///
    /// # Errors
    /// What is missing or wrong.
    fn flow(&self) -> Result<CheckedFlow, String>;

    /// What is fed as an id.
    fn message(&self, id: u64) -> Tensor;

    /// Whether a payload is the result of an id.
    fn is_result(&self, id: u64, bytes: &[u8]) -> bool;

    /// Number of outputs.
    fn outputs(&self) -> u32;

    /// About what a message takes in the flow, microseconds: the rhythm of kills and stops.
    fn rhythm_us(&self) -> u64;

    /// Folder of which a child process makes the same subject; none: [`Diamond`].
    fn folder(&self) -> Option<&Path>;
}

/// The test functions' flow: fan-out, a join, instances, a grandchild, two outputs.
#[derive(Clone, Copy, Debug)]
pub struct Diamond;

impl Subject for Diamond {
    fn name(&self) -> &'static str {
        "diamond"
    }

    fn flow(&self) -> Result<CheckedFlow, String> {
        flows::diamond().check().map_err(|refused| refused.to_string())
    }

    fn message(&self, id: u64) -> Tensor {
        flows::message(id, flows::ELEMENTS)
    }

    fn is_result(&self, id: u64, bytes: &[u8]) -> bool {
        bytes.len() == 8 * flows::ELEMENTS && flows::is_message(id, bytes)
    }

    fn outputs(&self) -> u32 {
        2
    }

    fn rhythm_us(&self) -> u64 {
        4_000
    }

    fn folder(&self) -> Option<&Path> {
        None
    }
}
