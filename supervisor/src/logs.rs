//! Logs of the nodes: lines of the supervisor in them, and the trimming that bounds their memory.
//!
//! A log is an append-only memory file that executors write by themselves. Its old bytes are given
//! back by punching holes; the size goes on growing, so offsets stay valid and the hole reads as
//! zeroes.

use std::fmt;
use std::fs::File;
use std::io::Write;

use executor_rt::log::{Head, Level, Line, Stamp, Stream};
use sys::mapping::page_size;
use sys::memfd;

use crate::boot::Files;

/// Writes one line to a node's log. Failures are ignored: there is nowhere to report them to.
pub(crate) fn line(log: Option<&File>, node: &str, level: Level, text: fmt::Arguments<'_>) {
    let Some(mut log) = log else { return };
    let head = Head { stamp: Stamp::now(), level, stream: Stream::Runtime, node, trans_id: None };
    let _written = log.write(Line::new(&head, text).as_bytes());
}

/// Keeps logs short.
#[derive(Debug)]
pub(crate) struct Trimmer {
    keep: u64,
    logs: Vec<(i32, u64)>,
}

impl Trimmer {
    /// Keeps `keep` bytes of each log; 0 keeps everything.
    pub(crate) fn new(keep: u64, logs: &[i32]) -> Self {
        let logs = if keep == 0 { &[] } else { logs };
        Self { keep, logs: logs.iter().map(|fd| (*fd, 0)).collect() }
    }

    /// Gives back what is too much. A log that refuses is left as it is.
    pub(crate) fn trim(&mut self, files: &Files) {
        for (fd, punched) in &mut self.logs {
            let Some(file) = files.get(*fd) else { continue };
            let Ok(len) = memfd::len(file) else { continue };
            let end = hole_end(len, self.keep);
            if end > *punched && memfd::punch_hole(file, *punched, end - *punched).is_ok() {
                *punched = end;
            }
        }
    }
}

/// End of the hole in a log of `len` bytes: a page border, so that memory is given back.
fn hole_end(len: u64, keep: u64) -> u64 {
    let page = u64::try_from(page_size()).unwrap_or(4096);
    // The page in which `len` ends is never punched: somebody may be appending to it.
    len.saturating_sub(keep).next_multiple_of(page).min(len / page * page)
}

#[cfg(test)]
mod tests {
    use super::{File, Level, Line, hole_end, line, memfd};
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
