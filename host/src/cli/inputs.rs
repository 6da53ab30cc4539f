//! What `dflow run` feeds: files, the files of folders, FIFOs, or stdin, for each graph input.
//!
//! Lists of several inputs are zipped: the first files of all inputs make the first feed, and so
//! on.

use std::fs;
use std::io::{ErrorKind, Read};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use sys::clock::MonoTime;
use sys::poll::{Events, PollFd, poll};

use super::{Failure, interrupt};
use crate::error::io_text;
use crate::graph::DType;
use crate::plan::{HostPlan, OutputPlan};
use crate::session::Tensor;

/// An interrupt is looked for this often while stdin or a FIFO has nothing.
const LOOK_MS: u64 = 100;
/// Most bytes of one read.
const CHUNK: usize = 64 << 10;

/// Where the bytes of one tensor come from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Source {
    /// A file.
    File(PathBuf),
    /// All of stdin.
    Stdin,
}

impl Source {
    /// As printed in results.
    pub(super) fn name(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Stdin => "-".to_owned(),
        }
    }

    /// Its bytes, at most `max`.
    fn read(&self, max: u64) -> Result<Vec<u8>, String> {
        let name = self.name();
        let failed = |error: std::io::Error| format!("can't read {name}: {}", io_text(&error));
        let too_large = |found: String| {
            format!(
                "{name}: found {found} bytes, expected at most {max}, the `max_bytes` of the input"
            )
        };
        let mut bytes = Vec::new();
        let count = match self {
            Self::Stdin => read_until_end(&mut std::io::stdin(), max.saturating_add(1), &mut bytes),
            Self::File(path) => {
                let mut file = open(path).map_err(failed)?;
                let data = file.metadata().map_err(failed)?;
                if data.len() > max {
                    return Err(too_large(data.len().to_string()));
                }
                if data.is_file() {
                    file.take(max.saturating_add(1)).read_to_end(&mut bytes)
                } else {
                    read_until_end(&mut file, max.saturating_add(1), &mut bytes)
                }
            }
        };
        let count = count.map_err(failed)?;
        if count as u64 > max { Err(too_large(format!("more than {max}"))) } else { Ok(bytes) }
    }
}

/// `O_NONBLOCK`, as std has no name for it; the number of x86-64, aarch64 and all others that
/// Linux gave the generic numbers.
const O_NONBLOCK: i32 = 0o4000;

/// Opens for reading, at once: a FIFO without a writer would be waited for otherwise. Regular files
/// do not mind.
fn open(path: &Path) -> std::io::Result<fs::File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    fs::OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(path)
}

/// Reads stdin, a FIFO or a device up to its end, `max` bytes, or an interrupt: whoever writes it
/// may never come to an end, or never come at all.
fn read_until_end(
    from: &mut (impl Read + AsFd),
    max: u64,
    to: &mut Vec<u8>,
) -> std::io::Result<usize> {
    while (to.len() as u64) < max {
        let until = MonoTime::now().add_ms(LOOK_MS);
        // A FIFO is not ready before its first writer has come, and reads as ended.
        let ready = poll(&mut [PollFd::new(from, Events::IN)], Some(until));
        if interrupt::asked() {
            return Err(std::io::Error::other("interrupted"));
        }
        if ready.is_ok_and(|count| count == 0) {
            continue;
        }
        let mut bytes = vec![0; CHUNK];
        let count = match from.read(&mut bytes) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                0
            }
            Err(error) => return Err(error),
        };
        to.extend(bytes.iter().take(count));
    }
    Ok(to.len())
}

/// One feed: a source for each graph input.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Item {
    /// In the graph's order.
    pub(super) sources: Vec<Source>,
}

impl Item {
    /// As printed in results.
    pub(super) fn name(&self) -> String {
        self.sources.iter().map(Source::name).collect::<Vec<_>>().join(",")
    }

    /// Name for files that come of it.
    pub(super) fn file_stem(&self) -> String {
        let name = match self.sources.first() {
            Some(Source::File(path)) => path.file_name().map(|name| name.to_string_lossy()),
            _ => None,
        };
        name.map_or_else(|| "stdin".to_owned(), |name| name.into_owned())
    }

    /// Reads the tensors.
    pub(super) fn tensors(&self, host: &HostPlan) -> Result<Vec<Tensor>, String> {
        self.sources
            .iter()
            .zip(&host.inputs)
            .map(|(source, input)| tensor(input, &source.name(), source.read(input.max_bytes)?))
            .collect()
    }
}

