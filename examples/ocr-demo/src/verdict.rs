//! What a flow read on each page beside what the package reads.

use crate::oracle::Expected;
use ocr::gather::Line;

/// Fewest pages that count as a result.
pub const PAGES_MIN: usize = 12;
/// Largest rate of wrong characters.
pub const CER_MAX: f64 = 0.02;

/// What a flow read on one page.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// Its lines in reading order, or why there are none.
    pub lines: Result<Vec<Line>, String>,
    /// From feed to fetch, milliseconds.
    pub millis: f64,
}

/// All pages together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Verdict {
    /// Pages asked about.
    pub pages: usize,
    /// Pages that ended with a code.
    pub failed: usize,
    /// Lines that the flow read.
    pub lines: usize,
    /// Lines whose text is the package's.
    pub lines_equal: usize,
    /// Characters of the package.
    pub characters: usize,
    /// Insertions, deletions and replacements that make the flow's text the package's.
    pub edits: usize,
}

impl Verdict {
    /// Compares; a page that failed has read nothing.
    #[must_use]
    pub fn of(found: &[Found], expected: &[Expected]) -> Verdict {
        let mut verdict = Verdict {
            pages: expected.len(),
            failed: found.iter().filter(|page| page.lines.is_err()).count(),
            lines: 0,
            lines_equal: 0,
            characters: 0,
            edits: 0,
        };
        for (found, expected) in found.iter().zip(expected) {
            let lines = found.lines.as_deref().unwrap_or_default();
            let (ours, theirs) = (text(lines), text(&expected.lines));
            verdict.lines += lines.len();
            verdict.lines_equal += same(lines, &expected.lines);
            verdict.characters += theirs.len();
            verdict.edits += edits(&ours, &theirs);
        }
        verdict
    }

    /// Edits by characters of the package.
    #[must_use]
    pub fn cer(&self) -> f64 {
        rate(self.edits, self.characters)
    }

    /// True when there are enough pages, none failed, and the texts are near enough.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.pages >= PAGES_MIN && self.failed == 0 && self.lines > 0 && self.cer() <= CER_MAX
    }

    /// Lines for people, each with its mark.
    #[must_use]
    pub fn text(&self) -> String {
        let Verdict { pages, failed, lines, lines_equal, characters, edits } = self;
        let mark = |holds: bool| if holds { '✓' } else { '✗' };
        let (enough, near) = (*pages >= PAGES_MIN && *failed == 0, self.cer() <= CER_MAX);
        format!(
            " {} {pages} pages (at least {PAGES_MIN}), {failed} failed\n {} {lines} lines, \
             {lines_equal} of them with the package's text; {edits} of {characters} characters \
             differ: {:.2} % (allowed {:.0} %)",
            mark(enough),
            mark(near && *lines > 0),
            100.0 * self.cer(),
            100.0 * CER_MAX,
        )
    }
}

/// A ratio; 1 where there is nothing to divide by.
fn rate(count: usize, of: usize) -> f64 {
    let [count, of] = [count, of].map(|count| f64::from(u32::try_from(count).unwrap_or(u32::MAX)));
    if of > 0.0 { count / of } else { 1.0 }
}

/// A page's characters, line after line.
fn text(lines: &[Line]) -> Vec<char> {
    lines.iter().flat_map(|line| line.text.chars().chain(['\n'])).collect()
}

fn same(ours: &[Line], theirs: &[Line]) -> usize {
    theirs
        .iter()
        .filter(|line| partner(ours, line).is_some_and(|own| own.text == line.text))
        .count()
}

/// The line whose box is where that of `line` is.
#[must_use]
pub fn partner<'a>(lines: &'a [Line], line: &Line) -> Option<&'a Line> {
    let apart = |other: &Line| {
        let corners = line.corners.iter().zip(other.corners);
        corners
            .map(|(one, other)| (one[0] - other[0]).abs() + (one[1] - other[1]).abs())
            .sum::<f32>()
    };
    let height = (line.corners[3][1] - line.corners[0][1]).abs().max(1.0);
    let nearest = lines.iter().min_by(|one, other| apart(one).total_cmp(&apart(other)))?;
    (apart(nearest) < 4.0 * height).then_some(nearest)
}

/// Levenshtein distance.
fn edits(ours: &[char], theirs: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=theirs.len()).collect();
    for (index, own) in ours.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (at, other) in theirs.iter().enumerate() {
            let replaced = diagonal + usize::from(own != other);
            diagonal = row[at + 1];
            row[at + 1] = replaced.min(row[at] + 1).min(diagonal + 1);
        }
    }
    row[theirs.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str, y: f32) -> Line {
        let corners = [[0.0, y], [50.0, y], [50.0, y + 10.0], [0.0, y + 10.0]];
        Line { confidence: 1.0, corners, text: text.to_owned() }
    }

    fn expected(lines: &[Line]) -> Expected {
        Expected { lines: lines.to_vec(), millis: 1.0, peak_kib: 1, threads: 1 }
    }

    #[test]
    fn edits_are_counted_and_an_end_of_a_line_is_a_character() {
        let edits = |one: &str, other: &str| {
            let [one, other] = [one, other].map(|text| text.chars().collect::<Vec<_>>());
            edits(&one, &other)
        };
        assert_eq!((edits("", "abc"), edits("abc", ""), edits("abc", "abc")), (3, 3, 0));
        assert_eq!((edits("kitten", "sitting"), edits("ab", "ba")), (3, 2));
        let theirs = vec![expected(&[line("one", 0.0), line("two", 20.0)]); 12];
        let found = |lines: &[Line]| Found { lines: Ok(lines.to_vec()), millis: 1.0 };
        let mut ours = vec![found(&[line("one", 0.5), line("two", 20.0)]); 12];
        let verdict = Verdict::of(&ours, &theirs);
        assert!(verdict.holds() && verdict.edits == 0 && verdict.characters == 96, "{verdict:?}");
        assert_eq!((verdict.lines, verdict.lines_equal), (24, 24));
        ours[3] = found(&[line("onetwo", 0.0)]);
        let verdict = Verdict::of(&ours, &theirs);
        assert!(verdict.holds() && verdict.edits == 1 && verdict.lines_equal == 22, "{verdict:?}");
        ours[3] = found(&[]);
        assert!(!Verdict::of(&ours, &theirs).holds());
        ours[3] = Found { lines: Err("gather: …".to_owned()), millis: 1.0 };
        let verdict = Verdict::of(&ours, &theirs);
        assert!(!verdict.holds() && verdict.failed == 1 && verdict.text().contains('✗'));
        assert!(!Verdict::of(&[], &[]).holds());
    }

    #[test]
    fn lines_are_partners_by_place() {
        let lines = [line("a", 0.0), line("b", 20.0)];
        assert_eq!(partner(&lines, &line("x", 18.0)).map(|line| line.text.as_str()), Some("b"));
        assert_eq!(partner(&lines, &line("x", 60.0)), None);
        assert_eq!(partner(&[], &line("x", 60.0)), None);
    }
}
