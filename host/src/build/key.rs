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
use crate::hash::Hash;

/// Folders that no build reads.
const SKIPPED: [&str; 2] = [".git", "build"];
/// Changed when builds get something else from here.
const VERSION: &str = "dflow udf build 1";

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
    Ok(format!("{}-{hash}", project.target))
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
