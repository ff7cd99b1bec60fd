//! The split plan of an iteration: for every source of a graph, depth first, how it is dealt out.

use thiserror::Error;

use crate::exec::file_order;
use crate::graph::{AnalysisError, Files, Graph, Registry, Splitting};

use super::listing::list;

/// How the sources of a graph are dealt out in one iteration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SplitPlan {
    /// One per source, depth first.
    pub sources: Vec<SourcePlan>,
}

/// How one source is dealt out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourcePlan {
    /// So many splits, known by their index.
    Counted {
        /// How many; 0 for a source that is read whole by every task.
        splits: u64,
    },
    /// One split an item, whose payload it is.
    Listed {
        /// The payloads, in order.
        items: Vec<Vec<u8>>,
    },
}

/// Why an iteration cannot be planned.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PlanError {
    /// The files of a source cannot be found.
    #[error("files {pattern:?}: {reason}")]
    Files {
        /// The glob pattern.
        pattern: String,
        /// What is wrong.
        reason: String,
    },
    /// The graph cannot be analysed.
    #[error(transparent)]
    Analysis(#[from] AnalysisError),
}

/// Plans an iteration of `graph`, listing its files. Blocks on the file system.
///
/// # Errors
/// [`PlanError`] naming the pattern that matches nothing, or the source nobody registered.
pub fn plan_splits(graph: &Graph, registry: &dyn Registry) -> Result<SplitPlan, PlanError> {
    let mut sources = Vec::new();
    for source in graph.facts(registry)?.sources {
        sources.push(match source.splitting {
            Splitting::Counted(units) => SourcePlan::Counted {
                splits: units.splits(),
            },
            Splitting::Whole(_) => SourcePlan::Counted { splits: 0 },
            Splitting::Listed(files) => {
                let mut items: Vec<Vec<u8>> = list(&files.pattern)?
                    .into_iter()
                    .map(String::into_bytes)
                    .collect();
                if let (true, Some(seed)) = (files.shuffle, files.seed) {
                    // With a seed the first pass's order is everybody's, also when the dispatcher deals it out.
                    file_order(seed, 0, &mut items);
                }
                SourcePlan::Listed { items }
            }
        });
    }
    Ok(SplitPlan { sources })
}

/// The files of a source in the order of its first pass: sorted, or shuffled where there is a seed, so that
/// the order is everybody's, also when the dispatcher deals it out.
pub(crate) fn list_files(files: &Files) -> Result<Vec<String>, PlanError> {
    let mut paths = list(&files.pattern)?;
    if let (true, Some(seed)) = (files.shuffle, files.seed) {
        file_order(seed, 0, &mut paths);
    }
    Ok(paths)
}
