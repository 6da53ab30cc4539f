//! Reading a node's log: an append-only memory file whose old bytes the supervisor gave back.
//!
//! The file keeps its size when old bytes go, so offsets stay; what is gone reads as a hole. A
//! reader starts behind the hole, at the first whole line, and says how much is missing. Near a
//! limit on file sizes the supervisor begins a log anew, with a line that says so: a reader that is
//! behind its end goes back to the start.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use executor_rt::log::LogLine;
use sys::memfd;

/// Most bytes that one [`Reader::read`] takes.
const CHUNK: usize = 1 << 20;
/// A line without an end is cut here.
const LINE_MAX: usize = 64 << 10;

/// One line of a log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Entry {
    /// A line that the runtime or a function logged.
    Line(Box<LogLine>),
    /// Anything else, without its newline; bytes that are no UTF-8 are replaced.
    Raw(String),
    /// So many bytes are gone.
    Dropped(u64),
}

impl Entry {
    fn of(text: &str) -> Entry {
        match LogLine::parse(text) {
            Some(line) => Entry::Line(Box::new(line)),
            None => Entry::Raw(text.to_owned()),
        }
    }
}

/// Where a line of the runtime begins that stands behind what a function printed without an end of
/// line; `None` in any other line.
#[must_use]
pub fn runtime_line(line: &str) -> Option<usize> {
    if LogLine::parse(line).is_some() {
        return None;
    }
    let bytes = line.as_bytes();
    (1..bytes.len()).find(|at| {
        bytes.get(*at..).is_some_and(is_date)
            && line.get(*at..).is_some_and(|rest| LogLine::parse(rest).is_some())
    })
}

/// `2026-01-31T`, with which lines of the runtime begin.
fn is_date(text: &[u8]) -> bool {
    let mut pairs = text.iter().zip(b"0000-00-00T");
    let fits = |(found, form): (&u8, &u8)| match form {
        b'0' => found.is_ascii_digit(),
        other => found == other,
    };
    text.len() > 11 && pairs.all(fits)
}

/// Reads one log from its start, or on from where the last read ended.
#[derive(Debug)]
pub struct Reader {
    file: File,
    at: u64,
    partial: Vec<u8>,
    /// Bytes that are gone and not yet reported.
    gone: u64,
    /// The line that is being read began in the hole.
    headless: bool,
}

impl Reader {
    /// A reader of `file`, which must not be shared with a writer's descriptor.
    #[must_use]
    pub fn new(file: File) -> Reader {
        Reader { file, at: 0, partial: Vec::new(), gone: 0, headless: false }
    }

