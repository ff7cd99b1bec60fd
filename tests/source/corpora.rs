//! Rules for fuzz targets and their corpora: a target without inputs would replay nothing unnoticed.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::lexer::Lexed;
use super::shape;
use super::tree::{File, Finding, root};

/// The name of the folder with the corpora, next to the targets.
pub(crate) const FOLDER: &str = "__fuzz__";

/// The macro that marks a function as a fuzz target.
const CHECK: &str = concat!("bolero::", "check!");

/// Finds targets without inputs, and inputs without a target.
pub(crate) fn unmatched(files: &[File]) -> Vec<Finding> {
    let sources: Vec<&File> = files
        .iter()
        .filter(|file| file.is_rust() && file.text.contains(CHECK))
        .collect();
    let folders: BTreeSet<&Path> = sources
        .iter()
        .filter_map(|file| Path::new(&file.path).parent())
        .collect();
    let mut findings = Vec::new();
    for folder in folders {
        let beside = sources
            .iter()
            .filter(|file| Path::new(&file.path).parent() == Some(folder));
        let targets: BTreeSet<String> = beside.flat_map(|file| targets(file)).collect();
        let corpora = corpora(&root().join(folder).join(FOLDER));
        let place = folder.display().to_string();
        let without = targets.difference(&corpora).map(|target| {
            let what = format!("the fuzz target `{target}` has no inputs in {FOLDER}");
            Finding::new(&place, 1, "fuzz corpus", what)
        });
        let orphans = corpora.difference(&targets).map(|corpus| {
            let what = format!("the inputs `{corpus}` in {FOLDER} belong to no fuzz target");
            Finding::new(&place, 1, "fuzz corpus", what)
        });
        findings.extend(without.chain(orphans));
    }
    findings
}

/// Returns the names of the fuzz targets in a file.
fn targets(file: &File) -> Vec<String> {
    let lines: Vec<&str> = file.text.lines().collect();
    let functions = shape::functions(&Lexed::new(&file.text));
    functions
        .into_iter()
        .filter(|function| {
            let end = (function.line - 1 + function.lines).min(lines.len());
            lines[function.line - 1..end]
                .iter()
                .any(|line| line.contains(CHECK))
        })
        .map(|function| function.name)
        .collect()
}

/// Returns the targets that have inputs, by the last part of their names.
fn corpora(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let with_inputs = entries.filter(|entry| {
        let inputs = fs::read_dir(entry.path().join("corpus"));
        inputs.is_ok_and(|mut inputs| inputs.next().is_some())
    });
    with_inputs
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            Some(name.rsplit("__").next().unwrap_or(&name).to_owned())
        })
        .collect()
}