/// The bytes as the input's type; one open dimension is the one that the size gives.
fn tensor(input: &OutputPlan, name: &str, bytes: Vec<u8>) -> Result<Tensor, String> {
    let mut shape = input.shape.0.clone();
    let known = shape.iter().filter_map(|dim| u64::try_from(*dim).ok());
    let row = known.fold(input.dtype.element_bytes(), u64::saturating_mul);
    let found = bytes.len() as u64;
    let refused = |expected: String| {
        let (port, dtype, shape) = (&input.name, input.dtype, &input.shape);
        format!("{name}: found {found} bytes, expected {expected} (input `{port}`, {dtype}{shape})")
    };
    match shape.iter_mut().find(|dim| **dim < 0) {
        None if found != row => return Err(refused(row.to_string())),
        None => {}
        // Rows of nothing: any number of them fits no bytes.
        Some(dim) if row == 0 && found == 0 => *dim = 0,
        Some(_) if row == 0 => return Err(refused("none".to_owned())),
        Some(_) if !found.is_multiple_of(row) => {
            return Err(refused(format!("a multiple of {row}")));
        }
        Some(dim) => *dim = i64::try_from(found / row).unwrap_or(i64::MAX),
    }
    Ok(Tensor { dtype: input.dtype, shape, bytes })
}

/// The feeds that `args` (`NAME=PATH` or, after one of these, `PATH`) mean.
///
/// # Errors
/// Usage: unknown or missing inputs, paths that are not there, lists of different lengths.
pub(super) fn items(
    args: &[String],
    host: &HostPlan,
    recursive: bool,
) -> Result<Vec<Item>, Failure> {
    let names: Vec<&str> = host.inputs.iter().map(|input| input.name.as_str()).collect();
    let mut lists: Vec<Vec<Source>> = vec![Vec::new(); names.len()];
    let mut current = (names.len() == 1).then_some(0);
    for arg in args {
        let named = arg.split_once('=').filter(|(name, _)| is_name(name) && !exists(arg));
        let path = match named {
            Some((name, path)) => {
                current = Some(position(&names, name)?);
                path
            }
            None => arg.as_str(),
        };
        let list = current.and_then(|index| lists.get_mut(index));
        let list = list.ok_or_else(|| {
            let expected = format!("NAME=PATH, NAME one of {}", all(&names));
            usage(arg, "a path without a graph input", &expected, "put NAME= before it")
        })?;
        expand(path, recursive, list)?;
    }
    zip(&names, &lists, host)
}

/// A refusal of `--input what`.
fn usage(what: &str, found: &str, expected: &str, hint: &str) -> Failure {
    let what = if what.is_empty() { String::new() } else { format!(" {what}") };
    Failure::usage(&format!("--input{what}"), found, expected, hint)
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'))
}

fn exists(path: &str) -> bool {
    Path::new(path).exists()
}

