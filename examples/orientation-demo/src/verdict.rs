//! What a flow said of each page beside what the package says.

use crate::oracle::Expected;
use serde_json::{Value, json};

/// Fewest pages that count as a result.
pub const PAGES_MIN: usize = 36;
/// Largest difference of a confidence.
pub const CONFIDENCE_DIFF_MAX: f64 = 1e-3;

/// What a flow said of one page.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The label and its confidence, or why there is none.
    pub answer: Result<(String, f64), String>,
    /// From feed to fetch, milliseconds.
    pub millis: f64,
}

impl Found {
    /// True when the label is the package's.
    #[must_use]
    pub fn agrees(&self, expected: &Expected) -> bool {
        self.answer.as_ref().is_ok_and(|(label, _)| *label == expected.label)
    }

    /// How far the confidence is from the package's; 1 where there is none or it is not a number.
    #[must_use]
    pub fn confidence_diff(&self, expected: &Expected) -> f64 {
        let diff = |confidence: f64| (confidence - expected.confidence).abs();
        match self.answer.as_ref().map(|(_, confidence)| diff(*confidence)) {
            Ok(diff) if diff.is_finite() => diff,
            _ => 1.0,
        }
    }
}

/// All pages together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Verdict {
    /// Pages asked about.
    pub pages: usize,
    /// Pages whose label is the package's.
    pub labels_equal: usize,
    /// Largest difference of a confidence.
    pub max_confidence_diff: f64,
    /// The package's pages a second, one at a time, without loading it.
    pub package_pages_per_s: f64,
}

impl Verdict {
    /// Compares; a page that was not answered is one whose label differs.
    #[must_use]
    pub fn of(found: &[Found], expected: &[Expected]) -> Verdict {
        let pairs = || found.iter().zip(expected);
        let millis: f64 = expected.iter().map(|page| page.millis).sum();
        let missing = if found.len() < expected.len() { 1.0 } else { 0.0 };
        Verdict {
            pages: expected.len(),
            labels_equal: pairs().filter(|(found, expected)| found.agrees(expected)).count(),
            max_confidence_diff: pairs()
                .map(|(found, expected)| found.confidence_diff(expected))
                .fold(missing, f64::max),
            package_pages_per_s: rate(expected.len(), millis / 1e3),
        }
    }

    /// True when there are enough pages, every label is equal and every confidence near enough.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.pages >= PAGES_MIN
            && self.labels_equal == self.pages
            && self.max_confidence_diff <= CONFIDENCE_DIFF_MAX
    }

    /// The object of the figure `orientation`, for a run of `seconds`.
    #[must_use]
    pub fn figure(&self, seconds: f64) -> Value {
        json!({
            "pages": self.pages,
            "labels_equal": self.labels_equal,
            "max_confidence_diff": self.max_confidence_diff,
            "pages_per_s": rate(self.pages, seconds),
            "package_pages_per_s": self.package_pages_per_s,
        })
    }

    /// Two lines for people, each with its mark.
    #[must_use]
    pub fn text(&self) -> String {
        let Verdict { pages, labels_equal, max_confidence_diff, .. } = self;
        let mark = |holds: bool| if holds { '✓' } else { '✗' };
        let labels = mark(labels_equal == pages && *pages >= PAGES_MIN);
        let near = mark(*max_confidence_diff <= CONFIDENCE_DIFF_MAX);
        format!(
            " {labels} {labels_equal} of {pages} labels equal those of the package (at least \
             {PAGES_MIN} pages)\n {near} confidences differ by {max_confidence_diff:.1e} at most \
             (allowed {CONFIDENCE_DIFF_MAX:.0e})"
        )
    }
}

fn rate(pages: usize, seconds: f64) -> f64 {
    let pages = u32::try_from(pages).unwrap_or(u32::MAX);
    if seconds > 0.0 { f64::from(pages) / seconds } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected(label: &str, confidence: f64) -> Expected {
        Expected { label: label.to_owned(), confidence, millis: 20.0, tensor: Vec::new() }
    }

    fn found(label: &str, confidence: f64) -> Found {
        Found { answer: Ok((label.to_owned(), confidence)), millis: 1.0 }
    }

    #[test]
    fn equal_labels_and_near_confidences_hold() {
        let theirs = vec![expected("90", 0.75); 36];
        let mut ours = vec![found("90", 0.75); 36];
        ours[7] = found("90", 0.7505);
        let verdict = Verdict::of(&ours, &theirs);
        assert!(verdict.holds() && (verdict.max_confidence_diff - 0.0005).abs() < 1e-9);
        let figure = verdict.figure(2.0);
        assert_eq!((&figure["pages"], &figure["labels_equal"]), (&json!(36), &json!(36)));
        assert_eq!(figure["pages_per_s"], json!(18.0));
        assert!((verdict.package_pages_per_s - 50.0).abs() < 1e-9);
        assert!(!Verdict::of(&ours[..35], &theirs[..35]).holds(), "too few");
    }

    #[test]
    fn whatever_differs_or_is_missing_does_not_hold() {
        let theirs = vec![expected("0", 0.9); 40];
        let failed = Found { answer: Err("node_failed".to_owned()), millis: 0.0 };
        let wrong = [found("90", 0.9), found("0", 0.8), found("0", f64::NAN), failed];
        for (wrong, equal) in wrong.into_iter().zip([39, 40, 40, 39]) {
            let mut ours = vec![found("0", 0.9); 40];
            ours[39] = wrong;
            let verdict = Verdict::of(&ours, &theirs);
            assert!(!verdict.holds() && verdict.labels_equal == equal, "{verdict:?}");
            assert!(verdict.text().contains('✗'), "{}", verdict.text());
        }
        let short = Verdict::of(&vec![found("0", 0.9); 39], &theirs);
        assert_eq!((short.pages, short.labels_equal, short.max_confidence_diff), (40, 39, 1.0));
        assert!(!Verdict::of(&[], &[]).holds());
    }
}
