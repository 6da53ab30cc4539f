//! What `/proc` tells about processes.
//!
//! A process may end between two reads, so nothing here is an error: what can't be read is left
//! out.

use std::fs;
use std::os::unix::fs::MetadataExt;

use crate::mapping::page_size;

/// `/proc/<pid>/task/*/children`: the children of a process, ascending.
///
/// # References
/// proc_tid_children(5), proc_pid_stat(5)
#[must_use]
pub fn children(pid: u32) -> Vec<u32> {
    let mut found: Vec<u32> =
        all().filter(|&other| Stat::read(other).is_some_and(|stat| stat.parent == pid)).collect();
    found.sort_unstable();
    found
}

/// `/proc/<pid>/stat`: what a process started and what those started, each with its parent, parents
/// first. Orphans, whose parent has ended, are not among them.
///
/// # References
/// proc_pid_stat(5)
#[must_use]
pub fn descendants(pid: u32) -> Vec<(u32, u32)> {
    let pairs: Vec<(u32, u32)> =
        all().filter_map(|other| Some((other, Stat::read(other)?.parent))).collect();
    let mut found: Vec<(u32, u32)> = Vec::new();
    let mut parents = vec![pid];
    while let Some(parent) = parents.pop() {
        // Numbers change hands while they are read: nobody is found twice.
        let known = |pid| found.iter().any(|&(other, _)| other == pid);
        let children = pairs.iter().filter(|&&(pid, of)| of == parent && !known(pid));
        let children: Vec<(u32, u32)> = children.copied().collect();
        parents.extend(children.iter().map(|&(pid, _)| pid));
        found.extend(children);
    }
    found
}

/// `/proc/thread-self/children`: the children that the calling thread made or adopted, ascending,
/// by their numbers in the mounted `/proc`; `None` where the kernel does not list them.
///
/// Complete as long as nobody else reaps them: the list has no gaps then. Costs the children, where
/// [`children`] reads about every process there is.
///
/// # References
/// proc_tid_children(5)
#[must_use]
pub fn own_children() -> Option<Vec<u32>> {
    let text = fs::read_to_string("/proc/thread-self/children").ok()?;
    let mut found: Vec<u32> = text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect();
    found.sort_unstable();
    Some(found)
}

/// `/proc/<pid>/comm`: processes of this uid with the given name (at most 15 bytes of it),
/// ascending.
///
/// Zombies, which have no descriptors any more, are left out.
///
/// # References
/// proc_pid_comm(5)
#[must_use]
pub fn find_by_comm(name: &str) -> Vec<u32> {
    let Ok(own) = fs::metadata("/proc/self") else { return Vec::new() };
    let name = cut(name);
    let mut found: Vec<u32> = all()
        .filter(|&pid| {
            let owner = fs::metadata(format!("/proc/{pid}")).map(|data| data.uid());
            owner.is_ok_and(|uid| uid == own.uid())
                && comm(pid).is_some_and(|comm| comm.as_bytes() == name)
                && state(pid).is_some_and(|state| !matches!(state, 'Z' | 'X'))
        })
        .collect();
    found.sort_unstable();
    found
}

/// `/proc/<pid>/comm`: the name of a process.
///
/// # References
/// proc_pid_comm(5)
#[must_use]
pub fn comm(pid: u32) -> Option<String> {
    let text = fs::read(format!("/proc/{pid}/comm")).ok()?;
    let text = String::from_utf8_lossy(&text);
    Some(text.strip_suffix('\n').unwrap_or(&text).to_owned())
}

/// `/proc/<pid>/fd`: open descriptors with what they point to, ascending, such as
/// `(5, "/memfd:name (deleted)")`.
///
/// # References
/// proc_pid_fd(5)
#[must_use]
pub fn descriptors(pid: u32) -> Vec<(i32, String)> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return Vec::new() };
    let mut found: Vec<(i32, String)> = entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let number = entry.file_name().to_str()?.parse().ok()?;
            let link = fs::read_link(entry.path()).ok()?;
            Some((number, link.to_string_lossy().into_owned()))
        })
        .collect();
    found.sort_unstable();
    found
}

/// `/proc/<pid>/statm`: bytes of physical memory the process maps, shared ones counted in full.
///
/// # References
/// proc_pid_statm(5)
#[must_use]
pub fn resident(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    pages.checked_mul(u64::try_from(page_size()).ok()?)
}

