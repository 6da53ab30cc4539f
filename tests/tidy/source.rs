//! What Rust sources must and must not say.

use crate::lexer::{code_only, tokens};
use crate::repo::Finding;

/// Files (or folders, ending in `/`; or beginnings, ending in `*`) that may hold unsafe code.
/// Growth of this list is a reviewed change.
const UNSAFE_FILES: &[&str] = &[
    "sys/src/",
    "sys/tests/",
    "executor-core/src/region.rs",
    "executor-core/src/group.rs",
    "executor-core/tests/",
    "executor-core/src/pool*",
    "executor-core/src/mbuf*",
    "executor-core/src/queue*",
    "executor-core/src/primitive*",
    "executor-rt/src/attach*",
    "executor-rt/src/interpose*",
    "executor-rt/src/payload.rs",
    "executor-rt/tests/",
    "npu/src/cast.rs",
    "npu/src/engine/walk.rs",
    "npu/src/isa.rs",
    "npu/src/isa/x86.rs",
    "npu/src/team.rs",
    "npu/tests/no_alloc.rs",
    "npu-device/tests/no_alloc.rs",
    "npu-c/src/raw.rs",
    "udf-executor/src/call.rs",
    "udf-executor/src/api.rs",
    "udf-executor/src/view.rs",
    "udf-executor/testlib/src/wild.rs",
    "flow-func/src/abi*",
    "flow-func/src/export*",
    "tests/no-alloc-probe/src/",
    "tests/functions/src/act.rs",
    "tests/functions/src/scribble.rs",
    "benches/src/shared.rs",
    "benches/rivals/src/",
];

/// Lines among which the header is looked for; attributes may stand before it.
const HEADER_LINES: usize = 10;

/// Every file begins with what it is.
pub(crate) fn header(path: &str, source: &str) -> Vec<Finding> {
    let says = source.lines().take(HEADER_LINES).any(|line| line.starts_with("//! "));
    let finding = || Finding::new(path, 1, "no `//!` line that says what this file is");
    (!says).then(finding).into_iter().collect()
}

/// Unsafe code lies in permitted files, which say why they may.
pub(crate) fn unsafe_files(path: &str, source: &str) -> Vec<Finding> {
    let code = code_only(source);
    let used = code.lines().position(|line| tokens(line).any(|token| token == "unsafe"));
    let permitted = UNSAFE_FILES.iter().any(|pattern| {
        let stem = pattern.trim_end_matches('*');
        path == *pattern || (path.starts_with(stem) && (stem.ends_with('/') || stem != *pattern))
    });
    let allows = code.lines().any(|line| line.starts_with("#![allow(unsafe_code, reason"));
    let says_why = allows || code.contains("#![allow(\n    unsafe_code,\n    reason");
    match used {
        Some(line) if !permitted => {
            vec![Finding::new(path, line + 1, "unsafe code outside tests/tidy's list of files")]
        }
        Some(_) if !says_why => {
            vec![Finding::new(path, 1, "no `#![allow(unsafe_code, reason = …)]` at the top")]
        }
        None if says_why => vec![Finding::new(path, 1, "allows unsafe code but has none")],
        _ => Vec::new(),
    }
}

/// Every crate denies unsafe code; its permitted files opt out one by one.
pub(crate) fn crate_denies_unsafe(path: &str, source: &str) -> Vec<Finding> {
    let code = code_only(source);
    let denies = ["#![deny(unsafe_code)]", "#![forbid(unsafe_code)]"];
    let finding = || Finding::new(path, 1, "no `#![deny(unsafe_code)]`");
    (!denies.iter().any(|line| code.contains(line))).then(finding).into_iter().collect()
}

/// Places that would panic because nobody wrote them.
pub(crate) fn unfinished(path: &str, source: &str) -> Vec<Finding> {
    find(path, source, &["todo!", "unimplemented!"], "is not finished code")
}

