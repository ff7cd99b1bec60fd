//! The splits of a graph's sources, and the alignment of elements with source positions.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::error::AnalysisError;
use super::registry::Registry;
use super::tree::Graph;
use super::units::Splitting;
use super::units::WITHOUT_SPLITS;

/// One source of a graph.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceFacts {
    /// The index of the source's node.
    pub node: usize,
    /// The name of the source: the operation's name, or the registered name.
    pub name: String,
    /// The way in which the source is divided into splits.
    pub splitting: Splitting,
}

/// Returns the sources of `graph` in depth-first order.
///
/// # Errors
/// [`AnalysisError`] for a source that is not registered.
pub(crate) fn sources(graph: &Graph, registry: &dyn Registry) -> Result<Vec<SourceFacts>, AnalysisError> {
    let mut found = Vec::new();
    for node in graph.sources() {
        let op = &graph.nodes()[node].op;
        found.push(SourceFacts {
            node,
            name: op.source_name(),
            splitting: op.splitting(graph, registry)?,
        });
    }
    Ok(found)
}

/// Checks that all of `sources` can be divided into splits. The error explains why a source cannot be
/// divided.
pub(crate) fn splittable(sources: &[SourceFacts]) -> Result<(), String> {
    for source in sources {
        match &source.splitting {
            Splitting::Counted(_) | Splitting::Listed => {}
            Splitting::Whole(reason) => return Err(format!("source {:?} {reason}", source.name)),
        }
    }
    Ok(())
}

/// Checks that no operation of `graph` keeps elements in files. If sources are divided into splits, a file
/// would hold only the elements of one task.
pub(crate) fn keeps_nothing_apart(graph: &Graph) -> Result<(), String> {
    match graph.nodes().iter().find(|node| node.op.keeps_files()) {
        Some(node) => Err(format!(
            "operation {:?} would keep only the elements of one task in its files: {WITHOUT_SPLITS}",
            node.op.name()
        )),
        None => Ok(()),
    }
}

/// Checks that every element of `graph` states exactly the source positions that it was made from. The error
/// explains why elements do not.
pub(crate) fn aligned(graph: &Graph, sources: &[SourceFacts]) -> Result<(), String> {
    splittable(sources)?;
    for node in graph.nodes() {
        if let Some(reason) = node.op.misaligns(graph.is_deterministic()) {
            return Err(format!("operation {:?} {reason}", node.op.name()));
        }
    }
    Ok(())
}
