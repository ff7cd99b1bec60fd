//! The split plan of an iteration: the division of every source of a graph, in depth-first order.

use std::collections::HashSet;

use crate::exec::Seeds;
use crate::graph::{Files, Graph, Registry, Splitting};
use crate::storage::{Listed, Storage};

use super::digest::digest;
use super::error::PlanError;
use super::listed_item::ListedItem;
use super::listing::listed;
use super::parts::parts;

/// The division of a graph's sources into splits, for one iteration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SplitPlan {
    /// The plans of the sources, in depth-first order.
    pub sources: Vec<SourcePlan>,
}

/// The division of one source into splits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourcePlan {
    /// A source whose splits are identified by their index.
    Counted {
        /// The number of splits; 0 if every task reads the whole source.
        splits: u64,
    },
    /// A source of listed items, each of which is one split.
    Listed {
        /// The splits, in order.
        items: Vec<ListedItem>,
    },
}

/// The values that determine the order of shuffled files in an iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileOrder {
    /// The number of the iteration, which determines the order of files without a seed, so that iterations
    /// differ.
    pub iteration: u64,
    /// The epoch, which is the pass over the whole dataset. A seeded order differs between epochs, and is
    /// reproducible for the same epoch.
    pub epoch: u64,
}

impl SourcePlan {
    /// Returns the digest of the files of the source, or `None` for a source without files. The files must
    /// have the order in which [`plan_splits`] returns them.
    pub fn files_digest(&self) -> Option<u64> {
        match self {
            SourcePlan::Counted { .. } => None,
            SourcePlan::Listed { items } => Some(digest(items)),
        }
    }
}

impl SplitPlan {
    /// Shuffles the files of sources that `graph` wants shuffled. The plan must be a plan of `graph`.
    #[must_use]
    pub fn shuffled(mut self, graph: &Graph, order: FileOrder) -> SplitPlan {
        for (node, source) in graph.sources().into_iter().zip(&mut self.sources) {
            if let (Some(files), SourcePlan::Listed { items }) =
                (graph.nodes()[node].op.of::<Files>(), source)
                && files.shuffle
            {
                let seeds = Seeds {
                    seed: files.seed,
                    task_id: order.iteration,
                    epoch: order.epoch,
                    // A task that shuffles the same listing draws with another node number, so that the two
                    // orders are independent.
                    node: u64::MAX - node as u64,
                    fixed: false,
                };
                seeds.draws(0).shuffle(items);
            }
        }
        self
    }

    /// Joins the parts of each file into the whole file, at the place of the file's first part.
    #[must_use]
    pub fn whole(mut self) -> SplitPlan {
        for source in &mut self.sources {
            if let SourcePlan::Listed { items } = source {
                let mut known = HashSet::new();
                for ListedItem { payload, .. } in &mut *items {
                    let file = payload.split(|byte| *byte == 0).next();
                    let length = file.map_or(0, <[u8]>::len);
                    payload.truncate(length);
                }
                items.retain(|item| known.insert(item.payload.clone()));
            }
        }
        self
    }

    /// Sorts all files by name, so that the index of a file does not depend on the pass.
    #[must_use]
    pub fn in_order(mut self) -> SplitPlan {
        for source in &mut self.sources {
            match source {
                SourcePlan::Listed { items } => items.sort_by(|one, other| one.payload.cmp(&other.payload)),
                SourcePlan::Counted { .. } => {}
            }
        }
        self
    }
}

/// Plans an iteration of `graph`, and lists the files of the graph's sources. The files are sorted, until
/// [`SplitPlan::shuffled`] shuffles them. Blocks on `storage`.
///
/// # Errors
/// [`PlanError`] that names a pattern without matches, or a source that is not registered.
pub fn plan_splits(
    graph: &Graph,
    registry: &dyn Registry,
    storage: &Storage,
) -> Result<SplitPlan, PlanError> {
    let mut sources = Vec::new();
    for source in graph.facts(registry)?.sources {
        sources.push(match source.splitting {
            Splitting::Counted(units) => SourcePlan::Counted {
                splits: units.splits(),
            },
            Splitting::Whole(_) => SourcePlan::Counted { splits: 0 },
            Splitting::Listed => {
                let found = match graph.nodes()[source.node].op.of::<Files>() {
                    Some(files) => listed(files, storage)?,
                    // Only a `files` operation lists files, so other sources have no items.
                    None => Vec::new(),
                };
                let items = if graph.reads_parts(source.node) {
                    parts(&found)
                } else {
                    let whole = |file: Listed| ListedItem {
                        payload: file.path.into_bytes(),
                        version: file.version,
                    };
                    found.into_iter().map(whole).collect()
                };
                SourcePlan::Listed { items }
            }
        });
    }
    Ok(SplitPlan { sources })
}
