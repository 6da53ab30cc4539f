//! Processes of a flow, to be sure afterwards that all of them have ended.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::time::{Duration, Instant};

/// Descriptors of processes: the numbers may be used again, these stay.
#[derive(Debug, Default)]
pub(crate) struct Processes(Vec<(u32, OwnedFd)>);

impl Processes {
    /// `root` and everything below it, grandchildren of user functions too.
    pub(crate) fn below(root: u32) -> Processes {
        let mut found = Processes::default();
        let mut next = vec![root];
        while let Some(pid) = next.pop() {
            let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
            if let Some(pidfd) = raw.and_then(|raw| pidfd_open(raw, PidfdFlags::empty()).ok()) {
                found.0.push((pid, pidfd));
                next.extend(children(pid));
            }
        }
        found
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Those that still run after `patience`.
    pub(crate) fn left_after(&self, patience: Duration) -> Vec<u32> {
        let deadline = Instant::now() + patience;
        let runs = |pidfd: &OwnedFd| {
            let left = deadline.saturating_duration_since(Instant::now());
            let left = Timespec::try_from(left).ok();
            // A process descriptor is readable once its process has ended.
            let ended = poll(&mut [PollFd::new(pidfd, PollFlags::IN)], left.as_ref());
            !matches!(ended, Ok(1..))
        };
        self.0.iter().filter(|(_, pidfd)| runs(pidfd)).map(|(pid, _)| *pid).collect()
    }
}

fn children(pid: u32) -> Vec<u32> {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let lists = tasks
        .flatten()
        .filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let lists: Vec<String> = lists.collect();
    lists.iter().flat_map(|list| list.split_whitespace()).flat_map(str::parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_process_is_left_until_it_ends() {
        let mut child =
            Command::new("cat").stdin(std::process::Stdio::piped()).spawn().expect("cat");
        let all = Processes::below(std::process::id());
        assert!(all.len() >= 2);
        let one = Processes::below(child.id());
        assert_eq!(one.left_after(Duration::ZERO), [child.id()]);
        drop(child.stdin.take());
        child.wait().expect("ends");
        assert!(one.left_after(Duration::ZERO).is_empty());
    }
}
