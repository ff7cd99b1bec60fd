//! The split plan of an iteration: for every source of a graph, depth first, how it is dealt out.

use std::collections::HashSet;

use crate::exec::Seeds;
use crate::graph::{Files, Graph, Registry, Splitting};
use crate::storage::Storage;

use super::error::PlanError;
use super::listing::listed;
use super::parts::parts;

/// The plan by which the sources of a graph are dealt out in one iteration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SplitPlan {
    /// One per source, depth first.
    pub sources: Vec<SourcePlan>,
}

/// The plan by which one source is dealt out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourcePlan {
    /// A number of splits that are known by their index.
    Counted {
        /// The number of splits; 0 for a source that is read whole by every task.
        splits: u64,
    },
    /// One split an item, whose payload it is: a file's path, or a [`FilePart`](crate::graph::FilePart) of
    /// one.
    Listed {
        /// The payloads, in order.
        items: Vec<Vec<u8>>,
    },
}

/// The values that decide the order in which an iteration deals out shuffled files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileOrder {
    /// Decides the order of files without a seed: a number of the iteration's own, so that no two are alike.
    pub iteration: u64,
    /// The pass over the whole dataset: seeded orders differ from epoch to epoch, and are the same whenever
    /// that epoch is planned.
    pub epoch: u64,
}

impl SplitPlan {
    /// Puts the files that `graph`, whose plan this is, wants shuffled into the order that an iteration deals
    /// them out in.
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
                    // Apart from the order that a task makes of the same listing.
                    node: u64::MAX - node as u64,
                    fixed: false,
                };
                seeds.draws(0).shuffle(items);
            }
        }
        self
    }

    /// Puts the parts of files together again, each file where its first part is.
    #[must_use]
    pub fn whole(mut self) -> SplitPlan {
        for source in &mut self.sources {
            if let SourcePlan::Listed { items } = source {
                let mut known = HashSet::new();
                for item in &mut *items {
                    let file = item.split(|byte| *byte == 0).next();
                    let length = file.map_or(0, <[u8]>::len);
                    item.truncate(length);
                }
                items.retain(|item| known.insert(item.clone()));
            }
        }
        self
    }

    /// Puts all files back into the order of their names, so that a file's number does not depend on the
    /// pass.
    #[must_use]
    pub fn in_order(mut self) -> SplitPlan {
        for source in &mut self.sources {
            match source {
                SourcePlan::Listed { items } => items.sort_unstable(),
                SourcePlan::Counted { .. } => {}
            }
        }
        self
    }
}

/// Plans an iteration of `graph`, listing its files, which are sorted until [`SplitPlan::shuffled`]. Blocks
/// on `storage`.
///
/// # Errors
/// [`PlanError`] naming the pattern that matches nothing, or the source nobody registered.
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
                    // Nothing else lists files.
                    None => Vec::new(),
                };
                let items = if graph.reads_parts(source.node) {
                    parts(&found)
                } else {
                    found.into_iter().map(|file| file.path.into_bytes()).collect()
                };
                SourcePlan::Listed { items }
            }
        });
    }
    Ok(SplitPlan { sources })
}
