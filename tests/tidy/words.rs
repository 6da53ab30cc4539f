//! The project's words, and text that must not be in the repository.

use crate::lexer::{is_word, tokens};
use crate::repo::Finding;

/// Words that docs/glossary.md replaces by others; it may name them itself.
const BANNED: &[(&str, &str)] = &[
    ("packet", "mbuf"),
    ("channel", "queue"),
    ("job", "worker or transaction"),
    ("ticket", "trans_id"),
];

/// Names of other people's that hold a banned word.
const FOREIGN: &[&str] = &["sync_channel", "mpsc"];

/// Marks of an open end.
const MARKS: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

/// Beginnings of paths that exist on one machine only.
const MACHINE_PATHS: &[&str] =
    &[concat!("/wo", "rk/"), concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/Us", "ers/")];

/// Banned words in identifiers and comments; strings are what users read, so they count too.
pub(crate) fn source(path: &str, text: &str) -> Vec<Finding> {
    banned(path, text)
}

/// Banned words in documentation.
pub(crate) fn prose(path: &str, text: &str) -> Vec<Finding> {
    if path == "docs/glossary.md" { Vec::new() } else { banned(path, text) }
}

fn banned(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let names = tokens(line).filter(|token| !FOREIGN.contains(token));
        for word in names.flat_map(split_name) {
            let singular = word.strip_suffix('s').unwrap_or(&word);
            let instead = BANNED.iter().find(|(banned, _)| *banned == singular);
            if let Some((banned, instead)) = instead {
                let what = format!("`{banned}`: the project says {instead} (docs/glossary.md)");
                findings.push(Finding::new(path, index + 1, what));
            }
        }
    }
    findings
}

/// Lower-case words of a name in snake_case, CamelCase or SCREAMING_CASE.
fn split_name(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut lower_before = false;
    for character in name.chars() {
        if character == '_' || (character.is_uppercase() && lower_before) {
            words.push(String::new());
        }
        lower_before = character.is_lowercase();
        if let (true, Some(word)) = (character != '_', words.last_mut()) {
            word.extend(character.to_lowercase());
        }
    }
    words
}

/// Marks of open ends without the number of an issue: `MARK(#12)` is fine.
pub(crate) fn open_ends(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for mark in MARKS {
            let open = line.match_indices(mark).any(|(at, _)| {
                let after = &line[at + mark.len()..];
                let whole = !line[..at].ends_with(is_word) && !after.starts_with(is_word);
                whole && !after.starts_with("(#")
            });
            if open {
                findings.push(Finding::new(path, index + 1, format!("{mark} without an issue")));
            }
        }
    }
    findings
}

/// Paths of one machine.
pub(crate) fn machine_paths(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if let Some(found) = MACHINE_PATHS.iter().find(|start| line.contains(**start)) {
            findings.push(Finding::new(path, index + 1, format!("path of a machine: {found}")));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_banned_word_is_caught_in_every_spelling() {
        for text in ["let job_id = 1;", "struct PacketKind;", "// two channels", "MAX_TICKETS"] {
            assert_eq!(source("host/src/a.rs", text).len(), 1, "{text}");
        }
        let fine = "seqpacket_pair(); mpsc::sync_channel(2); SOCK_SEQPACKET; // jobless";
        assert!(source("sys/src/a.rs", fine).is_empty());
        assert_eq!(prose("docs/layout.md", "a packet").len(), 1);
        assert!(prose("docs/glossary.md", "never: packet").is_empty());
    }

    #[test]
    fn an_open_end_without_a_number_is_caught() {
        let mark = MARKS[0];
        assert_eq!(open_ends("a.rs", &format!("// {mark}: later")).len(), 1);
        assert!(open_ends("a.rs", &format!("// {mark}(#12): later")).is_empty());
        assert!(open_ends("a.rs", &format!("MY{mark}S")).is_empty());
    }

    #[test]
    fn a_path_of_a_machine_is_caught() {
        let line = format!("see {}me/x", MACHINE_PATHS[1]);
        assert_eq!(machine_paths("README.md", &line).len(), 1);
        assert!(machine_paths("README.md", "/proc/self/fd/3 and /dev/shm").is_empty());
    }
}
