//! The text of every page: a row a line with how sure it is and where it stands; what the package
//! reads differently has a row of its own below.

use crate::oracle::Expected;
use crate::set::Page;
use crate::verdict::{Found, partner};
use ocr::gather::Line;
use std::fmt::Write;

/// A page's title and rows; `expected` is what the package reads, where it was asked.
#[must_use]
pub fn page(page: &Page, found: &Found, expected: Option<&Expected>) -> String {
    let mut text = String::new();
    let lines = match &found.lines {
        Ok(lines) => lines.as_slice(),
        Err(reason) => {
            let _ = writeln!(text, "{}: {reason}", page.name);
            return text;
        }
    };
    let count = lines.len();
    let _ = writeln!(text, "{}: {count} lines, {:.0} ms", page.name, found.millis);
    for line in lines {
        let _ = writeln!(text, "{}", row(line));
        let theirs = expected.and_then(|expected| partner(&expected.lines, line));
        if let Some(theirs) = theirs.filter(|theirs| theirs.text != line.text) {
            let _ = writeln!(text, "{:>27}{}", "the package: ", theirs.text);
        }
    }
    let missing = expected.map_or(&[][..], |expected| &expected.lines);
    for line in missing.iter().filter(|line| partner(lines, line).is_none()) {
        let _ = writeln!(text, "{:>27}{}", "the package alone: ", line.text);
    }
    text
}

/// Confidence, upper left and lower right corner, text.
fn row(line: &Line) -> String {
    let Line { confidence, corners: [[left, top], _, [right, bottom], _], text } = line;
    let place = format!("{left:.0},{top:.0} {right:.0},{bottom:.0}");
    format!("  {:>4.0}%  {place:<19} {text}", confidence * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_named() {
        let line = |text: &str, y: f32| Line {
            confidence: 0.984,
            corners: [[10.0, y], [200.4, y], [200.4, y + 20.0], [10.0, y + 20.0]],
            text: text.to_owned(),
        };
        let found = Found { lines: Ok(vec![line("one", 5.0), line("two", 30.0)]), millis: 12.4 };
        let lines = vec![line("one", 5.0), line("tvvo", 30.0), line("three", 500.0)];
        let expected = Expected { lines, millis: 1.0, peak_kib: 1, threads: 1 };
        let own = Page { name: "a.png".to_owned(), file: Vec::new() };
        let text = page(&own, &found, Some(&expected));
        let rows: Vec<&str> = text.lines().collect();
        assert_eq!(rows.len(), 5, "{text}");
        assert_eq!(rows[0], "a.png: 2 lines, 12 ms");
        assert_eq!(rows[1], "    98%  10,5 200,25         one");
        assert!(rows[3].ends_with("the package: tvvo"), "{text}");
        assert!(rows[4].ends_with("the package alone: three"), "{text}");
        let failed = Found { lines: Err("det: died [5]".to_owned()), millis: 0.0 };
        assert_eq!(page(&own, &failed, None), "a.png: det: died [5]\n");
    }
}
