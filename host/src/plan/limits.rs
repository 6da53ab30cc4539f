//! What a plan has to stay within.

use std::path::{Path, PathBuf};

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
    /// The machine's memory or what this process's control group may use of it, where known.
    pub machine: Option<u64>,
}

impl Default for Limits {
    /// 256 GiB for a partition and in all; the machine's memory is not looked at.
    fn default() -> Self {
        Self { partition: MAX_BYTES, total: MAX_BYTES, machine: None }
    }
}

impl Limits {
    /// The default limits and the smaller one of this machine's memory (`/proc/meminfo`) and what
    /// the control groups of this process allow, version 1 and 2 (`/proc/self/cgroup`).
    #[must_use]
    pub fn of_machine() -> Self {
        let text = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
        let groups = group_bytes(&text(Path::new("/proc/self/cgroup")), text);
        let all = total_bytes(&text(Path::new("/proc/meminfo")));
        let machine = [all, groups].into_iter().flatten().min();
        Self { machine, ..Self::default() }
    }
}

/// The smallest limit of a process's groups and of those around them.
fn group_bytes(groups: &str, text: impl Fn(&Path) -> String) -> Option<u64> {
    let limits = groups.lines().flat_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (kind, group) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
        let (roots, file): (&[&str], _) = match kind {
            "" => (&["", "unified"], "memory.max"),
            _ if kind.split(',').any(|one| one == "memory") => {
                (&["memory"], "memory.limit_in_bytes")
            }
            _ => (&[], ""),
        };
        let around = Path::new(group.trim_start_matches('/')).ancestors();
        // A group whose path names one outside of what is mounted here is read as the root.
        let around = around.filter(|path| !path.starts_with(".."));
        let files = around.flat_map(move |path| {
            roots
                .iter()
                .map(move |root| Path::new("/sys/fs/cgroup").join(root).join(path).join(file))
        });
        files.collect::<Vec<_>>()
    });
    limits.filter_map(|path: PathBuf| text(&path).trim().parse().ok()).min()
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

    #[test]
    fn the_smallest_limit_of_the_groups_counts() {
        let files = [
            ("memory.max", "max\n"),
            ("a/memory.max", "2000\n"),
            ("a/b/memory.max", "max\n"),
            ("unified/u/memory.max", "1500\n"),
            ("memory/c/memory.limit_in_bytes", "1000\n"),
        ];
        let text = |path: &Path| {
            let path = path.strip_prefix("/sys/fs/cgroup").unwrap();
            let found = files.iter().find(|(own, _)| Path::new(own) == path);
            found.map_or_else(String::new, |(_, text)| (*text).to_owned())
        };
        let of = |groups: &str| group_bytes(groups, text);
        assert_eq!(of("0::/\n"), None);
        assert_eq!(of("0::/a/b\n"), Some(2000));
        assert_eq!(of("0::/u\n"), Some(1500));
        assert_eq!(of("0::/../../a\n"), None);
        assert_eq!(of("9:cpu:/\n4:cpuacct,memory:/c/d\n0::/a\n"), Some(1000));
        assert_eq!(of("garbage\n:::\n"), None);
    }
}
