//! The table of pages: one row a page, 98 columns wide.

use crate::outcome::Outcome;
use crate::run::{Visit, median};
use crate::style::Style;
use pages::Measure;

/// Columns of a file name.
const NAME: usize = 33;
/// Columns from size to milliseconds, for what went wrong with a page.
const SAID: usize = 53;

/// What is known about one page.
#[derive(Debug, Default)]
pub(crate) struct Row {
    /// Outcome of its first visit that has data, or of its first one.
    pub(crate) outcome: Option<Outcome>,
    /// Milliseconds of every visit that came through the flow.
    pub(crate) millis: Vec<f64>,
    /// Visits.
    pub(crate) visits: usize,
    /// Visits that agree with the reference, or have data when there is none.
    pub(crate) good: usize,
    /// Visits that do not, in words.
    pub(crate) bad: Vec<String>,
}

impl Row {
    /// Adds a visit.
    pub(crate) fn add(&mut self, visit: &Visit, reference: Option<&Outcome>) {
        self.visits += 1;
        if !visit.latency.is_zero() {
            self.millis.push(visit.latency.as_secs_f64() * 1e3);
        }
        let is_good = match reference {
            Some(reference) => reference.agrees(&visit.outcome),
            None => visit.outcome.measure().is_some(),
        };
        if is_good {
            self.good += 1;
        } else {
            let expected = reference.map(|expected| match expected {
                Outcome::Row(_) if visit.outcome.measure().is_some() => {
                    ", other bytes than in one process".to_owned()
                }
                Outcome::Row(_) => String::new(),
                expected => format!(", expected {}", expected.text()),
            });
            let expected = expected.unwrap_or_default();
            self.bad.push(format!("id {}: {}{expected}", visit.trans_id, visit.outcome.text()));
        }
        if self.outcome.as_ref().is_none_or(|outcome| outcome.measure().is_none()) {
            self.outcome = Some(visit.outcome.clone());
        }
    }

    /// Median of feed → fetch.
    pub(crate) fn millis(&self) -> f64 {
        median(&mut self.millis.clone())
    }
}

/// Titles of the columns.
pub(crate) fn header(style: Style) -> String {
    let line = format!(
        " {:NAME$}  {:>9}  {:>7}  {:>6}  {:16}  {:>7}  check",
        "file", "size", "skew", "ink", "checksum", "ms"
    );
    style.dim(&line)
}

/// A row and lines about its visits that failed.
pub(crate) fn lines(name: &str, row: &Row, reference: Option<&Outcome>, style: Style) -> String {
    let name = clip(name, NAME);
    let check = check(row, reference.is_some(), style);
    let mut text = match &row.outcome {
        Some(outcome) => match outcome.measure() {
            Some(measure) => cells(&name, &measure, row, &check),
            None => {
                // The flow does not say which function set a code of its own; the reference knows.
                let said = match reference {
                    Some(reference) if reference.agrees(outcome) => reference.text(),
                    _ => outcome.text(),
                };
                let said = clip(&said, SAID);
                format!(" {name:NAME$}  {}{}  {check}", style.yellow(&said), pad(&said, SAID))
            }
        },
        None => format!(" {name:NAME$}  {}", style.red("never answered")),
    };
    for bad in row.bad.iter().take(5) {
        text.push_str(&format!("\n   {} {bad}", style.red("✗")));
    }
    if row.bad.len() > 5 {
        text.push_str(&format!("\n     and {} more", row.bad.len() - 5));
    }
    text
}

fn cells(name: &str, measure: &Measure, row: &Row, check: &str) -> String {
    let size = format!("{}×{}", measure.width, measure.height);
    let skew = format!("{:+.2}°", measure.skew_degrees());
    let ink = format!("{:.1}%", measure.ink_ratio() * 100.0);
    let checksum = format!("{:016x}", measure.checksum);
    let millis = format!("{:.1}", row.millis());
    format!(" {name:NAME$}  {size:>9}  {skew:>7}  {ink:>6}  {checksum}  {millis:>7}  {check}")
}

fn check(row: &Row, compared: bool, style: Style) -> String {
    let count =
        if row.visits > 1 { format!(" {}/{}", row.good, row.visits) } else { String::new() };
    match (row.good == row.visits, compared) {
        (false, _) => style.red(&format!("✗{count}")),
        (true, true) => format!("{}{count}", style.green("✓")),
        (true, false) => format!("–{count}"),
    }
}

fn pad(text: &str, width: usize) -> String {
    " ".repeat(width.saturating_sub(text.chars().count()))
}

/// The text, or its two ends around an ellipsis.
pub(crate) fn clip(text: &str, width: usize) -> String {
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
    use std::time::Duration;

    fn visit(trans_id: u64, outcome: Outcome) -> Visit {
        Visit { trans_id, page: 0, outcome, latency: Duration::from_millis(20) }
    }

    #[test]
    fn rows_fit_a_hundred_columns() {
        let measure =
            Measure { width: 12_000, height: 2000, ink: 24_000_000, ..Measure::default() };
        let measure = Measure { skew_microdegrees: -10_000_000, ..measure };
        let bytes: Vec<u8> = measure.to_record().iter().flat_map(|v| v.to_ne_bytes()).collect();
        let (good, mut row) = (Outcome::Row(bytes), Row::default());
        (0..99).for_each(|id| row.add(&visit(id, good.clone()), Some(&good)));
        let name = "a very long name of a file that somebody scanned.jpeg";
        let line = lines(name, &row, Some(&good), Style::PLAIN);
        assert!(line.contains("…") && line.contains("✓ 99/99"), "{line}");
        assert!(line.chars().count() <= 100, "{line}");
        assert!(header(Style::PLAIN).chars().count() <= 100);
    }

    #[test]
    fn failed_ids_are_named_and_the_row_keeps_its_data() {
        let bytes = Measure::default().to_record().iter().flat_map(|v| v.to_ne_bytes()).collect();
        let (good, mut row) = (Outcome::Row(bytes), Row::default());
        let died = Outcome::coded(14_614_529, Some("deskew@1".to_owned()), "the executor died");
        row.add(&visit(7, died), Some(&good));
        row.add(&visit(8, good.clone()), Some(&good));
        let text = lines("page.png", &row, Some(&good), Style::PLAIN);
        assert!(text.contains("✗ 1/2"), "{text}");
        assert!(text.contains("✗ id 7: deskew@1: the executor died [14614529]"), "{text}");
        let mut other = Row::default();
        let changed = Outcome::Row(vec![1; 96]);
        other.add(&visit(9, changed), Some(&good));
        assert_eq!((other.good, other.bad.len()), (0, 1));
    }

    #[test]
    fn a_broken_image_is_one_line() {
        let (flow, node) = (Outcome::coded(9_900_001, None, ""), Some("decode".to_owned()));
        let reference = Outcome::coded(9_900_001, node, "");
        let mut row = Row::default();
        row.add(&visit(3, flow), Some(&reference));
        let text = lines("broken.png", &row, Some(&reference), Style::PLAIN);
        assert!(text.contains("decode: not a readable PNG or JPEG file [9900001]"), "{text}");
        assert!(text.ends_with('✓') && text.lines().count() == 1, "{text}");
    }
}
