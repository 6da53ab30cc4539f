//! Colours, on a terminal only.

use std::io::IsTerminal;

/// Whether to colour.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Style(bool);

impl Style {
    /// Without colours.
    #[cfg(test)]
    pub(crate) const PLAIN: Style = Style(false);

    /// Colours when stdout is a terminal and `NO_COLOR` is not set.
    pub(crate) fn of_stdout() -> Style {
        Style(std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none())
    }

    fn paint(self, code: u8, text: &str) -> String {
        if self.0 { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.paint(1, text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.paint(2, text)
    }

    pub(crate) fn red(self, text: &str) -> String {
        self.paint(31, text)
    }

    pub(crate) fn green(self, text: &str) -> String {
        self.paint(32, text)
    }

    pub(crate) fn yellow(self, text: &str) -> String {
        self.paint(33, text)
    }
}
