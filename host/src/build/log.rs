//! What a build says, within bounds: its end, and the first error with what follows.

use std::collections::VecDeque;

/// Bytes of lines that are kept.
const KEPT: usize = 256 << 10;
/// Bytes of a line that are kept.
const LINE: usize = 4 << 10;
/// Lines that an error shows.
const SHOWN: usize = 60;
/// Lines before a first error that are shown with it: they say in which file it is.
const BEFORE: usize = 2;

/// Lines as they come.
#[derive(Debug, Default)]
pub(super) struct Log {
    /// The newest lines.
    lines: VecDeque<String>,
    /// Bytes of these.
    bytes: usize,
    /// The first error, with the lines around it.
    error: Vec<String>,
    /// The line that has not ended, cut.
    open: Vec<u8>,
    /// Bytes that are kept nowhere.
    dropped: u64,
    /// Of these, the ones of the line that has not ended.
    cut: u64,
}

impl Log {
    /// Takes what was said; `line` gets every line that ends in it.
    pub(super) fn hear(&mut self, bytes: &[u8], mut line: impl FnMut(&str)) {
        let mut pieces = bytes.split(|&byte| byte == b'\n').peekable();
        while let Some(piece) = pieces.next() {
            let room = piece.len().min(LINE - self.open.len());
            let (kept, cut) = piece.split_at(room);
            self.open.extend_from_slice(kept);
            self.cut += cut.len() as u64;
            if pieces.peek().is_some() {
                line(self.end_line());
            }
        }
    }

    /// Ends the line that has not ended, if there is one.
    pub(super) fn end(&mut self) {
        if !self.open.is_empty() {
            self.end_line();
        }
    }

    fn end_line(&mut self) -> &str {
        let mut text = String::from_utf8_lossy(&self.open).trim_end().to_owned();
        self.open.clear();
        if self.cut > 0 {
            text += &format!(" ({} more bytes in this line)", self.cut);
        }
        self.dropped += std::mem::take(&mut self.cut);
        self.keep_error(&text);
        self.bytes += text.len() + 1;
        self.lines.push_back(text);
        while self.bytes > KEPT {
            let Some(oldest) = self.lines.pop_front() else { break };
            self.bytes -= oldest.len() + 1;
            self.dropped += oldest.len() as u64 + 1;
        }
        self.lines.back().map_or("", String::as_str)
    }

    fn keep_error(&mut self, line: &str) {
        if self.error.is_empty() {
            let lower = line.to_ascii_lowercase();
            if !["error:", "cmake error", "undefined"].iter().any(|word| lower.contains(word)) {
                return;
            }
            let from = self.lines.len().saturating_sub(BEFORE);
            self.error.extend(self.lines.iter().skip(from).cloned());
        }
        if self.error.len() < SHOWN {
            self.error.push(line.to_owned());
        }
    }

    /// Everything that is kept, for a file.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        if self.dropped > 0 {
            text += &format!("({} bytes were dropped: the end is kept)\n", self.dropped);
        }
        for line in &self.lines {
            text += line;
            text.push('\n');
        }
        text
    }

    /// From the first error on, else the end; and how much is lost.
    pub(super) fn shown(&self) -> String {
        let from = self.lines.len().saturating_sub(SHOWN);
        let end: Vec<&String> = self.lines.iter().skip(from).collect();
        let shown = if self.error.is_empty() { end } else { self.error.iter().collect() };
        let mut text: String = shown.iter().map(|line| format!("    {line}\n")).collect();
        if self.dropped > 0 {
            text += &format!("    ({} bytes of what it said were dropped)\n", self.dropped);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::{KEPT, LINE, Log};

    fn heard(pieces: &[&[u8]]) -> (Log, Vec<String>) {
        let (mut log, mut lines) = (Log::default(), Vec::new());
        for piece in pieces {
            log.hear(piece, |line| lines.push(line.to_owned()));
        }
        (log, lines)
    }

    #[test]
    fn lines_are_put_together_from_pieces() {
        let (mut log, lines) = heard(&[b"a", b"b\n\nc \r\nd", b"", b"e"]);
        assert_eq!(lines, ["ab", "", "c"]);
        log.end();
        log.end();
        assert_eq!(log.text(), "ab\n\nc\nde\n");
    }

    #[test]
    fn the_first_error_is_shown_and_no_more_than_fits() {
        let line = |number: usize| match number {
            10 => "a.cpp:3:5: error: no\n".to_owned(),
            _ => format!("line {number}\n"),
        };
        let text: String = (11..111).map(line).collect();
        let (log, _) = heard(&[text.as_bytes()]);
        assert!(log.shown().starts_with("    line 51\n"), "{}", log.shown());
        let text: String = (0..100).map(line).collect();
        let (log, _) = heard(&[text.as_bytes()]);
        let shown = log.shown();
        assert!(shown.starts_with("    line 8\n    line 9\n    a.cpp:3:5: error: no\n"), "{shown}");
        assert_eq!(shown.lines().count(), 60);
    }

    #[test]
    fn a_line_without_an_end_is_cut_and_counted() {
        let zeroes = vec![b'x'; 10_000];
        let (mut log, lines) = heard(&[&zeroes, &zeroes]);
        assert_eq!((lines.len(), log.open.len()), (0, LINE));
        log.end();
        let said = format!(" ({} more bytes in this line)", 20_000 - LINE);
        assert!(log.lines[0].ends_with(&said) && log.lines[0].len() == LINE + said.len());
        assert!(log.shown().contains(&format!("({} bytes of what", 20_000 - LINE)));
    }

    #[test]
    fn the_end_and_the_first_error_stay_of_many_lines() {
        let line = [&[b'y'; 999][..], b"\n"].concat();
        let mut log = Log::default();
        log.hear(b"cmake error of old\n", |_| {});
        for _ in 0..10_000 {
            log.hear(&line, |_| {});
        }
        log.hear(b"last\n", |_| {});
        assert!(log.bytes <= KEPT && log.bytes > KEPT - 2_000, "{}", log.bytes);
        let total = 19 + 10_000 * 1_000 + 5;
        assert_eq!(log.dropped + log.bytes as u64, total);
        assert!(log.text().starts_with(&format!("({} bytes were dropped", log.dropped)));
        assert!(log.text().ends_with("y\nlast\n"));
        assert!(log.shown().starts_with("    cmake error of old\n    yyy"));
    }
}
