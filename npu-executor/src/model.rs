//! Files of models: found, mapped, checked, and shared by the instances that run them.

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Weak};

use executor_core::error::Code;
use executor_rt::node::Failure;
use npu::aligned::AlignedBytes;
use npu::engine;
use sys::sealed::SealedBytes;

/// Largest file that is copied because it is not sealed.
const COPY_MAX: u64 = 1 << 31;

/// Bytes of a program that nobody can change while it is used.
#[derive(Debug)]
pub(crate) enum Bytes {
    /// A sealed memory file, used from its mapping.
    Sealed(SealedBytes),
    /// A copy of any other file.
    Copy(AlignedBytes),
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        match self {
            Bytes::Sealed(bytes) => bytes.as_ref(),
            Bytes::Copy(bytes) => bytes,
        }
    }
}

/// A checked program.
pub(crate) type Model = engine::Model<Bytes>;

/// Device, inode, size and time of change: the same file, unchanged.
type Key = (u64, u64, u64, i64, i64);

/// Models of this process by their file; instances share weights and tables.
#[derive(Debug, Default)]
pub(crate) struct Models {
    known: BTreeMap<Key, Weak<Model>>,
}

fn bad(path: &Path, what: impl core::fmt::Display) -> Failure {
    Failure::new(Code::PARAM_INVALID, format!("model {}: {what}", path.display()))
}

/// `base_dir` + `model_path` by plain concatenation, or the saved file where it exists
/// (executor-deployer §1.7.1).
///
/// # Errors
/// A path that goes up.
pub(crate) fn path_of(base: &str, model_path: &str, saved: &str) -> Result<PathBuf, Failure> {
    let path = PathBuf::from(format!("{base}{model_path}"));
    let saved = PathBuf::from(saved);
    for path in [&path, &saved] {
        if path.components().any(|part| part == Component::ParentDir) {
            return Err(bad(path, "`..` is not allowed in the path of a model"));
        }
    }
    let overridden = !saved.as_os_str().is_empty() && saved.exists();
    Ok(if overridden { saved } else { path })
}

impl Models {
    /// The model of a file, checked.
    ///
    /// # Errors
    /// The file can't be read, or is no program of this version.
    pub(crate) fn open(&mut self, path: &Path) -> Result<Arc<Model>, Failure> {
        let file = File::open(path).map_err(|error| bad(path, error))?;
        let meta = file.metadata().map_err(|error| bad(path, error))?;
        let key = (meta.dev(), meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec());
        if let Some(model) = self.known.get(&key).and_then(Weak::upgrade) {
            return Ok(model);
        }
        let bytes = bytes(file, &meta, path)?;
        let model = Arc::new(Model::load(bytes).map_err(|error| bad(path, error))?);
        self.known.retain(|_, model| model.strong_count() != 0);
        self.known.insert(key, Arc::downgrade(&model));
        Ok(model)
    }
}

fn bytes(mut file: File, meta: &Metadata, path: &Path) -> Result<Bytes, Failure> {
    if let Ok(sealed) = SealedBytes::map(file.as_fd()) {
        return Ok(Bytes::Sealed(sealed));
    }
    let len = meta.len();
    if !meta.is_file() || len > COPY_MAX {
        let text = format!("{len} bytes; expected a file of at most {COPY_MAX}, or a sealed one");
        return Err(bad(path, text));
    }
    let copy = AlignedBytes::try_zeroed(usize::try_from(len).unwrap_or(0));
    let mut copy = copy.map_err(|error| bad(path, format_args!("{len} bytes: {error}")))?;
    file.read_exact(&mut copy).map_err(|error| bad(path, error))?;
    Ok(Bytes::Copy(copy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_joined_as_texts_and_do_not_go_up() {
        let path =
            |base, path| path_of(base, path, "/nothing").map(|path| path.display().to_string());
        assert_eq!(path("/proc/self/", "fd/7"), Ok("/proc/self/fd/7".to_owned()));
        assert_eq!(path("", "/a/b..c"), Ok("/a/b..c".to_owned()));
        for (base, model) in [("/a/", "../b"), ("/a/..", "/b"), ("", "a/../b"), ("", "..")] {
            assert!(path(base, model).is_err(), "{base}{model}");
        }
        assert!(path_of("", "/a", "/b/../c").is_err());
        assert_eq!(path_of("", "/a", "/proc"), Ok(PathBuf::from("/proc")));
    }

    #[test]
    fn the_same_file_is_the_same_model_and_garbage_is_none() {
        let mut models = Models::default();
        let error = models.open(Path::new("/proc/self/exe")).unwrap_err();
        assert!(
            matches!(&error, Failure::Code(Code::PARAM_INVALID, text) if text.contains("magic"))
        );
        let error = models.open(Path::new("/proc/self")).unwrap_err();
        assert!(matches!(error, Failure::Code(Code::PARAM_INVALID, _)));
    }
}