    /// The lines that were completed since the last call; at most about 1 MiB of them. `Ok` of
    /// nothing: there is nothing new now.
    ///
    /// # Errors
    /// The file can't be read.
    pub fn read(&mut self) -> io::Result<Vec<Entry>> {
        self.skip_hole()?;
        let mut bytes = vec![0; CHUNK];
        let count = self.file.read_at(&mut bytes, self.at)?;
        bytes.truncate(count);
        self.at += count as u64;
        let mut entries = Vec::new();
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.partial.extend_from_slice(part);
            if part.ends_with(b"\n") || self.partial.len() >= LINE_MAX {
                self.complete(&mut entries);
            }
        }
        Ok(entries)
    }

    /// The rest, when no more will come: a last line without an end.
    #[must_use]
    pub fn finish(&mut self) -> Vec<Entry> {
        let mut entries = Vec::new();
        if !self.partial.is_empty() || self.gone > 0 {
            self.complete(&mut entries);
        }
        entries
    }

    fn complete(&mut self, entries: &mut Vec<Entry>) {
        let line = std::mem::take(&mut self.partial);
        // Zeroes: the hole was punched between looking for it and reading.
        if std::mem::take(&mut self.headless) || line.starts_with(b"\0") {
            let gone = std::mem::take(&mut self.gone) + line.len() as u64;
            entries.push(Entry::Dropped(gone));
            return;
        }
        let text = String::from_utf8_lossy(line.strip_suffix(b"\n").unwrap_or(&line));
        let at = runtime_line(&text).unwrap_or(0);
        let (printed, line) = text.split_at(at);
        entries.extend(Some(printed).filter(|text| !text.is_empty()).map(Entry::of));
        entries.push(Entry::of(line));
    }

    fn skip_hole(&mut self) -> io::Result<()> {
        let failed = |e: sys::SysError| io::Error::from_raw_os_error(e.errno.raw());
        // Taken first: what is appended while looking is data, not hole.
        let len = memfd::len(&self.file).map_err(failed)?;
        if len < self.at {
            self.at = 0;
            self.partial.clear();
            self.headless = false;
        }
        let found = memfd::next_data(&self.file, self.at).map_err(failed)?;
        let start = found.unwrap_or(len).max(self.at);
        if start > self.at {
            self.gone += start - self.at + self.partial.len() as u64;
            self.partial.clear();
            self.headless = true;
            self.at = start;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsRawFd;

    use executor_rt::log::{Head, Level, Line, Stamp, Stream};

    use super::*;

    fn reopened(fd: &impl AsRawFd) -> File {
        File::open(format!("/proc/self/fd/{}", fd.as_raw_fd())).expect("open again")
    }

    fn raw(text: &str) -> Entry {
        Entry::Raw(text.to_owned())
    }

    #[test]
    fn a_log_that_begins_anew_is_read_from_its_start() {
        let mut log = File::from(memfd::append_log("anew").expect("log"));
        let mut reader = Reader::new(reopened(&log));
        log.write_all(b"one\ntwo\npart").expect("write");
        assert_eq!(reader.read().expect("read"), [raw("one"), raw("two")]);
        log.set_len(0).expect("truncate");
        log.write_all(b"three\n").expect("write");
        assert_eq!(reader.read().expect("read"), [raw("three")]);
        assert_eq!(reader.finish(), []);
    }

    #[test]
    fn lines_come_once_and_whole() {
        let mut log = File::from(memfd::append_log("reader").expect("log"));
        let mut reader = Reader::new(reopened(&log));
        assert_eq!(reader.read().expect("read"), []);
        let head = Head {
            stamp: Stamp::default(),
            level: Level::Warn,
            stream: Stream::Run,
            node: "a",
            trans_id: Some(7),
        };
        log.write_all(Line::new(&head, format_args!("hello")).as_bytes()).expect("write");
        log.write_all(b"plain\nbegun").expect("write");
        let entries = reader.read().expect("read");
        assert_eq!(entries.len(), 2);
        let Some(Entry::Line(line)) = entries.first() else { panic!("{entries:?}") };
        assert_eq!((line.text.as_str(), line.trans_id), ("hello", Some(7)));
        assert_eq!(entries.get(1), Some(&raw("plain")));
        log.write_all(b" and ended\nlast").expect("write");
        assert_eq!(reader.read().expect("read"), [raw("begun and ended")]);
        assert_eq!(reader.read().expect("read"), []);
        assert_eq!(reader.finish(), [raw("last")]);
        assert_eq!(reader.finish(), []);
    }

    #[test]
    fn a_runtime_line_ends_what_was_printed_before_it() {
        let mut log = File::from(memfd::append_log("glued").expect("log"));
        let mut reader = Reader::new(reopened(&log));
        let head = Head {
            stamp: Stamp::default(),
            level: Level::Error,
            stream: Stream::Runtime,
            node: "a",
            trans_id: None,
        };
        let line = Line::new(&head, format_args!("died"));
        log.write_all("in 2026-01-31T halfway µ".as_bytes()).expect("write");
        log.write_all(line.as_bytes()).expect("write");
        let entries = reader.read().expect("read");
        assert_eq!(entries.first(), Some(&raw("in 2026-01-31T halfway µ")));
        let Some(Entry::Line(line)) = entries.get(1) else { panic!("{entries:?}") };
        assert_eq!((line.text.as_str(), entries.len()), ("died", 2));
        let text = Line::new(&head, format_args!("said 1970-01-01T"));
        let text = std::str::from_utf8(text.as_bytes()).expect("text");
        assert_eq!(runtime_line(text), None);
        assert_eq!(runtime_line(&format!("x{text}")), Some(1));
        assert_eq!(runtime_line("1970-01-01T00:00"), None);
        assert_eq!(runtime_line(""), None);
    }

    #[test]
    fn a_hole_is_reported_with_the_line_it_cut() {
        let mut log = File::from(memfd::append_log("hole").expect("log"));
        let line = [&[b'x'; 99][..], b"\n"].concat();
        for _ in 0..100 {
            log.write_all(&line).expect("write");
        }
        memfd::punch_hole(&log, 0, 8192).expect("punch");
        let entries = Reader::new(reopened(&log)).read().expect("read");
        assert_eq!(entries.first(), Some(&Entry::Dropped(8200)));
        assert_eq!(entries.len(), 1 + 18);
    }

    #[test]
    fn a_reader_that_was_overtaken_goes_on_behind_the_hole() {
        let mut log = File::from(memfd::append_log("overtaken").expect("log"));
        let mut reader = Reader::new(reopened(&log));
        log.write_all(b"one\ntw").expect("write");
        assert_eq!(reader.read().expect("read"), [raw("one")]);
        log.write_all(&[b'o'; 8192]).expect("write");
        memfd::punch_hole(&log, 0, 8192).expect("punch");
        log.write_all(b"\nnext\n").expect("write");
        // 2 bytes of "tw", the hole behind them, and the rest of that line.
        let dropped = Entry::Dropped(2 + (8192 - 6) + (6 + 1));
        assert_eq!(reader.read().expect("read"), [dropped, raw("next")]);
    }
}
