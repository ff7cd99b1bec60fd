//! How the sources of a graph are dealt out in splits, and whether elements stay aligned with source
//! positions.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::error::AnalysisError;
use super::registry::Registry;
use super::tree::Graph;
use super::units::Splitting;
use super::units::WITHOUT_SPLITS;

/// One source of a graph.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceFacts {
    /// The index of its node.
    pub node: usize,
    /// Name of the source: the operation, or the registered name.
    pub name: String,
    /// How it is dealt out.
    pub splitting: Splitting,
}

/// The sources of `graph`, depth first.
///
/// # Errors
/// [`AnalysisError`] for a source nobody registered.
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

/// Returns whether all of `sources` can be dealt out.
pub(crate) fn splittable(sources: &[SourceFacts]) -> Result<(), String> {
    for source in sources {
        match &source.splitting {
            Splitting::Counted(_) | Splitting::Listed => {}
            Splitting::Whole(reason) => return Err(format!("source {:?} {reason}", source.name)),
        }
    }
    Ok(())
}

/// Returns whether no operation of `graph` keeps in files what would be a task's splits of the moment.
pub(crate) fn keeps_nothing_apart(graph: &Graph) -> Result<(), String> {
    match graph.nodes().iter().find(|node| node.op.keeps_files()) {
        Some(node) => Err(format!(
            "operation {:?} would keep in files only what one task was dealt: {WITHOUT_SPLITS}",
            node.op.name()
        )),
        None => Ok(()),
    }
}

/// Returns whether the elements of `graph` state exactly the positions they stand for.
pub(crate) fn aligned(graph: &Graph, sources: &[SourceFacts]) -> Result<(), String> {
    splittable(sources)?;
    for node in graph.nodes() {
        if let Some(reason) = node.op.misaligns(graph.is_deterministic()) {
            return Err(format!("operation {:?} {reason}", node.op.name()));
        }
    }
    Ok(())
}
