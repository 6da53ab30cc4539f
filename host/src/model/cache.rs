//! The cache of compiled models: `om/KEY.om` in the user's cache folder.
//!
//! A key is a hash over everything a program is made of: the model's bytes, those of the files that
//! its tensors lie in, what its inputs are bound to, how many streams it may have, the layouts of
//! its weights, the sources of compiler and kernels, and the version of the OM format. Files are
//! never changed, only renamed into place; what is read is checked, and compiled anew when it is
//! damaged. What was not used for longest goes when all take more than 2 GiB. A cache that can't be
//! read or written costs time and nothing else.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use bytes::Bytes;
use npu::aligned::AlignedBytes;
use npu::program::{FORMAT_VERSION, Layout};

use super::{Loadable, check};
use crate::error::io_text;
use crate::hash::Hash;
use crate::model::Wanted;
use crate::notice;

/// Name of the file with the program of this model.
pub(super) fn key(model: &[u8], files: &[(String, Bytes)], wanted: &Wanted<'_>) -> String {
    let mut hash = Hash::new();
    hash.add(b"dflow model");
    hash.add(env!("CARGO_PKG_VERSION").as_bytes());
    hash.add(compiler::VERSION.as_bytes());
    hash.add(&FORMAT_VERSION.to_le_bytes());
    hash.add(&[u8::from(wanted.layouts.contains(&Layout::Fours))]);
    hash.add(&(wanted.streams as u64).to_le_bytes());
    for desc in wanted.bound {
        hash.add(desc.name.as_deref().unwrap_or_default().as_bytes());
        hash.add(&[u8::from(desc.name.is_some())]);
        hash.add(&desc.dtype.code().to_le_bytes());
        let dims: Vec<u8> = desc.shape.0.iter().flat_map(|dim| dim.to_le_bytes()).collect();
        hash.add(&dims);
    }
    for (name, bytes) in files {
        for part in [name.as_bytes(), &bytes[..]] {
            hash.add(&(part.len() as u64).to_le_bytes());
            hash.add(part);
        }
    }
    hash.add(model);
    format!("{hash}.om")
}

/// Most bytes of all programs; the one just written is kept in any case.
const BYTES_MAX: u64 = 2 << 30;

fn folder() -> Option<PathBuf> {
    crate::cache::folder("om")
}

/// What is kept under a key, if it is whole.
pub(super) fn get(key: &str) -> Option<Loadable> {
    get_from(&folder()?, key)
}

fn get_from(folder: &Path, key: &str) -> Option<Loadable> {
    let path = folder.join(key);
    // Whatever else somebody put there (a pipe, a device) may have no end.
    std::fs::metadata(&path).ok().filter(std::fs::Metadata::is_file)?;
    let bytes = std::fs::read(&path).ok()?;
    match check(AlignedBytes::copy_of(&bytes)) {
        Ok(kept) => {
            // The time of its last use; where it can't be set, it goes sooner.
            let _used = File::open(&path).and_then(|file| file.set_modified(SystemTime::now()));
            Some(kept)
        }
        Err(error) => {
            let path = path.display();
            notice::say(&format!("cache: {path} is damaged ({error}): compiled anew"));
            None
        }
    }
}

/// Keeps a program.
pub(super) fn put(key: &str, om: &[u8]) {
    let kept = folder().map(|folder| put_into(&folder, key, om));
    if let Some(Err(error)) = kept {
        notice::say(&format!("cache: the program is not kept: {}", io_text(&error)));
    }
}

fn put_into(folder: &Path, key: &str, om: &[u8]) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    write_whole(&folder.join(key), om)?;
    trim(folder, key, BYTES_MAX)
}

/// Removes what was not used for longest until at most `limit` bytes are left. Another process may
/// do the same: what is gone is gone.
fn trim(folder: &Path, keep: &str, limit: u64) -> std::io::Result<()> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)?.flatten() {
        if let Ok(data) = entry.metadata().and_then(|data| Ok((data.modified()?, data.len()))) {
            files.push((data, entry.path()));
        }
    }
    let mut bytes: u64 = files.iter().map(|((_, len), _)| len).sum();
    files.sort();
    for ((_, len), path) in files {
        if bytes <= limit {
            break;
        }
        if !path.ends_with(keep) && std::fs::remove_file(&path).is_ok() {
            bytes -= len;
        }
    }
    Ok(())
}

