//! What a flow leaves behind: processes by a tag in their environment, files by name.

use std::collections::BTreeSet;
use std::path::Path;

use sys::clock::MonoTime;

/// Environment variable that executors and all their descendants carry.
pub const TAG: &str = "FAULT_TAG";

/// Process ids whose environment carries this tag. Zombies have none and do not count.
#[must_use]
pub fn tagged(tag: &str) -> Vec<u32> {
    let needle = format!("{TAG}={tag}\0");
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| {
            let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environ.windows(needle.len()).any(|window| window == needle.as_bytes())
        })
        .collect()
}

/// Waits until neither a tagged process nor one of `pids` lives; the number that still do at the
/// watchdog.
#[must_use]
pub fn wait_gone(tag: &str, pids: &[u32]) -> u64 {
    let watchdog = MonoTime::now().add_ms(10_000);
    loop {
        let living = pids.iter().filter(|pid| is_alive(**pid)).count() + tagged(tag).len();
        if living == 0 || MonoTime::now() >= watchdog {
            return living as u64;
        }
        std::thread::yield_now();
    }
}

fn is_alive(pid: u32) -> bool {
    sys::procfs::state(pid).is_some_and(|state| state != 'Z')
}

/// Names with "dflow" in the places where shared memory and temporary files stand.
#[must_use]
pub fn files() -> BTreeSet<String> {
    let places = ["/dev/shm", "/tmp", "/var/tmp", "/run"];
    let entries = places.into_iter().filter_map(|place| std::fs::read_dir(Path::new(place)).ok());
    let names = entries.flatten().flatten().map(|entry| entry.path().display().to_string());
    names.filter(|name| name.to_lowercase().contains("dflow")).collect()
}

/// Those that came since `before`, without what another living process has made: its number ends
/// the name then, as in the folders of tests that run at the same time.
#[must_use]
pub fn files_since(before: &BTreeSet<String>) -> Vec<String> {
    let others = |name: &str| {
        let number = name.rsplit(['-', '/']).next().unwrap_or("");
        let number = number.split('.').next().and_then(|text| text.parse().ok());
        number.is_some_and(|pid| pid != std::process::id() && is_alive(pid))
    };
    files().into_iter().filter(|name| !before.contains(name) && !others(name)).collect()
}

/// The number of [`files_since`] `before`, each of them said.
#[must_use]
pub(super) fn count_since(before: &BTreeSet<String>) -> u64 {
    let left = files_since(before);
    left.iter().for_each(|name| println!("left: {name}"));
    left.len() as u64
}

/// A tag of its own for each session.
#[must_use]
pub fn new_tag(seed: u64) -> String {
    format!("{}-{seed}-{}", std::process::id(), MonoTime::now().as_ns())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_another_living_process_is_not_left() {
        let mut other = std::process::Command::new("sleep").arg("600").spawn().expect("sleep");
        let before = files();
        let made = [other.id(), std::process::id()].map(|pid| {
            let path = std::env::temp_dir().join(format!("dflow-left-{pid}"));
            std::fs::write(&path, b"").expect("file");
            path
        });
        let found = |path: &Path| files_since(&before).contains(&path.display().to_string());
        assert_eq!(made.each_ref().map(|path| found(path)), [false, true]);
        made.iter().for_each(|path| std::fs::remove_file(path).expect("ours"));
        other.kill().and_then(|()| other.wait()).expect("its end");
    }
}
