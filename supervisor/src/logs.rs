//! Logs of the nodes: lines of the supervisor in them, and the trimming that bounds their memory.
//!
//! A log is an append-only memory file that executors write by themselves, so nobody stands between
//! a function that prints and its log, and a stopped supervisor stops nobody. Its old bytes are
//! given back by punching holes; the size goes on growing, so offsets stay valid and the hole reads
//! as zeroes. Only a limit on file sizes ends that: near it a log begins anew at offset 0.
//!
//! What bounds the memory is how often that happens: a log has its bound and what is printed
//! between two looks, 50 ms apart in silence and 4 ms while it grows fast.

use std::fmt;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;

use executor_rt::log::{Head, Level, Line, Stamp, Stream};
use sys::clock::MonoTime;
use sys::mapping::page_size;
use sys::memfd;

use crate::boot::Files;

/// Writes one line to a node's log. Failures are ignored: there is nowhere to report them to.
pub(crate) fn line(log: Option<&File>, node: &str, level: Level, text: fmt::Arguments<'_>) {
    let Some(mut log) = log else { return };
    let head = Head { stamp: Stamp::now(), level, stream: Stream::Runtime, node, trans_id: None };
    let _written = log.write(Line::new(&head, text).as_bytes());
}

/// Time between two looks while no log grows fast. A burst out of silence goes unseen so long.
const QUIET_MS: u64 = 50;
/// Time between two looks while one does.
const BUSY_MS: u64 = 4;
/// A log that grew by this part of its bound between two looks grows fast.
const FAST_PART: u64 = 8;
/// Part of the limit on file sizes that a log leaves free, and that is kept when it is emptied.
const LIMIT_PART: u64 = 4;

/// Keeps logs short.
#[derive(Debug)]
pub(crate) struct Trimmer {
    /// Bytes that each log keeps.
    keep: u64,
    /// No file of these processes grows beyond this.
    limit: Option<u64>,
    logs: Vec<Log>,
    next: MonoTime,
    pause_ms: u64,
}

/// One log.
#[derive(Debug)]
struct Log {
    fd: i32,
    /// Bytes at the last look.
    len: u64,
    /// End of the hole.
    punched: u64,
}

impl Trimmer {
    /// Keeps `keep` bytes of each log; 0 keeps everything. `limit`: the limit on file sizes.
    pub(crate) fn new(keep: u64, limit: Option<u64>, logs: &[i32]) -> Self {
        let keep = if keep == 0 { u64::MAX } else { keep };
        let logs = if keep == u64::MAX && limit.is_none() { &[] } else { logs };
        let logs = logs.iter().map(|fd| Log { fd: *fd, len: 0, punched: 0 }).collect();
        Self { keep, limit, logs, next: MonoTime::ZERO, pause_ms: QUIET_MS }
    }

    /// When [`Trimmer::trim`] wants to be called.
    pub(crate) fn deadline(&self) -> Option<MonoTime> {
        (!self.logs.is_empty()).then_some(self.next)
    }

    /// Gives back what is too much, when it is time. A log that refuses is left as it is.
    pub(crate) fn trim(&mut self, files: &Files, now: MonoTime) {
        if !self.next.is_past(now) {
            return;
        }
        let mut fast = false;
        for log in &mut self.logs {
            let Some(file) = files.get(log.fd) else { continue };
            let Ok(len) = memfd::len(file) else { continue };
            fast |= len.saturating_sub(log.len) > self.keep / FAST_PART;
            log.len = len;
            if let Some(limit) = self.limit.filter(|limit| len > limit - limit / LIMIT_PART) {
                let kept = self.keep.min(limit / LIMIT_PART);
                if empty(file, len, kept, limit).is_ok() {
                    (log.len, log.punched) = (0, 0);
                }
                continue;
            }
            let end = hole_end(len, self.keep);
            if end > log.punched && memfd::punch_hole(file, log.punched, end - log.punched).is_ok()
            {
                log.punched = end;
            }
        }
        self.pause_ms = if fast { BUSY_MS } else { (self.pause_ms * 2).min(QUIET_MS) };
        self.next = now.add_ms(self.pause_ms);
    }
}

/// Starts a log of `len` bytes anew before it meets the limit on file sizes, at which every later
/// line would be refused: its newest `kept` bytes stay. What somebody appends meanwhile is lost.
fn empty(file: &File, len: u64, kept: u64, limit: u64) -> std::io::Result<()> {
    let mut tail = vec![0; usize::try_from(kept.min(len)).unwrap_or(0)];
    file.read_exact_at(&mut tail, len - kept.min(len))?;
    let line = tail.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let tail = tail.get(line..).unwrap_or_default();
    file.set_len(0)?;
    let head = Head {
        stamp: Stamp::now(),
        level: Level::Warn,
        stream: Stream::Runtime,
        node: "",
        trans_id: None,
    };
    let gone = len - tail.len() as u64;
    let text = format_args!(
        "{gone} bytes of this log are gone: it came near the limit on file sizes, {limit} bytes \
         (ulimit -f)"
    );
    let mut file = file;
    file.write_all(Line::new(&head, text).as_bytes())?;
    file.write_all(tail)
}

