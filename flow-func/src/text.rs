//! Text on the stack: log lines are formatted here and cut, never allocated.

use core::fmt;

/// Bytes of the longest log line; the rest is cut at a character boundary.
pub const LINE_MAX: usize = 1024;

/// A fixed buffer that takes formatted text and cuts what does not fit.
pub struct StackText {
    bytes: [u8; LINE_MAX],
    len: usize,
    full: bool,
}

impl StackText {
    /// Formats `args`, cut to [`LINE_MAX`] bytes.
    #[must_use]
    pub fn format(args: fmt::Arguments<'_>) -> Self {
        let mut text = StackText { bytes: [0; LINE_MAX], len: 0, full: false };
        // An error here is one of a user's Display; what was written before it is still worth a
        // line.
        let _ = fmt::write(&mut text, args);
        text
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        let bytes = &self.bytes[..self.len];
        core::str::from_utf8(bytes).unwrap_or_default()
    }
}

impl fmt::Debug for StackText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Write for StackText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.full {
            return Ok(());
        }
        let take = text.floor_char_boundary(LINE_MAX - self.len);
        self.full = take < text.len();
        self.bytes[self.len..self.len + take].copy_from_slice(&text.as_bytes()[..take]);
        self.len += take;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{LINE_MAX, StackText};

    #[test]
    fn long_text_is_cut_at_a_character() {
        let long = "ä".repeat(LINE_MAX);
        let text = StackText::format(format_args!("x{long}tail"));
        assert_eq!(text.as_str().len(), LINE_MAX - 1);
        assert!(text.as_str().ends_with('ä'));
        assert_eq!(StackText::format(format_args!("{}", 7)).as_str(), "7");
    }
}
