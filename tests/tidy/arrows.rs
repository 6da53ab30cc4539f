//! Arrows between rooms, read from each `Cargo.toml`: what may depend on what.

use toml::{Table, Value};

use crate::repo::{Finding, PRODUCT, room};

/// The arrows of docs/architecture.md. A room may also name what it reaches along them.
const ARROWS: &[(&str, &[&str])] = &[
    ("executor-core", &[]),
    ("sys", &[]),
    ("executor-rt", &["executor-core", "sys"]),
    ("npu", &["executor-core"]),
    ("npu-device", &["npu"]),
    ("npu-c", &["npu-device"]),
    ("compiler", &["npu"]),
    ("flow-func", &["executor-core"]),
    ("udf-executor", &["executor-rt", "flow-func"]),
    ("npu-executor", &["executor-rt", "npu"]),
    ("supervisor", &["executor-rt"]),
    ("host", &["executor-rt", "compiler"]),
    ("xtask", &[]),
    ("harness", &["executor-rt"]),
    ("tests", PRODUCT),
    ("benches", PRODUCT),
    // What users build upon, and nothing behind it.
    ("examples", &["host", "flow-func"]),
];

/// What a room's tests may depend on besides, and nothing else of it.
const TESTS_ONLY: &[(&str, &[&str])] =
    &[("udf-executor", &["harness"]), ("npu-executor", &["harness"])];

/// A room that lies in another one's folder.
const HARNESS: &str = "tests/harness/";

/// The only crates from outside that the leaves may use; xtask uses none.
const OUTSIDE: &[(&str, &[&str])] = &[
    (
        "executor-core",
        &["bitflags", "crossbeam-utils", "heapless", "loom", "proptest", "static_assertions"],
    ),
    ("sys", &["bitflags", "libc", "memmap2", "nix", "proptest"]),
    ("xtask", &[]),
];

/// Crates from outside that no product crate may use, with what is used instead.
const REFUSED: &[(&str, &str)] = &[
    ("anyhow", "an enum per stage"),
    ("tokio", "no async runtime in the default build"),
    ("async-std", "no async runtime in the default build"),
    ("serde_yaml", "serde-saphyr: this one is deprecated"),
    ("once_cell", "std::sync::LazyLock"),
    ("lazy_static", "std::sync::LazyLock"),
];

/// Checks one manifest.
pub(crate) fn check(path: &str, text: &str) -> Vec<Finding> {
    let manifest: Table = match text.parse() {
        Ok(manifest) => manifest,
        Err(error) => return vec![Finding::new(path, 0, format!("not TOML: {error}"))],
    };
    let room = if path.starts_with(HARNESS) { "harness" } else { room(path) };
    if path == "Cargo.toml" {
        return workspace(path, &manifest);
    }
    // Own workspaces whose business is what others ship, or a single link.
    if path.starts_with("benches/rivals/") || path.starts_with("tests/no-alloc-probe/") {
        return Vec::new();
    }
    let mut findings = dependencies(&manifest)
        .into_iter()
        .filter_map(|(kind, name, value)| refuse(room, kind, name, value))
        .map(|what| Finding::new(path, 0, what))
        .collect::<Vec<_>>();
    let inherits = manifest.get("lints").and_then(|lints| lints.get("workspace"));
    if manifest.contains_key("package") && inherits.and_then(Value::as_bool) != Some(true) {
        findings.push(Finding::new(path, 0, "no `[lints] workspace = true`"));
    }
    findings
}

fn refuse(room: &str, kind: &str, name: &str, value: &Value) -> Option<String> {
    if let Some(target) = internal(name, value) {
        // A package in the room's own folder (test functions, examples) is no room.
        let own = target == room || !is_room(target);
        let of_tests = TESTS_ONLY.iter().find(|(from, _)| kind == DEV && *from == room);
        let tested = of_tests.is_some_and(|(_, more)| more.contains(&target));
        return (!own && !tested && !reaches(room, target))
            .then(|| format!("{room} may not depend on {target} (docs/architecture.md)"));
    }
    if let Some((_, allowed)) = OUTSIDE.iter().find(|(leaf, _)| *leaf == room) {
        return (!allowed.contains(&name)).then(|| format!("{room} may not depend on {name}"));
    }
    let refused =
        REFUSED.iter().find(|(refused, _)| PRODUCT.contains(&room) && *refused == name)?;
    Some(format!("{name} is not used here: {}", refused.1))
}

fn is_room(name: &str) -> bool {
    ARROWS.iter().any(|(room, _)| *room == name)
}

/// The room that a dependency is, or the folder of its path; `None` for one from outside.
fn internal<'a>(name: &'a str, value: &'a Value) -> Option<&'a str> {
    let path = value.get("path").and_then(Value::as_str);
    let renamed = value.get("package").and_then(Value::as_str).unwrap_or(name);
    match path {
        Some(path) => path.trim_end_matches('/').rsplit('/').next(),
        None => is_room(renamed).then_some(renamed),
    }
}

fn reaches(from: &str, to: &str) -> bool {
    let next = ARROWS.iter().find(|(room, _)| *room == from).map_or(&[][..], |(_, next)| next);
    next.iter().any(|room| *room == to || (from != "examples" && reaches(room, to)))
}

