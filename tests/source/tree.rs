//! The project's files and what is said against them; knows no rule.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fmt, fs};

use super::corpora;

/// A broken rule, printed as `file:line: rule: what is wrong`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// The file's path below the project's root.
    pub(crate) file: String,
    /// From 1; 0 where the file as a whole is meant.
    pub(crate) line: usize,
    /// The rule's short name.
    pub(crate) rule: &'static str,
    /// Fault and remedy.
    pub(crate) what: String,
}

impl Finding {
    pub(crate) fn new(file: &str, line: usize, rule: &'static str, what: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            line,
            rule,
            what: what.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}: {}: {}", self.file, self.line, self.rule, self.what)
    }
}

/// A text file of the project.
#[derive(Debug)]
pub(crate) struct File {
    /// Path below the root, with forward slashes.
    pub(crate) path: String,
    /// The whole text.
    pub(crate) text: String,
}

impl File {
    /// Whether the file is Rust source.
    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// The file's name without its folders.
    pub(crate) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// Whether the file is `place`, or lies in the folder `place` (a module's folder also claims `place.rs`).
    pub(crate) fn is_in(&self, place: &str) -> bool {
        self.path
            .strip_prefix(place)
            .is_some_and(|rest| rest.is_empty() || rest == ".rs" || rest.starts_with('/'))
    }
}

/// Returns the project's root directory.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every text file that git tracks or would track; without git, every one outside hidden and `target`
/// folders.
pub(crate) fn files() -> Vec<File> {
    let mut paths = listed_by_git().unwrap_or_else(|| {
        let mut found = Vec::new();
        walk(root(), &mut found);
        found
    });
    paths.sort();
    paths.dedup();
    paths
        .into_iter()
        // Inputs of fuzz targets are bytes that nobody wrote.
        .filter(|path| !path.split('/').any(|part| part == corpora::FOLDER))
        .filter_map(|path| {
            fs::read_to_string(root().join(&path))
                .ok()
                .map(|text| File { path, text })
        })
        .collect()
}

/// `None` where git is absent, or where the project is not a checkout of its own.
fn listed_by_git() -> Option<Vec<String>> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    let paths: Vec<String> = text.split_terminator('\0').map(str::to_owned).collect();
    paths.iter().any(|path| path == "Cargo.toml").then_some(paths)
}

fn walk(folder: &Path, found: &mut Vec<String>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    for path in paths {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        // The one hidden folder that belongs to the project is the entry point of continuous integration.
        if (name.starts_with('.') && name != ".ci") || name == "target" || path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            walk(&path, found);
        } else if let Ok(below) = path.strip_prefix(root()) {
            found.push(below.to_string_lossy().replace('\\', "/"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_walk_finds_sources_only() {
        let mut found = Vec::new();
        walk(root(), &mut found);
        assert!(found.iter().any(|path| path == "tests/source/tree.rs"));
        assert!(found.iter().any(|path| path == ".ci/run"));
        assert!(
            !found
                .iter()
                .any(|path| path.starts_with("target/") || path.starts_with(".git/"))
        );
    }

    #[test]
    fn a_place_claims_its_file_and_folder() {
        let file = |path: &str| File {
            path: path.to_owned(),
            text: String::new(),
        };
        assert!(file("link/src/tls/mod.rs").is_in("link/src/tls"));
        assert!(file("link/src/tls.rs").is_in("link/src/tls"));
        assert!(file("link/src/tls.rs").is_in("link/src/tls.rs"));
        assert!(!file("link/src/tlsx.rs").is_in("link/src/tls"));
    }
}
