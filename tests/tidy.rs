//! The house rules as tests: rooms and arrows, sizes, words, unsafe files, licences, docs.
//!
//! Each check is a function from text to [`Finding`]s, with a unit test beside it that a violation
//! is caught; the tests in this file apply the checks to the repository.

#![deny(unsafe_code)]

#[path = "tidy/arrows.rs"]
mod arrows;
#[path = "tidy/crates.rs"]
mod crates;
#[path = "tidy/docs.rs"]
mod docs;
#[path = "tidy/lexer.rs"]
mod lexer;
#[path = "tidy/licences.rs"]
mod licences;
#[path = "tidy/repo.rs"]
mod repo;
#[path = "tidy/sizes.rs"]
mod sizes;
#[path = "tidy/source.rs"]
mod source;
#[path = "tidy/words.rs"]
mod words;

use repo::{Finding, Repo};

/// Fails with all findings at once, so that one run shows everything there is to do.
fn expect_none(findings: &[Finding]) {
    let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert!(findings.is_empty(), "{} finding(s):\n{}", findings.len(), lines.join("\n"));
}

/// Applies `check` to every file for which `wanted` holds.
fn over(wanted: fn(&str) -> bool, check: fn(&str, &str) -> Vec<Finding>) {
    let repo = Repo::open();
    let files: Vec<&String> = repo.files().iter().filter(|path| wanted(path)).collect();
    assert!(!files.is_empty(), "no file to check: the filter is wrong");
    let findings: Vec<Finding> =
        files.into_iter().flat_map(|path| check(path, &repo.read(path))).collect();
    expect_none(&findings);
}

#[test]
fn arrows_between_rooms() {
    let repo = Repo::open();
    let manifests: Vec<&String> =
        repo.files().iter().filter(|path| path.ends_with("Cargo.toml")).collect();
    assert!(manifests.len() > 2, "no manifests: the filter is wrong");
    let findings: Vec<Finding> =
        manifests.into_iter().flat_map(|path| arrows::check(path, &repo.read(path))).collect();
    expect_none(&findings);
}

#[test]
fn files_are_short() {
    let repo = Repo::open();
    let mut lines: Vec<usize> = repo
        .files()
        .iter()
        .filter(|path| repo::is_rust(path) && !repo::is_test(path))
        .map(|path| sizes::production_lines(&repo.read(path)))
        .collect();
    lines.sort_unstable();
    let at = |percent: usize| lines.get(lines.len() * percent / 100).copied().unwrap_or(0);
    println!("production lines: median {}, p90 {}, {} files", at(50), at(90), lines.len());
    over(repo::is_rust, sizes::file);
}

#[test]
fn functions_are_short() {
    over(repo::is_rust, sizes::functions);
}

#[test]
fn lines_are_narrow() {
    over(repo::is_code, sizes::width);
}

#[test]
fn files_say_what_they_are() {
    over(repo::is_rust, source::header);
}

#[test]
fn unsafe_only_in_permitted_files() {
    over(repo::is_rust, source::unsafe_files);
}

#[test]
fn crates_deny_unsafe() {
    over(repo::is_crate_root, source::crate_denies_unsafe);
}

#[test]
fn nothing_left_undone() {
    over(repo::is_rust, source::unfinished);
}

#[test]
fn no_alloc_in_core() {
    over(|path| path.starts_with("executor-core/src/"), source::no_alloc);
}

#[test]
fn everything_is_bounded() {
    over(repo::is_product, source::bounded);
}

#[test]
fn project_words() {
    over(repo::is_product, words::source);
    over(|path| path.starts_with("docs/") && path.ends_with(".md"), words::prose);
}

#[test]
fn open_ends_carry_an_issue_number() {
    over(repo::is_text, words::open_ends);
}

#[test]
fn no_path_of_a_machine() {
    over(repo::is_text, words::machine_paths);
}

#[test]
fn licences_of_all_crates() {
    let metadata = crates::Metadata::of(&Repo::open(), "Cargo.toml");
    assert!(metadata.packages().count() > 2, "no packages: cargo metadata is not understood");
    expect_none(&licences::check(metadata.packages()));
}

#[test]
fn host_is_lean() {
    let count = crates::Metadata::of(&Repo::open(), "Cargo.toml").tree_of("host").len();
    println!("host: {count} crates of {}", crates::HOST_MAX);
    expect_none(&crates::lean(count));
}

#[test]
fn one_version_of_each_direct_dependency() {
    expect_none(&crates::Metadata::of(&Repo::open(), "Cargo.toml").doubled());
}

#[test]
fn every_code_is_documented() {
    let repo = Repo::open();
    let source = repo.read("executor-core/src/error.rs");
    let codes = docs::codes(&source);
    assert!(codes.len() > 20, "the core has lost its codes, or they are not understood");
    expect_none(&docs::check_codes(&codes, &repo.read("docs/codes.md")));
}

#[test]
fn decision_records_are_short() {
    over(|path| path.starts_with("docs/adr/"), docs::record);
}
