//! Crates from outside, by `cargo metadata`.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

use crate::repo::{Finding, Repo};

/// Most crates that the host may build upon, itself included.
pub(crate) const HOST_MAX: usize = 90;

/// What `cargo metadata` says of one workspace, for the platform that is tested.
pub(crate) struct Metadata(Value);

impl Metadata {
    /// Asks cargo about the workspace of `manifest`.
    pub(crate) fn of(repo: &Repo, manifest: &str) -> Self {
        let output = Command::new(env!("CARGO"))
            .args(["metadata", "--format-version=1", "--manifest-path", manifest])
            .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
            .current_dir(repo.root())
            .output()
            .expect("cargo runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "cargo metadata: {errors}");
        Self(serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON"))
    }

    /// Every package that takes part in a build on this platform: (name, version, licence).
    pub(crate) fn packages(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        let used: BTreeSet<&str> = list(&self.0["resolve"]["nodes"]).map(id).collect();
        list(&self.0["packages"]).filter(move |package| used.contains(id(package))).map(|package| {
            (text(package, "name"), text(package, "version"), text(package, "license"))
        })
    }

    /// Ids of the packages that `name` needs at run or build time, itself included.
    pub(crate) fn tree_of(&self, name: &str) -> BTreeSet<&str> {
        let root = list(&self.0["packages"]).find(|package| text(package, "name") == name);
        let mut open: Vec<&str> = vec![id(root.expect("the package is in the workspace"))];
        let mut tree = BTreeSet::new();
        while let Some(package) = open.pop() {
            if tree.insert(package) {
                open.extend(self.dependencies(package, false));
            }
        }
        tree
    }

    /// Names that the workspace's own packages ask for and that resolve to several versions.
    pub(crate) fn doubled(&self) -> Vec<Finding> {
        let members = list(&self.0["workspace_members"]).filter_map(Value::as_str);
        let direct: BTreeSet<&str> =
            members.flat_map(|member| self.dependencies(member, true)).collect();
        let versions: Vec<(&str, &str)> =
            list(&self.0["packages"]).map(|package| (id(package), text(package, "name"))).collect();
        let names = versions.iter().filter(|(id, _)| direct.contains(id)).map(|(_, name)| *name);
        let direct_names: BTreeSet<&str> = names.collect();
        let all = self.packages().map(|(name, version, _)| (name, version));
        doubled(all.filter(|(name, _)| direct_names.contains(name)))
    }

    /// Dependencies of a package by id; those of its tests only when `with_dev`.
    fn dependencies<'a>(&'a self, package: &str, with_dev: bool) -> Vec<&'a str> {
        let node = list(&self.0["resolve"]["nodes"]).find(|node| id(node) == package);
        let edges = node.into_iter().flat_map(|node| list(&node["deps"]));
        edges
            .filter(|edge| with_dev || list(&edge["dep_kinds"]).any(|kind| kind["kind"] != "dev"))
            .map(|edge| text(edge, "pkg"))
            .collect()
    }
}

/// Whether the host stays small.
pub(crate) fn lean(crates: usize) -> Vec<Finding> {
    let what = || format!("{crates} crates, at most {HOST_MAX}");
    (crates > HOST_MAX).then(|| Finding::new("host/Cargo.toml", 0, what())).into_iter().collect()
}

fn doubled<'a>(packages: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<Finding> {
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (name, version) in packages {
        versions.entry(name).or_default().insert(version);
    }
    let several = versions.into_iter().filter(|(_, versions)| versions.len() > 1);
    several
        .map(|(name, versions)| {
            let list = versions.into_iter().collect::<Vec<_>>().join(", ");
            Finding::new("Cargo.lock", 0, format!("{name} in several versions: {list}"))
        })
        .collect()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or("")
}

fn id(value: &Value) -> &str {
    text(value, "id")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sample() -> Metadata {
        let edge = |to: &str, kind: Value| json!({ "pkg": to, "dep_kinds": [{ "kind": kind }] });
        Metadata(json!({
            "workspace_members": ["host"],
            "packages": [
                { "id": "host", "name": "host", "version": "0.1.0", "license": "MIT" },
                { "id": "a1", "name": "a", "version": "1.0.0", "license": "MIT" },
                { "id": "a2", "name": "a", "version": "2.0.0", "license": "MIT" },
                { "id": "b", "name": "b", "version": "1.0.0", "license": null },
                { "id": "idle", "name": "idle", "version": "1.0.0", "license": "MIT" },
            ],
            "resolve": { "nodes": [
                { "id": "host", "deps": [edge("a1", Value::Null), edge("b", "dev".into())] },
                { "id": "b", "deps": [edge("a2", Value::Null)] },
                { "id": "a1", "deps": [] },
                { "id": "a2", "deps": [] },
            ]},
        }))
    }

    #[test]
    fn a_direct_dependency_in_two_versions_is_caught() {
        let findings = sample().doubled();
        assert_eq!(findings.len(), 1);
        assert!(findings[0].to_string().contains("a in several versions: 1.0.0, 2.0.0"));
    }

    #[test]
    fn a_tree_leaves_out_what_only_tests_need() {
        assert_eq!(sample().tree_of("host").into_iter().collect::<Vec<_>>(), ["a1", "host"]);
        assert_eq!(sample().packages().count(), 4, "a package that is not built does not count");
    }

    #[test]
    fn a_fat_host_is_caught() {
        assert!(lean(HOST_MAX).is_empty());
        assert_eq!(lean(HOST_MAX + 1).len(), 1);
    }
}
