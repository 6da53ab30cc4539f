//! The table: one row a file, a cell for each of its rotations, 98 columns wide.

use crate::oracle::Expected;
use crate::set::Page;
use crate::verdict::{CONFIDENCE_DIFF_MAX, Found};
use std::fmt::Write;

/// Columns of a file name.
const NAME: usize = 33;
/// Columns of a cell: a label, a confidence, a mark.
const CELL: usize = 13;

/// Titles and all rows. A cell says label and confidence, and whether both are the package's; what
/// is not is explained in a line of its own. Milliseconds are the mean of the file's pages.
#[must_use]
pub fn text(pages: &[Page], found: &[Found], expected: &[Expected]) -> String {
    let mut text = format!(" {:NAME$}", "file");
    for degrees in [0, 90, 180, 270] {
        let _ = write!(text, " {:>CELL$}", format!("turned {degrees:3}°"));
    }
    let _ = writeln!(text, " {:>7}", "ms");
    let all: Vec<_> = pages.iter().zip(found).zip(expected).collect();
    for file in all.chunk_by(|((one, _), _), ((two, _), _)| one.name == two.name) {
        let name = file.first().map_or("", |((page, _), _)| page.name.as_str());
        let _ = write!(text, " {:NAME$}", clip(name, NAME));
        let (mut millis, mut explained) = (0.0, String::new());
        for ((page, found), expected) in file {
            let holds =
                found.agrees(expected) && found.confidence_diff(expected) <= CONFIDENCE_DIFF_MAX;
            let mark = if holds { '✓' } else { '✗' };
            let _ = write!(text, " {:>CELL$}", format!("{} {mark}", cell(found)));
            millis += found.millis / f64::from(u32::try_from(file.len()).unwrap_or(u32::MAX));
            if !holds {
                explained += &explain(page, found, expected);
            }
        }
        let _ = writeln!(text, " {millis:>7.1}\n{explained}");
        // The line of explanations is empty, or has its own end.
        text.pop();
    }
    text
}

fn cell(found: &Found) -> String {
    match &found.answer {
        Ok((label, confidence)) => format!("{label}° {:.1}%", confidence * 100.0),
        Err(_) => "–".to_owned(),
    }
}

fn explain(page: &Page, found: &Found, expected: &Expected) -> String {
    let said = match &found.answer {
        Ok((label, confidence)) => format!("{label}° with {confidence:.6}"),
        Err(reason) => clip(reason, 40),
    };
    let Expected { label, confidence, .. } = expected;
    let degrees = page.degrees;
    format!("   ✗ turned {degrees}°: {said}, the package says {label}° with {confidence:.6}\n")
}

/// The text, or its two ends around an ellipsis.
fn clip(text: &str, width: usize) -> String {
    let count = text.chars().count();
    if count <= width {
        return text.to_owned();
    }
    let tail = width / 3;
    let head = text.chars().take(width - tail - 1);
    head.chain(['…']).chain(text.chars().skip(count - tail)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_a_row_and_what_differs_is_explained() {
        let page = |name: &str, degrees| Page { name: name.to_owned(), degrees, file: Vec::new() };
        let long = "a very long name of a file that somebody scanned.jpeg";
        let mut pages: Vec<Page> = [0, 90, 180, 270].map(|degrees| page(long, degrees)).into();
        pages.push(page("b.png", 0));
        let expected: Vec<Expected> = pages
            .iter()
            .map(|page| Expected {
                label: page.degrees.to_string(),
                confidence: 1.0,
                millis: 1.0,
                tensor: Vec::new(),
            })
            .collect();
        let said = |label: &str| Ok((label.to_owned(), 1.0));
        let reason = "npu-executor: node_failed ".repeat(8);
        let answers = [said("0"), said("0"), said("180"), said("270"), Err(reason)];
        let found = answers.map(|answer| Found { answer, millis: 2.0 });
        let text = text(&pages, &found, &expected);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 5, "{text}");
        assert!(lines.iter().all(|line| line.chars().count() <= 100), "{text}");
        assert!(lines[1].contains("270° 100.0% ✓") && lines[1].ends_with("2.0"), "{text}");
        assert!(lines[2].contains("turned 90°: 0° with 1.000000, the package says 90°"), "{text}");
        assert!(lines[3].contains("b.png") && lines[3].contains("– ✗"), "{text}");
        assert!(lines[4].contains("node_failed"), "{text}");
    }
}