/// `/proc/<pid>/smaps_rollup`: bytes of physical memory, shared ones divided among their users.
///
/// # References
/// proc_pid_smaps(5)
#[must_use]
pub fn proportional(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// `/proc/<pid>/stat`: the state: `R` running, `S` sleeping, `D` in the kernel, `T` stopped, `Z`
/// ended and not reaped.
///
/// # References
/// proc_pid_stat(5)
#[must_use]
pub fn state(pid: u32) -> Option<char> {
    Stat::read(pid).map(|stat| stat.state)
}

/// `/proc/<pid>/stat`: the parent's number; zero when it is outside of the PID namespace.
///
/// # References
/// proc_pid_stat(5)
#[must_use]
pub fn parent(pid: u32) -> Option<u32> {
    Stat::read(pid).map(|stat| stat.parent)
}

/// The first 15 bytes, as the kernel keeps them.
fn cut(name: &str) -> &[u8] {
    name.as_bytes().get(..15).unwrap_or(name.as_bytes())
}

/// Every process number of `/proc`.
fn all() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// The fields of `/proc/<pid>/stat` used here.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    state: char,
    parent: u32,
}

impl Stat {
    fn read(pid: u32) -> Option<Self> {
        let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
        Self::parse(&String::from_utf8_lossy(&text))
    }

    /// The name is in parentheses and may hold any of ` ()`, so fields count from the last one.
    fn parse(text: &str) -> Option<Self> {
        let (_, rest) = text.rsplit_once(')')?;
        let mut fields = rest.split_whitespace();
        let state = fields.next()?.chars().next()?;
        Some(Self { state, parent: fields.next()?.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::thread;

    use super::*;
    use crate::clock::MonoTime;
    use crate::memfd;
    use crate::pidfd::{Event, PidFd};
    use crate::signal::Signal;
    use crate::spawn::tests::{sh, sleeper};

    #[test]
    fn a_child_is_listed_until_it_is_reaped() {
        let own = std::process::id();
        let child = sleeper();
        assert!(children(own).contains(&child.pid));
        assert!(own_children().is_none_or(|own| own.contains(&child.pid)));
        assert_eq!(parent(child.pid), Some(own));
        assert_eq!(comm(child.pid).as_deref(), Some("sleep"));
        assert!(find_by_comm("sleep").contains(&child.pid));
        child.pidfd.signal(Signal::STOP).expect("stop");
        assert_eq!(child.pidfd.wait(), Ok(Some(Event::Stopped)));
        assert_eq!(state(child.pid), Some('T'));
        child.pidfd.signal(Signal::KILL).expect("kill");
        child.pidfd.wait_end().expect("wait");
        assert!(!children(own).contains(&child.pid));
        assert!(own_children().is_none_or(|own| !own.contains(&child.pid)));
        assert_eq!((comm(child.pid), state(child.pid)), (None, None));
        assert_eq!(descriptors(child.pid), []);
    }

    #[test]
    fn descendants_are_found_through_their_parents() {
        let shell = sh("sh -c 'sleep 1000; true' & wait");
        let watchdog = MonoTime::now().add_ms(60_000);
        // The shells start one after the other; nothing but /proc tells.
        let found = loop {
            let found = descendants(shell.pid);
            if found.iter().any(|&(pid, _)| comm(pid).as_deref() == Some("sleep")) {
                break found;
            }
            assert!(!watchdog.is_past(MonoTime::now()), "{found:?}");
            thread::yield_now();
        };
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!((found[0].1, found[1].1), (shell.pid, found[0].0));
        for pid in found.iter().map(|&(pid, _)| pid).chain([shell.pid]) {
            PidFd::open(pid).expect("open").signal(Signal::KILL).expect("kill");
        }
        shell.pidfd.wait_end().expect("wait");
    }

    #[test]
    fn a_memory_file_is_found_by_its_name() {
        let fd = memfd::create("procfs-test", 1).expect("memfd");
        let wanted = (fd.as_raw_fd(), "/memfd:procfs-test (deleted)".to_owned());
        assert!(descriptors(std::process::id()).contains(&wanted));
    }

    #[test]
    fn memory_of_this_process() {
        let own = std::process::id();
        let resident = resident(own).expect("statm");
        assert!(resident > 0 && resident.is_multiple_of(page_size() as u64));
        assert!(proportional(own).expect("smaps_rollup") > 0);
    }

    #[test]
    fn a_name_with_parentheses_does_not_confuse() {
        let stat = Stat::parse("7 (a) R 1 (b)) T 42 7 7 0");
        assert_eq!(stat, Some(Stat { state: 'T', parent: 42 }));
        assert_eq!(Stat::parse("nonsense"), None);
        let name = thread::spawn(|| cut("dflow-supervisor").to_vec());
        assert_eq!(name.join().expect("thread"), b"dflow-superviso");
    }
}