fn all(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn position(names: &[&str], name: &str) -> Result<usize, Failure> {
    names.iter().position(|known| *known == name).ok_or_else(|| {
        let close = crate::error::closest(name, names.iter().copied());
        let hint = close.map_or_else(
            || "name one of these".to_owned(),
            |known| format!("did you mean `{known}`?"),
        );
        usage(name, "no graph input of this name", &format!("one of {}", all(names)), &hint)
    })
}

fn expand(path: &str, recursive: bool, to: &mut Vec<Source>) -> Result<(), Failure> {
    if path == "-" {
        to.push(Source::Stdin);
        return Ok(());
    }
    let expected = "a file, a folder of files, or `-` for stdin";
    let wrong = |error: &std::io::Error| {
        usage(path, &io_text(error), expected, "check the path and its permissions")
    };
    let is_dir = fs::metadata(path).map_err(|e| wrong(&e))?.is_dir();
    if !is_dir {
        to.push(Source::File(path.into()));
        return Ok(());
    }
    let before = to.len();
    walk(Path::new(path), recursive, to).map_err(|e| wrong(&e))?;
    if to.len() == before {
        let hint = "name another folder, or add --recursive for the folders in it";
        return Err(usage(path, "a folder without files", expected, hint));
    }
    Ok(())
}

/// Files of a folder, then its folders, each sorted by name; without those whose names begin with a
/// point. Links to folders are not followed.
/// What can't be looked at, as a link to nothing, is taken for a file: reading it says why.
fn walk(folder: &Path, recursive: bool, to: &mut Vec<Source>) -> std::io::Result<()> {
    let mut entries = fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    entries.retain(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."));
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in &entries {
        if fs::metadata(entry.path()).map_or(true, |data| data.is_file()) {
            to.push(Source::File(entry.path()));
        }
    }
    for entry in entries.iter().filter(|_| recursive) {
        if entry.file_type()?.is_dir() {
            walk(&entry.path(), recursive, to)?;
        }
    }
    Ok(())
}

fn zip(names: &[&str], lists: &[Vec<Source>], host: &HostPlan) -> Result<Vec<Item>, Failure> {
    let counts = names.iter().zip(lists).map(|(name, list)| format!("`{name}` {}", list.len()));
    let counts = counts.collect::<Vec<_>>().join(", ");
    let count = lists.iter().map(Vec::len).max().unwrap_or(0);
    if count == 0 {
        let first = host.inputs.first();
        let kind = first.map_or(DType::Uint8, |input| input.dtype);
        let name = names.first().copied().unwrap_or("NAME");
        let expected = format!("--input {name}=PATH (files of raw {kind})");
        let hint = format!("name files; inputs of the graph: {}", all(names));
        return Err(usage("", "nothing to feed", &expected, &hint));
    }
    if lists.iter().any(|list| list.len() != count) {
        let found = format!("{counts} files");
        let expected = "as many for each input: the first of each are fed together, and so on";
        return Err(usage("", &found, expected, "name as many files for each"));
    }
    if lists.iter().flatten().filter(|source| **source == Source::Stdin).count() > 1 {
        return Err(usage("-", "`-` twice", "stdin once", "name a file instead of one of them"));
    }
    // A size gives one length.
    let open = |input: &&OutputPlan| input.shape.0.iter().filter(|dim| **dim < 0).count() > 1;
    if let Some(input) = host.inputs.iter().find(open) {
        return Err(usage(
            &input.name,
            &format!("the shape {} with several open dimensions", input.shape),
            "at most one, which the size of the file gives",
            "give sizes in the graph, or feed it by the library",
        ));
    }
    let item = |index: usize| Item {
        sources: lists.iter().filter_map(|list| list.get(index).cloned()).collect(),
    };
    Ok((0..count).map(item).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(inputs: &[(&str, DType, &[i64])]) -> HostPlan {
        let input = |(name, dtype, shape): &(&str, DType, &[i64])| OutputPlan {
            name: (*name).to_owned(),
            dtype: *dtype,
            shape: shape.to_vec().into(),
            max_bytes: 8,
            pool: 0,
            destinations: vec![],
        };
        HostPlan { inputs: inputs.iter().map(input).collect(), outputs: vec![] }
    }

    fn folder(name: &str) -> PathBuf {
        let folder =
            std::env::temp_dir().join(format!("dflow-inputs-{name}-{}", std::process::id()));
        fs::create_dir_all(folder.join("sub")).unwrap();
        for file in ["b.bin", "a.bin", "sub/c.bin"] {
            fs::write(folder.join(file), file).unwrap();
        }
        folder
    }

    fn names(args: &[&str], host: &HostPlan, recursive: bool) -> Result<Vec<String>, String> {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let found = items(&args, host, recursive).map_err(|failure| failure.to_string())?;
        Ok(found.iter().map(Item::file_stem).collect())
    }

    #[test]
    fn folders_are_sorted_and_lists_zipped() {
        let folder = folder("zip");
        let dir = folder.to_str().unwrap();
        let one = host(&[("file", DType::Uint8, &[-1])]);
        assert_eq!(names(&[dir], &one, false).unwrap(), ["a.bin", "b.bin"]);
        let named = format!("file={dir}");
        assert_eq!(names(&[&named], &one, true).unwrap(), ["a.bin", "b.bin", "c.bin"]);
        assert_eq!(names(&[&named, "-"], &one, false).unwrap(), ["a.bin", "b.bin", "stdin"]);
        let two = host(&[("x", DType::Uint8, &[-1]), ("y", DType::Uint8, &[-1])]);
        let (x, y) = (format!("x={dir}"), format!("y={dir}/sub"));
        assert!(names(&[&x, &y], &two, false).unwrap_err().contains("`x` 2, `y` 1"));
        assert_eq!(names(&[&x, &y, &format!("{dir}/a.bin")], &two, false).unwrap().len(), 2);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_link_to_nothing_is_a_file_that_cannot_be_read() {
        let folder = folder("dangling");
        std::os::unix::fs::symlink(folder.join("none"), folder.join("aa.bin")).unwrap();
        std::os::unix::fs::symlink(folder.join("loop.bin"), folder.join("loop.bin")).unwrap();
        std::os::unix::fs::symlink(folder.join("sub"), folder.join("to-sub")).unwrap();
        let args = [folder.to_str().unwrap().to_owned()];
        let one = host(&[("file", DType::Uint8, &[-1])]);
        let items = items(&args, &one, false).map_err(|failure| failure.to_string()).unwrap();
        let names: Vec<String> = items.iter().map(Item::file_stem).collect();
        assert_eq!(names, ["a.bin", "aa.bin", "b.bin", "loop.bin"]);
        for item in [&items[1], &items[3]] {
            let refused = item.tensors(&one).map(|tensors| tensors.len()).unwrap_err();
            assert!(refused.contains("can't read") && refused.contains(&item.name()), "{refused}");
        }
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn usage_errors_name_the_inputs() {
        let one = host(&[("file", DType::Uint8, &[-1])]);
        assert!(names(&[], &one, false).unwrap_err().contains("--input file=PATH"));
        assert!(names(&["flie=x"], &one, false).unwrap_err().contains("did you mean `file`?"));
        assert!(names(&["file=/no/such/path"], &one, false).unwrap_err().contains("/no/such/path"));
        let two = host(&[("x", DType::Uint8, &[-1]), ("y", DType::Uint8, &[-1])]);
        assert!(names(&["a"], &two, false).unwrap_err().contains("NAME one of `x`, `y`"));
        assert!(names(&["x=-", "y=-"], &two, false).unwrap_err().contains("twice"));
        let open = host(&[("m", DType::Uint8, &[-1, -1])]);
        assert!(names(&["-"], &open, false).unwrap_err().contains("several open dimensions"));
        for (args, host) in [
            (&[][..], &one),
            (&["flie=x"], &one),
            (&["/no/such/path"], &one),
            (&["a"], &two),
            (&["x=-"], &two),
            (&["x=-", "y=-"], &two),
            (&["-"], &open),
        ] {
            let text = names(args, host, false).unwrap_err();
            for word in ["--input", "found:", "expected:", "to do:"] {
                assert!(text.contains(word), "{word}: {text}");
            }
            assert!(!text.contains("os error"), "{text}");
        }
    }

    #[test]
    fn the_open_dimension_comes_from_the_size() {
        let of = |dtype, shape: &[i64], len: usize| {
            let host = host(&[("t", dtype, shape)]);
            let tensor = tensor(&host.inputs[0], "f", vec![0; len]);
            tensor.map_or_else(|text| text, |tensor| format!("{:?}", tensor.shape))
        };
        assert_eq!(of(DType::Uint8, &[-1], 5), "[5]");
        assert_eq!(of(DType::Float32, &[2, -1], 24), "[2, 3]");
        assert_eq!(of(DType::Float32, &[2, 2], 16), "[2, 2]");
        assert_eq!(of(DType::Uint8, &[0, -1], 0), "[0, 0]");
        for (dtype, shape, len, words) in [
            (DType::Float32, &[2, 2][..], 7, "f: found 7 bytes, expected 16 (input `t`, float32[2"),
            (DType::Uint64, &[-1], 7, "f: found 7 bytes, expected a multiple of 8 (input `t`, uin"),
            (DType::Float32, &[-1, 3], 16, "expected a multiple of 12"),
            (DType::Uint8, &[0, -1], 1, "found 1 bytes, expected none"),
        ] {
            let text = of(dtype, shape, len);
            assert!(text.contains(words), "{text}");
        }
    }

    #[test]
    fn what_is_too_large_is_not_read() {
        let folder = folder("large");
        let file = Source::File(folder.join("sub/c.bin"));
        assert!(file.read(8).unwrap_err().contains("found 9 bytes, expected at most 8"));
        assert_eq!(file.read(9).unwrap(), b"sub/c.bin");
        assert!(Source::File(folder.join("none")).read(9).unwrap_err().contains("can't read"));
        fs::remove_dir_all(&folder).unwrap();
    }
}
