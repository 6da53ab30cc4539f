//! Documents that must agree with the code, and their lengths.

use crate::repo::Finding;

/// Most lines of a decision record.
const RECORD_LINES_MAX: usize = 60;

/// A decision record that became an essay, or one without its three parts.
pub(crate) fn record(path: &str, text: &str) -> Vec<Finding> {
    let lines = text.lines().count();
    let mut findings = Vec::new();
    if lines > RECORD_LINES_MAX {
        let what = format!("{lines} lines, at most {RECORD_LINES_MAX}");
        findings.push(Finding::new(path, 0, what));
    }
    for part in ["## Context", "## Decision", "## Consequences"] {
        if !text.lines().any(|line| line == part) {
            findings.push(Finding::new(path, 0, format!("no `{part}`")));
        }
    }
    findings
}

/// First of the project's own codes, to which executor-core/src/error.rs adds.
const OWN_FIRST: u32 = 0x00DF_0000;

/// Every code of executor-core/src/error.rs, as (name, number): entries `NAME = value, "text";` of
/// its `codes!` table, and constants `pub const NAME: Code = Code(value);`.
pub(crate) fn codes(source: &str) -> Vec<(&str, u32)> {
    source
        .lines()
        .filter_map(|line| {
            let line = line.trim().trim_start_matches("pub const ");
            let (name, value) = line.split_once(" = ")?;
            let name = name.trim_end_matches(": Self").trim_end_matches(": Code");
            let is_name = |character: char| character.is_ascii_uppercase() || character == '_';
            let named = name.chars().all(|c| is_name(c) || c.is_ascii_digit());
            let value = value.trim_start_matches("Code(").trim_start_matches("Self(");
            let value = value.split_once([',', ')'])?.0;
            named.then_some((name, number(value)?))
        })
        .collect()
}

/// A literal, or `Code::OWN_FIRST + n`.
fn number(text: &str) -> Option<u32> {
    if let Some((first, rest)) = text.split_once(" + ") {
        return first.ends_with("OWN_FIRST").then_some(OWN_FIRST + number(rest)?);
    }
    let digits = text.replace('_', "");
    match digits.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => digits.parse().ok(),
    }
}

/// Codes that the table lacks or has with another number, and rows of codes that do not exist.
pub(crate) fn check_codes(codes: &[(&str, u32)], table: &str) -> Vec<Finding> {
    let rows: Vec<(&str, &str)> = table.lines().filter_map(row).collect();
    let absent = codes.iter().filter(|(name, number)| {
        !rows.iter().any(|row| row.0 == number.to_string() && row.1 == *name)
    });
    let unknown = rows.iter().filter(|row| !codes.iter().any(|(name, _)| *name == row.1));
    absent
        .map(|(name, number)| format!("no row `| {number} | {name} | …`"))
        .chain(unknown.map(|(_, name)| format!("{name} is no code of executor-core")))
        .map(|what| Finding::new("docs/codes.md", 0, what))
        .collect()
}

/// Number and name of a row `| number | NAME | …`.
fn row(line: &str) -> Option<(&str, &str)> {
    let mut cells = line.strip_prefix('|')?.split('|').map(|cell| cell.trim().trim_matches('`'));
    let (number, name) = (cells.next()?, cells.next()?);
    number.parse::<u32>().ok().map(|_| (number, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_record_and_one_without_its_parts_are_caught() {
        let good = "# 1\n## Context\n## Decision\n## Consequences\n";
        assert!(record("docs/adr/0001-x.md", good).is_empty());
        assert_eq!(record("docs/adr/0001-x.md", &good.replace("## Context", "")).len(), 1);
        assert_eq!(record("docs/adr/0001-x.md", &format!("{good}{}", "x\n".repeat(60))).len(), 1);
    }

    #[test]
    fn codes_are_read_in_every_spelling() {
        let source = "    EMPTY = 207_013, \"x\";\n    DIED = Code::OWN_FIRST + 1, \"y\";\n\
                      pub const FAILED: Code = Code(0xFFFF_FFFF);\n\
                      pub const OWN_FIRST: u32 = 0x00DF_0000;\n    let a = 3, b;\n";
        let expected = [("EMPTY", 207_013), ("DIED", 14_614_529), ("FAILED", u32::MAX)];
        assert_eq!(codes(source), expected);
    }

    #[test]
    fn a_code_without_a_row_a_wrong_number_and_a_row_without_a_code_are_caught() {
        let codes = [("EMPTY", 1), ("FULL", 2)];
        let table = "| code | name |\n|---|---|\n| 1 | `EMPTY` | x |\n| 2 | `FULL` | y |\n";
        assert!(check_codes(&codes, table).is_empty());
        assert_eq!(check_codes(&codes, &table.replace("| 2 |", "| 3 |")).len(), 1);
        assert_eq!(check_codes(&codes[..1], table).len(), 1);
        assert_eq!(check_codes(&codes, "| 1 | EMPTY |\n").len(), 1);
    }
}
