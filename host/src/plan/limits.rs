//! What a plan has to stay within.

use crate::memory_config::MAX_BYTES;

/// Most executors of one memory group, models and devices included: its slots without the host's.
pub const MAX_EXECUTORS: usize = 63;
/// Most pools of one partition, the control pool included.
pub const MAX_POOLS: usize = 8;
/// Largest block: 4 GiB.
pub const MAX_BLOCK_BYTES: u64 = 4 << 30;
/// Most mbuf entries of a group.
pub const MAX_ENTRIES: u64 = (1 << 24) - 1;
/// Most messages that can be queued by one slot: the depths of all its lanes.
pub const MAX_RING_WORDS: u64 = 1 << 20;

/// Limits of a plan, in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Largest partition.
    pub partition: u64,
    /// Largest sum of all partitions.
    pub total: u64,
    /// The machine's memory, where known.
    pub machine: Option<u64>,
}

impl Default for Limits {
    /// 256 GiB for a partition and in all; the machine's memory is not looked at.
    fn default() -> Self {
        Self { partition: MAX_BYTES, total: MAX_BYTES, machine: None }
    }
}

impl Limits {
    /// The default limits and this machine's memory, from `/proc/meminfo`.
    #[must_use]
    pub fn of_machine() -> Self {
        let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        Self { machine: total_bytes(&text), ..Self::default() }
    }
}

fn total_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_machines_memory() {
        let text = "MemTotal:       24576 kB\nMemFree: 1 kB\n";
        assert_eq!(total_bytes(text), Some(24576 * 1024));
        assert_eq!(total_bytes(""), None);
    }
}
