//! Processes that nobody wants: descendants of executors whose parent ended.
//!
//! They become children of the supervisor (PID 1 or subreaper), or of the watcher when the
//! supervisor is gone too. Only children are signalled: an unreaped child's number can't be another
//! process's. Killing one makes its children ours, so callers repeat until nothing is left.
//!
//! `/proc` shows numbers of the namespace it was mounted in; signals need those of ours. `NSpid:`
//! of
//! `/proc/<pid>/status` lists both.

use std::collections::BTreeSet;
use std::fs;

use sys::pidfd::PidFd;
use sys::signal::Signal;
use sys::{process, procfs};

/// Kills children that are not in `keep` (numbers of our namespace); returns how many there were.
/// They are reaped by the caller, who calls again then.
pub(crate) fn kill_except(keep: &[u32]) -> usize {
    let strays = children().into_iter().filter(|pid| !keep.contains(pid));
    strays.filter(|pid| PidFd::open(*pid).and_then(|fd| fd.signal(Signal::KILL)).is_ok()).count()
}

/// Kills and reaps every descendant. Sleeps until they are gone; only one that may not be signalled
/// (another user's, by a set-uid program) is left.
pub(crate) fn kill_all() {
    let mut left = BTreeSet::new();
    loop {
        while let Ok(Some(_)) = process::reap_any() {}
        let found: Vec<u32> = children().into_iter().filter(|pid| !left.contains(pid)).collect();
        if found.is_empty() {
            return;
        }
        let open = |pid: u32| PidFd::open(pid).and_then(|fd| fd.signal(Signal::KILL).map(|()| fd));
        let opened: Vec<_> = found.into_iter().map(|pid| (pid, open(pid))).collect();
        for (pid, child) in opened {
            if child.and_then(|child| child.wait_end()).is_err() {
                left.insert(pid);
            }
        }
    }
}

/// Children of this process, ended ones included, by their number in its own namespace.
fn children() -> Vec<u32> {
    let Some(own) = own_number() else { return Vec::new() };
    let depth = numbers(own).len();
    let number = |pid: u32| numbers(pid).get(depth.checked_sub(1)?).copied();
    // This process has one thread, so its children are all of them.
    let all = procfs::own_children().unwrap_or_else(|| procfs::children(own));
    all.into_iter().filter_map(number).collect()
}

/// Our number in the mounted `/proc`.
fn own_number() -> Option<u32> {
    fs::read_link("/proc/self").ok()?.to_str()?.parse().ok()
}

/// Numbers of a process, from the namespace of `/proc` inwards.
fn numbers(pid: u32) -> Vec<u32> {
    let text = fs::read(format!("/proc/{pid}/status")).unwrap_or_default();
    parse(&String::from_utf8_lossy(&text)).unwrap_or_else(|| vec![pid])
}

/// The `NSpid:` line; `None` on a kernel without namespaces.
fn parse(status: &str) -> Option<Vec<u32>> {
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    Some(line.split_whitespace().filter_map(|number| number.parse().ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::{numbers, own_number, parse};

    #[test]
    fn numbers_are_read_from_the_status() {
        assert_eq!(parse("Name:\tsh\nNSpid:\t42\t7\nThreads:\t1\n"), Some(vec![42, 7]));
        assert_eq!(parse("Name:\tsh\n"), None);
        let own = own_number().expect("proc");
        assert_eq!(numbers(own).last(), Some(&std::process::id()));
    }
}