/// Writes a file that is there whole or not at all.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut part = path.as_os_str().to_owned();
    // A name of its own: another process may write the same.
    part.push(format!(".{}.part", std::process::id()));
    let written = std::fs::write(&part, bytes).and_then(|()| std::fs::rename(&part, path));
    if written.is_err() {
        let _nothing_left = std::fs::remove_file(&part);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::DType;
    use crate::graph::TensorDesc;

    fn desc(name: Option<&str>, dims: &[i64]) -> TensorDesc {
        let name = name.map(str::to_owned);
        TensorDesc { name, dtype: DType::Float32, shape: dims.to_vec().into() }
    }

    #[test]
    fn every_part_of_a_key_counts() {
        let wanted = Wanted { bound: &[], streams: 1, layouts: &[] };
        let bound = |bound: &[TensorDesc]| key(b"a", &[], &Wanted { bound, ..wanted });
        let file = |name: &str, bytes: &'static [u8]| vec![(name.to_owned(), bytes.into())];
        let keys = [
            key(b"a", &[], &wanted),
            key(b"b", &[], &wanted),
            key(b"a", &[], &Wanted { layouts: &[Layout::Fours], ..wanted }),
            key(b"a", &[], &Wanted { streams: 2, ..wanted }),
            bound(&[desc(None, &[1])]),
            bound(&[desc(Some("x"), &[1])]),
            bound(&[desc(Some("x"), &[1, 1])]),
            bound(&[desc(None, &[1]), desc(None, &[1])]),
            key(b"a", &file("w", b"1"), &wanted),
            key(b"a", &file("w", b"2"), &wanted),
            key(b"a", &file("w1", b""), &wanted),
        ];
        for (index, one) in keys.iter().enumerate() {
            assert!(!keys[..index].contains(one), "{index}");
        }
        assert_eq!(keys[0], key(b"a", &[], &wanted));
        let pairs = Wanted { layouts: &[Layout::Pairs], ..wanted };
        assert_eq!(keys[0], key(b"a", &[], &pairs));
    }

    #[test]
    fn what_was_not_used_for_longest_goes_first() {
        let folder = std::env::temp_dir().join(format!("dflow-om-trim-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let names = || {
            let names = std::fs::read_dir(&folder).unwrap();
            let mut names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            names
        };
        for (name, age) in [("new.om", 1), ("old.om", 3), ("used.om", 2), ("oldest.om.7.part", 4)] {
            std::fs::write(folder.join(name), [0; 10]).unwrap();
            let used = SystemTime::now() - std::time::Duration::from_secs(3600 * age);
            File::open(folder.join(name)).unwrap().set_modified(used).unwrap();
        }
        trim(&folder, "new.om", 40).unwrap();
        assert_eq!(names().len(), 4);
        trim(&folder, "new.om", 20).unwrap();
        assert_eq!(names(), ["new.om", "used.om"]);
        // The one just written stays, even if it alone is too large.
        trim(&folder, "used.om", 5).unwrap();
        assert_eq!(names(), ["used.om"]);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn damaged_and_missing_entries_are_none() {
        let folder = std::env::temp_dir().join(format!("dflow-om-{}", std::process::id()));
        let mut writer = npu::program::Writer::new();
        let shape = npu::shape::Shape::new(&[2]).unwrap();
        let info = npu::tensor::TensorInfo::new(npu::DataType::FLOAT, shape);
        let x = writer.tensor("x", &info, npu::program::Place::Input(0));
        writer.input(x);
        let om = writer.finish(0).unwrap();
        assert_eq!(get_from(&folder, "k.om"), None);
        put_into(&folder, "k.om", &om).unwrap();
        let kept = get_from(&folder, "k.om").unwrap();
        assert_eq!((kept.program.bytes(), kept.inputs[0].name.as_str()), (&om[..], "x"));
        for damage in [0, om.len() / 2, om.len() - 1] {
            let mut broken = om.to_vec();
            broken[damage] ^= 0x40;
            std::fs::write(folder.join("k.om"), &broken).unwrap();
            assert_eq!(get_from(&folder, "k.om"), None, "byte {damage}");
        }
        std::fs::write(folder.join("k.om"), &om[..om.len() - 1]).unwrap();
        assert_eq!(get_from(&folder, "k.om"), None, "truncated");
        std::fs::remove_file(folder.join("k.om")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", folder.join("k.om")).unwrap();
        assert_eq!(get_from(&folder, "k.om"), None, "without an end");
        let left = std::fs::read_dir(&folder).unwrap().count();
        assert_eq!(left, 1, "no part of a file is left");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
