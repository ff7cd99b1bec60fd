//! The dependencies between the workspace's crates, as Cargo reads them from the manifests.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;

use super::tree::{Finding, root};

/// A package of the workspace, with the names of its direct dependencies.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Package {
    pub(crate) name: String,
    /// The normal and build dependencies.
    pub(crate) uses: Vec<String>,
    /// The dependencies of tests, benches and examples.
    pub(crate) dev_uses: Vec<String>,
}

/// A crate of the workspace, with the complete list of its dependencies in the workspace.
pub(crate) type CrateEdges<'a> = (&'a str, &'a [&'a str]);

/// Returns the packages of the workspace.
pub(crate) fn packages() -> Result<Vec<Package>, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(root())
        .output()
        .map_err(|error| format!("cargo metadata did not start: {error}"))?;
    if !output.status.success() {
        return Err(format!(
            "cargo metadata failed: {}",
            String::from_utf8_lossy(&output.stderr)
        ));
    }
    let metadata =
        serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))?;
    Ok(read(&metadata))
}

/// Finds dependencies that the table lacks, entries without a dependency, and crates without an entry.
///
/// The tests of any crate may depend on the crates in `test_tools`.
pub(crate) fn wrong_edges(
    packages: &[Package],
    table: &[CrateEdges<'_>],
    test_tools: &[&str],
) -> Vec<Finding> {
    let allowed: BTreeMap<_, _> = table.iter().copied().collect();
    let is_ours = |name: &&String| allowed.contains_key(name.as_str());
    let mut findings = Vec::new();
    let mut say = |of: &str, what: String| {
        findings.push(Finding::new(
            "Cargo.toml",
            0,
            "crate edge",
            format!("`{of}` {what}"),
        ))
    };
    for package in packages {
        let Some(edges) = allowed.get(package.name.as_str()) else {
            say(
                &package.name,
                "is not in the table of crates: state what it may depend on".to_owned(),
            );
            continue;
        };
        let tested_with = package
            .dev_uses
            .iter()
            .filter(|name| !test_tools.contains(&name.as_str()));
        for used in package.uses.iter().chain(tested_with).filter(is_ours) {
            if !edges.contains(&used.as_str()) {
                say(
                    &package.name,
                    format!("depends on `{used}`, which the table does not allow"),
                );
            }
        }
        for edge in edges
            .iter()
            .filter(|edge| !package.uses.iter().any(|used| used == *edge))
        {
            say(
                &package.name,
                format!("no longer depends on `{edge}`: take the edge out of the table"),
            );
        }
    }
    for (name, _) in table
        .iter()
        .filter(|(name, _)| !packages.iter().any(|package| package.name == *name))
    {
        say(
            name,
            "is in the table of crates but not in the workspace".to_owned(),
        );
    }
    findings
}

fn read(metadata: &Value) -> Vec<Package> {
    let packages = metadata["packages"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    packages.iter().map(read_package).collect()
}

fn read_package(package: &Value) -> Package {
    let mut read = Package {
        name: text(&package["name"]),
        ..Package::default()
    };
    for dependency in package["dependencies"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default()
    {
        let list = if dependency["kind"] == "dev" {
            &mut read.dev_uses
        } else {
            &mut read.uses
        };
        list.push(text(&dependency["name"]));
    }
    read
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[CrateEdges<'_>] = &[("low", &[]), ("high", &["low"]), ("kit", &[])];

    fn package(name: &str, uses: &[&str], dev_uses: &[&str]) -> Package {
        let own = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        Package {
            name: name.to_owned(),
            uses: own(uses),
            dev_uses: own(dev_uses),
        }
    }

    fn count(packages: &[Package]) -> usize {
        let with_kit: Vec<Package> = packages
            .iter()
            .cloned()
            .chain([package("kit", &[], &[])])
            .collect();
        wrong_edges(&with_kit, TABLE, &["kit"]).len()
    }

    #[test]
    fn exactly_the_edges_of_the_table_pass() {
        assert_eq!(
            count(&[
                package("low", &["bytes"], &[]),
                package("high", &["low", "tokio"], &[])
            ]),
            0
        );
    }

    #[test]
    fn wrong_and_missing_edges_are_found() {
        let high = || package("high", &["low"], &[]);
        assert_eq!(count(&[package("low", &["high"], &[]), high()]), 1);
        assert_eq!(count(&[package("low", &[], &["high"]), high()]), 1);
        assert_eq!(
            count(&[package("low", &[], &[]), package("high", &[], &["low"])]),
            1
        );
    }

    #[test]
    fn test_tools_serve_tests_only() {
        let low = |uses: &[&str], dev_uses: &[&str]| package("low", uses, dev_uses);
        let high = || package("high", &["low"], &[]);
        assert_eq!(count(&[low(&[], &["kit"]), high()]), 0);
        assert_eq!(count(&[low(&["kit"], &[]), high()]), 1);
    }

    #[test]
    fn unlisted_and_missing_crates_are_found() {
        let both = || vec![package("low", &[], &[]), package("high", &["low"], &[])];
        assert_eq!(
            count(
                &both()
                    .into_iter()
                    .chain([package("new", &[], &[])])
                    .collect::<Vec<_>>()
            ),
            1
        );
        assert_eq!(count(&both()[..1]), 1);
    }

    #[test]
    fn kinds_of_dependencies_are_told_apart() {
        let metadata = serde_json::json!({"packages": [{"name": "a", "dependencies": [
            {"name": "b", "kind": null}, {"name": "c", "kind": "build"}, {"name": "d", "kind": "dev"},
        ]}]});
        assert_eq!(read(&metadata), [package("a", &["b", "c"], &["d"])]);
    }
}
