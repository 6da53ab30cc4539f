//! Lengths: files, functions, lines.

use crate::repo::Finding;

/// Hard stop of a file, production lines.
const FILE_LINES_MAX: usize = 700;

/// Hard stop of a function, lines of code.
const FUNCTION_LINES_MAX: usize = 70;

/// Hard stop of a line, columns.
const COLUMNS_MAX: usize = 100;

/// Lines before the first test module.
pub(crate) fn production_lines(source: &str) -> usize {
    source.lines().take_while(|line| !line.starts_with("#[cfg(test)]")).count()
}

/// A file that should have been split.
pub(crate) fn file(path: &str, source: &str) -> Vec<Finding> {
    let lines = production_lines(source);
    let finding = || Finding::new(path, 0, format!("{lines} lines, split at {FILE_LINES_MAX}"));
    (lines > FILE_LINES_MAX).then(finding).into_iter().collect()
}

/// Functions that should have been split. A function ends at the first brace in its own column,
/// which rustfmt guarantees; blank lines and comments do not count.
pub(crate) fn functions(path: &str, source: &str) -> Vec<Finding> {
    let lines: Vec<&str> = source.lines().collect();
    let mut findings = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        if !opens_function(line) {
            continue;
        }
        let indent = &line[..line.len() - line.trim_start().len()];
        let end = format!("{indent}}}");
        let body = lines[index + 1..].iter().take_while(|line| !line.starts_with(&end));
        let is_code = |line: &&&str| !line.trim().is_empty() && !line.trim().starts_with("//");
        let count = body.filter(is_code).count();
        if count > FUNCTION_LINES_MAX {
            let what = format!("function of {count} lines, split at {FUNCTION_LINES_MAX}");
            findings.push(Finding::new(path, index + 1, what));
        }
    }
    findings
}

/// True for the first line of a function with a body.
fn opens_function(line: &str) -> bool {
    let one_line = line.ends_with(';') || line.ends_with('}');
    let mut words = line.split_whitespace().take_while(|word| !word.starts_with("//"));
    let before_fn = |word: &&str| {
        matches!(*word, "const" | "async" | "unsafe" | "extern" | "\"C\"" | "safe")
            || word.starts_with("pub")
    };
    !one_line && words.find(|word| !before_fn(word)) == Some("fn")
}

/// Lines that are too wide.
pub(crate) fn width(path: &str, text: &str) -> Vec<Finding> {
    let wide = |line: &str| line.chars().count() > COLUMNS_MAX;
    let lines = text.lines().enumerate().filter(|(_, line)| wide(line));
    lines.map(|(index, _)| Finding::new(path, index + 1, "wider than 100 columns")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_file_is_caught_and_its_tests_do_not_count() {
        let long = "x\n".repeat(FILE_LINES_MAX + 1);
        assert_eq!(file("a.rs", &long).len(), 1);
        let tests = format!("x\n#[cfg(test)]\n{long}");
        assert!(file("a.rs", &tests).is_empty());
    }

    #[test]
    fn a_long_function_is_caught() {
        let body = "        work();\n\n        // why\n".repeat(FUNCTION_LINES_MAX);
        let fine = format!("    pub(crate) fn f() {{\n{body}    }}\n");
        assert!(functions("a.rs", &fine).is_empty());
        let long = format!("    pub(crate) fn f() {{\n{body}        more();\n    }}\n");
        assert_eq!(functions("a.rs", &long).len(), 1);
        assert!(opens_function("unsafe extern \"C\" fn f("));
        assert!(!opens_function("fn f();") && !opens_function("let f: fn() = g;"));
    }

    #[test]
    fn a_wide_line_is_caught() {
        assert!(width("a.rs", &"é".repeat(COLUMNS_MAX)).is_empty());
        assert_eq!(width("a.rs", &"x".repeat(COLUMNS_MAX + 1)).len(), 1);
    }
}
