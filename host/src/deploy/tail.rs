//! The end of a node's log, for errors.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use crate::tools::log::runtime_line;

/// Most lines.
const LINES: usize = 10;
/// Most bytes that are read: the file may have grown to any length.
const BYTES: u64 = 64 << 10;
/// Longer lines are cut.
const LINE_CHARS: usize = 400;

/// The last lines of a log, indented, each with its newline; empty when there is nothing.
#[must_use]
pub fn tail(log: &OwnedFd) -> String {
    let bytes = last_bytes(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines = text.trim_matches('\0').lines().flat_map(|line| match runtime_line(line) {
        Some(at) => [&line[..at], &line[at..]],
        None => [line, ""],
    });
    let lines: Vec<&str> = lines.filter(|line| !line.trim().is_empty()).collect();
    let from = lines.len().saturating_sub(LINES);
    lines.get(from..).unwrap_or(&[]).iter().map(|line| format!("    {}\n", cut(line))).collect()
}

fn last_bytes(log: &OwnedFd) -> std::io::Result<Vec<u8>> {
    let file = File::from(log.try_clone()?);
    let start = file.metadata()?.len().saturating_sub(BYTES);
    let mut bytes = vec![0; usize::try_from(BYTES).unwrap_or(0)];
    let count = file.read_at(&mut bytes, start)?;
    bytes.truncate(count);
    if start > 0 {
        // Not the rest of a line.
        let line = bytes.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        bytes.drain(..line);
    }
    Ok(bytes)
}

fn cut(line: &str) -> String {
    if line.chars().count() <= LINE_CHARS {
        return line.to_owned();
    }
    line.chars().take(LINE_CHARS).chain("…".chars()).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_tail_is_short_however_long_the_log() {
        let mut log = File::from(sys::memfd::append_log("tail").unwrap());
        for number in 0..5_000 {
            writeln!(log, "line {number} {}", "x".repeat(90)).unwrap();
        }
        writeln!(log, "{}", "y".repeat(1_000)).unwrap();
        write!(log, "unfinished").unwrap();
        sys::memfd::punch_hole(&log, 0, 4096).unwrap();
        let text = tail(&OwnedFd::from(log));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), LINES);
        assert!(lines[0].starts_with("    line 4992 "), "{text}");
        assert_eq!(lines[8].chars().count(), 4 + LINE_CHARS + 1);
        assert_eq!(lines[9], "    unfinished");
        let empty = OwnedFd::from(File::from(sys::memfd::append_log("tail").unwrap()));
        assert_eq!(tail(&empty), "");
    }
}
