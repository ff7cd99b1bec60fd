//! Rules against files of one crate that import each other in a circle.
//!
//! The search follows re-exports: naming `crate::graph::Dataset` counts as naming the file that defines it.
//! Parent modules (`lib.rs`, `mod.rs`) contain no code and are not part of a circle. Tests may name
//! everything.

use std::collections::{BTreeMap, BTreeSet};

use super::paths;
use super::tree::File;

/// A circle of files that import each other.
#[derive(Debug)]
pub(crate) struct Circle {
    /// The paths of the files, sorted.
    pub(crate) files: Vec<String>,
    /// Descriptions of the imports in the circle.
    pub(crate) imports: Vec<String>,
}

/// Finds the circles of imports in the crate with the source folder `root`.
pub(crate) fn circles(files: &[File], root: &str) -> Vec<Circle> {
    let sources: Vec<File> = files
        .iter()
        .filter(|file| file.is_rust() && file.is_in(root) && !is_test(&file.path))
        .map(without_tests)
        .collect();
    let modules: BTreeMap<String, &File> = sources
        .iter()
        .map(|file| (module(&file.path, root), file))
        .collect();
    let names: BTreeMap<&str, Vec<String>> = sources
        .iter()
        .map(|file| {
            let module = module(&file.path, root);
            let from_root = |path: String| {
                let child = path.split("::").next().unwrap_or_default();
                if path.starts_with("crate::") {
                    Some(path)
                } else if modules.contains_key(&format!("{module}::{child}")) {
                    Some(format!("{module}::{path}"))
                } else {
                    None
                }
            };
            let named = paths::named(file).into_iter().map(|named| named.path);
            (file.path.as_str(), named.filter_map(from_root).collect())
        })
        .collect();
    let crates = Crate { modules, names };
    let mut edges: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for file in sources.iter().filter(|file| !is_parent(file)) {
        let named = crates.names[file.path.as_str()].iter();
        let targets = named.filter_map(|path| crates.file_of(path, 0));
        let others = targets.filter(|target| *target != file.path);
        edges.insert(&file.path, others.collect());
    }
    let circle = |files: Vec<String>| Circle {
        imports: crates.imports_among(&files),
        files,
    };
    components(&edges).into_iter().map(circle).collect()
}

/// The source files of one crate.
struct Crate<'f> {
    /// The files by their module paths.
    modules: BTreeMap<String, &'f File>,
    /// The paths that each file names, from the crate's root.
    names: BTreeMap<&'f str, Vec<String>>,
}

impl<'f> Crate<'f> {
    fn imports_among(&self, circle: &[String]) -> Vec<String> {
        let mut imports = Vec::new();
        for file in circle {
            let others = circle.iter().filter(|other| *other != file);
            for other in others {
                let mut named = self.names[file.as_str()].iter();
                if let Some(path) = named.find(|path| self.file_of(path, 0) == Some(other)) {
                    imports.push(format!("{file} imports {path} from {other}"));
                }
            }
        }
        imports
    }

    /// Returns the file that defines the item at `path`, unless that file is a parent module.
    fn file_of(&self, path: &str, depth: usize) -> Option<&'f str> {
        let mut module = path;
        let file = loop {
            if let Some(file) = self.modules.get(module) {
                break file;
            }
            module = module.rsplit_once("::")?.0;
        };
        if !is_parent(file) {
            return Some(&file.path);
        }
        let rest = path.strip_prefix(module)?.strip_prefix("::")?;
        let (item, below) = rest.split_once("::").unwrap_or((rest, ""));
        let is_it = |other: &&String| {
            other.rsplit_once("::").is_some_and(|(_, last)| last == item) && **other != path
        };
        let exported = self.names[file.path.as_str()].iter().find(is_it)?;
        let target = if below.is_empty() {
            exported.clone()
        } else {
            format!("{exported}::{below}")
        };
        // The depth is limited, in case re-exports form a circle.
        (depth < 8).then(|| self.file_of(&target, depth + 1)).flatten()
    }
}

