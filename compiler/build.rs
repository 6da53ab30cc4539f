//! Names the sources that decide what a program looks like: those of this crate and, as what it
//! packs is laid out for them, of the kernels. Compiled models are kept under this name
//! (`compiler::VERSION`), so that a change of either never meets a program of before.

use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};
use std::{fs, io};

fn main() -> io::Result<()> {
    let mut hash = DefaultHasher::new();
    for folder in ["src", "../npu/src"] {
        println!("cargo::rerun-if-changed={folder}");
        let mut files = Vec::new();
        list(Path::new(folder), &mut files)?;
        files.sort();
        for file in files {
            hash.write(file.to_string_lossy().as_bytes());
            hash.write(&fs::read(&file)?);
        }
    }
    println!("cargo::rustc-env=DFLOW_COMPILER_SOURCES={:016x}", hash.finish());
    Ok(())
}

fn list(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() { list(&path, files)? } else { files.push(path) }
    }
    Ok(())
}
