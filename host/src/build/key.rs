//! Name of a built library in the cache: a hash over everything that it is made of.
//!
//! That is the files of the project's folder (names, contents, permissions to execute), the headers
//! of this installation, the versions of cmake and the compiler, and the flags in the environment.
//! Files outside of the folder that a project includes are not seen.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::Project;
use super::cmake::{FLAGS, Tools};
use crate::error::DeployError;

/// Folders that no build reads.
const SKIPPED: [&str; 2] = [".git", "build"];
/// Changed when builds get something else from here.
const VERSION: &str = "dflow udf build 1";

/// FNV-1a over 128 bits; each piece is told apart from its neighbours by its length.
#[derive(Debug)]
struct Hash(u128);

impl Hash {
    fn new() -> Self {
        Self(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d)
    }

    fn add(&mut self, piece: &[u8]) {
        for byte in (piece.len() as u64).to_le_bytes().iter().chain(piece) {
            self.0 = (self.0 ^ u128::from(*byte)).wrapping_mul(0x0100_0000_0000_0000_0000_013b);
        }
    }
}

/// The key as hexadecimal digits, after the name of the library.
pub(super) fn of(project: &Project<'_>, tools: &Tools, root: &Path) -> Result<String, DeployError> {
    let mut hash = Hash::new();
    hash.add(VERSION.as_bytes());
    hash.add(project.library.as_bytes());
    hash.add(tools.version.as_bytes());
    hash.add(root.as_os_str().as_encoded_bytes());
    for name in FLAGS {
        hash.add(std::env::var_os(name).unwrap_or_default().as_encoded_bytes());
    }
    for folder in [project.folder, &root.join("include/flow_func")] {
        let mut files = Vec::new();
        list(folder, &mut files).map_err(|(path, error)| project.io(&path, &error))?;
        files.sort();
        for file in files {
            let name = file.strip_prefix(folder).unwrap_or(&file);
            hash.add(name.as_os_str().as_encoded_bytes());
            add_file(&file, &mut hash).map_err(|error| project.io(&file, &error))?;
        }
    }
    Ok(format!("{}-{:032x}", project.target, hash.0))
}

fn add_file(path: &Path, hash: &mut Hash) -> std::io::Result<()> {
    let data = path.symlink_metadata()?;
    if data.is_symlink() {
        hash.add(std::fs::read_link(path)?.as_os_str().as_encoded_bytes());
    }
    if path.metadata().is_ok_and(|data| data.is_file()) {
        hash.add(&[u8::from(data.permissions().mode() & 0o100 != 0)]);
        hash.add(&std::fs::read(path)?);
    }
    Ok(())
}

/// Files and links below a folder; links to folders are not followed.
fn list(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), (PathBuf, std::io::Error)> {
    let entries = std::fs::read_dir(folder).map_err(|error| (folder.to_owned(), error))?;
    for entry in entries {
        let entry = entry.map_err(|error| (folder.to_owned(), error))?;
        let path = entry.path();
        let kind = entry.file_type().map_err(|error| (path.clone(), error))?;
        if !kind.is_dir() {
            files.push(path);
        } else if !SKIPPED.iter().any(|name| entry.file_name() == *name) {
            list(&path, files)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Hash;

    #[test]
    fn pieces_are_told_apart() {
        let of = |pieces: &[&str]| {
            let mut hash = Hash::new();
            pieces.iter().for_each(|piece| hash.add(piece.as_bytes()));
            hash.0
        };
        assert_eq!(of(&["a", "bc"]), of(&["a", "bc"]));
        assert_ne!(of(&["a", "bc"]), of(&["ab", "c"]));
        assert_ne!(of(&["a"]), of(&["a", ""]));
        assert_ne!(of(&["a"]), of(&["b"]));
    }
}