/// Core's promise not to allocate, as far as text shows it; the link probe proves it.
pub(crate) fn no_alloc(path: &str, source: &str) -> Vec<Finding> {
    let code = code_only(source);
    let production = code.lines().take_while(|line| !line.starts_with("#[cfg(test)]"));
    let production: Vec<&str> = production.collect();
    find(path, &production.join("\n"), &["extern crate alloc", "alloc::"], "allocates")
        .into_iter()
        .filter(|_| !path.ends_with("/tests.rs"))
        .collect()
}

/// Everything that can wait in a line has a bound.
pub(crate) fn bounded(path: &str, source: &str) -> Vec<Finding> {
    find(path, source, &["mpsc::channel", "unbounded", "SegQueue"], "has no bound")
}

fn find(path: &str, source: &str, needles: &[&str], what: &str) -> Vec<Finding> {
    let code = code_only(source);
    let mut findings = Vec::new();
    for (index, line) in code.lines().enumerate() {
        for needle in needles {
            let whole = line.match_indices(needle).any(|(at, _)| {
                !line[..at].ends_with(|character: char| crate::lexer::is_word(character))
            });
            if whole {
                findings.push(Finding::new(path, index + 1, format!("`{needle}` {what}")));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_header_is_caught() {
        assert_eq!(header("a.rs", "// No.\nuse std::fmt;\n").len(), 1);
        assert_eq!(header("a.rs", &format!("{}//! Late.\n", "\n".repeat(10))).len(), 1);
        assert!(header("a.rs", "#![no_std]\n//! What it is.\n").is_empty());
    }

    #[test]
    fn unsafe_outside_the_list_is_caught() {
        let code = "//! x\nfn f() { unsafe { g() } }\n";
        assert_eq!(unsafe_files("host/src/plan.rs", code).len(), 1);
        assert_eq!(unsafe_files("sys/src/futex.rs", code).len(), 1, "says no reason");
        let allowed = format!("#![allow(unsafe_code, reason = \"FFI\")]\n{code}");
        assert!(unsafe_files("sys/src/futex.rs", &allowed).is_empty());
        assert!(unsafe_files("executor-core/src/queue/spsc.rs", &allowed).is_empty());
        assert_eq!(unsafe_files("executor-core/src/owner.rs", &allowed).len(), 1);
        let idle = "#![allow(unsafe_code, reason = \"FFI\")]\n// unsafe\n";
        assert_eq!(unsafe_files("sys/src/clock.rs", idle).len(), 1);
    }

    #[test]
    fn a_crate_that_does_not_deny_unsafe_is_caught() {
        assert_eq!(crate_denies_unsafe("host/src/lib.rs", "//! x\n").len(), 1);
        assert!(crate_denies_unsafe("host/src/lib.rs", "#![deny(unsafe_code)]\n").is_empty());
    }

    #[test]
    fn unfinished_code_is_caught() {
        let code = format!("fn f() {{ {}!() }}\n// {}!()\n", "to".to_owned() + "do", "todo");
        assert_eq!(unfinished("a.rs", &code).len(), 1);
    }

    #[test]
    fn an_allocating_core_is_caught() {
        assert_eq!(no_alloc("executor-core/src/lib.rs", "extern crate alloc;\n").len(), 1);
        assert_eq!(no_alloc("executor-core/src/a.rs", "use alloc::vec::Vec;\n").len(), 1);
        assert!(no_alloc("executor-core/src/a.rs", "#[cfg(test)]\nuse alloc::x;\n").is_empty());
        assert!(no_alloc("executor-core/src/a.rs", "pool_alloc::take()\n").is_empty());
    }

    #[test]
    fn something_without_a_bound_is_caught() {
        assert_eq!(bounded("host/src/a.rs", "let (a, b) = mpsc::channel();\n").len(), 1);
        assert!(bounded("host/src/a.rs", "let (a, b) = mpsc::sync_channel(4);\n").is_empty());
    }
}
