//! One log line in a stack buffer, and back.
//!
//! ```text
//! 2026-01-31T23:59:59.123456789Z 1234.567890123 WARN run binarise 42 | text[⇥[cut 17]]⏎
//! wall clock, UTC                monotonic, s   level stream node id    escaped; the mark when cut
//! ```
//! Control characters and backslashes of node and text are escaped (and blanks and bars of the
//! node), so one message is one line and the tab before the mark can't come from a text.

use core::fmt::{self, Write};

use super::{Level, Stamp, Stream};

/// Bytes of the longest line, its newline included: one atomic write to a pipe.
pub const LINE_BYTES_MAX: usize = 4096;
/// Room for the mark and the newline.
const TAIL_BYTES: usize = 32;
/// Longest node name in a line; more is cut.
const NODE_BYTES_MAX: usize = 128;
const SEPARATOR: &str = " | ";
const MARK: &str = "\t[cut ";

/// Everything of a line but its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head<'a> {
    /// When.
    pub stamp: Stamp,
    /// How important.
    pub level: Level,
    /// Who writes.
    pub stream: Stream,
    /// The node's name.
    pub node: &'a str,
    /// The id it is about; `None` outside of a set.
    pub trans_id: Option<u64>,
}

/// A formatted line.
#[derive(Debug)]
pub struct Line {
    bytes: [u8; LINE_BYTES_MAX],
    len: usize,
    cut: u64,
    limit: usize,
    escape_blank: bool,
}

impl Line {
    /// Formats a line without allocating; what does not fit is cut at a character and counted.
    #[must_use]
    pub fn new(head: &Head<'_>, text: fmt::Arguments<'_>) -> Self {
        let mut line =
            Self { bytes: [0; LINE_BYTES_MAX], len: 0, cut: 0, limit: 0, escape_blank: false };
        line.limit = LINE_BYTES_MAX - TAIL_BYTES;
        let Head { stamp, level, stream, .. } = head;
        // Outcomes are ignored: a full buffer cuts, and a failing Display ends the text.
        let _ok = write!(line, "{stamp} {} {} ", level.name(), stream.name());
        line.push_node(head.node);
        let _ok = match head.trans_id {
            Some(id) => write!(line, " {id}{SEPARATOR}"),
            None => write!(line, " -{SEPARATOR}"),
        };
        let _ok = line.write_fmt(text);
        line.finish();
        line
    }

    /// The line with its newline.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    fn push_node(&mut self, node: &str) {
        let limit = core::mem::replace(&mut self.limit, self.len + NODE_BYTES_MAX);
        self.escape_blank = true;
        let _ok = self.write_str(if node.is_empty() { "-" } else { node });
        self.escape_blank = false;
        self.limit = limit;
        self.cut = 0;
    }

    fn finish(&mut self) {
        self.limit = LINE_BYTES_MAX;
        if self.cut > 0 {
            let mut mark = Small { bytes: [0; TAIL_BYTES], len: 0 };
            let _ok = write!(mark, "{MARK}{}]", self.cut);
            let (bytes, len) = (mark.bytes, mark.len);
            self.push(bytes.get(..len).unwrap_or_default());
        }
        self.push(b"\n");
    }

    /// Appends all of `piece` or nothing.
    fn push(&mut self, piece: &[u8]) -> bool {
        let end = self.len + piece.len();
        if end > self.limit {
            return false;
        }
        match self.bytes.get_mut(self.len..end) {
            Some(room) => {
                room.copy_from_slice(piece);
                self.len = end;
                true
            }
            None => false,
        }
    }

    fn push_char(&mut self, c: char) -> bool {
        let mut small = Small { bytes: [0; TAIL_BYTES], len: 0 };
        let _ok = match c {
            '\\' => small.write_str("\\\\"),
            '\n' => small.write_str("\\n"),
            '\t' => small.write_str("\\t"),
            '\r' => small.write_str("\\r"),
            ' ' if self.escape_blank => small.write_str("\\u{20}"),
            '|' if self.escape_blank => small.write_str("\\u{7c}"),
            c if c.is_control() => write!(small, "\\u{{{:x}}}", u32::from(c)),
            c => small.write_char(c),
        };
        let (bytes, len) = (small.bytes, small.len);
        self.push(bytes.get(..len).unwrap_or_default())
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for (at, c) in text.char_indices() {
            if self.cut > 0 || !self.push_char(c) {
                let rest = u64::try_from(text.len() - at).unwrap_or(u64::MAX);
                self.cut = self.cut.saturating_add(rest);
                break;
            }
        }
        Ok(())
    }
}

/// A few bytes on the stack; what does not fit is an error.
struct Small {
    bytes: [u8; TAIL_BYTES],
    len: usize,
}

impl Write for Small {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.len + text.len();
        self.bytes.get_mut(self.len..end).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

/// A line read back by a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// When.
    pub stamp: Stamp,
    /// How important.
    pub level: Level,
    /// Who wrote.
    pub stream: Stream,
    /// The node's name.
    pub node: String,
    /// The id it is about.
    pub trans_id: Option<u64>,
    /// The text, unescaped.
    pub text: String,
    /// Bytes of the text that were cut.
    pub cut: u64,
}

impl LogLine {
    /// Reads a line, with or without its newline; `None` for anything that no [`Line`] writes, such
    /// as what a library prints to stderr on its own.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        let line = line.strip_suffix('\n').unwrap_or(line);
        let (head, body) = line.split_once(SEPARATOR)?;
        let mut words = head.split(' ');
        let stamp = Stamp::parse(words.next()?, words.next()?)?;
        let level = Level::from_name(words.next()?)?;
        let stream = Stream::from_name(words.next()?)?;
        let node = unescape(words.next()?)?;
        let trans_id = match words.next()? {
            "-" => None,
            id => Some(id.parse().ok()?),
        };
        if words.next().is_some() {
            return None;
        }
        let (text, cut) = match body.split_once(MARK) {
            Some((text, mark)) => (text, mark.strip_suffix(']')?.parse().ok()?),
            None => (body, 0),
        };
        Some(Self { stamp, level, stream, node, trans_id, text: unescape(text)?, cut })
    }
}

fn unescape(text: &str) -> Option<String> {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            plain.push(c);
            continue;
        }
        plain.push(match chars.next()? {
            '\\' => '\\',
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'u' => {
                let (number, rest) = chars.as_str().strip_prefix('{')?.split_once('}')?;
                chars = rest.chars();
                char::from_u32(u32::from_str_radix(number, 16).ok()?)?
            }
            _ => return None,
        });
    }
    Some(plain)
}