/// Dependencies of tests.
const DEV: &str = "dev-dependencies";

/// Dependencies by kind and name, also those of one target only.
fn dependencies(manifest: &Table) -> Vec<(&str, &str, &Value)> {
    const KINDS: [&str; 3] = ["dependencies", DEV, "build-dependencies"];
    let targets = manifest.get("target").and_then(Value::as_table);
    let tables = targets.into_iter().flat_map(|targets| targets.values());
    let tables = tables.filter_map(Value::as_table).chain(std::iter::once(manifest));
    tables
        .flat_map(|table| KINDS.iter().filter_map(|kind| Some((*kind, table.get(*kind)?))))
        .filter_map(|(kind, table)| Some((kind, table.as_table()?)))
        .flat_map(|(kind, table)| table.iter().map(move |(name, value)| (kind, &**name, value)))
        .collect()
}

/// The root manifest: features are opted into one by one.
fn workspace(path: &str, manifest: &Table) -> Vec<Finding> {
    let table = manifest.get("workspace").and_then(|table| table.get("dependencies"));
    let outside = table.and_then(Value::as_table).into_iter().flatten();
    let outside = outside.filter(|(name, value)| internal(name, value).is_none());
    outside
        .filter(|(_, value)| value.get("default-features").and_then(Value::as_bool) != Some(false))
        .map(|(name, _)| Finding::new(path, 0, format!("{name}: no `default-features = false`")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, dependencies: &str) -> usize {
        check(path, &format!("[package]\n[lints]\nworkspace = true\n{dependencies}")).len()
    }

    #[test]
    fn a_wrong_arrow_is_caught_in_every_spelling() {
        for wrong in [
            "[dependencies]\nsys = { workspace = true }",
            "[dependencies]\nsys.workspace = true",
            "[dependencies]\ndoor = { path = \"../sys\" }",
            "[dependencies]\ndoor = { package = \"sys\", version = \"1\" }",
            "[dev-dependencies]\nsys.workspace = true",
            "[target.'cfg(unix)'.dependencies]\nsys.workspace = true",
        ] {
            assert_eq!(found("executor-core/Cargo.toml", wrong), 1, "{wrong}");
            assert_eq!(found("executor-rt/Cargo.toml", wrong), 0, "{wrong}");
        }
        assert_eq!(found("host/Cargo.toml", "[dependencies]\nflow-func.workspace = true"), 1);
        assert_eq!(found("supervisor/Cargo.toml", "[dependencies]\nhost.workspace = true"), 1);
    }

    #[test]
    fn a_leaf_with_a_strange_crate_is_caught() {
        assert_eq!(found("executor-core/Cargo.toml", "[dependencies]\nlibc = \"0.2\""), 1);
        assert_eq!(found("sys/Cargo.toml", "[dependencies]\nlibc = \"0.2\""), 0);
        assert_eq!(found("xtask/Cargo.toml", "[dependencies]\nclap = \"4\""), 1);
        assert_eq!(found("host/Cargo.toml", "[dependencies]\nanyhow = \"1\""), 1);
        assert_eq!(found("host/Cargo.toml", "[dependencies]\nclap = \"4\""), 0);
    }

    #[test]
    fn an_example_that_reaches_inside_is_caught() {
        let inside = "[dependencies]\nsys = { path = \"../../sys\" }";
        assert_eq!(found("examples/pages/Cargo.toml", inside), 1);
        let outside = "[dependencies]\npages = { path = \"../pages\" }\n\
                       host = { path = \"../../host\" }";
        assert_eq!(found("examples/pages-demo/Cargo.toml", outside), 0);
    }

    #[test]
    fn only_tests_of_executors_have_the_harness() {
        let tests = "[dev-dependencies]\nharness.workspace = true";
        let program = "[dependencies]\nharness.workspace = true";
        let by_path = "[dev-dependencies]\nrig = { path = \"../tests/harness\" }";
        for room in ["udf-executor", "npu-executor"] {
            let manifest = format!("{room}/Cargo.toml");
            assert_eq!(found(&manifest, tests), 0, "{room}");
            assert_eq!(found(&manifest, by_path), 0, "{room}");
            assert_eq!(found(&manifest, program), 1, "{room}");
        }
        for room in ["executor-core", "executor-rt", "host", "tests"] {
            let manifest = format!("{room}/Cargo.toml");
            for wrong in [tests, program, by_path] {
                assert_eq!(found(&manifest, wrong), 1, "{room}: {wrong}");
            }
        }
        let more = "[dependencies]\nhost.workspace = true";
        assert_eq!(found("tests/harness/Cargo.toml", more), 1);
        let below = "[dependencies]\nsys.workspace = true";
        assert_eq!(found("tests/harness/Cargo.toml", below), 0);
    }

    #[test]
    fn a_package_without_the_lints_is_caught() {
        assert_eq!(check("host/Cargo.toml", "[package]\nname = \"host\"").len(), 1);
    }

    #[test]
    fn default_features_in_the_root_are_caught() {
        let root = "[workspace.dependencies]\nhost = { path = \"host\" }\nserde = \"1\"";
        assert_eq!(check("Cargo.toml", root).len(), 1);
    }
}
