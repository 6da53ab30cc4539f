//! Licences of everything that is linked: SPDX expressions against a list.

use crate::repo::Finding;

/// Licences that an Apache-2.0 OR MIT product may link.
const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Packages, as (name, version, licence), whose licence does not fit.
pub(crate) fn check<'a>(
    packages: impl Iterator<Item = (&'a str, &'a str, &'a str)>,
) -> Vec<Finding> {
    packages
        .filter(|(_, _, licence)| !fits(licence))
        .map(|(name, version, licence)| {
            Finding::new("Cargo.lock", 0, format!("{name} {version}: licence `{licence}`"))
        })
        .collect()
}

/// Whether an expression can be satisfied by allowed licences alone.
fn fits(expression: &str) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words: Vec<&str> = spaced.split_whitespace().rev().collect();
    any_of(&mut words).is_some_and(|fit| fit && words.is_empty())
}

/// `a OR b`; the words are in reverse order, so the next one is the last.
fn any_of(words: &mut Vec<&str>) -> Option<bool> {
    let mut fit = all_of(words)?;
    while words.last() == Some(&"OR") {
        words.pop();
        fit |= all_of(words)?;
    }
    Some(fit)
}

/// `a AND b`, which binds tighter.
fn all_of(words: &mut Vec<&str>) -> Option<bool> {
    let mut fit = one(words)?;
    while words.last() == Some(&"AND") {
        words.pop();
        fit &= one(words)?;
    }
    Some(fit)
}

fn one(words: &mut Vec<&str>) -> Option<bool> {
    let first = words.pop()?;
    if first == "(" {
        let fit = any_of(words)?;
        return (words.pop() == Some(")")).then_some(fit);
    }
    if words.last() != Some(&"WITH") {
        return Some(ALLOWED.contains(&first));
    }
    words.pop();
    let exception = words.pop()?;
    Some(ALLOWED.contains(&format!("{first} WITH {exception}").as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_understood() {
        assert!(fits("MIT OR Apache-2.0") && fits("MIT/Apache-2.0"));
        assert!(fits("(MIT OR GPL-3.0-only) AND Unicode-3.0"));
        assert!(fits("Apache-2.0 WITH LLVM-exception OR GPL-2.0-only"));
    }

    #[test]
    fn a_licence_that_does_not_fit_is_caught() {
        for licence in ["GPL-3.0-only", "MIT AND GPL-2.0-only", "", "MIT OR", "(MIT", "MIT MIT"] {
            assert_eq!(check([("x", "1", licence)].into_iter()).len(), 1, "{licence}");
        }
        assert!(!fits("GPL-2.0-only WITH LLVM-exception"));
    }
}