fn module(path: &str, root: &str) -> String {
    let below = path.strip_prefix(root).unwrap_or(path).trim_matches('/');
    let segments = below.trim_end_matches(".rs").split('/');
    let named = segments.filter(|segment| !["mod", "lib", "main"].contains(segment));
    std::iter::once("crate")
        .chain(named)
        .collect::<Vec<_>>()
        .join("::")
}

fn is_parent(file: &File) -> bool {
    ["lib.rs", "mod.rs", "main.rs"].contains(&file.name())
}

fn is_test(path: &str) -> bool {
    ["/tests/", "/tests.rs", "/simulation/", "/fuzz.rs", "/fuzz/"]
        .iter()
        .any(|part| path.contains(part))
}

/// Returns the file without its tests, which are the last part of a file.
fn without_tests(file: &File) -> File {
    let end = ["\n#[cfg(test)]\nmod ", "\n#[cfg(all(test"]
        .iter()
        .filter_map(|mark| file.text.find(mark))
        .min();
    File {
        path: file.path.clone(),
        text: file.text[..end.unwrap_or(file.text.len())].to_owned(),
    }
}

/// Finds strongly connected components of more than one file, with Tarjan's algorithm.
fn components(edges: &BTreeMap<&str, BTreeSet<&str>>) -> Vec<Vec<String>> {
    let mut search = Search {
        edges,
        numbers: BTreeMap::new(),
        lowest: BTreeMap::new(),
        stack: Vec::new(),
        found: Vec::new(),
    };
    for node in edges.keys() {
        if !search.numbers.contains_key(node) {
            search.visit(node);
        }
    }
    search.found.sort();
    search.found
}

struct Search<'e> {
    edges: &'e BTreeMap<&'e str, BTreeSet<&'e str>>,
    numbers: BTreeMap<&'e str, usize>,
    lowest: BTreeMap<&'e str, usize>,
    stack: Vec<&'e str>,
    found: Vec<Vec<String>>,
}

impl<'e> Search<'e> {
    fn visit(&mut self, node: &'e str) {
        let number = self.numbers.len();
        self.numbers.insert(node, number);
        self.lowest.insert(node, number);
        self.stack.push(node);
        let edges = self.edges;
        for target in edges.get(node).into_iter().flatten() {
            if !self.numbers.contains_key(target) {
                self.visit(target);
                let below = self.lowest[target];
                self.lower(node, below);
            } else if self.stack.contains(target) {
                let below = self.numbers[target];
                self.lower(node, below);
            }
        }
        if self.lowest[node] != number {
            return;
        }
        let start = self.stack.iter().position(|other| *other == node);
        let mut component: Vec<String> = self
            .stack
            .drain(start.unwrap_or_default()..)
            .map(str::to_owned)
            .collect();
        component.sort();
        if component.len() > 1 {
            self.found.push(component);
        }
    }

    fn lower(&mut self, node: &'e str, to: usize) {
        let lowest = self.lowest.entry(node).or_insert(to);
        *lowest = (*lowest).min(to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let files: Vec<File> = files
            .iter()
            .map(|(path, text)| File {
                path: format!("a/src/{path}"),
                text: (*text).to_owned(),
            })
            .collect();
        let circles = circles(&files, "a/src");
        circles.into_iter().map(|circle| circle.files).collect()
    }

    #[test]
    fn a_circle_is_found_through_re_exports() {
        let circle = found(&[
            ("lib.rs", "mod one; mod two;"),
            ("one/mod.rs", "mod inner; pub use inner::Inner;"),
            ("one/inner.rs", "use crate::two::Two; pub struct Inner;"),
            ("two.rs", "use crate::one::Inner; pub struct Two;"),
        ]);
        assert_eq!(circle, [["a/src/one/inner.rs", "a/src/two.rs"]]);
    }

    #[test]
    fn a_chain_is_none_nor_are_tests() {
        let chain = found(&[
            ("lib.rs", "mod one; mod two;"),
            ("one.rs", "use crate::two::Two;"),
            (
                "two.rs",
                "pub struct Two;\n#[cfg(test)]\nmod tests { use crate::one::One; }",
            ),
        ]);
        assert!(chain.is_empty(), "{chain:?}");
    }
}