/// End of the hole in a log of `len` bytes: a page border, so that memory is given back.
fn hole_end(len: u64, keep: u64) -> u64 {
    let page = u64::try_from(page_size()).unwrap_or(4096);
    // The page in which `len` ends is never punched: somebody may be appending to it.
    len.saturating_sub(keep).next_multiple_of(page).min(len / page * page)
}

#[cfg(test)]
mod tests {
    use super::{BUSY_MS, Files, MonoTime, QUIET_MS, Trimmer};
    use super::{File, Level, Line, empty, hole_end, line, memfd};
    use executor_rt::log::LogLine;
    use std::io::Write;

    #[test]
    fn a_hole_keeps_at_most_what_is_asked_for_and_never_the_end() {
        assert_eq!(hole_end(100, 100), 0);
        assert_eq!(hole_end(8192, 8192), 0);
        assert_eq!(hole_end(8193, 8192), 4096);
        assert_eq!(hole_end(20_000, 8192), 12_288);
        assert_eq!(hole_end(20_000, 1), 16_384);
        assert_eq!(hole_end(0, 5), 0);
    }

    #[test]
    fn punching_gives_memory_back_and_keeps_the_newest() {
        let mut log = File::from(memfd::append_log("trim").expect("log"));
        log.write_all(&vec![b'x'; 40_000]).expect("write");
        let end = hole_end(40_000, 8192);
        memfd::punch_hole(&log, 0, end).expect("punch");
        assert!(memfd::resident(&log).expect("stat") <= 8192 + 4096);
        let bytes = memfd::read_all(&log).expect("read");
        assert_eq!(bytes.len(), 40_000);
        assert!(bytes.ends_with(&[b'x'; 4000]));
    }

    #[test]
    fn a_log_near_the_limit_begins_anew_with_its_newest_lines() {
        let mut log = File::from(memfd::append_log("limit").expect("log"));
        (0..1000).for_each(|number| writeln!(log, "line {number}").expect("write"));
        let len = memfd::len(&log).expect("len");
        empty(&log, len, 100, 10_000).expect("empty");
        writeln!(log, "after").expect("write");
        let text = String::from_utf8(memfd::read_all(&log).expect("read")).expect("text");
        let lines: Vec<&str> = text.lines().collect();
        let note = LogLine::parse(lines[0]).expect("note").text;
        let gone = len - text.len() as u64 + lines[0].len() as u64 + 1 + "after\n".len() as u64;
        assert!(note.starts_with(&format!("{gone} bytes of this log are gone")), "{note}");
        assert!(lines.len() > 5 && lines[lines.len() - 2..] == ["line 999", "after"], "{text}");
        assert!(lines[1].starts_with("line 9"), "whole lines only: {text}");
    }

    #[test]
    fn looks_are_close_together_while_a_log_grows_fast() {
        let mut log = File::from(memfd::append_log("fast").expect("log"));
        let files = Files::of([(7, log.try_clone().expect("clone"))]);
        let mut trimmer = Trimmer::new(80_000, None, &[7]);
        let mut now = MonoTime::ZERO;
        let mut pauses = Vec::new();
        for bytes in [20_000, 20_000, 90_000, 0, 0, 0, 0, 0] {
            log.write_all(&vec![b'x'; bytes]).expect("write");
            trimmer.trim(&files, now);
            let next = trimmer.deadline().expect("deadline");
            assert!(memfd::resident(&log).expect("stat") <= 80_000 + 4096);
            pauses.push(next.since_ns(now) / 1_000_000);
            now = next;
        }
        assert_eq!(pauses, [BUSY_MS, BUSY_MS, BUSY_MS, 8, 16, 32, QUIET_MS, QUIET_MS]);
        assert_eq!(Trimmer::new(0, None, &[7]).deadline(), None, "nothing to do, no look");
    }

    #[test]
    fn lines_are_of_the_common_form() {
        let log = File::from(memfd::append_log("line").expect("log"));
        line(Some(&log), "blur#1", Level::Warn, format_args!("died\n"));
        let bytes = memfd::read_all(&log).expect("read");
        let text = String::from_utf8(bytes).expect("text");
        assert_eq!(text.lines().count(), 1);
        assert!(LogLine::parse(text.trim_end()).is_some(), "{text}");
        assert!(text.contains("WARN rt blur#1 - | died"), "{text}");
        let _: fn(&executor_rt::log::Head<'_>, std::fmt::Arguments<'_>) -> Line = Line::new;
    }
}
