//! Settings of the session that runs a graph.

use serde::{Deserialize, Serialize};

/// Session settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SessionSettings {
    /// Transactions that may be open at a time; a feed beyond it waits. Default 64.
    pub max_open: u32,
    /// Deadline of a transaction that is fed without its own, in milliseconds. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u32>,
    /// What all partitions together may take, `size[:limit],…` in bytes (`memory_config`).
    /// Default: the memory of this machine or control group, at most 256 GiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
}

impl Default for SessionSettings {
    fn default() -> Self {
        Self { max_open: 64, deadline_ms: None, memory: None }
    }
}
