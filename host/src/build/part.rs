//! Folders that builds work in, `KEY.PID.part` in the cache, and the removal of forgotten ones.
//!
//! A folder is forgotten when the process of its number is gone *and* nobody holds its lock: the
//! number alone says nothing about another PID namespace that has the same cache, the lock alone
//! nothing between the making of a folder and its lock. A number that another process has got
//! keeps a folder for as long.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use sys::procfs;

/// Last part of such a name.
const EXTENSION: &str = "part";

/// A folder of this process, locked while this lives.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) path: PathBuf,
    _lock: Option<File>,
}

impl Part {
    /// Makes an empty folder beside `kept`.
    pub(super) fn create(kept: &Path) -> io::Result<Part> {
        // A name of its own: another process may build the same.
        let mut path = kept.as_os_str().to_owned();
        path.push(format!(".{}.{EXTENSION}", std::process::id()));
        let path = PathBuf::from(path);
        let _none = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path)?;
        // Without locks (some network file systems) the number alone counts.
        let lock = File::open(&path)?;
        let lock = lock.try_lock().is_ok().then_some(lock);
        Ok(Part { path, _lock: lock })
    }

    /// Removes what is in it.
    pub(super) fn remove(&self) {
        let _gone = std::fs::remove_dir_all(&self.path);
    }
}

/// Removes what processes left that were killed while they built.
pub(super) fn remove_forgotten(cache: &Path) {
    for entry in std::fs::read_dir(cache).into_iter().flatten().flatten() {
        let path = entry.path();
        let Some(pid) = pid_of(&path) else { continue };
        let lives = procfs::state(pid).is_some_and(|state| !matches!(state, 'Z' | 'X'));
        if lives {
            continue;
        }
        let Ok(folder) = File::open(&path) else { continue };
        if folder.try_lock().is_ok() {
            let _gone = std::fs::remove_dir_all(&path);
        }
    }
}

/// The number in `KEY.PID.part`.
fn pid_of(path: &Path) -> Option<u32> {
    let name = path.file_name()?.to_str()?.strip_suffix(EXTENSION)?.strip_suffix('.')?;
    name.rsplit_once('.')?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};
    use std::process::Command;

    use super::{Part, pid_of, remove_forgotten};

    #[test]
    fn only_what_nobody_builds_in_is_removed() {
        let name = format!("dflow-part-{}", std::process::id());
        let cache: PathBuf = std::env::temp_dir().join(name);
        let mut gone = Command::new("/bin/true").spawn().expect("spawn");
        gone.wait().expect("wait");
        let dead = gone.id();
        let kept = cache.join("a-1234");
        std::fs::create_dir_all(&kept).expect("folder");
        let own = Part::create(&kept).expect("part");
        let names = [format!("b-5.{dead}.part"), format!("c-5.{dead}.part"), "part".to_owned()];
        for name in &names {
            std::fs::create_dir_all(cache.join(name).join("build")).expect("folder");
        }
        // As a process of another PID namespace holds it.
        let lock = std::fs::File::open(cache.join(&names[1])).expect("open");
        lock.lock().expect("lock");
        remove_forgotten(&cache);
        let there = |path: &Path| path.is_dir();
        assert!(there(&kept) && there(&own.path) && there(&cache.join("part")));
        assert!(!there(&cache.join(&names[0])) && there(&cache.join(&names[1])));
        drop(lock);
        remove_forgotten(&cache);
        assert!(!there(&cache.join(&names[1])));
        own.remove();
        assert!(!there(&own.path));
        std::fs::remove_dir_all(&cache).expect("remove");
    }

    #[test]
    fn numbers_are_read_from_names() {
        assert_eq!(pid_of(Path::new("/x/a.b-12.77.part")), Some(77));
        for other in ["/x/a-12", "/x/77.part", "/x/a.x.part", "/x/a.77.partial"] {
            assert_eq!(pid_of(Path::new(other)), None, "{other}");
        }
    }
}
